"""Recordings of pages: real videos, whose pictures are compared with what the pages showed."""

import os
import re
import shutil
import signal
import time
from pathlib import Path

import pytest

import desktop
from contents import BROWSER, blank, browsing, show, site  # noqa: F401
from desktop import BROWSER_NEEDED, browser_processes, devtools, tabs, tester  # noqa: F401
from files import open_tree, small_disk  # noqa: F401
from harness import Calls, eventually
from processes import ROOT_ONLY, comm, gone, together
from videos import NEEDED, frames, playable, probe, recordings, written  # noqa: F401

pytestmark = [BROWSER_NEEDED, NEEDED]
PAGE = Calls("/v1/browser/page")
RED, GREEN, BLUE, BLACK = (255, 0, 0), (0, 128, 0), (0, 0, 255), (0, 0, 0)
SMALL = (64, 48)
IDLE = {"status": "idle", "save_path": None, "duration": 0, "file_size_bytes": None, "frames": 0, "width": None, "height": None,
        "fps": None, "reason": None}


def plain(colour):
    return f"<title>{colour}</title><body style='margin:0;background:{colour}'>"


def changing(*colours, ms=1000):
    """A page that shows them one after the other, once its begin() is called."""
    steps = "".join(f"setTimeout(() => document.body.style.background = '{colour}', {i * ms});" for i, colour in enumerate(colours))
    return f"{plain(colours[0])}<script>function begin() {{ {steps} }}</script>"


def record(server, action, **more):
    """The data of an answer that says that it worked."""
    reply = PAGE.reply(server, "record", action=action, **more)
    assert reply["success"], reply
    return reply["data"]


def refusal(server, action, **more):
    reply = PAGE.reply(server, "record", action=action, **more)
    assert not reply["success"], reply
    return reply["message"], reply["data"]


def recorded(server, seconds):
    """Waits until that much more has been recorded."""
    until = record(server, "status")["duration"] + seconds
    assert eventually(lambda: record(server, "status")["duration"] >= until, pause=0.1)


def ended(server):
    assert eventually(lambda: record(server, "status")["status"] == "stopped", pause=0.1)
    return PAGE.reply(server, "record", action="status")


def paint(server, colour):
    PAGE.ask(server, "evaluate", expression=f"void (document.body.style.background = '{colour}')")


def colours(path, *of):
    """The colours that a video has, in their order; another one than these fails."""
    found = []
    for picture in frames(path, SMALL):
        [colour] = [colour for colour in of if picture.is_all(colour)] or [picture.rgb[:3]]
        assert colour in of, colour
        if found[-1:] != [colour]:
            found.append(colour)
    return found


def process(server, name):
    found = eventually(lambda: next((pid for pid in server.children() if comm(pid).startswith(name)), None))
    assert found, f"no {name}"
    return found


def kill_browser(server):
    [pid] = browser_processes(server)["browser"]
    os.kill(pid, signal.SIGKILL)
    assert gone(pid)


@pytest.fixture
def there(tester, open_tree):  # noqa: F811
    """A directory of the sandbox user."""
    shutil.chown(open_tree, tester)
    return open_tree


@pytest.fixture
def own(tester, start_server):  # noqa: F811
    """A server whose browser may be killed."""
    server = start_server(**desktop.browser_options(tester, "--browser-profile", f"/home/{tester}/own"))
    desktop.warm_browser(server)
    yield server
    server.stop()


# --- what is recorded ---------------------------------------------------------------------------


