"""What works in a box, and that nothing is left of one."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from chromium import check_sandbox
from escape.boxes import Refused
from harness import eventually
from processes import gone


def test_sudo_and_setuid_work(box):
    assert box.out("sudo -n id -u") == "0\n"
    assert box.out("sudo -n -u nobody id -un") == "nobody\n"
    assert "unable to resolve" not in box.run("sudo -n true")["stderr"]


def test_host_name_and_files(box):
    assert box.out("hostname; cat /etc/hostname").split() == [box.id, box.id]
    assert box.out("getent hosts localhost $(hostname) | wc -l") == "2\n"
    assert box.out("ls -A /root", root=True) == ""
    assert box.out("ping -c1 -W1 127.0.0.1 >/dev/null 2>&1 || python3 -c \"import socket; s=socket.socket(); "
                   "s.bind(('127.0.0.1', 80)); print('lo')\"") in ("", "lo\n")


def test_dpkg_installs_replaces_and_removes(start_box):
    box = start_box()
    box.out(
        "cd /tmp && mkdir -p d/DEBIAN d/usr/share/zz d/usr/bin && printf 'Package: zz\\nVersion: 1\\n"
        "Architecture: all\\nMaintainer: a <a@b.c>\\nDescription: x\\n' > d/DEBIAN/control && "
        "echo one > d/usr/share/zz/f && dpkg-deb -b d one.deb && sed -i s/1/2/ d/DEBIAN/control && "
        "echo two > d/usr/share/zz/f && dpkg-deb -b d two.deb"
    )
    assert box.out("dpkg -i /tmp/one.deb >/dev/null && cat /usr/share/zz/f", root=True) == "one\n"
    assert box.out("dpkg -i /tmp/two.deb >/dev/null && cat /usr/share/zz/f", root=True) == "two\n"
    assert box.run("dpkg -r zz >/dev/null; cat /usr/share/zz/f", root=True)["exit_code"] == 1
    # A directory of the template: rename() says EXDEV, and what moves directories copies then.
    assert box.out("mv /usr/share/doc/bash /usr/share/doc/moved && ls -d /usr/share/doc/bash /usr/share/doc/moved; true",
                   root=True) == "/usr/share/doc/moved\n"


def test_python_and_node_work(box):
    assert box.out("python3 -c 'import ssl, sqlite3; print(6 * 7)'") == "42\n"
    assert box.out("/usr/bin/python3 -m venv /tmp/v && /tmp/v/bin/python -m pip --version | cut -d' ' -f1") == "pip\n"
    assert box.out("pip --version | cut -d' ' -f1") == "pip\n"
    if box.run("command -v node")["exit_code"] == 0:
        assert box.out("node -e 'console.log(6 * 7)'") == "42\n"
    if box.run("command -v npm")["exit_code"] == 0:
        box.out("mkdir -p /tmp/n/dep && cd /tmp/n && echo '{\"name\":\"dep\",\"version\":\"1.0.0\"}' > dep/package.json && "
                "echo '{}' > package.json && npm install --offline ./dep && npm uninstall --offline dep")


def test_chromium_starts_with_its_own_sandbox(box):
    if box.run("command -v chromium")["exit_code"] != 0:
        pytest.skip("no chromium on this machine")
    check_sandbox(box.out, f"test-{box.id}")


def test_freeze_and_thaw(farm, start_box):
    box = start_box()
    box.out("(while :; do date +%s%N > /tmp/clock; sleep 0.01; done) >/dev/null 2>&1 & until [ -s /tmp/clock ]; do sleep 0.01; done")
    farm.run("freeze", box.id)
    clock = next(farm.state.glob(f"{box.id}/rw/upper0/tmp/clock"))
    before = clock.read_text()
    time.sleep(0.2)  # in which it would be written 20 times
    assert clock.read_text() == before
    farm.run("thaw", box.id)
    assert eventually(lambda: clock.read_text() != before)
    farm.run("freeze", box.id)
    box.stop()  # a frozen box can be ended


def test_a_box_started_again_has_its_files(farm, start_box):
    box = start_box()
    box.out("echo kept > ~/f; sudo touch /usr/bin/kept; sudo rm /usr/share/doc/bash/copyright")
    box.stop()
    box.start()
    assert box.out("cat ~/f; ls /usr/bin/kept; ls /usr/share/doc/bash/copyright 2>&1 || true").split()[:2] == [
        "kept", "/usr/bin/kept"]
    assert box.run("cat /usr/share/doc/bash/copyright")["exit_code"] == 1


@pytest.mark.parametrize("limits", [{}, {"disk": 64 << 20}])
def test_a_copy_is_a_box_of_its_own(farm, start_box, limits):
    try:
        box = start_box(**limits)
    except Refused as why:
        pytest.skip(str(why))
    box.out("echo original > ~/f; ln ~/f ~/g; sudo rm -rf /usr/share/doc/bash; sudo setfattr -n user.x -v y /home/gem/f || true")
    copy = farm.copy(box)
    box.out("echo changed > ~/f")
    said = copy.out("cat ~/f; stat -c %h ~/g; id -un; ls /usr/share/doc | grep -cx bash || true")
    assert said == "original\n2\ngem\n0\n"


@pytest.mark.parametrize("limits", [{}, {"disk": 64 << 20}])
def test_a_snapshot_is_a_template(farm, start_box, limits):
    try:
        box = start_box(**limits)
    except Refused as why:
        pytest.skip(str(why))
    box.out("echo taken > ~/f; sudo rm -rf /usr/share/doc/bash; sudo touch /usr/bin/taken; sudo rm /etc/issue")
    name = f"template-{box.id}"
    farm.run("freeze", box.id)
    farm.run("snapshot", box.id, name)
    farm.run("thaw", box.id)
    box.out("echo changed > ~/f")
    for _ in range(2):
        other = start_box(template=farm.state / name)
        said = other.out("cat ~/f; ls /usr/bin/taken; ls /etc/issue /usr/share/doc/bash 2>&1 | grep -c 'No such'; id -un")
        assert said == "taken\n/usr/bin/taken\n2\ngem\n"
        assert other.out("cat /etc/hostname; echo own > ~/f; cat ~/f") == f"{other.id}\nown\n"


def test_the_end_of_the_server_is_the_end_of_the_box(farm, start_box):
    box = start_box()
    box.out("(sleep 600 &) ; true")
    server = int(Path(f"/proc/{box.pid}/task/{box.pid}/children").read_text().split()[0])
    os.kill(server, 9)
    assert gone(box.pid)
    assert eventually(lambda: box.usage()["exit_status"] == 9)
    assert eventually(lambda: box.usage()["pids"] == 0)  # until it is reaped it counts


def test_refusals_leave_nothing(farm):
    before = farm.left()
    for options in (["template=/nonexistent"], ["mount=/nonexistent:/x"], ["memory=-5"], ["mount=/tmp:relative"]):
        with pytest.raises(Refused):
            farm.run("start", f"t{os.getpid()}-77", *options)
        farm.run("remove", f"t{os.getpid()}-77")
    assert farm.left() == before


def test_directories_nested_deeply_are_removed(start_box):
    box = start_box()
    box.out("python3 -c \"import os\nfor i in range(3000): os.mkdir('d'); os.chdir('d')\"")


def test_many_boxes_come_and_go(farm):
    """Boxes made and unmade, many at a time: no mount, cgroup, loop device or directory stays."""
    mounts = lambda: {line for line in Path("/proc/self/mountinfo").read_text().splitlines() if "aiobox" in line}
    before, mounted = farm.left(), mounts()
    for _ in range(3):
        done = subprocess.run([farm.driver, str(farm.state), "cycle", "40"], capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
    assert farm.left() == before
    assert not mounts() - mounted
    assert not list(farm.state.glob("bench*"))
