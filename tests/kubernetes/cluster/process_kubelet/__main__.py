"""``python -m cluster.process_kubelet SPEC``: one node, told what to do by lines on its standard input, whose end is its own."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from cluster.api import Api
from cluster.process_kubelet import serving
from cluster.process_kubelet.node import ProcessKubelet


def main() -> None:
    """Run until the standard input ends; each line on it is a command, and is answered by one."""
    spec = json.loads(Path(sys.argv[1]).read_text())
    server, subnet = serving.listen()
    kubelet = ProcessKubelet(
        Api(Path(spec["kubeconfig"])), spec, Path(spec["folder"]), subnet, server.server_address[1]
    )
    serving.serve(server, Path(spec["certificate"]), Path(spec["key"]), kubelet.find)
    kubelet.start()
    commands = {"stop_heartbeats": kubelet.stop_heartbeats, "resume_heartbeats": kubelet.resume_heartbeats}
    answers = os.fdopen(spec["answers_fd"], "w", buffering=1)
    answers.write("registered\n")
    for line in sys.stdin:
        commands[line.strip()]()
        answers.write(f"{line.strip()}\n")
    kubelet.stop()


if __name__ == "__main__":
    main()