def test_a_recording_is_what_the_page_has_shown(browsing, site, there, tester):  # noqa: F811
    path = there / "new" / "folder" / "film.mp4"
    show(browsing, site.add("/three", changing("red", "green", "blue", ms=1500)))
    with browsing.begin("/v1/browser/page/record", duration=8, save_path=str(path)) as peer:
        recorded(browsing, 0.2)
        PAGE.ask(browsing, "evaluate", expression="begin()")
        reply = peer.answer("POST").json()
    done, about = reply["data"], probe(path)
    assert reply["success"] and done == {
        "status": "stopped", "save_path": str(path), "duration": done["duration"], "file_size_bytes": path.stat().st_size, "frames": 120,
        "width": about["width"], "height": about["height"], "fps": 15, "reason": "its whole duration was recorded"}
    assert about["seconds"] == pytest.approx(8, abs=0.01) and done["duration"] == pytest.approx(8, abs=0.01)
    assert (about["pix_fmt"], about["r_frame_rate"]) == ("yuv420p", "15/1") and len(frames(path, SMALL)) == 120
    width, height = PAGE.ask(browsing, "evaluate", expression="[innerWidth, innerHeight]")
    assert about["width"] - width in (0, 1) and about["height"] - height in (0, 1)
    assert colours(path, RED, GREEN, BLUE) == [RED, GREEN, BLUE]
    shown = [picture.is_all(GREEN) for picture in frames(path, SMALL)]
    assert sum(shown) == pytest.approx(1.5 * 15, abs=12)
    assert path.owner() == path.parent.owner() == tester
    assert PAGE.reply(browsing, "record", action="status")["data"] == done


def test_from_start_to_stop(browsing, site, there):  # noqa: F811
    path = there / "film.mp4"
    show(browsing, site.add("/red", plain("red")))
    began = time.monotonic()
    begun = record(browsing, "start", save_path=str(path), fps=30, quality=100)
    assert begun["status"] == "recording" and begun["save_path"] == str(path) and begun["reason"] is None and begun["fps"] == 30
    started = time.monotonic()
    recorded(browsing, 1)
    paint(browsing, "blue")
    recorded(browsing, 2)
    stopping = time.monotonic()
    done = record(browsing, "stop")
    assert done["status"] == "stopped" and done["reason"] == "it was stopped" and done["file_size_bytes"] == path.stat().st_size
    assert stopping - started - 0.3 < probe(path)["seconds"] < time.monotonic() - began + 0.1
    assert probe(path)["seconds"] == pytest.approx(done["duration"], abs=0.02) and done["frames"] == round(done["duration"] * 30)
    assert colours(path, RED, BLUE) == [RED, BLUE]
    assert record(browsing, "status") == done == record(browsing, "stop")


def test_what_passes_in_a_pause_is_left_out(browsing, site, there):  # noqa: F811
    path = there / "film.mp4"
    show(browsing, site.add("/red", plain("red")))
    record(browsing, "start", save_path=str(path))
    recorded(browsing, 0.7)
    assert record(browsing, "pause")["status"] == "paused"
    began = time.monotonic()
    paint(browsing, "green")
    assert "paused already" in refusal(browsing, "pause")[0]
    eventually(lambda: time.monotonic() - began > 2.5, pause=0.1)
    before = record(browsing, "status")
    assert before["status"] == "paused"
    paint(browsing, "blue")
    away = time.monotonic() - began
    assert record(browsing, "resume")["status"] == "recording"
    assert "not paused" in refusal(browsing, "resume")[0]
    recorded(browsing, 0.7)
    whole = time.monotonic() - began
    done = record(browsing, "stop")
    assert colours(path, RED, GREEN, BLUE) == [RED, BLUE]
    assert before["duration"] < 2 and done["duration"] - before["duration"] < whole - away + 1.5
    assert probe(path)["seconds"] == pytest.approx(done["duration"], abs=0.02)


def test_a_recording_stopped_in_a_pause_ends_where_it_was_paused(browsing, site, there):  # noqa: F811
    path = there / "film.mp4"
    show(browsing, site.add("/red", plain("red")))
    record(browsing, "start", save_path=str(path))
    recorded(browsing, 0.4)
    record(browsing, "pause")
    paint(browsing, "green")
    record(browsing, "stop")
    assert colours(path, RED, GREEN) == [RED]


