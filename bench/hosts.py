"""Rows about the host and its boxes. They need root, and a machine that can make boxes."""
import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import peers
from measure import in_turns, median, ratio, wrk

GIB = 1 << 30


class Host(peers.Server):
    token = None

    def call(self, method, path, body=None):
        """`data` of a lifecycle call, on a connection of its own."""
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)) as conn:
            conn.request(method, path, json.dumps(body) if body is not None else None,
                         {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"})
            answer = conn.getresponse()
            text = answer.read()
            if answer.status != 200:
                raise RuntimeError(f"{method} {path}: {answer.status} {text[:100]!r}")
            return json.loads(text)["data"]

    def run(self, box, command):
        """Runs a command in a box, through its own API."""
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)) as conn:
            conn.request("POST", "/v1/bash/exec", json.dumps({"command": command}),
                         {"Authorization": f"Bearer {box['token']}", "x-aio-sandbox": box["id"],
                          "Content-Type": "application/json"})
            got = json.loads(conn.getresponse().read())
            if got["data"]["exit_code"] != 0:
                raise RuntimeError(f"{command}: {got}")


@contextlib.contextmanager
def host():
    if os.geteuid() != 0:
        raise RuntimeError("boxes need root")
    port = peers.free_port()
    folder = tempfile.mkdtemp(prefix="aio-bench.")
    os.chmod(folder, 0o711)
    state = pathlib.Path(folder, "state")
    argv = [peers.AIO, "up", "--listen", f"127.0.0.1:{port}", "--state", state, "--log-level", "error"]
    try:
        with peers.server(folder, port, argv) as it:
            it.__class__ = Host
            until = time.monotonic() + 60
            while not (state / "url").exists() and time.monotonic() < until:
                time.sleep(0.01)
            it.token = (state / "token").read_text().strip()
            yield it
            subprocess.run([str(peers.AIO), "down", "--state", str(state)], check=False)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def requests(line, path):
    """A small request through the host and straight: kept alive, and each on a new connection."""
    with host() as ours, peers.aio("--log-level", "error") as straight:
        ours.get(path)
        a, b = in_turns(7, lambda: wrk(ours.url(path), 1, 1)["p50"], lambda: wrk(straight.url(path), 1, 1)["p50"])
        r = ratio(a, b)
        yield line(f"GET {path} through the host, kept alive, p50", f"{median(a):.0f} µs",
                   f"straight {median(b):.0f} µs", r, "≤ 1.4 ×", r <= 1.4)

        def fresh(server):
            def one():
                times = []
                for _ in range(300):
                    begin = time.perf_counter()
                    conn = http.client.HTTPConnection("127.0.0.1", server.port)
                    conn.request("GET", path)
                    conn.getresponse().read()
                    conn.close()
                    times.append(time.perf_counter() - begin)
                return median(times) * 1e6
            return one

        a, b = in_turns(5, fresh(ours), fresh(straight))
        r = ratio(a, b)
        yield line("the same, each on a new connection, p50", f"{median(a):.0f} µs",
                   f"straight {median(b):.0f} µs", r, "≤ 2 ×", r <= 2)


def download(line):
    """A sparse file of 1 GiB among the product's own, which every box server has."""
    name = f"bench-{os.getpid()}.bin"
    file = peers.ROOT / "web" / name
    try:
        with open(file, "wb") as big:
            big.truncate(GIB)

        def fetch(server, *headers):
            argv = ["curl", "-s", "-f", "-o", "/dev/null", "-w", "%{speed_download} %{size_download}"]
            for header in headers:
                argv += ["-H", header]
            done = subprocess.run([*argv, server.url(f"/static/web/{name}")], capture_output=True, text=True)
            speed, size = done.stdout.split()
            if done.returncode or int(size) != GIB:
                raise RuntimeError(f"curl: {done.returncode}, {size} bytes")
            return float(speed) / 1e9

        with host() as ours, peers.aio() as straight:
            box = ours.call("POST", "/v1/sandboxes", {})
            named = (f"Host: {box['id']}.localhost", f"Authorization: Bearer {box['token']}")
            a, b = in_turns(5, lambda: fetch(ours, *named), lambda: fetch(straight))
        r = ratio(a, b)
        yield line("download of 1 GiB through the host", f"{median(a):.2f} GB/s",
                   f"straight {median(b):.2f} GB/s", r, "≥ 0.7 ×", r >= 0.7)
    finally:
        file.unlink(missing_ok=True)


