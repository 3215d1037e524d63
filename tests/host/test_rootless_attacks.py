"""Boxes of a host without root: the attacks of tests/escape, and those on what is the user's own."""

import contextlib
import os
import re
import secrets
import socket
import subprocess
import tarfile
from pathlib import Path

import pytest

from archives import add, programs, python
from escape.boxes import Target
from escape.conftest import root  # noqa: F401: a fixture
from escape.test_calls import (  # noqa: F401
    test_cve_2022_0492_release_agent,
    test_denied,
    test_kernel_files_cannot_be_written,
    test_kernel_files_tell_nothing,
    test_root_has_no_dangerous_capability,
    test_what_programs_need_is_allowed,
)
from escape.test_limits import (  # noqa: F401
    INOTIFY,
    take,
    test_a_crash_leaves_no_core,
    test_a_hundred_thousand_files_open_in_one_box,
    test_inotify_and_namespaces_are_limited,
    test_terminals_of_a_box_are_limited,
)
from escape.test_secrets import (  # noqa: F401
    NAME,
    plant,
    planted,
    processes_tell,
    test_boxes_do_not_see_each_other,
    test_devices_of_the_machine_stay_as_they_are,
    test_ipc_of_the_machine_is_not_seen,
    test_only_processes_of_the_box_are_seen,
    test_planted_files_cannot_be_read,
    test_planted_files_have_no_name_either,
    test_ports_and_sockets_of_the_machine_are_not_reached,
    test_processes_of_the_machine_get_no_signal,
    test_shadow_and_users_are_the_box_s_own,
)
from harness import eventually, program
from host.test_network import await_workers
from processes import alive, text_of
from rootless import AS_USER, FIRST, IDS, account, image_of

BOXES = 4
PROGRAMS = """bash sh cat chmod chown find grep head hostname id ipcmk ipcs ls mkdir mount rm rmdir setpriv sleep tail tee
    timeout touch tr umount unshare""".split()
SUDO = """#!/bin/bash
[ "$1" = -n ] && shift
exec root -p -c 'exec setpriv --reuid=0 --regid=0 --clear-groups "$@"' root "$@"
"""


LIMITS = ["prlimit", "--nproc=1000", "--sigpending=2000"]


def fill(tar):
    """What the attacks use, and users to whom the box's own files give every id there is."""
    programs(tar, *PROGRAMS, "newuidmap", "newgidmap")
    python(tar, "ctypes", "encodings.ascii", "os", "resource", "socket", "subprocess", "time")
    add(tar, "bin/sudo", SUDO.encode())
    for name in ("newuidmap", "newgidmap"):
        add(tar, f"bin/{name}", open(f"/usr/bin/{name}", "rb").read(), mode=0o4755)
    for name in ("subuid", "subgid"):
        add(tar, f"etc/{name}", b"gem:1:4294967294\nroot:1:4294967294\n", mode=0o644)


@pytest.fixture(scope="module")
def image():
    with image_of(fill) as path:
        yield path


@pytest.fixture(scope="module")
def launcher(launcher):
    """For a user who has less than the machine: taking all of it takes less time."""
    return [*LIMITS, *launcher]


class RootlessBox(Target):
    def __init__(self, host, **spec):
        self.box = host.create(**{"template": "small", **spec})
        self.id, self.pid = self.box.id, self.box.first_process()

    def post(self, path, **body):
        return self.box.request("POST", path, json=body).json()


class User(Target):
    """Whom the host runs as, in no box. What must fail in a box works for them, or its test would show nothing."""

    def run(self, command, root=False):  # noqa: F811
        done = subprocess.run([*LIMITS, *AS_USER, "bash", "-c", command], capture_output=True, text=True, timeout=60)
        return {"stdout": done.stdout, "stderr": done.stderr, "exit_code": done.returncode}


@pytest.fixture(scope="module")
def box(rootless):
    return RootlessBox(rootless)


@pytest.fixture(scope="module")
def curious(box, planted):  # noqa: F811
    return box


@pytest.fixture
def start_box(rootless):
    made = []

    def start(**spec):
        made.append(RootlessBox(rootless, **spec))
        return made[-1]

    yield start
    for other in made:
        other.box.delete()


