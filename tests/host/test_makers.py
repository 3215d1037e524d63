"""The processes that make boxes: what boxes inherit of their memory."""

import contextlib
import os
import secrets
from pathlib import Path

from hosts import UNIFIED

MAPPING_MAX = 256 << 20  # more than that is a sanitizer's, and nearly all of it empty
MAKERS = os.cpu_count() + 1


def own_processes(host, box):
    """The pids of a box's init, server and cradle, by these names."""
    group, found = UNIFIED / "aiobox" / f"{host.seed()}-{box.id}", {}
    for sub in ("server", "run"):
        for pid in (group / sub / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                title = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                found[title[1].decode()] = int(pid)
    assert {"init", "serve", "cradle"} <= set(found), found
    return {name: found[name] for name in ("init", "serve", "cradle")}


def memory_of(pid):
    """All that a process can write, as bytes."""
    text = b""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            begin, end = (int(at, 16) for at in line.split()[0].split("-"))
            if line.split()[1].startswith("rw") and end - begin <= MAPPING_MAX:
                with contextlib.suppress(OSError):  # it may end at any time, and some cannot be read
                    memory.seek(begin)
                    text += memory.read(end - begin) + b"\0"
    return text


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
