"""Rows about the host and its boxes. They need root, and a machine that can make boxes."""
import contextlib
import http.client
import json
import os
import pathlib
import re
import selectors
import shutil
import socket
import statistics
import subprocess
import tempfile
import time

import docker
import peers
from measure import in_turns, median, ratio, wrk

GIB = 1 << 30
GROUPS = pathlib.Path("/sys/fs/cgroup")


class Host(peers.Server):
    token = None

    def call(self, method, path, body=None, box=None):
        """`data` of a lifecycle call, or of a call to a box, on a connection of its own."""
        headers = {"Authorization": f"Bearer {box['token'] if box else self.token}", "Content-Type": "application/json"}
        if box:
            headers["X-AIO-Sandbox"] = box["id"]
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)) as conn:
            conn.request(method, path, json.dumps(body) if body is not None else None, headers)
            answer = conn.getresponse()
            text = answer.read()
            if answer.status != 200:
                raise RuntimeError(f"{method} {path}: {answer.status} {text[:100]!r}")
            return json.loads(text)["data"]


@contextlib.contextmanager
def host():
    if os.geteuid() != 0:
        raise RuntimeError("boxes need root")
    port = peers.free_port()
    folder = tempfile.mkdtemp(prefix="aio-bench.")
    os.chmod(folder, 0o711)
    state = pathlib.Path(folder, "state")
    argv = [peers.AIO, "up", "--listen", f"127.0.0.1:{port}", "--state", state, "--log-level", "error",
            "--import-roots", docker.TREE.parent]
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


# What is asked of a new box, and how its answer shows that it is right.
TRUE = "POST", "/v1/bash/exec", {"command": "true"}, lambda data: data["exit_code"] == 0
SESSIONS = "GET", "/v1/bash/sessions", None, lambda data: data == []


class Maker:
    """A connection that makes a box and then asks it something, by bytes prepared before: little of what is measured
    is the client's."""

    def __init__(self, host, spec, ask):
        self.sock = socket.create_connection(("127.0.0.1", host.port), 60)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.first = self.request("POST", "/v1/sandboxes", spec, f"Authorization: Bearer {host.token}\r\n")
        self.ask, self.box, self.got = ask, None, b""

    @staticmethod
    def request(method, path, body, headers):
        text = "" if body is None else json.dumps(body)
        kind = f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n" if text else ""
        return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{headers}{kind}\r\n{text}".encode()

    def begin(self):
        self.sock.sendall(self.first)

    def read(self):
        """Takes what there is; goes on with the second request when the first is answered. True when both are."""
        piece = self.sock.recv(65536)
        self.got += piece
        head, _, body = self.got.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: *(\d+)", head, re.I)
        if not piece or not head.startswith(b"HTTP/1.1 200") and body:
            raise RuntimeError(f"a box: {self.got[:200]!r}")
        if not length or len(body) < int(length[1]):
            return False
        data, self.got = json.loads(body)["data"], b""
        if self.box is None:
            self.box = data
            self.sock.sendall(self.request(*self.ask[:3], f"x-aio-sandbox: {data['id']}\r\n"
                                           f"Authorization: Bearer {data['token']}\r\n"))
            return False
        if not self.ask[3](data):
            raise RuntimeError(f"{self.ask[1]}: {data}")
        return True

    def end(self, host):
        self.sock.close()
        if self.box:
            host.call("DELETE", f"/v1/sandboxes/{self.box['id']}")


def make_one(host, spec):
    """Milliseconds until a new box has run `true`."""
    begin = time.perf_counter()
    maker = Maker(host, spec, TRUE)
    try:
        maker.begin()
        while not maker.read():
            pass
        return (time.perf_counter() - begin) * 1e3
    finally:
        maker.end(host)


@contextlib.contextmanager
def made_at_once(host, count, ask=TRUE):
    """Seconds until all of so many boxes have answered, and their ids."""
    makers = [Maker(host, {}, ask) for _ in range(count)]
    try:
        with selectors.DefaultSelector() as waiting:
            begin = time.perf_counter()
            for maker in makers:
                maker.begin()
                waiting.register(maker.sock, selectors.EVENT_READ, maker)
            while waiting.get_map():
                for key, _ in waiting.select():
                    if key.data.read():
                        waiting.unregister(key.fileobj)
            took = time.perf_counter() - begin
        yield took, [maker.box["id"] for maker in makers]
    finally:
        for maker in makers:
            maker.end(host)


