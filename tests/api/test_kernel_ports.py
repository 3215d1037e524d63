"""The ports of kernels: those that one opens for itself are not the sandbox's, those that its code opens are."""

import json
import os
import re
from pathlib import Path

import pytest

from harness import LEAN, ROOT
from kernels import execute, text

PYTHON = ROOT / ".venv/bin/python"
OPEN = "import os, socket\nlistening = socket.create_server(('127.0.0.1', 0))\nprint(listening.getsockname()[1], os.getpid())"
LAUNCH = [str(PYTHON), "-m", "ipykernel_launcher", "--HistoryManager.enabled=False", "-f", "{connection_file}"]
STARTS = {"itself": LAUNCH, "by a program": ["/bin/sh", "-c", '"$@"; exit $?', "sh", *LAUNCH]}


def listed(server):
    return set(server.get("/v1/sandbox").json()["detail"]["system"]["occupied_ports"])


def listened(pid):
    """The TCP ports that a process listens on."""
    sockets = {os.readlink(fd) for fd in Path(f"/proc/{pid}/fd").iterdir() if fd.is_symlink()}
    rows = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    return {str(int(row[1].rpartition(":")[2], 16)) for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets}


@pytest.mark.parametrize("how", STARTS)
def test_ports_that_a_kernel_opens_for_itself_are_not_listed(start_server, tmp_path, how):
    """One of ipykernel has six: a kernel's five, and one for what its children print."""
    folder = tmp_path / "kernels/plain"
    folder.mkdir(parents=True)
    (folder / "kernel.json").write_text(json.dumps({"argv": STARTS[how], "display_name": "plain", "language": "plain"}))
    server = start_server(env={**LEAN, "JUPYTER_PATH": str(tmp_path)})
    port, pid = text(execute(server, OPEN, kernel_name="plain", session_id="s")).split()
    own = listened(pid) - {port}
    assert len(own) >= 6
    assert port in listed(server) and not own & listed(server)
    assert re.search(rf"Occupied ports: .*\b{port}\b", server.get("/llms.txt").text)
    server.stop()
