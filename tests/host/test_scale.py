"""Many boxes: hundreds alive at once, and thousands one after the other with nothing left of them.

Run with the release build (AIO=build/aio) the numbers are those that a machine of 2 cores and 24 GiB
must bear; the sanitizers' programs are slower and larger, so that they are given fewer."""

import contextlib
import glob
import os
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from harness import ANSWER_SECONDS, eventually, sanitizer
from hosts import UNIFIED, Box

MIB = 1 << 20
SMALL = bool(sanitizer())
ALIVE = 50 if SMALL else 500
CYCLES = 100 if SMALL else 2000
CLIENTS = 4 if SMALL else 8
# For one more box, of the machine's memory and of the host's own. A sanitizer's memory says nothing.
BOX_MIB, HOST_KIB = 5, 64


def status(pid, name):
    return int(re.search(rf"^{name}:\s+(\d+)", Path(f"/proc/{pid}/status").read_text(), re.M)[1])


def server_pid(host, box):
    """A process of the box that is none of its commands."""
    group = UNIFIED / "aiobox" / f"{host.seed()}-{box}"
    return int((group / "server" / "cgroup.procs").read_text().split()[0])


def loops(host):
    """Loop devices that show a box's disk."""
    found = []
    for path in glob.glob("/sys/block/loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            if str(host.state) in Path(path).read_text():
                found.append(path)
    return found


def traces(host):
    """All that boxes may leave behind, of this host alone: of the machine, and in its processes."""
    def look():  # a child of a maker looks like one, and may end while it is looked at
        pids = host.makers()
        assert pids
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            return {
                **host.holdings(),
                "loops": loops(host),
                "makers": list(map(str, pids)),
                "descriptors": [len(os.listdir(f"/proc/{pid}/fd")) for pid in (host.pid, *pids)],
                "maker mounts": [len(Path(f"/proc/{pid}/mountinfo").read_text().splitlines()) for pid in pids],
                "maker children": [len(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()) for pid in pids],
            }

    return eventually(look)


def surplus(before, now):
    """What there is that was not there before. Of descriptors there may be fewer: idle connections end."""
    def same(a, b):
        return len(a) == len(b) and all(y <= x if isinstance(x, int) else x == y for x, y in zip(a, b))

    return {key: (before[key], now[key]) for key in now if not same(before[key], now[key])}


def resident(host):
    """KiB of the host's process."""
    return status(host.pid, "VmRSS")


def available():
    """MiB of the machine's memory that can still be had."""
    return int(re.search(r"^MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text(), re.M)[1]) // 1024


class Clients:
    """A connection of its own for each thread of a pool."""

    def __init__(self, host, count):
        self.host, self.mine = host, threading.local()
        self.pool, all_there = ThreadPoolExecutor(count), threading.Barrier(count)

        def connect(_):
            all_there.wait(ANSWER_SECONDS)  # each thread does this once
            assert self.client().get("/health").text == "OK"

        self.map(connect, range(count))

    def client(self):
        if not hasattr(self.mine, "client"):
            self.mine.client = httpx.Client(base_url=self.host.url, timeout=ANSWER_SECONDS, trust_env=False)
        return self.mine.client

    def api(self, method, path, **more):
        answer = self.client().request(method, path, headers=self.host.auth, **more)
        assert answer.status_code == 200, (answer.status_code, answer.text)
        return answer.json()["data"]

    def create(self, **spec):
        return Box(self.host, self.api("POST", "/v1/sandboxes", json=spec))

    def say(self, box, word):
        """What a command in the box prints."""
        answer = self.client().post("/v1/bash/exec", headers=box.headers, json={"command": f"echo {word} $(hostname)"})
        assert answer.status_code == 200, (box.id, answer.status_code, answer.text)
        return answer.json()["data"]["stdout"]

    def map(self, work, *items):
        return list(self.pool.map(work, *items))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.pool.shutdown(cancel_futures=True)


@pytest.mark.timeout(600)
def test_hundreds_are_alive_at_once(start_host):
    host = start_host(["--max-boxes", ALIVE + 1])
    if available() < ALIVE * BOX_MIB + 512:
        pytest.skip(f"{available()} MiB of memory are too few for {ALIVE} boxes")
    with Clients(host, CLIENTS) as clients:
        first = clients.create()
        assert clients.say(first, "first") == f"first {first.id}\n"
        clients.api("DELETE", f"/v1/sandboxes/{first.id}")
        memory, size = available(), resident(host)
        boxes = clients.map(lambda _: clients.create(), range(ALIVE))
        assert sorted(host.ids()) == sorted(["default", *(box.id for box in boxes)])
        # One more than the host was told to bear is refused, by name.
        refused = clients.client().post("/v1/sandboxes", headers=host.auth, json={})
        assert 400 <= refused.status_code < 500 and "max" in refused.text, refused.text

        for word in ("once", "again"):  # each is itself, and so it stays
            said = clients.map(lambda box: clients.say(box, word), boxes)
            assert said == [f"{word} {box.id}\n" for box in boxes]
        states = {box["state"] for box in host.api("GET", "/v1/sandboxes?limit=1000")["sandboxes"]}
        assert states == {"running"}

        each, own = (memory - available()) / ALIVE, (resident(host) - size) / ALIVE
        print(f"{ALIVE} boxes: {each:.2f} MiB of the machine and {own:.1f} KiB of the host for each")
        assert SMALL or (each <= BOX_MIB and own <= HOST_KIB)
        clients.map(lambda box: clients.api("DELETE", f"/v1/sandboxes/{box.id}"), boxes)
    assert host.settled()["directories"] == ["default"] == host.ids()
    host.check()


@pytest.mark.timeout(900)
def test_thousands_come_and_go_without_a_trace(start_host):
    host = start_host()
    # Some have a disk of its own where this machine can limit disks.
    sized = {"limits": {"disk": 32 * MIB}}
    with Clients(host, CLIENTS) as clients:
        probe = clients.client().post("/v1/sandboxes", headers=host.auth, json=sized)
        if probe.status_code == 200:
            Box(host, probe.json()["data"]).delete()
        else:
            assert "disk" in probe.text
            sized = {}

        def come_and_go(number):
            box = clients.create(**(sized if number % 8 == 0 else {}))
            assert clients.say(box, number) == f"{number} {box.id}\n"
            clients.api("DELETE", f"/v1/sandboxes/{box.id}")
            return box.id

        # What the first ones leave (warm memory, connections, a disk in store) is no leak.
        clients.map(come_and_go, range(CYCLES // 10))
        host.client.get("/health")
        before = eventually_same(lambda: traces(host))
        size, memory, uids = resident(host), available(), uid_range(clients)
        ids = clients.map(come_and_go, range(CYCLES))
        if not eventually(lambda: not surplus(before, traces(host)), pause=0.1):
            # What was late to come is no leak: it stays as much.
            first, before = surplus(before, traces(host)), eventually_same(lambda: traces(host))
            ids += clients.map(come_and_go, range(CYCLES))
            assert eventually(lambda: not surplus(before, traces(host)), pause=0.1), (first, surplus(before, traces(host)))
        assert len(set(ids)) == len(ids)
        assert uid_range(clients) == uids  # the first that is free is the same one again
        grown, less = resident(host) - size, memory - available()
        print(f"{CYCLES} boxes: the host grew by {grown} KiB, the machine has {less} MiB less")
        assert SMALL or grown < 4 * CYCLES
    assert host.ids() == ["default"]
    host.check()


def uid_range(clients):
    """The machine's number of root in the next box."""
    box = clients.create()
    base = Path(f"/proc/{server_pid(clients.host, box.id)}/uid_map").read_text().split()[1]
    clients.api("DELETE", f"/v1/sandboxes/{box.id}")
    return base


def eventually_same(look):
    """What is seen, once it has stopped changing."""
    seen = [look()]

    def still():
        seen.append(look())
        return seen[-1] == seen[-2]

    assert eventually(still, pause=0.3)
    return seen[-1]
