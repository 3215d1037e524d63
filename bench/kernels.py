"""Code execution, beside jupyter_client on the same Python. Rows are what run.Line takes."""
import contextlib
import json
import subprocess
import time
import urllib.request

import peers
from measure import Caller, in_turns, median, ratio

ROUNDS = 9


class Jupyter:
    """jupyter_client in the product's Python: jupyter_peer.py."""

    def __init__(self, stack):
        self.process = stack.enter_context(subprocess.Popen(
            [peers.ROOT / ".venv/bin/python", peers.ROOT / "bench/jupyter_peer.py"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True))
        stack.callback(self.process.stdin.close)

    def ask(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError("jupyter_client failed")
        return float(answer)


def call(server, path, body=None, method=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(server.url(path), data, {"Content-Type": "application/json"},
                                     method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def private(pid):
    """MiB that only this process has."""
    with open(f"/proc/{pid}/smaps_rollup") as file:
        lines = [line.split() for line in file]
    return sum(int(line[1]) for line in lines if line[0].startswith("Private_")) / 1024


def forked(server):
    """The kernels there are, ready ones included, as the processes below the fork server."""
    tree = peers.family(server.pid)
    names = {}
    for pid in tree:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline") as file:
            names[pid] = "forkserver.py" in file.read()
    return [pid for pid in tree if names.get(pid)][1:]


def wait_ready(server, sessions):
    """Until the next kernel is there, and has nothing more to do."""
    used = None
    while True:
        pids = forked(server)
        now = [open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[11:13] for pid in pids]
        if len(pids) > sessions and now == used:
            return
        used = now
        time.sleep(0.05)


def create(server, sessions):
    """Milliseconds from a wish for a new session to its first result."""
    begin = time.perf_counter()
    got = call(server, "/v1/jupyter/execute", {"code": "1+1"})["data"]
    took = (time.perf_counter() - begin) * 1e3
    if got["outputs"][0]["data"]["text/plain"] != "2":
        raise RuntimeError(f"1+1 gave {got}")
    sessions.append(got["session_id"])
    return took


def close_all(server, sessions):
    call(server, "/v1/jupyter/sessions", method="DELETE")
    sessions.clear()


def creation(server, peer):
    sessions = []

    def ready():
        close_all(server, sessions)
        wait_ready(server, 0)
        return create(server, sessions)

    def empty():
        close_all(server, sessions)
        wait_ready(server, 0)
        create(server, sessions)  # takes the ready one
        return create(server, sessions)

    create(server, sessions)
    a, e, p = in_turns(ROUNDS, ready, empty, lambda: peer.ask("start"))
    close_all(server, sessions)
    for what, ours, least in (("new Python session and 1+1, p50", a, 20),
                              ("the same, no kernel ready", e, 2)):
        r = ratio(p, ours)
        yield (what, f"{median(ours):.1f} ms", f"jupyter_client {median(p):.0f} ms", r, f"≥ {least} ×",
               r >= least)


def execution(server, peer):
    body = {"code": "1+1", "session_id": "bench"}
    call(server, "/v1/jupyter/execute", body)
    wait_ready(server, 1)
    file = call(server, "/v1/jupyter/sessions")["data"]["sessions"]["bench"]["connection_file"]
    ours = Caller(server.port, "/v1/jupyter/execute", body)
    a, p = in_turns(ROUNDS, lambda: median([ours() for _ in range(50)]), lambda: peer.ask(f"run 50 {file}"))
    r = ratio(a, p)
    yield ("1+1 in a live session, p50", f"{median(a):.2f} ms", f"jupyter_client {median(p):.2f} ms", r,
           "≤ 0.8 ×", r <= 0.8)


def contexts(server):
    close_all(server, [])
    made, ran = [], []
    for _ in range(100):
        wait_ready(server, 0)
        begin = time.perf_counter()
        context = call(server, "/api/v1/contexts", {"type": "jupyter", "language": "python"})["context_id"]
        made.append((time.perf_counter() - begin) * 1e3)
        begin = time.perf_counter()
        call(server, f"/api/v1/contexts/{context}/execute", {"code": "print(1)"})
        ran.append((time.perf_counter() - begin) * 1e3)
        call(server, f"/api/v1/contexts/{context}", method="DELETE")
    for what, times, most in (("context create, p99 of 100", made, 100), ("context execute, p99", ran, 50)):
        p99 = sorted(times)[98]
        yield (what, f"{p99:.1f} ms", f"p50 {median(times):.1f} ms", None, f"< {most} ms", p99 < most)


def memory(server):
    call(server, "/v1/jupyter/sessions", method="DELETE")
    for i in range(4):
        call(server, "/v1/jupyter/execute", {"code": "1+1", "session_id": f"memory{i}"})
    wait_ready(server, 4)
    sessions = call(server, "/v1/jupyter/sessions")["data"]["sessions"]
    used = [private(sessions[f"memory{i}"]["pid"]) for i in range(1, 4)]
    yield ("idle Python session, private, the 2nd to 4th", f"{max(used):.1f} MiB", "", None, "≤ 20 MiB",
           max(used) <= 20)


def rows():
    with peers.aio("--log-level", "error") as server, contextlib.ExitStack() as stack:
        peer = Jupyter(stack)
        yield from creation(server, peer)
        yield from execution(server, peer)
        yield from contexts(server)
        yield from memory(server)
