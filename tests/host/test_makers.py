"""The processes that make boxes: what boxes inherit of their memory, and what becomes of creates when they are killed."""

import contextlib
import itertools
import os
import re
import secrets
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from harness import ANSWER_SECONDS, eventually
from hosts import UNIFIED

PAGE = os.sysconf("SC_PAGE_SIZE")
MAPPING_MAX = 256 << 20  # more than that is a sanitizer's, and nearly all of it empty
MAKERS = os.cpu_count() + 1


def titles(host, box):
    """The pids of a box's processes, by their names."""
    group, found = UNIFIED / "aiobox" / f"{host.seed()}-{box.id}", {}
    for sub in ("server", "run"):
        for pid in (group / sub / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                found[Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[1].decode()] = int(pid)
    return found


def own_processes(host, box):
    """Those of its init, server and cradle. Each takes its name when it is ready, which need not be before the box is."""
    own = {"init", "serve", "cradle"}
    assert eventually(lambda: own <= set(titles(host, box)))
    return {name: pid for name, pid in titles(host, box).items() if name in own}


def present(pagemap, begin, end):
    """The ranges of a mapping that have pages, which may be few of a large one."""
    pagemap.seek(begin // PAGE * 8)
    pages = memoryview(pagemap.read((end - begin) // PAGE * 8)).cast("Q")
    for has_page, run in itertools.groupby(range(len(pages)), lambda i: pages[i] >> 62):
        if has_page:
            first, *rest = run
            yield begin + first * PAGE, (len(rest) + 1) * PAGE


def memory_of(pid):
    """All that a process can write, as bytes."""
    pieces = []
    with (open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory,
          open(f"/proc/{pid}/pagemap", "rb", buffering=0) as pagemap):
        for line in maps:
            begin, end = (int(at, 16) for at in line.split()[0].split("-"))
            if not line.split()[1].startswith("rw") or end - begin > MAPPING_MAX:
                continue
            for at, size in present(pagemap, begin, end):
                with contextlib.suppress(OSError):  # it may go at any time, and some cannot be read
                    memory.seek(at)
                    pieces.append(memory.read(size))
    return b"\0".join(pieces)


def found_in(host, box, markers):
    """Which of these words are in the memory of which process of a box."""
    return sorted((name, marker) for name, pid in own_processes(host, box).items()
                  for memory in [memory_of(pid)] for marker in markers if marker.encode() in memory)


def test_a_box_inherits_nothing_of_others(host):
    """Boxes with long specs, made by each of the makers, and after them some with short ones."""
    word = secrets.token_hex(8)
    many = {f"FILL{i}": "x" * 500 for i in range(40)}
    before = [host.create(env={**many, "ZLAST": f"{word}-{i}-env"}) for i in range(3 * MAKERS)]
    markers = [f"{word}-{i}-env" for i in range(len(before))]
    markers += [host.stored()[box.id]["secret"] for box in before] + [box.token for box in before]
    after = [host.create() for _ in range(2 * MAKERS)]
    own = found_in(host, before[0], markers)  # what is there is found
    assert ("serve", markers[0]) in own
    assert [box for box in after if found_in(host, box, markers)] == []
    assert {marker for _, marker in own} <= {markers[0], markers[len(before)]}


def test_a_box_keeps_of_its_spec_what_its_server_needs(host):
    """Not the machine's paths; and the environment is the server's alone."""
    word = secrets.token_hex(8)
    source = host.roots / f"{word}-mount"
    source.mkdir()
    box = host.create(env={"MINE": f"{word}-env"}, mounts=[{"source": str(source), "target": "/data"}])
    secret = host.stored()[box.id]["secret"]
    assert found_in(host, box, [f"{word}-env", f"{word}-mount", secret]) == sorted(
        [("serve", f"{word}-env"), ("serve", secret)])


# --- makers that are killed


def makers_of(host):
    """All processes that make its boxes, whether they wait or work, by the session of their first."""
    found, state = {}, os.path.realpath(host.state)
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(f"aio\0make-boxes\0{state}\0".encode()):
                found.setdefault(pid, []).append(pid)  # it begins: later that is its session
            elif os.readlink(f"/proc/{pid}/cwd") == f"{state}/stage":
                spaces = re.search(r"^NSpid:(.*)", Path(f"/proc/{pid}/status").read_text(), re.M)[1].split()
                if len(spaces) == 1:  # or it is in a box
                    found.setdefault(os.getsid(pid), []).append(pid)
    return found


def end_all(sets):
    """The first of each goes first, or it would replace the others."""
    for first, pids in sets.items():
        for pid in sorted(pids, key=lambda pid: pid != first):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def creates(host, names):
    """Creates of boxes that run at the same time. `results` are their answers."""
    pool = ThreadPoolExecutor(len(names))

    def one(name):
        return httpx.post(f"{host.url}/v1/sandboxes", headers=host.auth, json={"name": name}, timeout=ANSWER_SECONDS,
                          trust_env=False)

    return [pool.submit(one, name) for name in names]


def is_begun(host, name):
    """Whether the box has its first process."""
    with contextlib.suppress(OSError):
        return (UNIFIED / "aiobox" / f"{host.seed()}-{name}" / "server" / "cgroup.procs").read_text() != ""
    return False


def has_files(host, name):
    return (host.state / "boxes" / name / "rw").exists()


def remove(host, names):
    for name in names:
        gone = host.client.delete(f"/v1/sandboxes/{name}", headers=host.auth, timeout=ANSWER_SECONDS)
        assert gone.status_code == 200, gone.text
    assert not set(names) & set(host.settled()["directories"])


def test_a_box_whose_makers_are_killed_in_the_middle_is_made_by_others(start_host):
    """At the moment when its first process waits for what it is to be made of; and before there is one."""
    host = start_host()
    for number in range(5):
        name = f"box{number}"
        is_there = is_begun if number % 4 else has_files
        before = eventually(lambda: makers_of(host))
        made, = creates(host, [name])
        eventually(lambda: is_there(host, name) or made.done(), pause=0)
        end_all(before)
        assert made.result().status_code == 200, made.result().text
        assert host.client.post("/v1/bash/exec", json={"command": "hostname"}, headers={
            "x-aio-sandbox": name, "Authorization": f"Bearer {made.result().json()['data']['token']}"},
        ).json()["data"]["stdout"] == f"{name}\n"
        remove(host, [name])


def test_many_creates_whose_makers_are_killed_share_new_ones(start_host):
    host, names = start_host(), [f"box{i}" for i in range(16)]
    assert eventually(lambda: makers_of(host))
    before, seen, over = makers_of(host), set(), threading.Event()

    def look():
        while not over.is_set():
            seen.update(makers_of(host))

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        made = creates(host, names)
        eventually(lambda: any(is_begun(host, name) for name in names), pause=0)
        end_all(before)
        assert [one.result().status_code for one in made] == [200] * len(names), [one.result().text for one in made]
    finally:
        over.set()
        watcher.join()
    assert len(seen - set(before)) == 1 and eventually(lambda: len(makers_of(host)) == 1)
    remove(host, names)
