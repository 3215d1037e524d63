"""Recordings of the desktop: real videos, looked at with ffprobe and ffmpeg."""

import contextlib
import os
import re
import shutil
import signal
import stat
import threading
import time
from pathlib import Path

import pytest

import desktop
from desktop import BROWSER_NEEDED, NEEDED, options, run, tester  # noqa: F401
from files import open_tree, small_disk  # noqa: F401
from harness import Calls, eventually
from processes import ROOT_ONLY, comm, gone, together
from videos import frames, playable, probe, recordings, written  # noqa: F401

pytestmark = [NEEDED, pytest.mark.skipif(not shutil.which("ffprobe") or not shutil.which("display"),
                                         reason="NOT TESTED: no ffmpeg or no ImageMagick on this machine")]
display = Calls("/v1/display")
browser = Calls("/v1/browser")

RED, BLUE, BLACK = (200, 20, 20), (20, 20, 200), (0, 0, 0)
IDLE = {"status": "idle", "save_path": None, "duration": 0, "file_size_bytes": None}


def record(server, action, **more):
    """The data of an answer that says that it worked."""
    reply = display.reply(server, "record", action=action, **more)
    assert reply["success"], reply
    return reply["data"]


def refusal(server, action, **more):
    reply = display.reply(server, "record", action=action, **more)
    assert not reply["success"], reply
    return reply["message"], reply["data"]


def recorded(server, seconds):
    """Waits until that much more has been recorded."""
    until = record(server, "status")["duration"] + seconds
    assert eventually(lambda: record(server, "status")["duration"] >= until, seconds=60, pause=0.1)


def show(server, colour):
    """Fills the screen."""
    run(server, "display", "-window", "root", "ppm:-", input=b"P3 1 1 255 %d %d %d\n" % colour, check=False)


def film(server, seconds=0.4, **more):
    """A short recording; its path."""
    path = record(server, "start", **more)["save_path"]
    recorded(server, seconds)
    assert record(server, "stop")["save_path"] == path
    return Path(path)


@pytest.fixture(scope="module")
def server(tester, start_shared):  # noqa: F811
    server = start_shared(**options(tester))
    assert record(server, "status") == IDLE
    message, data = refusal(server, "stop")
    assert "no recording" in message and data == IDLE
    desktop.warm(server)
    film(server, save_path="first.mp4").unlink()
    server.at_rest()
    server.baseline = server.possessions()
    return server


@pytest.fixture(autouse=True)
def screen(request):
    if "server" in request.fixturenames:
        show(request.getfixturevalue("server"), RED)


@pytest.fixture
def there(tester, open_tree):  # noqa: F811
    """A directory of the sandbox user."""
    shutil.chown(open_tree, tester)
    return open_tree


# --- what is recorded ---------------------------------------------------------------------------


def test_a_recording_is_what_was_on_the_screen(server, tester, there):  # noqa: F811
    path = there / "new" / "folder" / "film.mp4"
    begun = record(server, "start", save_path=str(path), fps=10)
    assert begun["status"] == "recording" and begun["save_path"] == str(path)
    recorded(server, 1)
    show(server, BLUE)
    recorded(server, 1)
    going = record(server, "status")
    assert going["status"] == "recording" and going["file_size_bytes"] == path.stat().st_size > 1000
    done = record(server, "stop")
    assert done == {"status": "stopped", "save_path": str(path), "duration": done["duration"],
                    "file_size_bytes": path.stat().st_size}
    assert record(server, "status") == done == record(server, "stop")
    about, pictures = probe(path), frames(path)
    assert (about["width"], about["height"], about["pix_fmt"], about["r_frame_rate"]) == (1280, 1024, "yuv420p", "10/1")
    assert abs(about["seconds"] - done["duration"]) < 0.15 and done["duration"] > 2
    assert pictures[0].is_all(RED) and pictures[-1].is_all(BLUE)
    assert sum(one.is_all(RED) for one in pictures) > 1 < sum(one.is_all(BLUE) for one in pictures)
    assert path.owner() == path.parent.owner() == tester and path.stat().st_mode & stat.S_IRUSR


