"""Forks and snapshots of a box that goes on working meanwhile."""

import time

import pytest

from harness import eventually
from hosts import Box

# Many small files: copying them takes long enough to see who waits for it.
FILES = """
import os
for d in range(DIRS):
    os.makedirs(f"{os.path.expanduser('~')}/many/{d}")
    for f in range(200):
        with open(f"{os.path.expanduser('~')}/many/{d}/{f}", "w") as file:
            file.write(f"{d} {f}\\n" * 20)
"""

# Looks at the clock every 10 ms, and keeps the longest time between two looks.
PULSE = """
import os, time
longest, last = 0, time.monotonic()
while not os.path.exists("/tmp/stop"):
    time.sleep(0.01)
    now = time.monotonic()
    longest, last = max(longest, now - last), now
    if not os.path.exists("/tmp/pulse"):
        open("/tmp/pulse", "w").close()
        longest = 0
with open("/tmp/longest.new", "w") as file:
    file.write(str(longest))
os.rename("/tmp/longest.new", "/tmp/longest")
"""

# Does step after step, each in its own way, and notes each when it is done: at any moment the files are those after
# the noted step, or that of the next one is under way.
STEPS = """
import ctypes, mmap, os, time
home = os.path.expanduser("~/steps")
os.makedirs(home)
os.chdir(home)
libc = ctypes.CDLL(None, use_errno=True)
for name in "swap0", "swap1":
    os.makedirs(f"{name}/below")
    with open(f"{name}/below/who", "w") as file:
        file.write(name)
for name in "turn0", "turn1":
    with open(name, "w") as file:
        file.write(name)
with open("linked", "w") as file:
    file.write("0")
os.link("linked", "other name")
with open("map", "wb") as file:
    file.write(b"0" * 65536)
held = open("map", "r+b")
mapped = mmap.mmap(held.fileno(), 65536)
log = open("log", "ab", buffering=0)
same = open("same", "wb", buffering=0)
done = os.open("done", os.O_RDWR | os.O_CREAT)
os.pwrite(done, b"%08d" % 0, 0)
def exchange(a, b):
    assert libc.renameat2(-100, a.encode(), -100, b.encode(), 2) == 0
step = 0
while not os.path.exists("/tmp/stop"):
    step += 1
    log.write(b"%08d %s\\n" % (step, b"x" * (step % 300)))
    os.fsync(log.fileno())
    os.pwrite(same.fileno(), b"%08d" % step, 0)
    os.utime("same", (1, 1))
    mapped[:8] = mapped[-8:] = b"%08d" % step
    with open("new", "w") as file:
        file.write(str(step))
    os.rename("new", "renamed")
    with open(f"here {step}", "w") as file:
        file.write(str(step))
    if step > 3:
        os.unlink(f"here {step - 3}")
    os.symlink(str(step), "link.new")
    os.rename("link.new", "link")
    exchange("swap0", "swap1")
    exchange("turn0", "turn1")
    with open("linked", "r+") as file:
        file.write(str(step))
    os.unlink("other name")
    os.link("linked", "other name")
    os.chmod("linked", 0o600 if step % 2 else 0o644)
    os.makedirs(f"dir {step}/a/b")
    with open(f"dir {step}/a/b/c", "w") as file:
        file.write(str(step))
    os.rename(f"dir {step}", f"moved {step}")
    if step > 3:
        os.rename(f"moved {step - 3}", f"/tmp/out")
        os.unlink("/tmp/out/a/b/c")
        os.removedirs("/tmp/out/a/b")
    os.setxattr("linked", "user.step", str(step).encode())
    os.pwrite(done, b"%08d" % step, 0)
    time.sleep(0.005)
"""

# What the copy has: prints the step that it is of, or fails.
CHECK = """
import os
os.chdir(os.path.expanduser("~/steps"))
def read(path):
    with open(path) as file:
        return file.read()
done = int(read("done"))
now = (done, done + 1)  # the next may have been under way
lines = read("log").split("\\n")
whole, rest = lines[:-1], lines[-1]
assert len(whole) in now and not rest, (done, len(whole), rest)
for i, line in enumerate(whole, 1):
    assert line == "%08d %s" % (i, "x" * (i % 300)), (i, line)
assert int(read("same")) in now, (done, read("same"))
data = read("map")
assert int(data[:8]) in now and int(data[-8:]) in now, (done, data[:8], data[-8:])
assert set(data[8:-8]) == {"0"}
assert int(read("renamed")) in now, (done, read("renamed"))
assert int(os.readlink("link")) in now, (done, os.readlink("link"))
here = sorted(int(name[5:]) for name in os.listdir() if name.startswith("here "))
assert {max(1, done - 1), done} <= set(here) <= set(range(done - 2, done + 2)), (done, here)
for step in here:
    assert read(f"here {step}") in (str(step), "" if step > done else None), step
for a, b in ("swap0/below/who", "swap1/below/who"), ("turn0", "turn1"):
    seen = read(a), read(b)
    names = a.split("/")[0], b.split("/")[0]
    assert seen in (names, names[::-1]), (done, seen)
    assert (seen == names) == (done % 2 == 0) or read("renamed") == str(done + 1), (done, seen)
moved = sorted(int(name[6:]) for name in os.listdir() if name.startswith("moved "))
assert {max(1, done - 1), done} <= set(moved) <= set(range(done - 2, done + 2)), (done, moved)
for step in moved:
    assert read(f"moved {step}/a/b/c") == str(step)
assert int(read("linked")) in now and (not os.path.exists("other name") or os.path.samefile("linked", "other name"))
assert os.stat("linked").st_nlink == 1 + os.path.exists("other name")
assert int(os.getxattr("linked", "user.step")) in now
assert oct(os.stat("linked").st_mode & 0o777) in ("0o600", "0o644")
print(done)
"""


