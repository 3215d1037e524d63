"""Graphical programs of a box: the first one that looks for the display has the desktop started."""

import re
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest

from desktop import NEEDED
from harness import START_SECONDS, eventually

pytestmark = [NEEDED, pytest.mark.skipif(not shutil.which("xwininfo"), reason="NOT TESTED: there is no xwininfo")]

LOOK = "xwininfo -root"


@pytest.fixture
def fresh(host):
    box = host.create()
    yield box
    box.delete()


def look(box):
    """Exit code and words of a program that looks at the screen."""
    answer = box.request("POST", "/v1/bash/exec", json={"command": LOOK}, timeout=START_SECONDS).json()["data"]
    return answer["exit_code"], answer["stdout"] + answer["stderr"]


def has_focus(box):
    """Whether a window has it: the window manager has heard of that then. Before, there is no such property."""
    return re.search(r"window id # 0x[1-9a-f]", box.run("xprop -root _NET_ACTIVE_WINDOW"))


def sees(box, size="1280x1024"):
    code, words = look(box)
    return code == 0 and f"-geometry {size}+0+0" in words


def test_the_first_one_starts_the_desktop(fresh):
    assert fresh.count("[X]vnc") == 0
    assert sees(fresh)
    assert eventually(lambda: fresh.count("[X]vnc") == fresh.count("[o]penbox") == 1)
    assert fresh.request("GET", "/v1/browser/screenshot").content[:4] == b"\x89PNG"


def test_all_of_them_are_served(fresh):
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(lambda _: sees(fresh), range(8)))
    assert fresh.count("[X]vnc") == 1


def test_after_its_end_the_next_one_starts_it_again(fresh):
    assert sees(fresh)
    for _ in range(2):
        fresh.run("pid=$(pgrep -o '[X]vnc'); kill -9 $pid; while kill -0 $pid 2>/dev/null; do sleep .05; done")
        assert eventually(lambda: sees(fresh))


def test_a_window_has_the_focus(host):
    """That of the program which has the desktop started is there before the window manager."""
    fresh = host.create(env={"DISABLE_BROWSER": "true"})  # an action would show it
    fresh.begin("exec xterm -e 'read word; echo \"$word\" >~/typed'")
    assert eventually(lambda: "xterm" in fresh.run("xwininfo -root -tree") and has_focus(fresh))
    typed = fresh.request("POST", "/v1/browser/actions", json={"action_type": "TYPING", "text": "heard\n", "use_clipboard": False})
    assert typed.json()["success"], typed.text
    assert eventually(lambda: fresh.run("cat ~/typed || true") == "heard\n")
    fresh.delete()


def test_where_it_cannot_be_started_they_learn_it(host):
    """And do not wait for ever."""
    box = host.create(env={"PATH": "/usr/bin:/bin"})
    box.run("sudo sh -c 'mv /usr/bin/openbox /usr/bin/openbox.away; mv /usr/bin/Xtigervnc /usr/bin/Xvnc.away; rm -f /usr/bin/Xvnc /usr/local/bin/Xvnc'")
    code, words = look(box)
    assert code != 0 and "unable to open display" in words
    box.delete()


def test_a_socket_that_was_taken_away(fresh):
    fresh.run("rm /tmp/.X11-unix/X99")
    assert look(fresh)[0] != 0
    assert fresh.request("GET", "/v1/browser/screenshot", timeout=START_SECONDS).status_code == 200
    assert sees(fresh)
    fresh.run("rm -r /tmp/.X11-unix; pid=$(pgrep -o '[X]vnc'); kill -9 $pid; while kill -0 $pid 2>/dev/null; do sleep .05; done")
    assert eventually(lambda: fresh.request("GET", "/v1/browser/screenshot", timeout=START_SECONDS).status_code == 200)
    assert sees(fresh)


def test_a_hostile_socket_in_its_place(fresh):
    """Neither is it used for ours, nor does it hold up the server."""
    fresh.run("rm /tmp/.X11-unix/X99; ln -s /etc/passwd /tmp/.X11-unix/X99")
    fresh.run("true")
    answer = fresh.request("GET", "/v1/browser/screenshot", timeout=START_SECONDS)
    assert answer.status_code in (200, 503)
    assert fresh.request("GET", "/health").status_code == 200


def test_a_copy_starts_its_own(fresh):
    assert sees(fresh)
    copy = type(fresh)(fresh.host, fresh.call("POST", "/fork", json={}))
    assert copy.count("[X]vnc") == 0 and sees(copy) and sees(fresh)
    copy.delete()