def test_the_calls_are_there(ranges):
    """Those which only the filter of a box refuses."""
    calls = "clone_ns nested_ns keyctl_call add_key_call netfilter"
    said = User().out(f"{Path(program('driver')).with_name('probe')} {calls}")
    assert said.split()[1::2] == ["OK"] * len(calls.split()), said


# --- what is the user's own


ROOTS = ("", "/..", "/proc/1/root", "/proc/2/root", "/proc/self/cwd/../../../..")
# Calls about the user's keyring, which is -4.
KEYS = """/usr/bin/python3 -c "
import ctypes, os
call, (add, control) = ctypes.CDLL(None).syscall, dict(x86_64=(248, 250), aarch64=(217, 219))[os.uname().machine]
keyctl, text = lambda *more: call(control, *more), ctypes.create_string_buffer(100)
find = lambda: keyctl(10, -4, b'user', b'{name}', 0)
"""
ADD_KEY = KEYS + "keyctl(5, call(add, b'user', b'{name}', b'{secret}', 32, -4), 0x3f3f0000)\""
READ_KEY = KEYS + "keyctl(11, find(), text, 100); print(text.value)\""
UNLINK_KEY = KEYS + "keyctl(9, find(), -4)\""
ATTACKS = {
    "files": "cat {files}",
    "environment of processes": r"cat /proc/[0-9]*/environ | tr '\0' '\n'",
    "keys": READ_KEY,
    "signals": "kill -9 {victim}",
    "tracing": """/usr/bin/python3 -c "
import ctypes
if ctypes.CDLL(None).ptrace(0x4206, {victim}, 0, 0) == 0: print(open('/proc/{victim}/environ').read())" """,
    "sockets": """/usr/bin/python3 -c "
import socket
for path in {sockets}:
    try: socket.socket(socket.AF_UNIX).connect(path); print('reached')
    except OSError: pass" """,
    "cgroups": "for group in {groups}; do echo $$ >$group/cgroup.procs && echo reached; "
               "mkdir $group/own && rmdir $group/own && echo reached; done",
    # The parent gives ids to the namespace of a child, by itself or by the programs that may.
    "subordinate ids": """/usr/bin/python3 -c "
import ctypes, os, subprocess, time
for id in {ids}:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        ctypes.CDLL(None).unshare(0x10000000)
        os.write(write, b'x')
        time.sleep(100)
    os.read(read, 1)
    for what in 'uid', 'gid':
        try: os.write(os.open('/proc/%d/%s_map' % (child, what), os.O_WRONLY), b'0 %d 1' % id); print('reached')
        except OSError: pass
        if subprocess.run(['new%smap' % what, str(child), '0', str(id), '1']).returncode == 0: print('reached')
    for take in (lambda: os.setresuid(id, id, id)), (lambda: os.chown('/tmp', id, id)):
        try: take(); print('reached')
        except OSError: pass
    os.kill(child, 9)
    os.wait()" """,
}


@pytest.fixture
def reaches(rootless):
    """Whether one reaches what is the user's, by an attack of the table: it learns the secret, or something happens."""
    secret, places = secrets.token_hex(16), [rootless.home / ".ssh", rootless.folder / "runtime"]
    with contextlib.ExitStack() as stack:
        files = stack.enter_context(plant([(place, 0o600) for place in places], secret, account))
        bus = places[1] / "bus"
        for name in (str(bus), f"\0{secret}"):
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(name)
            listener.listen()
        os.chown(bus, account.pw_uid, account.pw_gid)
        stack.callback(bus.unlink)
        victim = subprocess.Popen(["sleep", "600"], env={"SECRET": secret}, user=account.pw_uid, group=account.pw_gid,
                                  extra_groups=[])
        stack.callback(victim.wait)
        stack.callback(victim.kill)

        def everywhere(*paths):
            return [f"{above}{path}" for above in ROOTS for path in paths]

        facts = {
            "files": " ".join(everywhere(*files, rootless.state / "token")),
            "sockets": [*everywhere(bus, rootless.state / "run/host.sock"), f"\0{secret}"],
            "groups": " ".join(everywhere(rootless.group)),
            "ids": [FIRST + i * IDS for i in range(BOXES)],
            "victim": victim.pid,
            "name": f"key-{secret[:8]}",
            "secret": secret,
        }
        User().out(ADD_KEY.format(**facts))
        stack.callback(lambda: User().out(UNLINK_KEY.format(**facts)))

        def reach(who, attack, root=False):  # noqa: F811
            said = who.run(ATTACKS[attack].format(**facts), root)["stdout"]
            return any(word in said for word in (secret, rootless.token, "reached")) or victim.poll() is not None

        yield reach