def test_it_follows_the_tab_to_other_pages(browsing, site, there):  # noqa: F811
    path = there / "film.mp4"
    show(browsing, site.add("/red", plain("red")))
    site.add("/green", plain("green"))
    record(browsing, "start", save_path=str(path))
    recorded(browsing, 0.5)
    show(browsing, site.url.replace("127.0.0.1", "localhost") + "/green")  # by another process
    recorded(browsing, 2)
    show(browsing, site.add("/blue", plain("blue")))
    recorded(browsing, 2)
    record(browsing, "stop")
    seen = [picture for picture in frames(path, SMALL)]
    assert seen[0].is_all(RED) and seen[-1].is_all(BLUE) and sum(picture.is_all(GREEN) for picture in seen) > 3


def test_what_a_busy_page_shows_at_rest_is_seen(browsing, site, there):  # noqa: F811
    """The browser leaves pictures out when there are many, and would not send the last one later."""
    show(browsing, site.add("/busy", plain("red") + """<script>
        let n = 0
        function step() {
            document.body.style.background = n++ < 150 ? `rgb(${n}, ${n * 7 % 256}, 90)` : 'blue'
            if (n < 152) requestAnimationFrame(step)
            else document.title = 'done'
        }
        setTimeout(step, 300)</script>"""))
    for fps in (30, 2):
        path = there / f"{fps}.mp4"
        PAGE.ask(browsing, "reload")
        record(browsing, "start", save_path=str(path), fps=fps)
        assert eventually(lambda: tabs(browsing)[0]["title"] == "done")
        recorded(browsing, 2.5)
        record(browsing, "stop")
        assert frames(path, SMALL)[-1].is_all(BLUE)


def test_the_page_becomes_smaller_and_larger(browsing, site, there):  # noqa: F811
    """The video keeps its size, with the whole page in it."""
    path = there / "film.mp4"
    show(browsing, site.add("/red", plain("red")))
    try:
        begun = record(browsing, "start", save_path=str(path))
        recorded(browsing, 0.5)
        for size in ("800x600", "1920x1080"):
            BROWSER.ask(browsing, "config", resolution=size)
            paint(browsing, "blue")
            recorded(browsing, 2.5)
        done = record(browsing, "stop")
    finally:
        BROWSER.ask(browsing, "config", resolution="1280x1024")
    about, seen = probe(path), frames(path, SMALL)
    assert (about["width"], about["height"]) == (begun["width"], begun["height"]) and about["seconds"] == pytest.approx(done["duration"], abs=0.1)
    assert seen[0].is_all(RED) and seen[-1].is_at(32, 24, BLUE) and seen[-1].is_at(2, 24, BLUE) and seen[-1].is_at(32, 2, BLACK)


def test_quality(browsing, site, there):  # noqa: F811
    noise = "".join(f"<i style='background:hsl({n * 37 % 360} {n * 13 % 100}% {n * 7 % 100}%)'></i>" for n in range(4000))
    show(browsing, site.add("/noise", f"<style>body {{margin:0}} i {{float:left;width:16px;height:16px}}</style>{noise}"))
    sizes = [record(browsing, "once", save_path=str(there / f"{quality}.mp4"), quality=quality, duration=0.5)["file_size_bytes"]
             for quality in (0, 80, 100)]
    assert sizes[0] * 1.3 < sizes[1] < sizes[2]
    assert all(len(frames(there / f"{quality}.mp4", SMALL)) == 8 for quality in (0, 80, 100))


@pytest.mark.parametrize("duration, fps, count", [(0.001, 15, 1), (1, 1, 1), (2, 1, 2), (1, 7, 7), (0.5, 30, 15)])
def test_short_ones_and_slow_ones(browsing, site, there, duration, fps, count):  # noqa: F811
    show(browsing, site.add("/red", plain("red")))
    done = record(browsing, "once", save_path=str(there / "film.mp4"), duration=duration, fps=fps)
    assert done["frames"] == count == len(frames(there / "film.mp4", SMALL))
    assert probe(there / "film.mp4")["seconds"] == pytest.approx(count / fps, abs=0.01)