def put(box, name, text):
    box.run(f"cat >/tmp/{name} <<'END'\n{text}\nEND")


def start(box, name, text):
    put(box, name, text)
    box.begin(f"rm -f /tmp/stop; python3 /tmp/{name} 2>/tmp/{name}.failed || true")


def longest(box):
    box.run("touch /tmp/stop")
    assert eventually(lambda: box.run("cat /tmp/longest 2>/dev/null || true"))
    return float(box.run("cat /tmp/longest"))


@pytest.fixture(scope="module", params=[(20, {}), (30, {"limits": {"disk": 512 << 20}})], ids=["plain", "limited"])
def full(host, request):
    """A box with many small files: in a directory of the host, or on a disk of its own, where there is no quota."""
    dirs, spec = request.param
    box = host.create(**spec)
    put(box, "files.py", FILES.replace("DIRS", str(dirs)))
    box.run("python3 /tmp/files.py")
    yield box
    box.delete()


def fork(box):
    return Box(box.host, box.call("POST", "/fork", json={}))


def snapshot(box):
    box.call("POST", "/snapshot", json={"name": "copied"})
    return box.host.create(template="copied")


def forget(copy):
    copy.delete()
    if copy.data["template"] == "copied":
        copy.host.api("DELETE", "/v1/templates/copied")


@pytest.mark.parametrize("how", [fork, snapshot])
def test_a_box_goes_on_while_it_is_copied(full, how):
    start(full, "pulse.py", PULSE)
    assert eventually(lambda: full.run("ls /tmp/pulse 2>/dev/null || true"))
    begun = time.monotonic()
    copy = how(full)
    took, stood = time.monotonic() - begun, longest(full)
    full.run("rm /tmp/pulse /tmp/longest")
    count = "ls ~/many/*/* | wc -l"
    assert copy.run(count) == full.run(count) and copy.run("cat ~/many/19/199") == "19 199\n" * 20
    forget(copy)
    assert stood < took / 3, (stood, took)


@pytest.mark.parametrize("how", [fork, snapshot])
def test_a_copy_is_of_one_moment(full, how):
    start(full, "steps.py", STEPS)
    steps = full.run("echo ~/steps/done").strip()

    def done():
        return int(full.run(f"cat {steps} 2>/dev/null || echo 0"))

    assert eventually(lambda: done() > 10), full.run("cat /tmp/steps.py.failed")
    for _ in range(2 if how is fork else 1):
        before = done()
        copy = how(full)
        put(copy, "check.py", CHECK)
        assert before <= int(copy.run("python3 /tmp/check.py")) <= done()
        forget(copy)
    full.run("touch /tmp/stop")
    assert eventually(lambda: full.count("[s]teps.py") == 0)
    full.run("rm -rf ~/steps")


# Moves a large file to and fro, so that a copy in passes may meet it twice.
MOVES = """
import os, time
os.chdir(os.path.expanduser("~"))
while not os.path.exists("/tmp/stop"):
    for a, b in ("one", "two"), ("two", "one"):
        os.rename(f"{a}/large", f"{b}/large")
        open("/tmp/moved", "w").close()
        time.sleep(0.02)
"""


def test_a_copy_of_a_disk_that_holds_no_more(host):
    """It has no room for what it is sent twice while it is made."""
    box = host.create(limits={"disk": 96 << 20})
    box.run("mkdir ~/one ~/two; head -c 60M /dev/urandom >~/one/large")
    digest = box.run("sha256sum <~/one/large")
    start(box, "moves.py", MOVES)
    assert eventually(lambda: box.run("ls /tmp/moved 2>/dev/null || true"))
    copy = fork(box)
    assert copy.run("cat ~/*/large | sha256sum") == digest and copy.run("ls ~/*/large | wc -l") == "1\n"
    box.run("touch /tmp/stop")
    copy.delete()
    box.delete()
