#!/usr/bin/env -S python3 -S
"""Stands in for a worker that never comes to serve."""

import signal

print("still loading", flush=True)
signal.pause()