def test_defaults(browsing, recordings):  # noqa: F811
    path = record(browsing, "start")["save_path"]
    assert re.fullmatch(r"/tmp/recordings/page_\d{8}_\d{6}_\d{3}\.mp4", path)
    recorded(browsing, 0.3)
    assert record(browsing, "stop")["fps"] == 15 and frames(path, SMALL)
    os.unlink(path)


def test_it_can_be_played_while_it_goes_on(browsing, site, there):  # noqa: F811
    path = there / "live.mp4"
    show(browsing, site.add("/red", plain("red")))
    record(browsing, "start", save_path=str(path))
    written(path)
    (there / "copy.mp4").write_bytes(path.read_bytes())
    assert playable(there / "copy.mp4") > 4
    record(browsing, "stop")


def test_where_it_goes(browsing, there, tester):  # noqa: F811
    home = Path(f"/home/{tester}")
    (home / "old.mp4").write_bytes(b"x" * 1_000_000)
    os.chmod(home / "old.mp4", 0o666)
    for name, path in (("old.mp4", home / "old.mp4"), (str(there / "a b%03d.webm"), there / "a b%03d.webm")):
        assert record(browsing, "once", save_path=name, duration=0.2)["save_path"] == str(path)
        assert frames(path, SMALL) and path.stat().st_size < 500_000


# --- one of each tab, and not too many ----------------------------------------------------------


def test_without_a_recording(own, there):
    assert record(own, "status") == IDLE
    for action in ("stop", "pause", "resume"):
        message, data = refusal(own, action)
        assert f"no recording of this tab to {action}: start one first" in message and data == IDLE
    record(own, "once", save_path=str(there / "film.mp4"), duration=0.1)
    for action in ("pause", "resume"):
        message, data = refusal(own, action)
        assert "has ended" in message and data["status"] == "stopped"
    own.at_rest()


def test_one_at_a_time(browsing, site, there):  # noqa: F811
    path = str(there / "one.mp4")
    record(browsing, "start", save_path=path)
    for action in ("start", "once"):
        message, data = refusal(browsing, action, save_path=str(there / "two.mp4"))
        assert "is being recorded" in message and path in message and (data["status"], data["save_path"]) == ("recording", path)
    recorded(browsing, 0.3)
    assert record(browsing, "stop")["save_path"] == path
    assert frames(path, SMALL) and not (there / "two.mp4").exists()


def test_many_callers_at_once(browsing, there):
    """One of those who start wins; all who stop learn of the same file."""
    replies = together(5, lambda i: PAGE.reply(browsing, "record", action="start", save_path=str(there / f"{i}.mp4")))
    [won] = [reply for reply in replies if reply["success"]]
    ends = together(5, lambda i: record(browsing, "stop"))
    assert all(end == ends[0] for end in ends) and ends[0]["save_path"] == won["data"]["save_path"]
    assert [str(path) for path in there.iterdir()] == [ends[0]["save_path"]] and frames(ends[0]["save_path"], SMALL)


def test_several_tabs_at_once(browsing, site, there):  # noqa: F811
    """Also those that are not in front; calls are about the tab that is active."""
    names = {"red": RED, "green": GREEN, "blue": BLUE, "black": BLACK}
    for i, name in enumerate(names):
        if i:
            BROWSER.ask(browsing, "tabs")
        show(browsing, site.add(f"/{name}", plain("#eee")))
        record(browsing, "start", save_path=str(there / name), fps=5)
    BROWSER.ask(browsing, "tabs")
    message, _ = refusal(browsing, "start", save_path=str(there / "fifth"))
    assert "4 tabs" in message and not (there / "fifth").exists()
    message, data = refusal(browsing, "stop")
    assert "Tab 0 is being recorded" in message and "/activate" in message and data == IDLE
    for i, name in enumerate(names):
        with devtools(browsing, tabs(browsing)[i]) as page:
            page.evaluate(f"document.body.style.background = '{name}'")
    for i, name in enumerate(names):
        assert browsing.request("PUT", f"/v1/browser/tabs/{i}/activate").status_code == 200
        recorded(browsing, 2)
        assert record(browsing, "stop")["save_path"] == str(there / name)
        again = PAGE.reply(browsing, "record", action="stop")
        assert again["data"]["save_path"] == str(there / name) and (i == 3 or f"Tab {i + 1} is being recorded" in again["message"])
    for name, colour in names.items():
        seen = frames(there / name, SMALL)
        assert seen[0].is_all((238, 238, 238)) and seen[-1].is_all(colour), name