def test_time_passes_as_on_the_clock(server, there):
    path = there / "clock.mp4"
    began = time.monotonic()
    record(server, "start", save_path=str(path), fps=30)
    started = time.monotonic()
    recorded(server, 3)
    stopping = time.monotonic()
    record(server, "stop")
    assert stopping - started - 0.7 < probe(path)["seconds"] < time.monotonic() - began + 0.1


def test_defaults(server, recordings):  # noqa: F811
    path = film(server)
    assert re.fullmatch(r"/tmp/recordings/recording_\d{8}_\d{6}_\d{3}\.mp4", str(path))
    assert probe(path)["r_frame_rate"] == "5/1"
    other = film(server, save_path=None)
    assert other != path and frames(path) and frames(other)
    path.unlink()
    other.unlink()


def test_the_pointer_is_seen(server, there):
    browser.ask(server, "actions", action_type="MOVE_TO", x=640, y=512)
    pictures = frames(film(server, save_path=str(there / "pointer.mp4"), crf=10))
    around = [(x, y) for x in range(630, 660) for y in range(500, 540)]
    browser.ask(server, "actions", action_type="MOVE_TO", x=1, y=1)
    assert any(not pictures[-1].is_at(x, y, RED) for x, y in around) and pictures[-1].is_at(500, 400, RED)


def test_quality(server, there):
    """Lossless, the pixels are those of the screen, as far as 4:2:0 can have them; the worst is smaller."""
    noise = os.urandom(64 * 64 * 3)
    run(server, "display", "-window", "root", "ppm:-", input=b"P6 64 64 255\n" + noise, check=False)
    sizes = [film(server, save_path=str(there / f"{crf}.mp4"), crf=crf).stat().st_size for crf in (0, 28, 51)]
    assert sizes[0] > 1.2 * sizes[1] > 2 * sizes[2]
    assert frames(there / "0.mp4")


