"""What a box may use of the machine, and what its neighbours notice."""

import ctypes
import os
import subprocess
from pathlib import Path

import pytest

from harness import ROOT, eventually
from escape.boxes import GROUPS, Farm, Refused, volume

MIB = 1 << 20


def pids_limit_holds(box, limit):
    """Whether the kernel itself says that the limit is in force: asked before anything is forked."""
    said = box.out("cat /proc/self/cgroup; ulimit -u")
    group = [l for l in said.splitlines() if ":pids:" in l or l.startswith("0::")]
    code = (
        "import subprocess, sys\n"
        f"made = []\ntry:\n    while len(made) < {limit} * 2: made.append(subprocess.Popen(['sleep', '100']))\n"
        "except OSError as e: print(len(made), e.errno)\n"
        "for one in made: one.kill()\n"
        "for one in made: one.wait()\n"
    )
    said = box.run(f'/usr/bin/python3 -c "{code}"')["stdout"].split()
    return bool(group) and len(said) == 2 and int(said[0]) < limit and said[1] == "11"


def test_fork_bomb_meets_the_limit_and_the_server_still_answers(start_box):
    limit = 64
    box, neighbour = start_box(pids=limit, memory=512 * MIB, cpus=1), start_box()
    assert pids_limit_holds(box, limit)
    # Bounded by itself too: 400 processes at most, for 100 seconds at most. They leave time to the one that forks.
    bomb = (
        "import os, time\n"
        "made, end = 0, time.time() + 100\n"
        "while made < 400 and time.time() < end:\n"
        "    try:\n"
        "        if os.fork() == 0:\n"
        "            os.nice(19)\n"
        "            while time.time() < end: pass\n"
        "            os._exit(0)\n"
        "        made += 1\n"
        "    except OSError: time.sleep(0.005)\n"
    )
    begun = box.post("/v1/bash/exec", command=f'/usr/bin/python3 -c "{bomb}"', async_mode=True)
    assert begun["message"] == "Command started", begun
    assert eventually(lambda: box.usage()["pids"] >= limit)
    assert limit <= box.usage()["pids"] <= limit + 8  # of the server's own
    assert box.client.get("/v1/sandbox").status_code == 200

    def refused():
        """The count above has the server's own among it: there may be room yet for one more."""
        answer = box.client.post("/v1/bash/exec", json={"command": "true"})
        assert answer.status_code in (200, 429, 503), answer.text  # told, and not by a 500
        return answer.text if answer.status_code != 200 else None

    assert "process" in eventually(refused)
    assert neighbour.out("echo fine") == "fine\n"
    box.stop()


@pytest.fixture
def start_coder(start_box, monkeypatch):
    """A box that has Python's kernels, and how code is run in it."""
    if not (ROOT / ".venv/bin/python").exists():
        pytest.skip("NOT TESTED: there is no .venv; make deps makes it")
    monkeypatch.setenv("AIO_HOME", str(ROOT))

    def start(**limits):
        box = start_box(**limits)
        return box, lambda code="6 * 7", **more: box.client.post("/v1/jupyter/execute", json={"code": code, **more})

    return start


def test_sessions_that_nobody_named_leave_processes_to_others(start_coder):
    box, execute = start_coder(pids=64)
    assert [execute().status_code for _ in range(7)] == [200] * 7
    script = {"code": "6 * 7", "stateful": True}
    answers = [box.client.post("/v1/nodejs/execute", json=script).json() for _ in range(6)]
    assert [answer["message"] for answer in answers] == ["Code executed"] * 6, answers
    assert box.out("seq 3 | cat | cat | cat | tail -n 1") == "3\n"  # a quarter is left to commands
    named = [execute(session_id=f"n{i}") for i in range(8)]
    assert named[0].status_code == 200 and named[-1].status_code == 429
    refused = box.client.post("/v1/nodejs/execute", json=script)
    assert refused.status_code == 429 and "64 processes and threads" in refused.text, refused.text
    message = named[-1].json()["message"]
    assert "the sandbox's limit of 64 processes and threads" in message and "limits.pids" in message
    assert box.client.request("DELETE", "/v1/jupyter/sessions").status_code == 200
    assert execute(session_id="last").status_code == 200