def test_two_tabs_and_one_file(browsing, there):
    path = str(there / "one.mp4")
    record(browsing, "start", save_path=path)
    BROWSER.ask(browsing, "tabs")
    assert "another tab is being recorded to" in refusal(browsing, "start", save_path=path)[0]
    browsing.request("DELETE", "/v1/browser/tabs/1")
    assert record(browsing, "stop")["save_path"] == path


# --- what cannot be -----------------------------------------------------------------------------


def test_values_that_cannot_be(browsing, there):
    for bad in ({"action": "play"}, {"action": 7}, {"fps": 0}, {"fps": 31}, {"fps": 1.5}, {"quality": -1}, {"quality": 101}, {"duration": 0},
                {"duration": -1}, {"duration": 600.5}, {"duration": 1e300}, {"duration": "x"}, {"save_path": 7}, {"save_path": "a\0b"}):
        assert PAGE.refused(browsing, "record", **{"save_path": str(there / "x.mp4"), **bad})[0] == 422, bad
    assert not list(there.iterdir())


@ROOT_ONLY
def test_places_that_cannot_be_written(browsing, there, tmp_path):
    """The user's rights count, not the server's; and the browser's lease is given back."""
    for path, why in ((tmp_path / "x.mp4", "Permission denied"), (there, "irectory"), ("/dev/null", "device"), ("/proc/self/x.mp4", "")):
        message, data = refusal(browsing, "start", save_path=str(path))
        assert why in message and data["status"] in ("idle", "stopped")
    assert record(browsing, "once", save_path=str(there / "x.mp4"), duration=0.2)["frames"] == 3


@ROOT_ONLY
def test_a_full_disk_ends_it(browsing, site, there):  # noqa: F811
    show(browsing, site.add("/noise", """<body style=margin:0><canvas width=900 height=700></canvas><script>
        const canvas = document.querySelector('canvas').getContext('2d'), noise = canvas.createImageData(900, 700)
        function step() {
            for (let i = 0; i < noise.data.length; i += 65536) crypto.getRandomValues(noise.data.subarray(i, i + 65536))
            canvas.putImageData(noise, 0, 0); setTimeout(step, 100)
        }
        step()</script>"""))
    with small_disk(there, "3m"):
        record(browsing, "start", save_path=str(there / "film.mp4"), quality=100)
        reply = ended(browsing)
        assert "No space left" in reply["message"] and "No space left" in reply["data"]["reason"] and reply["data"]["file_size_bytes"] > 500_000
        assert playable(there / "film.mp4")
    assert record(browsing, "once", save_path=str(there / "after.mp4"), duration=0.3)["status"] == "stopped"


# --- what ends it -------------------------------------------------------------------------------


def test_the_tab_is_closed(browsing, site, there):  # noqa: F811
    """What was recorded is whole, and who asks learns why there is no more."""
    path = there / "film.mp4"
    BROWSER.ask(browsing, "tabs")
    show(browsing, site.add("/blue", plain("blue")))
    record(browsing, "start", save_path=str(path))
    recorded(browsing, 0.7)
    browsing.request("DELETE", "/v1/browser/tabs/1")
    reply = ended(browsing)
    assert reply["data"]["reason"] == "the tab was closed" and "ended early: the tab was closed" in reply["message"]
    assert reply["data"]["save_path"] == str(path) and record(browsing, "stop") == reply["data"]
    assert "has ended" in refusal(browsing, "pause")[0]
    assert colours(path, BLUE) == [BLUE] and probe(path)["seconds"] == pytest.approx(reply["data"]["duration"], abs=0.02)
    assert record(browsing, "once", save_path=str(path), duration=0.2)["frames"] == 3