@pytest.mark.parametrize("size, gives", [
    ({"width": 640, "height": 512}, (640, 512)),
    ({"width": 641}, (642, 512)),
    ({"height": 300}, (376, 300)),
    ({"width": 99, "height": None}, (100, 80)),
    ({"width": 1280, "height": 1024}, (1280, 1024)),
    ({"width": 1, "height": 1}, (2, 2)),
    ({"width": 2000, "height": 1600}, (2000, 1600)),
])
def test_sizes(server, there, size, gives):
    pictures = frames(film(server, save_path=str(there / "size.mp4"), **size))
    assert (pictures[0].width, pictures[0].height) == gives
    assert pictures[-1].is_at(gives[0] // 2, gives[1] // 2, RED)
    assert gives == (2, 2) or pictures[-1].is_all(RED)


def test_another_shape_keeps_the_whole_screen(server, there):
    picture = frames(film(server, save_path=str(there / "square.mp4"), width=400, height=400))[-1]
    assert picture.is_at(200, 200, RED) and picture.is_at(5, 45, RED) and picture.is_at(395, 350, RED)
    assert picture.is_at(200, 10, BLACK) and picture.is_at(200, 390, BLACK)


def test_a_screen_with_odd_sides(start_server, tester, there):  # noqa: F811
    server = start_server(**options(tester, DISPLAY_WIDTH="1001", DISPLAY_HEIGHT="701"))
    desktop.warm(server)
    show(server, BLUE)
    picture = frames(film(server, save_path=str(there / "odd.mp4")))[-1]
    assert (picture.width, picture.height) == (1002, 702) and picture.is_at(990, 690, BLUE)
    server.stop()


# --- one at a time, and not for ever ------------------------------------------------------------


def test_one_at_a_time(server, there):
    path = str(there / "one.mp4")
    record(server, "start", save_path=path)
    message, data = refusal(server, "start", save_path=str(there / "two.mp4"))
    assert "in progress" in message and data["status"] == "recording" and data["save_path"] == path
    recorded(server, 0.4)
    assert record(server, "stop")["save_path"] == path
    assert frames(path) and not (there / "two.mp4").exists()


def test_many_callers_at_once(server, there):
    """One of those who start wins; all who stop learn of the same file."""
    replies = together(6, lambda i: display.reply(server, "record", action="start", save_path=str(there / f"{i}.mp4")))
    [won] = [reply for reply in replies if reply["success"]]
    paths = {reply["data"]["save_path"] for reply in replies}
    assert paths == {won["data"]["save_path"]}
    ends = together(6, lambda i: record(server, "stop"))
    assert all(end == ends[0] for end in ends) and frames(ends[0]["save_path"])
    assert [str(path) for path in there.iterdir()] == list(paths)


def test_it_ends_after_its_longest_duration(server, there):
    path = there / "short.mp4"
    record(server, "start", save_path=str(path), max_duration=1.5, fps=10)
    assert eventually(lambda: record(server, "status")["status"] == "stopped", seconds=60, pause=0.1)
    status = record(server, "status")
    assert 1 <= status["duration"] <= 1.65 and abs(probe(path)["seconds"] - status["duration"]) < 0.15
    assert record(server, "stop") == status
    assert frames(film(server, save_path=str(path)))


def test_a_recording_keeps_an_idle_desktop(start_server, tester, there):  # noqa: F811
    server = start_server(**options(tester, "--service-idle", "1"))
    path = there / "idle.mp4"
    record(server, "start", save_path=str(path), max_duration=4)
    time.sleep(3)  # nobody asks anything meanwhile: that would be a use
    done = record(server, "stop")
    assert done["duration"] > 2 and len(frames(path)) > 2
    assert eventually(lambda: not server.children(), seconds=60), "the desktop is not ended"
    server.stop()


@BROWSER_NEEDED
def test_a_recording_shows_the_browser_and_keeps_it(start_server, tester, there):  # noqa: F811
    page = there / "page.html"
    page.write_text("<body style='background: rgb(20, 20, 200)'>")
    server = start_server(**desktop.browser_options(tester, "--browser-profile", f"/home/{tester}/recorded",
                                                    "--service-idle", "1", HOMEPAGE=page.as_uri()))
    path = there / "browser.mp4"

    def seen():
        width, _, rgb = desktop.pixels(server, server.get("/v1/browser/screenshot").content)
        return rgb[(width * 700 + 640) * 3:][:3] == bytes(BLUE)

    assert eventually(seen)
    record(server, "start", save_path=str(path), width=640)
    time.sleep(4)  # nobody asks anything meanwhile: that would be a use
    assert desktop.browser_processes(server)
    record(server, "stop")
    pictures = frames(path)
    assert pictures[-1].is_at(320, 400, BLUE), "the page is not seen"
    assert eventually(lambda: not server.children(), seconds=60)
    server.stop()


@BROWSER_NEEDED
def test_a_recording_that_takes_long_to_start_keeps_the_browser(start_server, tester, there):  # noqa: F811
    slow = there / "ffmpeg"
    slow.write_text(f'#!/bin/sh\nsleep 4\nexec {shutil.which("ffmpeg")} "$@"\n')
    slow.chmod(0o755)
    server = start_server(**desktop.browser_options(tester, "--browser-profile", f"/home/{tester}/slow", "--service-idle", "1",
                                                    PATH=f"{there}:{os.environ['PATH']}"))
    record(server, "start", save_path=str(there / "slow.mp4"))
    assert desktop.browser_processes(server), "it was idle"
    record(server, "stop")
    server.stop()


# --- where it goes ------------------------------------------------------------------------------


def test_a_relative_path_is_in_the_workspace(server, tester):  # noqa: F811
    path = film(server, save_path="clips/film.mp4")
    assert path == Path(f"/home/{tester}/clips/film.mp4") and frames(path)
    shutil.rmtree(path.parent)


@pytest.mark.parametrize("name", ["a b.mp4", "%03d.mp4", "-y.mp4", "quote'\"\\.mp4", "line\nfeed.mp4", "ünï🎬.webm", "pipe:1",
                                  "http:x", "no-suffix"])
def test_odd_names(server, there, name):
    path = film(server, save_path=str(there / name))
    assert path == there / name and frames(path) and [one.name for one in there.iterdir()] == [name]


def test_a_file_is_replaced(server, there):
    path = there / "old.mp4"
    path.write_bytes(b"x" * 10_000_000)
    os.chmod(path, 0o666)
    assert frames(film(server, save_path=str(path))) and path.stat().st_size < 1_000_000


def test_a_link_is_followed(server, there):
    (there / "link.mp4").symlink_to(there / "target.mp4")
    film(server, save_path=str(there / "link.mp4"))
    assert (there / "link.mp4").is_symlink() and frames(there / "target.mp4")


@ROOT_ONLY
def test_places_that_cannot_be_written(server, there, tmp_path):
    """The user's rights count, not the server's; and what is there stays as it is."""
    kept = there / "kept"
    kept.write_text("root's")
    os.mkfifo(there / "fifo", 0o666)
    os.chmod(there / "fifo", 0o666)
    for path, why in ((kept, "Permission denied"), (tmp_path / "x.mp4", "Permission denied"), (there, "irectory"),
                      (there / "fifo", "FIFO"), ("/dev/null", "device"), ("/proc/self/x.mp4", ""), (kept / "x.mp4", "Not a directory"),
                      (there / ("n" * 300), "too long"), ("/etc/passwd", "Permission denied")):
        message, data = refusal(server, "start", save_path=str(path))
        assert why in message and data["status"] == "stopped", (path, message)
    assert kept.read_text() == "root's" and {one.name for one in there.iterdir()} == {"kept", "fifo"}


@ROOT_ONLY
def test_a_full_disk_ends_it(server, there):
    """What there was room for can be played."""
    run(server, "display", "-window", "root", "ppm:-", input=b"P6 512 512 255\n" + os.urandom(512 * 512 * 3), check=False)
    with small_disk(there, "3m"):
        path = there / "film.mp4"
        record(server, "start", save_path=str(path), crf=1, fps=5)
        assert eventually(lambda: record(server, "status")["status"] == "stopped", seconds=120, pause=0.1)
        reply = display.reply(server, "record", action="stop")
        assert "No space left" in reply["message"] and reply["data"]["file_size_bytes"] > 500_000
        assert playable(path)
        (there / "film.mp4").unlink()
    assert frames(film(server, save_path=str(there / "after.mp4")))


def test_values_that_cannot_be(server):
    for bad in ({"action": "pause"}, {"action": None}, {}, {"action": "start", "fps": 0}, {"action": "start", "fps": 31},
                {"action": "start", "fps": 1.5}, {"action": "start", "crf": -1}, {"action": "start", "crf": 52},
                {"action": "start", "max_duration": 0}, {"action": "start", "width": 0}, {"action": "start", "height": -2},
                {"action": "start", "width": 4097}, {"action": "start", "height": 1e9}, {"action": "start", "save_path": 7}):
        assert display.refused(server, "record", **bad)[0] == 422, bad
    assert record(server, "status")["status"] == "stopped"


# --- faults -------------------------------------------------------------------------------------


def process(server, name):
    def look():
        return next((pid for pid in server.children() if comm(pid).startswith(name)), None)
    found = eventually(look)
    assert found, f"no {name}"
    return found


def test_it_can_be_played_while_it_goes_on(server, there):
    path = there / "live.mp4"
    record(server, "start", save_path=str(path))
    written(path)
    (there / "copy.mp4").write_bytes(path.read_bytes())
    assert playable(there / "copy.mp4") > 4
    record(server, "stop")


def test_ffmpeg_is_killed(server, there):
    path = there / "killed.mp4"
    record(server, "start", save_path=str(path))
    written(path)
    os.kill(process(server, "ffmpeg"), signal.SIGKILL)
    assert eventually(lambda: record(server, "status")["status"] == "stopped")
    for action in ("status", "stop"):
        reply = display.reply(server, "record", action=action)
        assert "killed" in reply["message"] and reply["data"]["file_size_bytes"] == path.stat().st_size
    assert playable(path) > 4
    assert frames(film(server, save_path=str(path)))


def test_the_file_is_removed_meanwhile(server, there):
    path = there / "gone.mp4"
    record(server, "start", save_path=str(path))
    path.unlink()
    assert record(server, "status")["file_size_bytes"] is None
    assert record(server, "stop")["status"] == "stopped"


def test_the_desktop_is_killed(start_server, tester, there):  # noqa: F811
    server = start_server(**options(tester))
    desktop.warm(server)
    path = there / "killed.mp4"
    record(server, "start", save_path=str(path))
    written(path)
    os.kill(process(server, "X"), signal.SIGKILL)
    assert eventually(lambda: record(server, "status")["status"] == "stopped", seconds=60)
    assert frames(path)

    def again():
        reply = display.send(server, "record", action="start", save_path=str(there / "next.mp4"))
        return reply.status_code == 200 and reply.json()["success"]
    assert eventually(again, seconds=60)
    recorded(server, 0.4)
    record(server, "stop")
    assert frames(there / "next.mp4")
    server.stop()


def test_the_server_is_killed(start_server, tester, there):  # noqa: F811
    server = start_server(**options(tester))
    path = there / "killed.mp4"
    record(server, "start", save_path=str(path))
    written(path)
    ffmpeg = process(server, "ffmpeg")
    os.kill(server.pid, signal.SIGKILL)
    assert server.wait() == 128 + signal.SIGKILL
    assert gone(ffmpeg) and playable(path) > 4
    server.stop = lambda: None  # it did not end well, as it had to


def test_the_server_ends_in_order(start_server, tester, there):  # noqa: F811
    server = start_server(**options(tester))
    path = there / "ended.mp4"
    record(server, "start", save_path=str(path), fps=10)
    recorded(server, 1)
    server.stop()
    assert probe(path)["seconds"] > 1 and frames(path)


def test_the_screen_changes_its_size(start_server, tester, there):  # noqa: F811
    """A larger one goes on; of a smaller one there is no picture of that size any more: the file ends."""
    server = start_server(**options(tester))
    path = there / "size.mp4"
    record(server, "start", save_path=str(path))
    browser.ask(server, "config", resolution="1920x1080")
    recorded(server, 1)
    assert record(server, "status")["status"] == "recording"
    browser.ask(server, "config", resolution="800x600")
    eventually(lambda: record(server, "status")["status"] == "stopped", seconds=10)
    assert record(server, "stop")["status"] == "stopped" and frames(path)
    server.stop()


def test_without_ffmpeg(start_server, tester, tmp_path):  # noqa: F811
    """The error says what to install."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for folder in ("/usr/bin", "/bin"):
        for tool in Path(folder).iterdir():
            with contextlib.suppress(FileExistsError):
                if tool.name not in ("ffmpeg", "ffprobe"):
                    (tools / tool.name).symlink_to(tool)
    server = start_server(**options(tester, PATH=str(tools)))
    status, text = display.refused(server, "record", action="start")
    assert status == 503 and "install the package ffmpeg" in text
    assert record(server, "status")["status"] == "idle"
    server.stop()


def test_the_caller_leaves_meanwhile(server, there):
    """What he started is there for the next one."""
    path = there / "left.mp4"
    peer = server.begin("/v1/display/record", action="start", save_path=str(path))
    peer.close() if hasattr(peer, "close") else peer.reset()
    assert eventually(lambda: record(server, "status")["status"] != "recording" or path.exists())
    record(server, "stop")


def test_status_does_not_wait_for_a_start(server, there):
    done = []
    thread = threading.Thread(target=lambda: done.append(record(server, "start", save_path=str(there / "x.mp4"))))
    thread.start()
    while not done:
        assert record(server, "status")["status"] in ("stopped", "recording")
        time.sleep(0.01)
    thread.join()
    record(server, "stop")