def test_kernels_that_nobody_named_leave_memory_to_others(start_coder):
    box, execute = start_coder(memory=256 * MIB)
    assert execute("x = bytearray(70 << 20)", session_id="kept").status_code == 200
    answers = [execute("x = bytearray(40 << 20)") for _ in range(6)]
    assert [(a.status_code, a.json()["data"]["status"]) for a in answers] == [(200, "ok")] * 6
    assert box.usage()["oom_kills"] >= 1
    kept = execute("len(x) >> 20", session_id="kept").json()
    assert kept["message"] == "Code executed" and kept["data"]["outputs"][0]["data"]["text/plain"] == "70"
    ids = [a.json()["data"]["session_id"] for a in answers]
    bomb = {"python": "x = bytearray(400 << 20)", "javascript": "Buffer.alloc(400 << 20, 1)"}
    for language, code in bomb.items():
        for stateful in (False, True):
            body = {"language": language, "code": code, "stateful": stateful}
            answer = box.client.post("/v1/code/execute", json=body).json()
            assert "limits.memory" in answer["hint"] and answer["data"]["status"] == "error", answer
    assert any("out of memory" in execute("1", session_id=id).json()["message"] for id in ids)


def test_memory_bomb_is_killed_counted_and_told(start_box):
    box = start_box(memory=256 * MIB)  # more than what starts its commands has with a sanitizer
    assert box.post("/v1/bash/exec", command="true")["message"] == "Command executed"
    answer = box.post("/v1/bash/exec", command='/usr/bin/python3 -c "x = bytearray(800 << 20); print(len(x))"')
    assert answer["data"]["exit_code"] == 137 and answer["data"]["stdout"] == ""
    assert answer["message"].startswith("Out of memory") and "limits.memory" in answer["hint"]
    assert box.usage()["oom_kills"] == 1
    again = box.post("/v1/shell/exec", command='/usr/bin/python3 -c "x = bytearray(400 << 20)"')
    assert (again["message"], again["hint"]) == (answer["message"], answer["hint"])
    assert box.out("echo alive") == "alive\n"
    assert box.usage()["memory_peak"] <= (256 + 256) * MIB


def test_memory_in_files_of_shm_counts(start_box):
    box = start_box(memory=64 * MIB)
    assert box.run("head -c 200M /dev/zero > /dev/shm/x; echo $?")["stdout"] != "0\n"
    assert box.out("rm -f /dev/shm/x; echo alive") == "alive\n"


def test_cpu_quota(start_box):
    box = start_box(cpus=0.25)
    code = "import time; e, s = time.time() + 2, time.process_time()\nwhile time.time() < e: pass\nprint(time.process_time() - s)"
    used = float(box.out(f'/usr/bin/python3 -c "{code}"'))
    assert used < 0.9


def fill_disk(box, names=True):
    data = box.run("head -c 200M /dev/zero > ~/x")
    assert data["exit_code"] != 0
    assert "No space left" in data["stderr"] or "quota" in data["stderr"]
    assert 50 * MIB <= box.usage()["disk"] <= 70 * MIB
    assert box.out("rm ~/x; echo y > ~/y; cat ~/y") == "y\n"
    if not names:  # they take of the bytes
        return
    files = "import os\nn = 0\ntry:\n    while n < 20000: open(f'/home/gem/f{n}', 'w').close(); n += 1\nexcept OSError: pass\nprint(n)"
    assert int(box.out(f'/usr/bin/python3 -c "{files}"')) < 20000


def start_full(box):
    """One that is full, to the last byte that its root could write, starts again and is still full."""
    box.run("cat /dev/zero > /var/x; cat /dev/zero > /var/y; for i in $(seq 100000); do echo > /var/f$i || break; done", root=True)
    box.stop()
    box.start(f"disk={64 * MIB}")
    assert box.run("head -c 200M /dev/zero > ~/z")["exit_code"] != 0
    assert box.out("sudo rm -f /var/x /var/y; echo y > ~/y; cat ~/y") == "y\n"


def test_disk_bomb(start_box):
    try:
        box = start_box(disk=64 * MIB)
    except Refused as why:
        assert "disk" in str(why)
        pytest.skip(str(why))
    fill_disk(box)
    start_full(box)


VOLUMES = {
    "project quota": (["mkfs.ext4", "-q", "-O", "quota,project"], ["-o", "prjquota"], []),
    "btrfs": (["mkfs.btrfs", "-q"], [], ["btrfs", "quota", "enable"]),
}


