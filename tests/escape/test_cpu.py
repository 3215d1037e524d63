"""`cpus` is for all of a box: for its commands, and for what its server might be made to run."""

import contextlib
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness import eventually
from escape.boxes import GROUPS

V1 = GROUPS / "cpu" / "aiobox"
LIMIT, RESERVE, SECONDS = 0.1, 0.1, 3  # the second is the server's, see src/box/limit.c

BURN = f"""/usr/bin/python3 -c "
import os, time
child = os.fork()
start, used = time.monotonic(), time.process_time()
while time.monotonic() < start + {SECONDS}: pass
print((time.process_time() - used) / (time.monotonic() - start))
if child: os.wait()
" """


def move(source, target, mark):
    """Moves processes whose command has the mark; whether there were any, and none is left."""
    marked = []
    for pid in (source / "cgroup.procs").read_text().split():
        with contextlib.suppress(OSError):  # one that has just ended
            if mark in Path(f"/proc/{pid}/cmdline").read_text():
                (target / "cgroup.procs").write_text(pid)
                marked.append(pid)
    return marked and not set(marked) & set((source / "cgroup.procs").read_text().split())


def burn_elsewhere(box):
    """How many CPUs two processes get in the group of the box's server."""
    above = (V1 if V1.exists() else next(GROUPS.glob("**/aiobox"))) / f"test-{box.id}"
    server, moved = (above, "^[0-9]*:cpu:/$") if V1.exists() else (above / "server", "^0::/$")
    wait = f"until grep -q '{moved}' /proc/self/cgroup; do sleep 0.05; done; "
    with ThreadPoolExecutor() as pool:
        burning = pool.submit(box.run, wait + BURN)
        assert eventually(lambda: move(above / "run", server, "process_time"))
        return sum(map(float, burning.result()["stdout"].split()))


def test_what_runs_in_the_server_s_group_is_limited_too(start_box):
    used = burn_elsewhere(start_box(cpus=LIMIT))
    assert 0 < used < 1.5 * (LIMIT + RESERVE), used


def test_the_server_answers_while_commands_use_all_they_may(start_box):
    box = start_box(cpus=0.05)
    begun = box.post("/v1/bash/exec", command="for i in 1 2; do while :; do :; done & done; wait", async_mode=True)
    assert begun["message"] == "Command started", begun
    since = time.monotonic()
    assert [box.client.get("/v1/sandbox").status_code for _ in range(50)] == [200] * 50
    assert time.monotonic() - since < 20
