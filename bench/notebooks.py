"""JupyterLab, from its first request until the page is there, beside the same one started by hand: with the extensions that
the server leaves out left out there, too, on a Unix socket."""
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

ROUNDS, PAGE = 7, "/jupyter/lab"
FLAGS = ["--no-browser", "--allow-root", "--ServerApp.base_url=/jupyter/", "--IdentityProvider.token=", "--ServerApp.sock_mode=0600",
         "--ServerApp.terminals_enabled=False", "--ServerApp.log_level=ERROR",
         '--ServerApp.jpserver_extensions={"jupyter_lsp":False,"jupyter_server_terminals":False,"notebook_shim":False}']


def asked(place):
    """The status of its page."""
    conn = http.client.HTTPConnection("localhost")
    conn.sock = socket.socket(socket.AF_UNIX)
    with contextlib.closing(conn.sock):
        conn.sock.connect(place)
        conn.request("GET", PAGE)
        return conn.getresponse().status


def environment(folder):
    return {**os.environ, "HOME": folder, "WORKSPACE": folder, "JUPYTER_RUNTIME_DIR": f"{folder}/runtime"}


def by_hand():
    with tempfile.TemporaryDirectory(prefix="aio-bench.", ignore_cleanup_errors=True) as folder:
        place = f"{folder}/socket"
        argv = [peers.ROOT / ".venv/bin/python", "-m", "jupyterlab", *FLAGS, f"--ServerApp.sock={place}",
                f"--ServerApp.root_dir={folder}"]
        begin = time.perf_counter()
        lab = subprocess.Popen(argv, cwd=folder, env=environment(folder), start_new_session=True, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
        try:
            while time.perf_counter() - begin < 60:
                with contextlib.suppress(OSError, http.client.HTTPException):
                    if asked(place) == 200:
                        return time.perf_counter() - begin
                time.sleep(0.002)
            raise RuntimeError("JupyterLab does not start by hand")
        finally:
            os.killpg(lab.pid, signal.SIGKILL)
            lab.wait()


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
    yield line("notebook ready from cold", f"{median(a) * 1e3:.0f} ms", f"by hand {median(b) * 1e3:.0f} ms", r, "≤ 1.1 ×", r <= 1.1)