def test_the_browser_is_killed(own, site, there):  # noqa: F811
    path = there / "film.mp4"
    show(own, site.add("/blue", plain("blue")))
    record(own, "start", save_path=str(path))
    recorded(own, 0.7)
    kill_browser(own)
    reply = ended(own)
    assert reply["data"]["reason"] == "the browser has ended" and reply["data"]["save_path"] == str(path)
    assert not browser_processes(own), "asking for the status starts no browser"
    assert colours(path, BLUE) == [BLUE] and probe(path)["seconds"] > 0.6
    assert record(own, "once", save_path=str(path), duration=0.3)["status"] == "stopped"


def test_the_browser_is_restarted(own, site, there):  # noqa: F811
    for mode, why in (("soft", "the browser was restarted softly"), ("hard", "the browser has ended")):
        path = there / f"{mode}.mp4"
        show(own, site.add("/blue", plain("blue")))
        record(own, "start", save_path=str(path))
        recorded(own, 0.5)
        BROWSER.ask(own, "restart", mode=mode)
        assert ended(own)["data"]["reason"] == why and colours(path, BLUE) == [BLUE]


def test_the_page_crashes(browsing, site, there):  # noqa: F811
    """The recording goes on, with what was seen last, and what is shown next."""
    path = there / "film.mp4"
    show(browsing, site.add("/red", plain("red")))
    record(browsing, "start", save_path=str(path))
    recorded(browsing, 0.5)
    for pid in browser_processes(browsing)["renderer"]:
        os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: "crashed" in browsing.get("/v1/browser/page/text").json()["message"])
    recorded(browsing, 0.5)
    PAGE.ask(browsing, "navigate", url=site.add("/blue", plain("blue")))
    recorded(browsing, 2)
    record(browsing, "stop")
    seen = frames(path, SMALL)
    assert seen[0].is_all(RED) and seen[-1].is_all(BLUE)


def test_ffmpeg_is_killed(browsing, there):
    for paused in (False, True):
        path = there / f"{paused}.mp4"
        record(browsing, "start", save_path=str(path))
        written(path)
        if paused:
            record(browsing, "pause")
        os.kill(process(browsing, "ffmpeg"), signal.SIGKILL)
        reply = ended(browsing)
        assert "killed by signal 9" in reply["data"]["reason"] and "killed" in reply["message"] and playable(path) > 4
    assert record(browsing, "once", save_path=str(path), duration=0.3)["status"] == "stopped"


def test_the_caller_of_once_leaves(browsing, there):
    path = there / "film.mp4"
    peer = browsing.begin("/v1/browser/page/record", action="once", duration=300, save_path=str(path))
    written(path, 1)
    peer.reset()
    assert ended(browsing)["data"]["duration"] < 60 and frames(path, SMALL)


def test_another_caller_stops_and_pauses_once(browsing, there):
    path = there / "film.mp4"
    peer = browsing.begin("/v1/browser/page/record", action="once", duration=300, save_path=str(path))
    written(path, 1)
    record(browsing, "pause")
    record(browsing, "resume")
    data = record(browsing, "stop")
    answer = peer.answer("POST")
    assert answer.status == 200 and answer.json()["data"] == data and frames(path, SMALL)
    peer.sock.close()


def test_the_server_ends_in_order(tester, start_server, there):  # noqa: F811
    server = start_server(**desktop.browser_options(tester, "--browser-profile", f"/home/{tester}/own"))
    path = there / "film.mp4"
    record(server, "start", save_path=str(path))
    recorded(server, 0.7)
    server.stop()
    assert probe(path)["seconds"] > 0.6 and frames(path, SMALL)


def test_the_server_is_killed(tester, start_server, there):  # noqa: F811
    server = start_server(**desktop.browser_options(tester, "--browser-profile", f"/home/{tester}/own"))
    path = there / "film.mp4"
    record(server, "start", save_path=str(path))
    written(path)
    ffmpeg = process(server, "ffmpeg")
    os.kill(server.pid, signal.SIGKILL)
    assert server.wait() == 128 + signal.SIGKILL
    assert gone(ffmpeg) and playable(path) > 4
    server.stop = lambda: None  # it did not end well, as it had to