@pytest.mark.parametrize("attack", ATTACKS)
def test_what_is_the_user_s_own_is_not_reached(box, reaches, root, attack):  # noqa: F811
    assert not any(reaches(box, attack, root) for _ in range(2))  # what the first does may be seen by the second


@pytest.mark.parametrize("attack", ATTACKS)
def test_the_user_reaches_it(reaches, attack):
    assert eventually(lambda: reaches(User(), attack))


def test_names_of_the_host_are_not_seen(rootless, box, root):  # noqa: F811
    more = box.run("env; cat /proc/net/unix /proc/self/mountinfo; ls /sys/fs /sys/kernel", root)["stdout"]
    own = rootless.state / "boxes" / box.id
    assert str(rootless.folder) not in (processes_tell(box, root) + more).replace(str(own), "")


def test_all_processes_of_a_box_have_ids_of_its_range(rootless, start_box):
    box = start_box()
    box.post("/v1/bash/exec", command="unshare -U sleep 600 & sudo -n unshare -U sleep 600", async_mode=True)
    assert eventually(lambda: box.out("cat /proc/[0-9]*/comm 2>/dev/null; true").split().count("sleep") == 2)
    pids = [pid for path in rootless.group.glob(f"aiobox/*-{box.id}/*/cgroup.procs") for pid in path.read_text().split()]
    base, found = int(Path(f"/proc/{box.pid}/uid_map").read_text().split()[1]), set()
    for pid in pids:
        with contextlib.suppress(OSError):  # one that has just ended
            found |= set(map(int, " ".join(re.findall(r"[UG]id:(.*)", Path(f"/proc/{pid}/status").read_text())).split()))
    assert {base, base + 1000} <= found and all(base <= number < base + IDS for number in found), found


def test_other_users_of_the_machine_reach_no_files_of_boxes(rootless, box, ranges):
    """Nor who has got an id of a box: what is there may be setuid to one."""
    look = f"cat {rootless.state}/token; find {rootless.state} -mindepth 1"
    for uid in (account.pw_uid + 1, *ranges, *(first + 1000 for first in ranges)):
        as_one = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "sh", "-c", look]
        assert subprocess.run(as_one, capture_output=True, text=True).stdout == "", uid
    assert rootless.token in User().run(look)["stdout"]


def test_root_of_a_box_ends_nothing_but_that(box, start_box):
    other = start_box()
    victim = subprocess.Popen(["sleep", "600"], user=account.pw_uid, group=account.pw_gid, extra_groups=[])
    try:
        other.post("/v1/bash/exec", command="sudo -n bash -c 'kill -9 -1'", async_mode=True)
        assert eventually(lambda: other.box.state != "running")
        assert victim.poll() is None and box.out("echo alive") == "alive\n"
    finally:
        victim.kill()
        victim.wait()


def test_a_link_in_an_image_leads_nowhere(rootless):
    keys, token = rootless.home / ".ssh", secrets.token_hex(16)
    links = {"proc": rootless.home, "sys": "../../../..", "dev": keys, "out": keys, "mnt": "/proc/1/root"}

    def fill_hostile(tar):
        fill(tar)
        for name, target in links.items():
            add(tar, name, type=tarfile.SYMTYPE, linkname=str(target))

    with plant([(keys, 0o600)], token, account), image_of(fill_hostile) as path:
        rootless.cli("template", "import", "hostile", path)
        box = RootlessBox(rootless, template="hostile")
        look = f"ls -ld /proc /sys /dev; cat /out/{NAME} /mnt/{keys}/{NAME} /proc/sys/kernel/ostype"
        text = box.run(look, root=True)["stdout"]
        box.box.delete()
        rootless.api("DELETE", "/v1/templates/hostile")
    assert token not in text and text.count("->") == 0 and "Linux" in text


