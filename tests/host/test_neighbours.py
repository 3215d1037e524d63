"""One box does its worst; its own server and its neighbours go on answering."""

import json
import statistics
import time

import pytest
from harness import eventually
from hosts import Box

MIB = 1 << 20
SECONDS = 120  # after which a bomb ends by itself
FLOOR = 0.05  # of the p99 that is borne: a machine with other work is no quieter than that
REQUESTS = 300
PIDS, FILES = 64, 100_000

# Each says in /dev/shm/at how far it has come; `end` and say() are there already.
FORKS = f"""
for turn in range({PIDS} * 6):
    try:
        if os.fork() == 0:
            while not os.path.exists("/dev/shm/full") and time.time() < end: time.sleep(0.02)
            while time.time() < end: pass
            os._exit(0)
    except OSError as error:
        open("/dev/shm/full", "w").close()
        say("full", error.errno)
        time.sleep(0.01)
"""
MEMORY = """
turn = 0
while time.time() < end:
    code = subprocess.run([sys.executable, "-c", "x = bytearray(400 << 20)"]).returncode
    turn += 1
    say("full" if code == -9 else "not killed", turn)
"""
DISK = """
turn = 0
while time.time() < end:
    try:
        with open("/home/gem/large", "wb") as file:
            while time.time() < end: file.write(bytes(1 << 20))
    except OSError as error:
        turn += 1
        say("full", error.errno)
        os.truncate("/home/gem/large", 0)
"""
OPEN_FILES = f"""
import resource
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
left, pipes = {FILES}, []
while left > 0:
    each = min(left, hard - 64)
    ready, told = os.pipe()
    if os.fork() == 0:
        held = [os.open("/dev/null", os.O_RDONLY) for _ in range(each)]
        os.write(told, b"x")
        time.sleep(max(0, end - time.time()))
        os._exit(0)
    os.close(told)
    pipes.append(ready)
    left -= each
held = sum(len(os.read(ready, 1)) for ready in pipes)
say("full" if held == len(pipes) else "too few", {FILES})
time.sleep(max(0, end - time.time()))
"""
BEGIN = f"""
import os, subprocess, sys, time
end = time.time() + {SECONDS}
def say(*words):
    with open("/dev/shm/new", "w") as file: print(*words, file=file)
    os.rename("/dev/shm/new", "/dev/shm/at")
say("begun")
"""
LIMITS = {"pids": PIDS, "memory": 256 * MIB}


def p99(box):
    """Seconds of a small request, on a connection that is kept."""
    times = []
    for _ in range(REQUESTS):
        begin = time.perf_counter()
        assert box.request("GET", "/v1/sandbox").status_code == 200
        times.append(time.perf_counter() - begin)
    return statistics.quantiles(times, n=100)[98]


def place(box, name, text):
    answer = box.request("POST", "/v1/file/write", json={"file": name, "content": text})
    assert answer.status_code == 200 and answer.json()["success"], answer.text


def progress(box):
    """What the bomb says, read by the box's own server, which starts nothing for it."""
    answer = box.request("POST", "/v1/file/read", json={"file": "/dev/shm/at"})
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]["content"].split() if answer.json()["success"] else []


def pids_limit_holds(box):
    """Asked before anything is forked without end: twice as many as may be, which sleep, and are ended."""
    code = f"""
import json, subprocess
made = []
try:
    while len(made) < {PIDS} * 2: made.append(subprocess.Popen(["sleep", "100"]))
    print(json.dumps([len(made), 0]))
except OSError as error:
    print(json.dumps([len(made), error.errno]))
for one in made: one.kill()
for one in made: one.wait()
"""
    place(box, "/tmp/count.py", code)
    count, error = json.loads(box.run("/usr/bin/python3 /tmp/count.py"))
    return 0 < count < PIDS and error == 11


def quiet(bomb, neighbour):
    """The p99 of the neighbour while the bomb is paused: what other work on this machine there is, is still there."""
    bomb.call("POST", "/pause")
    seconds = p99(neighbour)
    bomb.call("POST", "/resume")
    return seconds


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name, code, limits", [
    ("fork", FORKS, {}),
    ("memory", MEMORY, {}),
    ("disk", DISK, {"disk": 64 * MIB}),
    ("files", OPEN_FILES, {}),
])
def test_a_bomb_is_felt_by_nobody_else(host, name, code, limits):
    asked = host.client.post("/v1/sandboxes", headers=host.auth, json={"limits": {**LIMITS, **limits}})
    if asked.status_code != 200 and "disk" in limits:
        assert "disk" in asked.text
        pytest.skip(asked.json()["message"])
    assert asked.status_code == 200, asked.text
    bomb = Box(host, asked.json()["data"])
    neighbour = host.create()
    assert pids_limit_holds(bomb)  # or no bomb is set off at all
    place(bomb, "/tmp/bomb.py", BEGIN + code)

    p99(neighbour)  # warm
    before = p99(neighbour)
    begin = time.monotonic()
    bomb.begin("exec /usr/bin/python3 /tmp/bomb.py")
    assert eventually(lambda: progress(bomb)[:1] == ["full"], SECONDS / 2, 0.05), progress(bomb)
    # What other work on this machine does to a figure passes, or is there without the bomb, too; a bomb goes on.
    while (during := p99(neighbour)) > max(3 * before, FLOOR) and time.monotonic() - begin < SECONDS * 0.75:
        before = max(before, quiet(bomb, neighbour))
    assert bomb.request("GET", "/v1/sandbox").status_code == 200
    said, metrics = progress(bomb), bomb.call("GET", "/metrics")
    assert time.monotonic() - begin < SECONDS, "the bomb was over before the measurement"
    print(f"{name}: p99 {before * 1e3:.1f} ms before, {during * 1e3:.1f} ms during; {said}, {metrics}")

    assert said[0] == "full"
    assert during <= max(3 * before, FLOOR), (before, during)
    if name == "fork":
        assert PIDS - 2 <= metrics["pids"] <= PIDS + 8
    if name == "disk":
        assert int(said[1]) in (28, 122)  # ENOSPC, EDQUOT
    if name == "memory":
        assert eventually(lambda: "oom" in bomb.events())
    assert neighbour.run("echo well") == "well\n"
    bomb.delete()
    neighbour.delete()