@pytest.mark.parametrize("means", VOLUMES)
def test_disk_bomb_by_quota(means):
    """The limit is held by the file system itself: no image of the box's size is there."""
    mkfs, options, prepare = VOLUMES[means]
    with volume(*mkfs, options=options) as (place, _):
        if prepare:
            subprocess.run([*prepare, place], check=True)
        farm = Farm(place)
        try:
            box, neighbour = farm.start(disk=64 * MIB), farm.start(disk=64 * MIB)
            assert not list(farm.state.glob("*/disk")) and not list(farm.state.glob(".disk-*"))
            fill_disk(box, names=means != "btrfs")
            assert neighbour.out("head -c 20M /dev/zero > ~/x; stat -c %s ~/x") == f"{20 * MIB}\n"
            start_full(box)
            neighbour.out("echo kept > ~/kept")
            copy = farm.copy(neighbour, disk=64 * MIB)
            assert copy.out("cat ~/kept") == "kept\n"
            assert copy.run("head -c 200M /dev/zero > ~/z")["exit_code"] != 0
            assert copy.usage()["disk"] <= 70 * MIB
        finally:
            farm.end()


def test_io_weight_where_the_disk_heeds_it():
    with volume("mkfs.ext4", "-q") as (place, device):
        scheduler = Path("/sys/class/block") / device.name / "queue/scheduler"
        scheduler.write_text("none")
        farm = Farm(place)
        try:
            with pytest.raises(Refused, match="io_weight.*bfq"):
                farm.start(io_weight=300)
            if "bfq" not in scheduler.read_text():
                pytest.skip("NOT TESTED: this kernel has no scheduler bfq")
            scheduler.write_text("bfq")
            box, plain = farm.start(io_weight=10000), farm.start()
            said = [path.read_text().split()[-1] for path in
                    [*GROUPS.glob(f"aiobox/test-{box.id}/*bfq.weight"),
                    *GROUPS.glob(f"*/aiobox/test-{box.id}/*bfq.weight")]]
            assert said == ["1000"], said
            assert box.out("echo y > ~/y; cat ~/y") == plain.out("echo y")
        finally:
            scheduler.write_text("none")
            farm.end()


def test_terminals_of_a_box_are_limited(box):
    code = "import os\nn = 0\nl = []\ntry:\n    while n < 2000: l.append(os.openpty()); n += 1\nexcept OSError: pass\nprint(n)"
    assert int(box.out(f'ulimit -n 8192; /usr/bin/python3 -c "{code}"')) <= 256


def test_inotify_and_namespaces_are_limited(box, root):
    code = (
        "import ctypes, os\nc = ctypes.CDLL(None, use_errno=True)\nn = 0\n"
        "while n < 5000 and c.inotify_init1(0) >= 0: n += 1\nprint(n)"
    )
    assert int(box.out(f'ulimit -n 8192; /usr/bin/python3 -c "{code}"', root)) <= 1024


INOTIFY = "c.inotify_init1(0) >= 0"


def take(box, root, one):
    """How many there are for a box, which keeps them, of what this takes one of."""
    code = (
        "import ctypes, os, time\nc = ctypes.CDLL(None, use_errno=True)\nn = 0\n"
        f"while n < 2000 and {one}: n += 1\n"
        "print(n, file=open('/tmp/n.new', 'w'), flush=True); os.rename('/tmp/n.new', '/tmp/n'); time.sleep(1000)"
    )
    as_who = "sudo -n " if root else ""
    # No other process is started to look: it may be what is taken.
    return int(box.out(f"ulimit -n 8192; mkfifo /tmp/wait; ({as_who}/usr/bin/python3 -c \"{code}\" >/dev/null 2>&1 &)\n"
                       "until [ -e /tmp/n ] || ((SECONDS > 80)); do read -rt 0.05 <>/tmp/wait; done; read -r n </tmp/n; echo $n"))


def test_what_one_box_has_of_inotify_is_missed_by_nobody(start_box, root):
    """The kernel counts them for the box, and also for the user who made its namespace: not for the machine's root."""
    assert take(start_box(), root, INOTIFY) >= 64
    assert take(start_box(), False, INOTIFY) >= 64
    libc, held = ctypes.CDLL(None, use_errno=True), []
    while len(held) < 16 and (fd := libc.inotify_init1(os.O_CLOEXEC)) >= 0:
        held.append(fd)
    for fd in held:
        os.close(fd)
    assert len(held) == 16


def test_a_crash_leaves_no_core(box):
    data = box.run("cd /tmp; ulimit -c unlimited 2>/dev/null; sh -c 'kill -SEGV $$'; ls core* 2>/dev/null; ulimit -Hc")
    assert data["stdout"].strip() in ("0", "1")


def test_a_hundred_thousand_files_open_in_one_box(start_box):
    box, neighbour = start_box(), start_box()
    code = (
        "import os, resource\n"
        "hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))\nn = 0\n"
        "try:\n    while n < 100000: os.open('/dev/null', 0); n += 1\nexcept OSError: pass\nprint(n)"
    )
    assert int(box.out(f'/usr/bin/python3 -c "{code}"')) > 1000
    assert neighbour.out("echo fine") == "fine\n"