def docker():
    """A function that times `docker run --rm true`, from this machine's own programs; None with the
    reason printed where that is impossible."""
    if not shutil.which("docker"):
        print("SKIP docker run --rm true: docker is not installed", file=sys.stderr)
        return None
    up = subprocess.run(["docker", "info"], capture_output=True, text=True)
    if up.returncode:
        why = (up.stderr.strip().splitlines() or ["no daemon"])[-1]
        print(f"SKIP docker run --rm true: no daemon answers ({why[:80]}); start dockerd first", file=sys.stderr)
        return None
    parts = [path for path in ("bin", "lib", "lib64", "usr/bin/true", "usr/bin/env") if os.path.exists("/" + path)]
    tar = subprocess.Popen(["tar", "-C", "/", "-ch", "--hard-dereference", *parts], stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL)
    done = subprocess.run(["docker", "import", "-", "aio-bench:true"], stdin=tar.stdout, capture_output=True)
    if done.returncode:
        print("SKIP docker run --rm true: docker import failed", file=sys.stderr)
        return None

    def run():
        begin = time.perf_counter()
        subprocess.run(["docker", "run", "--rm", "aio-bench:true", "true"], check=True, capture_output=True)
        return (time.perf_counter() - begin) * 1e3
    return run


def create(line):
    """A box made, used once and deleted, through the HTTP API."""
    count, failed = 100, 0
    with host() as ours:
        def one():
            begin = time.perf_counter()
            box = ours.call("POST", "/v1/sandboxes", {})
            ours.run(box, "true")
            took = (time.perf_counter() - begin) * 1e3
            ours.call("DELETE", f"/v1/sandboxes/{box['id']}")
            return took

        for _ in range(3):
            one()
        times = []
        for _ in range(count):
            try:
                times.append(one())
            except (OSError, RuntimeError):
                failed += 1
        peer = docker()
        theirs = [peer() for _ in range(10)] if peer else None
    p50, p99 = median(times), statistics.quantiles(times, n=100)[98]
    yield line("create a box and run true, p50", f"{p50:.1f} ms",
               f"docker run {median(theirs):.0f} ms" if theirs else "no docker: SKIP",
               p50 / median(theirs) if theirs else None, "≤ 1/20 of docker" if theirs else "",
               p50 * 20 <= median(theirs) if theirs else None)
    yield line("the same, p99 and success rate", f"{p99:.1f} ms", f"{100 * len(times) / count:.0f} %", None,
               "100 %", failed == 0)


def hundred(line):
    """A hundred at once, each answering; then what one costs while it does nothing."""
    with host() as ours:
        with concurrent.futures.ThreadPoolExecutor(100) as pool:
            begin = time.perf_counter()
            boxes = list(pool.map(lambda _: ours.call("POST", "/v1/sandboxes", {}), range(100)))
            made = time.perf_counter() - begin
            list(pool.map(lambda box: ours.run(box, "true"), boxes))
            answered = time.perf_counter() - begin
        yield line("100 boxes created at once", f"{made:.2f} s", f"all ran true after {answered:.2f} s", None,
                   "≤ 0.35 s", made <= 0.35)
        time.sleep(3)
        kib, ids = 0, tuple(box["id"] for box in boxes)
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            with contextlib.suppress(OSError):
                groups = (entry / "cgroup").read_text()
                if any(f"-{box}" in groups for box in ids):
                    text = (entry / "smaps_rollup").read_text()
                    kib += next(int(row.split()[1]) for row in text.splitlines() if row.startswith("Pss:"))
        kernel = []
        for path in pathlib.Path("/sys/fs/cgroup").glob("**/memory.kmem.usage_in_bytes"):
            if any(box["id"] in str(path) for box in boxes[:10]):
                kernel.append(int(path.read_text()))
        for path in pathlib.Path("/sys/fs/cgroup/aiobox").glob("*/memory.stat"):
            if any(box["id"] in str(path) for box in boxes[:10]):
                rows = dict(row.split() for row in path.read_text().splitlines())
                kernel.append(int(rows.get("kernel", 0)))
        each = kib / 1024 / 100 + sum(kernel) / 10 / (1 << 20)
        yield line("memory of one idle box, of 100", f"{each:.2f} MiB",
                   f"PSS {kib / 1024 / 100:.2f}, kernel {sum(kernel) / 10 / (1 << 20):.2f}", None, "≤ 4 MiB", each <= 4)