def floor(count):
    """Milliseconds of each of so many boxes that do nothing but be there, of bench/floor.c."""
    with tempfile.TemporaryDirectory(prefix="aio-bench.") as folder:
        os.chmod(folder, 0o711)
        done = subprocess.run([peers.ROOT / "build/floor", folder, str(count)], capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise RuntimeError(f"floor: {done.stderr.strip()[:100]}")
    return list(map(float, done.stdout.split()))


def create(line):
    """A box made and used once through the HTTP API, beside Docker with the same root file system, and the floor."""
    what, rounds, each = "create a box and run true, by HTTP", 10, 20
    times, failed = [], 0
    with host() as ours, contextlib.ExitStack() as stack:
        spec, peer = {}, None
        try:
            tar = docker.root_tar()
            ours.call("POST", "/v1/templates", {"name": "bench", "source": str(tar)})
            spec = {"template": "bench"}
            peer = stack.enter_context(docker.daemon(tar))
            peer()
        except docker.Absent as why:
            docker.skip(why)

        def one():
            nonlocal failed
            took = []
            for _ in range(each):
                try:
                    took.append(make_one(ours, spec))
                except (OSError, RuntimeError):
                    failed += 1
            times.extend(took)
            return median(took)

        one()
        times.clear()
        a, f, d = in_turns(rounds, one, lambda: median(floor(each)), peer or (lambda: None))
    if peer:
        r = ratio(d, a)
        yield line(f"{what}, p50", f"{median(a):.1f} ms", f"docker run {median(d):.0f} ms", r, "≥ 20 × faster", r >= 20)
    r = ratio(a, f)
    yield line(f"{what}, p50", f"{median(a):.1f} ms", f"floor {median(f):.1f} ms", r, "≤ 4 ×", r <= 4)
    rate = 100 * len(times) / (len(times) + failed)
    yield line(f"{what}, p99, success", f"{statistics.quantiles(times, n=100)[98]:.1f} ms", f"{rate:.1f} %", None, "100 %",
               failed == 0)


def hundred(line):
    """A hundred at once, each answering; then what one costs while it does nothing."""
    count, took, floors, sizes = 100, {"answered": [], "ran true": []}, [], []
    with host() as ours:
        for _ in range(5):
            for ask, name in (SESSIONS, "answered"), (TRUE, "ran true"):
                with made_at_once(ours, count, ask) as (seconds, ids):
                    took[name].append(seconds)
                    if name == "ran true":
                        time.sleep(2)
                        sizes.append(sum(map(idle_memory, ids)) / count)
            floors.append(median(floor(count)))
    least = 2 * median(floors) / 1e3 * count / (os.cpu_count() or 1)
    for name, times in took.items():
        bar = ("≤ 0.35 s or ≤ 1 ×", median(times) <= max(0.35, least)) if name == "answered" else ("", None)
        yield line(f"{count} boxes at once, all {name}", f"{median(times):.2f} s", f"2 floors {least:.2f} s",
                   median(times) / least, *bar)
    yield line(f"memory of one idle box, of {count}", f"{max(sizes):.2f} MiB", "", None, "≤ 4 MiB", max(sizes) <= 4)


FILES = "import os\nfor i in range(250):\n os.makedirs(f'/home/gem/many/{i}')\n" \
        " for j in range(100): open(f'/home/gem/many/{i}/{j}', 'w').write(f'{i} {j}\\n' * 20)\n"
# Prints the longest time for which it did not run, when there is a file /tmp/stop.
PULSE = "import os, time\nworst, last = 0, time.monotonic()\nopen('/tmp/pulse', 'w')\n" \
        "while not os.path.exists('/tmp/stop'):\n time.sleep(.002)\n now = time.monotonic()\n" \
        " worst, last = max(worst, now - last), now\nprint(worst)\n"


def stall(line):
    """How long a box with 25,000 files stands still while it is forked."""
    stood, took = [], []
    with host() as ours:
        box = ours.call("POST", "/v1/sandboxes", {})

        def run(command, **more):
            return ours.call("POST", "/v1/bash/exec", {"command": command, "timeout": 50, **more}, box)

        run(f"python3 - <<'END'\n{FILES}END")
        for _ in range(5):
            pulse = run(f"rm -f /tmp/stop /tmp/pulse; python3 - <<'END'\n{PULSE}END", async_mode=True)
            run("until [ -e /tmp/pulse ]; do sleep .01; done")
            begin = time.perf_counter()
            copy = ours.call("POST", f"/v1/sandboxes/{box['id']}/fork", {})
            took.append(time.perf_counter() - begin)
            run("touch /tmp/stop")
            said = ours.call("POST", "/v1/bash/output", {"session_id": pulse["session_id"], "command_id": pulse["command_id"],
                                                         "wait": True}, box)
            stood.append(float(said["stdout"]) * 1e3)
            ours.call("DELETE", f"/v1/sandboxes/{copy['id']}")
    yield line("fork of a box with 25,000 files: it stands still", f"{median(stood):.0f} ms", f"of {median(took) * 1e3:.0f} ms",
               median(stood) / median(took) / 1e3, "≤ 300 ms", median(stood) <= 300)


def group_of(box):
    return next(path for base in ("unified/", "") for path in GROUPS.glob(f"{base}aiobox/*-{box}"))


def kernel_memory(box):
    """KiB that the kernel counts as its own for the box."""
    group = group_of(box)
    v1, v2 = GROUPS / "memory/aiobox" / group.name / "memory.kmem.usage_in_bytes", group / "memory.stat"
    if v1.exists():
        return int(v1.read_text()) / 1024
    if v2.exists():
        return int(re.search(r"^kernel (\d+)", v2.read_text(), re.M)[1]) / 1024
    raise RuntimeError("no cgroup counts the kernel's memory of a box")


def idle_memory(box):
    """MiB: its share of its processes' memory, and the kernel's for its cgroup."""
    kib = kernel_memory(box)
    group = group_of(box)
    for procs in group.glob("*/cgroup.procs"):
        for pid in procs.read_text().split():
            with contextlib.suppress(OSError):
                text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
                kib += int(re.search(r"^Pss:\s+(\d+)", text, re.M)[1])
    return kib / 1024
