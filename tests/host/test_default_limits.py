"""What a box may use of the machine though nobody has limited it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from escape.boxes import volume
from harness import eventually, program
from hosts import Host, folder

MIB = 1 << 20
MEMORY = 256 * MIB
DISK = 48 * MIB
FILE_MAX = Path("/proc/sys/fs/file-max")


def memory_limits(host, *names):
    """What the kernel holds the groups to."""
    found = {}
    for path in ["/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/unified"]:
        for name in names:
            for file in ("memory.max", "memory.limit_in_bytes"):
                if os.path.exists(f"{path}/aiobox{name}/{file}"):
                    with open(f"{path}/aiobox{name}/{file}") as text:
                        found[name] = text.read().strip()
    return found


@pytest.fixture(scope="module")
def small():
    """A host whose boxes have little, on a small disk."""
    with volume("mkfs.ext4", "-q", "-m", "0") as (place, _):
        FILE_MAX.write_text("400000")
        host = Host(folder(), ["--box-memory", MEMORY, "--box-disk", DISK], state=place / "state")
        yield host
        host.end()
        # What made its boxes ends a moment after it; nothing else is left there.
        assert eventually(lambda: subprocess.run(["umount", place], capture_output=True).returncode == 0)


def test_memory_of_the_machine_is_not_one_box_s(host, box):
    limits = memory_limits(host, "", f"/{host.seed()}-{box.id}")
    if not limits:
        pytest.skip("NOT TESTED: this machine's cgroups limit no memory")
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGESIZE")
    whole, one = (int(limits[name]) for name in sorted(limits))
    assert machine * 0.7 < one <= machine * 0.75 and one < whole <= machine * 0.875


def test_a_memory_bomb_in_a_box_without_limits(small):
    bomb, neighbour = small.create(), small.create(limits={"memory": MEMORY})
    own = memory_limits(small, f"/{small.seed()}-{bomb.id}")
    if not own:
        pytest.skip("NOT TESTED: this machine's cgroups limit no memory")
    assert list(own.values()) == [str(MEMORY)]  # or it is not set off
    answer = bomb.request("POST", "/v1/bash/exec", json={"command": "/usr/bin/python3 -c 'x = bytearray(400 << 20)'"}).json()
    assert answer["data"]["exit_code"] == 137 and answer["message"].startswith("Out of memory"), answer
    assert eventually(lambda: "oom" in bomb.events())
    assert bomb.run("echo alive") == neighbour.run("echo alive") == "alive\n"
    assert "oom" not in neighbour.events() and small.client.get("/health").text == "OK"
    bomb.delete()
    neighbour.delete()


def test_a_disk_bomb_in_a_box_without_limits(small):
    bomb, neighbour, roomy = small.create(), small.create(), small.create(limits={"disk": 2 * DISK})
    for box, room in [(bomb, DISK), (roomy, 2 * DISK)]:
        said = box.run("head -c 200M /dev/zero 2>&1 >~/big; stat -c %s ~/big")
        assert "No space left on device" in said and room // 2 < int(said.split()[-1]) < room
    assert neighbour.run("head -c 20M /dev/zero >~/some && stat -c %s ~/some") == f"{20 * MIB}\n"
    assert small.client.get("/health").text == "OK"
    bomb.delete()
    neighbour.delete()
    roomy.delete()


@pytest.mark.parametrize("flag, word", [("--box-disk", "--box-disk: 1000 is too little: the least is 16M"),
                                        ("--box-memory", "--box-memory: 1000 is too little: the least is 16M")])
def test_what_each_box_may_use_is_checked_at_the_start(flag, word):
    state = folder()
    got = subprocess.run([program("aio"), "up", "--state", state, "--listen", f"unix:{state}/x", flag, "1000"],
                         capture_output=True, text=True, timeout=60)
    assert got.returncode == 2 and word in got.stderr, got
    shutil.rmtree(state)


OPEN = """
import os, resource, time
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
left, pipes = 420000, []
while left:
    each = min(left, hard - 64)
    ready, told = os.pipe()
    if os.fork() == 0:
        for _ in range(each): os.open("/dev/null", os.O_RDONLY)
        os.write(told, b"x")
        time.sleep(200)
        os._exit(0)
    os.close(told)
    pipes.append(ready)
    left -= each
print(420000 if all(os.read(ready, 1) for ready in pipes) else "too few", flush=True)
time.sleep(200)
"""


def test_open_files_are_limited_by_memory_not_for_all(small):
    """What the machine can have open must not be less than what one box can."""
    assert int(FILE_MAX.read_text()) > 1 << 60
    box, neighbour = small.create(limits={"memory": 1024 * MIB}), small.create()
    place = "/tmp/open.py"
    box.request("POST", "/v1/file/write", json={"file": place, "content": OPEN})
    box.run(f"touch /tmp/said; (/usr/bin/python3 {place} >>/tmp/said 2>&1 &)")
    assert eventually(lambda: box.run("cat /tmp/said"), 90) and box.run("cat /tmp/said") == "420000\n"
    assert neighbour.run("sudo -u nobody cat /etc/hostname") == f"{neighbour.id}\n"
    box.delete()
    neighbour.delete()