# --- beside others ------------------------------------------------------------------------------


def test_an_idle_browser_is_kept_meanwhile(tester, start_server, there):  # noqa: F811
    server = start_server(**desktop.browser_options(tester, "--browser-profile", f"/home/{tester}/own", "--service-idle", "1"))
    path = there / "film.mp4"
    record(server, "start", save_path=str(path))
    written(path, 4)  # without a call: that would be a use
    assert browser_processes(server)
    record(server, "stop")
    assert eventually(lambda: not server.children()) and playable(path) > 40
    server.stop()


def test_a_client_with_a_screencast_of_its_own(browsing, site, there):  # noqa: F811
    """Neither notices the other."""
    show(browsing, site.add("/red", plain("red")))
    with devtools(browsing) as page:
        page.call("Page.enable")
        page.call("Page.startScreencast", format="jpeg", quality=30, maxWidth=300, maxHeight=300)
        page.call("Page.screencastFrameAck", sessionId=page.event("Page.screencastFrame")["params"]["sessionId"])
        record(browsing, "start", save_path=str(there / "film.mp4"))
        paint(browsing, "green")
        page.call("Page.screencastFrameAck", sessionId=page.event("Page.screencastFrame")["params"]["sessionId"])
        recorded(browsing, 2)
        record(browsing, "stop")
        paint(browsing, "blue")
        assert page.event("Page.screencastFrame")["params"]["metadata"]["deviceWidth"] > 300
        record(browsing, "start", save_path=str(there / "next.mp4"))
        page.call("Page.stopScreencast")
        paint(browsing, "red")
        recorded(browsing, 2)
        record(browsing, "stop")
    assert frames(there / "film.mp4", SMALL)[-1].is_all(GREEN) and colours(there / "next.mp4", BLUE, RED) == [BLUE, RED]


def test_playwright_drives_the_page_meanwhile(browsing, site, there):  # noqa: F811
    from playwright.sync_api import sync_playwright

    show(browsing, site.add("/red", plain("red")))
    record(browsing, "start", save_path=str(there / "film.mp4"))
    with sync_playwright() as playwright:
        browser = playwright.chromium.connect_over_cdp(browsing.url)
        page = browser.contexts[0].pages[0]
        page.goto(site.add("/blue", plain("blue")))
        assert page.screenshot()[:4] == b"\x89PNG" and page.title() == "blue"
        recorded(browsing, 2)
        browser.close()
    assert record(browsing, "stop")["reason"] == "it was stopped"
    seen = frames(there / "film.mp4", SMALL)
    assert seen[0].is_all(RED) and seen[-1].is_all(BLUE)


def test_a_dialog_of_the_page(browsing, site, there):  # noqa: F811
    """A page that waits for one is not recorded; one that opens meanwhile changes nothing."""
    path = there / "film.mp4"
    show(browsing, site.add("/red", plain("red")))
    record(browsing, "start", save_path=str(path))
    PAGE.ask(browsing, "evaluate", expression="void setTimeout(() => alert('wait'), 0)")
    assert eventually(lambda: "waits for its dialog" in browsing.get("/v1/browser/page/text").json()["message"])
    recorded(browsing, 0.5)
    record(browsing, "stop")
    assert colours(path, RED) == [RED]
    assert "dialog" in refusal(browsing, "start", save_path=str(path))[0]
    PAGE.ask(browsing, "dialog", action="accept")
    assert record(browsing, "once", save_path=str(path), duration=0.2)["frames"] == 3


def test_nothing_is_left_of_many(browsing, there):
    for i in range(20):
        record(browsing, "once", save_path=str(there / f"{i % 2}.mp4"), duration=0.1, fps=30)
    assert record(browsing, "status")["status"] == "stopped"
