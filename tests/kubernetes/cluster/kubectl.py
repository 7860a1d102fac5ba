"""The kubectl of the cluster's release."""

from __future__ import annotations

import subprocess
from pathlib import Path


class Kubectl:
    """Runs it with these words, as an administrator, and gives what it said."""

    def __init__(self, program: str, kubeconfig: Path, cache: Path) -> None:
        self._command = [program, "--kubeconfig", str(kubeconfig), "--cache-dir", str(cache)]

    def __call__(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run([*self._command, *words], input=stdin, capture_output=True, text=True, check=False)
