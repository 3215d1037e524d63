"""VS Code, from its first request until the page is there, beside the same server started by hand on a Unix socket. Each
starts in a home of its own, so it has nothing from before."""
import contextlib
import http.client
import os
import signal
import socket
import subprocess
import tempfile
import time

import peers
from measure import in_turns, median, ratio
from notebooks import environment

ROUNDS, PAGE = 7, "/code-server/"
CODE = peers.ROOT / "node_modules/code-server/out/server-main.js"


def node():
    private = list(peers.ROOT.glob("node_modules/node-linux-*/bin/node"))
    return private[0] if private else "node"


def asked(place):
    """The status of its page."""
    conn = http.client.HTTPConnection("localhost")
    conn.sock = socket.socket(socket.AF_UNIX)
    with contextlib.closing(conn.sock):
        conn.sock.connect(place)
        conn.request("GET", PAGE)
        answer = conn.getresponse()
        answer.read()
        return answer.status


def by_hand():
    with tempfile.TemporaryDirectory(prefix="aio-bench.", ignore_cleanup_errors=True) as folder:
        place, data = f"{folder}/socket", f"{folder}/data"
        argv = [node(), CODE, "--socket-path", place, "--server-base-path", PAGE.rstrip("/"), "--default-folder", folder,
                "--server-data-dir", data, "--user-data-dir", data, "--without-connection-token",
                "--accept-server-license-terms", "--telemetry-level", "off", "--disable-workspace-trust"]
        begin = time.perf_counter()
        code = subprocess.Popen(argv, cwd=folder, env={**environment(folder), "EXTENSIONS_GALLERY": "{}"},
                                start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while time.perf_counter() - begin < 60:
                with contextlib.suppress(OSError, http.client.HTTPException):
                    if asked(place) == 200:
                        return time.perf_counter() - begin
                time.sleep(0.002)
            raise RuntimeError("VS Code does not start by hand")
        finally:
            os.killpg(code.pid, signal.SIGKILL)
            code.wait()


def ours():
    with tempfile.TemporaryDirectory(prefix="aio-bench.", ignore_cleanup_errors=True) as folder:
        port = peers.free_port()
        argv = [peers.AIO, "serve", "--listen", f"127.0.0.1:{port}", "--log-level", "error"]
        with peers.server(folder, port, argv, environment(folder)) as server:
            begin = time.perf_counter()
            server.get(PAGE)
            return time.perf_counter() - begin


def cold(line):
    a, b = in_turns(ROUNDS, ours, by_hand)
    r = ratio(a, b)
    yield line("editor ready from cold", f"{median(a) * 1e3:.0f} ms", f"by hand {median(b) * 1e3:.0f} ms", r, "≤ 1.1 ×", r <= 1.1)