# --- what all boxes have of the user's


COUNTED = {
    "instances of inotify": INOTIFY,
    "processes": "(c.fork() or c.pause()) > 0",
    "queued signals": "c.timer_create(0, None, ctypes.byref(ctypes.c_long())) == 0",
    "message queues": "c.mq_open(b'/aio-test', 66, 384, (ctypes.c_long * 8)(0, 1, 8000)) >= 0 "
                      "and c.mq_unlink(b'/aio-test') == 0",
}


@pytest.mark.parametrize("what", COUNTED)
def test_what_boxes_have_leaves_some_to_each_other_and_to_the_user(start_box, root, what):  # noqa: F811
    """Of what the kernel counts for the user too, to whom all boxes belong."""
    taken = [take(start_box(), root, COUNTED[what]) for _ in range(BOXES - 1)]
    one = COUNTED[what].replace("c.pause()", "os._exit(0)")  # who would hold the pipe that is read
    code = f"import ctypes, os; c = ctypes.CDLL(None); print({one})"
    assert min(taken) >= 2 and User().out(f'/usr/bin/python3 -c "{code}"') == "True\n", taken


# --- the ways out


def status_of(pid):
    return dict(line.split(":\t") for line in Path(f"/proc/{pid}/status").read_text().splitlines())


def attack_way_out(box, pid, root):  # noqa: F811
    """By its number, and as each user that it might be: its own is one that root of the box can be."""
    assert not re.search("egress|pasta", processes_tell(box, root))
    for who in ("", f"setpriv --reuid={IDS - 1} --clear-groups ") if root else ("",):
        box.run(f"{who}bash -c 'kill -9 {pid}; kill -STOP {pid}'", root)
    if root:
        box.run(f"setpriv --reuid={IDS - 1} --clear-groups bash -c 'kill -9 -1'", root)
    assert alive(pid) and status_of(pid)["State"][0] in "SR"


def test_the_relay_of_a_box_is_not_reached(rootless, start_box, root):  # noqa: F811
    box = start_box(network={"mode": "allow", "allow": ["localhost:1"]})
    [pid] = await_workers(rootless, 1)
    last = int(Path(f"/proc/{box.pid}/uid_map").read_text().split()[1]) + IDS - 1
    status = status_of(pid)
    assert status["Uid"].split() == status["Gid"].split() == [str(last)] * 4
    assert (int(status["CapPrm"], 16), status["NoNewPrivs"], status["Seccomp"]) == (0, "1", "2")
    # Outside of the box this user could.
    subprocess.run(["setpriv", f"--reuid={last}", f"--regid={last}", "--clear-groups", "kill", "-CONT", str(pid)], check=True)
    attack_way_out(box, pid, root)


def test_pasta_of_a_box_is_not_reached(rootless, start_box):
    if not re.search(r"^full network +pasta", rootless.log, re.M):
        pytest.skip("NOT TESTED: network full needs pasta and /dev/net/tun")
    box = start_box(network={"mode": "full"})
    pid = int(text_of(rootless.state / "boxes" / box.id / "pasta.pid"))
    assert status_of(pid)["Seccomp"] == "2"  # its own
    # What it reads is what the box sends: also what is no good.
    code = (
        "import socket\n"
        "s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)\n"
        "for i in range(2000):\n"
        "    head = bytes([69 + i % 3, i % 256, 0, 0, 0, 0, i * 7 % 256, i % 5, 64, i % 256, 0, 0])\n"
        "    head += bytes([10, 213, 0, 2, 203, 0, 113, 9])\n"
        "    try: s.sendto(head + bytes(j * i * 37 % 256 for j in range(i % 700)), ('203.0.113.9', 0))\n"
        "    except OSError: pass\n"
        "print('sent')"
    )
    assert box.out(f'/usr/bin/python3 -c "{code}"', root=True) == "sent\n"
    attack_way_out(box, pid, True)
