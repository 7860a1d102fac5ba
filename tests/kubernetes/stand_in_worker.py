#!/usr/bin/env -S python3 -S
"""Stands in for a worker's Python: shows the worker's certificate to whoever connects, and ends when it is told to.

A placement asks no more of a worker; a real one takes a second of a processor to start.
"""

import os
import signal
import socket
import ssl
import sys
import tempfile

signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
host, _, port = sys.argv[-1].rpartition(":")
with tempfile.NamedTemporaryFile("w") as chain:
    chain.write(os.environ["LANCEGPU_WORKER_KEY"] + os.environ["LANCEGPU_WORKER_CERTIFICATE"])
    chain.flush()
    trust = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trust.load_cert_chain(chain.name)
with socket.create_server((host, int(port))) as server:
    while True:
        knock, _ = server.accept()
        try:
            trust.wrap_socket(knock, server_side=True).close()
        except OSError:
            knock.close()
