"""Programs that agents need in a box and that a stricter box could break unseen: each has been seen to work, from the
machine's own packages, as gem and without a network."""

import shutil

import pytest

from chromium import DRIVER
from harness import eventually


def needs(*programs):
    for name in programs:
        if not shutil.which(name, path="/usr/bin:/usr/sbin:/bin:/sbin"):
            pytest.skip(f"NOT TESTED: {name} is not installed")


def python(box, code):
    """What a script in the box prints."""
    return box.run(f"/usr/bin/python3 - <<'END'\n{code}\nEND\n", timeout=90)


SANDBOX_PAGE = DRIVER + r'''
target = call("Target.createTarget", url="chrome://sandbox")["targetId"]
session = call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
until, text = time.monotonic() + 60, ""
while "adequately" not in text and time.monotonic() < until:
    text = call("Runtime.evaluate", session, expression="document.body.innerText")["result"].get("value") or ""
    time.sleep(.05)
print(text)
call("Browser.close")
sys.exit(browser.wait())
'''


def test_chromium_is_adequately_sandboxed(box):
    """By its own account, chrome://sandbox."""
    needs("chromium")
    text = python(box, SANDBOX_PAGE)
    rows = dict(line.split("\t")[:2] for line in text.splitlines() if "\t" in line)
    assert "You are adequately sandboxed." in text, text
    assert rows["Layer 1 Sandbox"] == "Namespace", text
    for name in ("PID namespaces", "Network namespaces", "Seccomp-BPF sandbox", "Seccomp-BPF sandbox supports TSYNC"):
        assert rows[name] == "Yes", text


LIBUDEV = r'''
import ctypes
udev = ctypes.CDLL("libudev.so.1")
for name in ("udev_new", "udev_monitor_new_from_netlink"):
    getattr(udev, name).restype = ctypes.c_void_p
monitor = ctypes.c_void_p(udev.udev_monitor_new_from_netlink(ctypes.c_void_p(udev.udev_new()), b"udev"))
print(bool(monitor), udev.udev_monitor_enable_receiving(monitor), udev.udev_monitor_get_fd(monitor) > 2)
udev.udev_monitor_filter_add_match_subsystem_devtype(monitor, b"usb", None)
print(udev.udev_monitor_filter_update(monitor))
'''


def test_libudev_watches_devices(box):
    """But with a filter, which would spare it some wakeups, it reports an error. Chromium takes that."""
    if box.request("POST", "/v1/bash/exec", json={"command": "ldconfig -p | grep libudev.so.1"}).json()["data"]["exit_code"]:
        pytest.skip("NOT TESTED: libudev1 is not installed")
    assert python(box, LIBUDEV) == "True 0 True\n-92\n"  # ENOPROTOOPT


@pytest.fixture
def display(box):
    """The number of an X display in the box."""
    needs("Xvnc")
    box.run("rm -f /tmp/display /tmp/rfb")  # what another has left must not be read
    box.begin("exec timeout 100 Xvnc -displayfd 1 -rfbunixpath /tmp/rfb -rfbport -1 -SecurityTypes None "
              "-nolisten tcp -geometry 640x480 -depth 24 -extension GLX >/tmp/display 2>/tmp/Xvnc.log")
    number = eventually(lambda: box.run("cat /tmp/display 2>/dev/null; true").strip(), 60, .1)
    assert number, box.run("cat /tmp/Xvnc.log")
    yield ":" + number
    box.run("pkill -x 'Xvnc|Xtigervnc'; true")


GREET = "import socket; s = socket.socket(socket.AF_UNIX); s.settimeout(60); s.connect('/tmp/rfb'); print(s.recv(12))"


def test_xvnc_answers(box, display):
    assert python(box, GREET) == "b'RFB 003.008\\n'\n"


def test_ffmpeg_records_a_display(box, display):
    needs("ffmpeg")
    box.run(f"timeout 80 ffmpeg -v error -y -f x11grab -framerate 10 -video_size 640x480 -i {display} -frames:v 10 -c:v libx264 "
            "-preset ultrafast -pix_fmt yuv420p /tmp/screen.mp4", timeout=90)
    assert box.run("ffprobe -v error -count_frames -show_entries stream=width,height,nb_read_frames -of csv=p=0 /tmp/screen.mp4") \
        == "640,480,10\n"


def test_ffmpeg_encodes(box):
    needs("ffmpeg")
    box.run("timeout 80 ffmpeg -v error -y -f lavfi -i testsrc=size=320x240:rate=10:duration=1 -f lavfi -i sine=duration=1 "
            "-c:v libx264 -preset ultrafast -pix_fmt yuv420p -c:a aac /tmp/test.mp4", timeout=90)
    assert sorted(box.run("ffprobe -v error -show_entries stream=codec_name -of csv=p=0 /tmp/test.mp4").split()) == ["aac", "h264"]


def test_sudo(box):
    needs("sudo")
    assert box.run("id -un; sudo -n id -un; sudo -n -u nobody id -un; sudo -n sh -c 'echo x >/etc/made; cat /etc/made; rm /etc/made'") \
        == "gem\nroot\nnobody\nx\n"


# A package that runs a script when it is installed, in a repository of files.
REPOSITORY = r"""
rm -rf /tmp/repository; mkdir -p /tmp/repository/made/DEBIAN /tmp/repository/made/usr/bin; cd /tmp/repository
printf 'Package: made-here\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b.c>\nDescription: x\n' >made/DEBIAN/control
printf '#!/bin/sh\nid -un >/var/lib/made-here\n' >made/DEBIAN/postinst; chmod 755 made/DEBIAN/postinst
printf '#!/bin/sh\necho it is here\n' >made/usr/bin/made-here; chmod 755 made/usr/bin/made-here
dpkg-deb -b made made-here_1_all.deb >/dev/null
{ cat made/DEBIAN/control; printf 'Filename: ./made-here_1_all.deb\nSize: %s\nSHA256: %s\n' "$(stat -c %s made-here_1_all.deb)" \
  "$(sha256sum made-here_1_all.deb | cut -d ' ' -f 1)"; } >Packages
echo 'deb [trusted=yes] file:/tmp/repository ./' >/tmp/repository/list
"""


def test_apt_installs_and_removes(host):
    """As its own user _apt too, whom it fetches as."""
    needs("apt-get", "sudo")
    box = host.create()
    box.run(REPOSITORY)
    apt = "sudo -n apt-get -q -y -o Dir::Etc::sourcelist=/tmp/repository/list -o Dir::Etc::sourceparts=- "
    box.run(apt + "update && " + apt + "install made-here", timeout=90)
    assert box.run("made-here; cat /var/lib/made-here; apt-cache policy made-here | sed -n 's/ *Installed: //p'") == "it is here\nroot\n1\n"
    box.run(apt + "purge made-here && ! command -v made-here", timeout=90)
    box.delete()


def test_strace_of_a_child(box):
    needs("strace")
    assert "execve" in box.run("strace -f -o /tmp/strace -e trace=execve sh -c '/bin/true; exit 0'; cat /tmp/strace")


def test_gdb_runs_a_program(box):
    needs("gdb")
    text = box.run("HOME=/tmp timeout 80 gdb -nx -q -batch -ex 'set breakpoint pending on' -ex 'break write' -ex run -ex kill --args /bin/echo x "
                   "2>&1 </dev/null; true", timeout=90)
    assert "Breakpoint 1, " in text, text
