"""The desktop from outside: its picture, its mouse and keyboard, its size; compared with what real X clients draw and
see."""

import contextlib
import os
import re
import shutil
import signal
import struct
import subprocess
import threading
import time

import pytest

import x11
from desktop import NEEDED, access, options, pixels, run, server, tester, warm  # noqa: F401
from harness import START_SECONDS, Calls, Server, eventually

pytestmark = NEEDED
browser = Calls("/v1/browser")


def needs(*programs):
    missing = [name for name in programs if not shutil.which(name)]
    return pytest.mark.skipif(bool(missing), reason=f"NOT TESTED: no {' and no '.join(missing)} on this machine")


def screenshot(server, **query):  # noqa: F811
    response = server.get("/v1/browser/screenshot", params=query)
    assert response.status_code == 200, response.text
    return response


def act(server, kind, **more):  # noqa: F811
    reply = browser.reply(server, "actions", action_type=kind, **more)
    done = {"status": "success", "action_performed": kind}
    assert reply["success"] and reply["data"] == done and done.items() <= reply.items()


def tile(server, picture):  # noqa: F811
    """Fills the root window with a picture. `display` ends with 1 when it has."""
    run(server, "display", "-window", "root", "ppm:-", input=picture, check=False)


@pytest.fixture
def peer(server):  # noqa: F811
    """Our own X client."""
    with x11.Client(access(server)) as client:
        yield client


# --- the picture --------------------------------------------------------------------------------


@needs("import", "display")
def test_a_screenshot_is_what_is_on_the_screen(server):  # noqa: F811
    """Pixel by pixel what another X client reads."""
    tile(server, b"P3 2 1 255 18 171 159 240 10 119\n")
    response = screenshot(server)
    assert response.headers["content-type"] == "image/png"
    assert [response.headers[f"x-{what}"] for what in ("screen-width", "screen-height", "image-width", "image-height")] \
        == ["1280", "1024"] * 2
    width, height, rgb = pixels(server, response.content)
    assert (width, height) == (1280, 1024)
    assert {rgb[i:i + 3] for i in range(0, len(rgb), 3)} == {b"\x12\xab\x9f", b"\xf0\x0a\x77"}
    assert (width, height, rgb) == pixels(server, run(server, "import", "-window", "root", "png:-"))


@needs("import", "display")
def test_a_jpeg_is_nearly_that(server):  # noqa: F811
    tile(server, b"P3 1 1 255 18 171 159\n")
    for kind in ("jpg", "jpeg"):
        response = screenshot(server, format=kind, quality=90)
        assert response.headers["content-type"] == "image/jpeg" and response.content[:3] == b"\xff\xd8\xff"
    width, height, rgb = pixels(server, response.content)
    assert (width, height) == (1280, 1024)
    assert all(abs(a - b) <= 3 for a, b in zip(rgb[:3000], b"\x12\xab\x9f" * 1000))
    tile(server, b"P6 64 64 255\n" + os.urandom(64 * 64 * 3))
    sizes = [len(screenshot(server, format="jpeg", quality=quality).content) for quality in (0, 50, 100)]
    assert sizes == sorted(sizes) and sizes[0] < sizes[2] / 4


def test_other_formats_and_qualities_are_refused(server):  # noqa: F811
    for query in ({"format": "bmp"}, {"quality": 101}, {"quality": -1}, {"quality": "best"}):
        assert server.get("/v1/browser/screenshot", params=query).status_code == 422


# --- the size -----------------------------------------------------------------------------------

RESOLUTIONS = ["640x480", "800x600", "1024x768", "1280x720", "1280x800", "1280x960", "1360x768", "1400x1050",
               "1600x1200", "1680x1050", "1920x1080", "1920x1200", "1280x1024"]


@needs("import", "display")
def test_the_screen_can_have_every_size_of_the_contract(server):  # noqa: F811
    for text in RESOLUTIONS:
        width, height = map(int, text.split("x"))
        size = {"width": width, "height": height}
        assert browser.ask(server, "config", resolution=text if width % 3 else size) == size
        tile(server, b"P3 1 1 255 %d 20 30\n" % (width % 200))
        response = screenshot(server)
        assert (response.headers["x-screen-width"], response.headers["x-screen-height"]) == (str(width), str(height))
        assert pixels(server, response.content) == (width, height, bytes((width % 200, 20, 30)) * width * height)
    assert pixels(server, screenshot(server).content) == pixels(server, run(server, "import", "-window", "root", "png:-"))


def test_no_other_size(server):  # noqa: F811
    for bad in ("641x480", "big", "1280x720x3", "", {"width": 1280}, {"width": 0, "height": 0}, 7, [1280, 720],
                {"width": 1e300, "height": 1}, {"width": "1280", "height": "720"}):
        status, text = browser.refused(server, "config", resolution=bad)
        assert status == 422 and all(one in text for one in RESOLUTIONS), bad
    assert browser.ask(server, "config") is None and browser.ask(server, "config", resolution=None) is None
    assert screenshot(server).headers["x-screen-width"] == "1280"


# --- the mouse ----------------------------------------------------------------------------------


def clicks(peer, count):
    """Presses and releases of a button, as the window saw them."""
    return peer.seen(x11.BUTTON_PRESS, x11.BUTTON_RELEASE, until=lambda found: len(found) == count)


def test_the_mouse(server, peer):  # noqa: F811
    x, y = peer.place(peer.window())
    at = x + 50, y + 60
    act(server, "MOVE_TO", x=at[0], y=at[1] + 0.3)
    act(server, "CLICK")
    assert clicks(peer, 2) == [(4, 1, *at), (5, 1, *at)]
    act(server, "CLICK", x=at[0] + 1, y=at[1] + 2, button="right", num_clicks=2)
    assert clicks(peer, 4) == [(4, 3, at[0] + 1, at[1] + 2), (5, 3, at[0] + 1, at[1] + 2)] * 2
    act(server, "MOVE_REL", x_offset=-1, y_offset=-2)
    act(server, "DOUBLE_CLICK", x=None)
    assert clicks(peer, 4) == [(4, 1, *at), (5, 1, *at)] * 2
    act(server, "RIGHT_CLICK", x=at[0], y=at[1])
    act(server, "CLICK", button="middle", num_clicks=3)
    assert [event[1] for event in clicks(peer, 8)] == [3] * 2 + [2] * 6
    act(server, "MOUSE_DOWN", button="right")
    act(server, "MOUSE_UP", button="right")
    assert [event[:2] for event in clicks(peer, 2)] == [(4, 3), (5, 3)]
    act(server, "SCROLL", dx=1, dy=-2)
    act(server, "SCROLL", dx=-1, dy=1)
    assert [event[1] for event in clicks(peer, 10)] == [5, 5, 5, 5, 7, 7, 4, 4, 6, 6]


def test_dragging(server, peer):  # noqa: F811
    """In steps, from where the pointer is; also where a client holds the button itself."""
    def dragged():
        found = peer.seen(x11.BUTTON_PRESS, x11.BUTTON_RELEASE, x11.MOTION, until=lambda all: all[-1][0] == 5)
        return [event for event in found if event[0] != x11.MOTION], [event[2:] for event in found if event[0] == x11.MOTION]

    x, y = peer.place(peer.window())
    act(server, "MOVE_TO", x=x + 10, y=y + 10)
    act(server, "DRAG_TO", x=x + 110, y=y + 60)
    ends, steps = dragged()
    assert ends == [(4, 1, x + 10, y + 10), (5, 1, x + 110, y + 60)] and len(steps) > 4
    act(server, "DRAG_REL", x_offset=-100, y_offset=-50)
    assert dragged()[0] == [(4, 1, x + 110, y + 60), (5, 1, x + 10, y + 10)]
    act(server, "MOUSE_DOWN")
    act(server, "DRAG_TO", x=x + 50, y=y + 50)
    act(server, "MOUSE_UP")
    assert dragged()[0] == [(4, 1, x + 10, y + 10), (5, 1, x + 50, y + 50)]


def test_places_that_are_not_on_the_screen(server):  # noqa: F811
    for place in ({"x": 1280, "y": 5}, {"x": 5, "y": 1024}, {"x": -1, "y": 5}, {"x": 1e300, "y": 5}):
        for kind in ("MOVE_TO", "CLICK", "DRAG_TO", "DOUBLE_CLICK"):
            status, text = browser.refused(server, "actions", action_type=kind, **place)
            assert status == 422 and "outside the screen of 1280x1024" in text
    act(server, "MOVE_REL", x_offset=-1e9, y_offset=1e300)  # which stops at its edge
    act(server, "MOVE_REL", x_offset=1, y_offset=-1)
    assert b"x: 1 y: 1022" in run(server, "xdotool", "getmouselocation").replace(b"x:", b"x: ").replace(b"y:", b"y: ") \
        if shutil.which("xdotool") else True


def test_actions_that_are_wrong(server):  # noqa: F811
    for wrong, said in (({}, "action_type"), ({"action_type": "JUMP"}, "MOVE_TO"), ({"action_type": "MOVE_TO"}, "missing"),
                        ({"action_type": "CLICK", "num_clicks": 4}, "num_clicks"),
                        ({"action_type": "CLICK", "button": "fourth"}, "button"),
                        ({"action_type": "TYPING", "text": ""}, "text"), ({"action_type": "HOTKEY", "keys": []}, "keys"),
                        ({"action_type": "PRESS", "key": "Entr"}, "did you mean 'enter'"),
                        ({"action_type": "HOTKEY", "keys": ["ctrl", "nokey"]}, "unknown key 'nokey'"),
                        ({"action_type": "WAIT", "duration": 0}, "duration")):
        status, text = browser.refused(server, "actions", **wrong)
        assert status == 422 and said in text, (wrong, text)


def test_waiting(server):  # noqa: F811
    """Holds up nobody else."""
    began = time.monotonic()
    waiting = threading.Thread(target=act, args=(server, "WAIT"), kwargs={"duration": 0.6})
    waiting.start()
    act(server, "MOVE_TO", x=1, y=1)
    waiting.join()
    assert time.monotonic() - began >= 0.6


# --- the keyboard -------------------------------------------------------------------------------


@contextlib.contextmanager
def xev(server, peer):  # noqa: F811
    """A window of xev; what it says of keys: (pressed, keysym, state)."""
    env = {"PATH": "/usr/bin:/bin", **access(server)}
    with subprocess.Popen(["stdbuf", "-oL", "xev", "-event", "keyboard", "-event", "focus"], env=env, text=True, errors="replace",
                          stdout=subprocess.PIPE) as process:
        lines = iter(process.stdout.readline, "")

        def keys(count):
            found = []
            while len(found) < count:
                line = next(lines)
                if line.startswith(("KeyPress", "KeyRelease")):
                    state, name = re.search(r"state (0x\w+),.*, (\S+)\), ", "".join((line, next(lines), next(lines)))
                                            .replace("\n", "")).groups()
                    found.append((line.startswith("KeyPress"), name, int(state, 16)))
            return found

        try:
            next(line for line in lines if line.startswith("FocusIn"))
            yield keys
        finally:
            process.kill()


@needs("xev", "stdbuf")
def test_keys_by_their_names(server, peer):  # noqa: F811
    with xev(server, peer) as keys:
        for names, keysym in ((("Enter", "Return", "return"), "Return"), (("Escape", "esc"), "Escape"),
                              (("ArrowLeft", "Left"), "Left"), (("pageup", "Page_Up", "PageUp"), "Prior"),
                              (("F5", "f5"), "F5"), (("BackSpace", "Backspace"), "BackSpace"), (("space", " "), "space"),
                              (("KeyA", "a"), "a"), (("Digit7", "7"), "7"), (("ContextMenu",), "Menu"),
                              (("cmd", "win", "Meta"), "Super_L"), (("minus", "-"), "minus"), (("é",), "eacute"),
                              (("あ",), "U3042"), (("F24",), "F24")):
            for name in names:
                act(server, "PRESS", key=name)
                assert [key[:2] for key in keys(2)] == [(True, keysym), (False, keysym)], name
        act(server, "PRESS", key="A")
        assert [key[:2] for key in keys(4)] == [(True, "Shift_L"), (True, "A"), (False, "A"), (False, "Shift_L")]
        for action in ({"action_type": "HOTKEY", "keys": ["ctrl", "Shift", "T"]}, {"action_type": "PRESS", "key": "ctrl+shift+t"}):
            act(server, action.pop("action_type"), **action)
            assert [key[:2] for key in keys(6)] == [(True, "Control_L"), (True, "Shift_L"), (True, "T"), (False, "T"),
                                                    (False, "Shift_L"), (False, "Control_L")]
        act(server, "KEY_DOWN", key="alt")
        act(server, "PRESS", key="x")
        act(server, "KEY_UP", key="alt")
        assert [(down, name) for down, name, state in keys(4)] == [(True, "Alt_L"), (True, "x"), (False, "x"), (False, "Alt_L")]


TEXT = "ASCII ~!@#$%^&*()_+{}|:\"<>?`-=[]\\;',./\nÄäÖöß €µ Ωω Жж שלום\ta tab 你好世界 こんにちは 한국어 😀👍🏽👩‍💻 e\u0301\nlast line\n"


@contextlib.contextmanager
def xterm(server, tmp_path):  # noqa: F811
    """The file that is written by what is typed into an xterm, after some empty lines: it takes keys by then."""
    path, env = tmp_path / "typed", {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", **access(server)}
    with subprocess.Popen(["xterm", "-e", f"stty -echo; read; cat >{path}"], env=env) as process:
        try:
            assert eventually(lambda: focused_program(server) == process.pid)
            assert eventually(lambda: act(server, "PRESS", key="Enter") or path.exists(), pause=0.3)
            yield path
        finally:
            process.kill()


@pytest.fixture
def terminal(server, tmp_path):  # noqa: F811
    with xterm(server, tmp_path) as path:
        yield path


def focused_program(server):  # noqa: F811
    """The process of the window that has the focus; 0: none has."""
    window = re.findall(rb"0x\w+", run(server, "xprop", "-root", "_NET_ACTIVE_WINDOW"))
    found = window and re.findall(rb"= (\d+)", run(server, "xprop", "-id", window[0], "_NET_WM_PID", check=False))
    return int(found[0]) if found else 0


@needs("xterm", "xprop")
@pytest.mark.parametrize("use_clipboard", [True, False])
def test_any_text_can_be_typed_into_a_terminal(server, terminal, use_clipboard):  # noqa: F811
    act(server, "TYPING", text=TEXT, use_clipboard=use_clipboard)
    assert eventually(lambda: terminal.read_text().lstrip() == TEXT), terminal.read_text()


@needs("xterm", "xprop")
@pytest.mark.parametrize("use_clipboard", [True, False])
def test_lines_that_end_as_on_other_systems(server, terminal, use_clipboard):  # noqa: F811
    act(server, "TYPING", text="one\r\nzwölf 你好\r\n\r\nlast\r\n", use_clipboard=use_clipboard)
    wanted = "one\nzwölf 你好\n\nlast\n"
    assert eventually(lambda: terminal.read_text().lstrip().endswith("last\n")) and terminal.read_text().lstrip() == wanted


@needs("xterm", "xprop")
def test_more_characters_than_there_are_spare_keys(server, terminal):  # noqa: F811
    text = "".join(chr(0x4e00 + i) + ("\n" if i % 40 == 39 else "") for i in range(400))
    act(server, "TYPING", text=text, use_clipboard=False)
    assert eventually(lambda: terminal.read_text().lstrip() == text), terminal.read_text()


@needs("xterm", "xprop", "setxkbmap")
@pytest.mark.parametrize("layout", ["de", "ru", "fr", "us,gr"])
def test_whatever_the_layout(server, tmp_path, layout):  # noqa: F811
    """Of the terminal that is started on it: one that runs already may miss keys just after a change."""
    run(server, "setxkbmap", layout)
    try:
        with xterm(server, tmp_path) as typed_text:
            for use_clipboard in (False, True):
                act(server, "TYPING", text=TEXT, use_clipboard=use_clipboard)
            assert eventually(lambda: typed_text.read_text().lstrip() == TEXT * 2, 15), typed_text.read_text()
    finally:
        run(server, "setxkbmap", "us")


@needs("xterm", "xprop")
def test_caps_lock_changes_nothing(server, terminal):  # noqa: F811
    act(server, "PRESS", key="CapsLock")
    act(server, "TYPING", text="Aa Bb Ää\n", use_clipboard=False)
    act(server, "PRESS", key="CapsLock")
    assert eventually(lambda: terminal.read_text().lstrip() == "Aa Bb Ää\n"), terminal.read_text()


# --- the clipboard ------------------------------------------------------------------------------


def typed(server, peer, window, text):  # noqa: F811
    """What the window of our own client pastes while a text is typed."""
    with_result = {}
    thread = threading.Thread(target=lambda: with_result.update(reply=browser.send(server, "actions", action_type="TYPING", text=text)))
    thread.start()
    pasted = peer.pasted(window)
    thread.join()
    assert with_result["reply"].status_code == 200, with_result["reply"].text
    return pasted.decode()


def test_a_text_is_pasted(server, peer):  # noqa: F811
    window = peer.window()
    assert typed(server, peer, window, TEXT) == TEXT
    assert eventually(lambda: peer.fetch(window) is None)


def test_a_long_text_is_pasted_in_pieces(server, peer):  # noqa: F811
    text = "".join(f"{i} 你好😀\n" for i in range(40000))
    assert typed(server, peer, peer.window(), text) == text


def test_the_clipboard_is_as_it_was_before(server, peer):  # noqa: F811
    window, before = peer.window(), "before: 你好 " * 50
    with x11.Client(access(server)) as other:
        owner = other.window(name="other", shown=False)
        other.own(owner, before.encode())
        answering = threading.Thread(target=other.serve)
        answering.start()
        assert typed(server, peer, window, "typed") == "typed"
        answering.join()
    assert eventually(lambda: peer.fetch(window) == before.encode())  # although its owner is gone
    assert typed(server, peer, window, "typed again") == "typed again"
    assert eventually(lambda: peer.fetch(window) == before.encode())


def test_those_who_leave_while_they_are_given_a_long_text_are_in_nobodys_way(server, peer):  # noqa: F811
    window, before = peer.window(), b"x" * 200_000
    with x11.Client(access(server)) as other:
        other.own(other.window(name="other", shown=False), before)
        answering = threading.Thread(target=other.serve)
        answering.start()
        assert typed(server, peer, window, "typed") == "typed"
        answering.join()
    assert eventually(lambda: peer.fetch(window) == before)
    for _ in range(10):
        with x11.Client(access(server)) as leaving:
            atoms = [leaving.atom(name) for name in ("CLIPBOARD", "UTF8_STRING", "PEER")]
            leaving.send(24, 0, struct.pack("<IIIII", leaving.window(shown=False), *atoms, 0))
            assert leaving.event(x11.NOTIFY)
    assert peer.fetch(window) == before


def test_who_does_not_paste_gets_keys(server, peer):  # noqa: F811
    """And never both: what is asked for late is not given."""
    window = peer.window()
    act(server, "TYPING", text="ab")
    pressed = [peer.event(x11.KEY_PRESS) for _ in range(4)]
    assert [data[28] & x11.CONTROL > 0 for data in pressed] == [False, True, False, False]
    assert peer.fetch(window) != b"ab"


# --- faults -------------------------------------------------------------------------------------


def process_of(name, server):  # noqa: F811
    """The number of the server's process of that program."""
    for pid in server.children():
        with contextlib.suppress(OSError):
            if os.path.basename(os.readlink(f"/proc/{pid}/exe")).startswith(name):
                return pid
    return None


def first_that_works(call):
    """A call fails clearly, and at once, or works; the second one does. What has killed the X server is said, once that is
    known."""
    for last in (False, True):
        began = time.monotonic()
        response = call()
        assert time.monotonic() - began < START_SECONDS / 2
        if response.status_code == 200:
            return response
        assert response.status_code == 503 and not last, response.text
        assert "X server" in response.text or "the desktop is unavailable: it was killed by SIGKILL" in response.text
    return None


@pytest.mark.parametrize("program", ["Xvnc", "Xtigervnc", "openbox"])
def test_a_part_that_is_killed_is_started_again(start_server, tester, program):  # noqa: F811
    server = start_server(**options(tester))  # noqa: F811
    browser.ask(server, "config", resolution="1024x768")
    for call in (lambda: server.get("/v1/browser/screenshot"), lambda: browser.send(server, "actions", action_type="MOVE_TO", x=1, y=1),
                 lambda: browser.send(server, "actions", action_type="TYPING", text="x", use_clipboard=False)):
        assert call().status_code == 200
        if pid := process_of(program, server):
            os.kill(pid, signal.SIGKILL)
            first_that_works(call)
            assert screenshot(server).headers["x-screen-width"] == "1024"
    server.stop()


def test_a_window_manager_that_is_killed_as_it_begins(start_server, tester):  # noqa: F811
    """Whoever waits for it learns that at once, and not when its time is over."""
    server, replies = start_server(**options(tester)), []  # noqa: F811

    def ask():
        began = time.monotonic()
        replies.append((server.get("/v1/browser/screenshot", timeout=START_SECONDS), time.monotonic() - began))

    asking = threading.Thread(target=ask)
    asking.start()
    os.kill(eventually(lambda: process_of("openbox", server), pause=0.001), signal.SIGKILL)
    asking.join()
    [(response, took)] = replies
    assert took < 15, "it was waited for"
    assert response.status_code == 200 or (response.status_code == 503 and "killed by SIGKILL" in response.text), response.text
    assert eventually(lambda: server.get("/v1/browser/screenshot").status_code == 200)
    server.stop()


def test_one_that_is_killed_in_the_middle(start_server, tester):  # noqa: F811
    server, replies, killed = start_server(**options(tester)), [], threading.Event()  # noqa: F811
    warm(server)

    def use():
        while not killed.is_set():
            replies.append(server.get("/v1/browser/screenshot", timeout=START_SECONDS))
            replies.append(browser.send(server, "actions", action_type="DRAG_REL", x_offset=5, y_offset=5))

    users = [threading.Thread(target=use) for _ in range(3)]
    for user in users:
        user.start()
    for _ in range(3):
        assert eventually(lambda: process_of("X", server))
        count = len(replies)
        with contextlib.suppress(ProcessLookupError, TypeError):
            os.kill(process_of("X", server), signal.SIGKILL)
        eventually(lambda: len(replies) > count + 3)
    killed.set()
    for user in users:
        user.join()
    assert {reply.status_code for reply in replies} <= {200, 503}
    # One that was killed while it started is not started again at once.
    assert eventually(lambda: server.get("/v1/browser/screenshot").status_code == 200)
    server.stop()


def test_what_a_dead_server_has_left_is_no_obstacle(start_server, tester):  # noqa: F811
    config = options(tester)
    number = config["env"]["AIO_DISPLAY"]
    with open(f"/tmp/.X{number}-lock", "w") as lock:
        lock.write(f"{os.getpid():10d}\n")
        shutil.chown(lock.name, tester)
    server = start_server(**config)  # noqa: F811
    assert screenshot(server).content[:4] == b"\x89PNG"
    server.stop()
    assert not os.path.exists(f"/tmp/.X{number}-lock")


def test_a_server_that_is_killed_takes_its_desktop_along(start_server, tester, tmp_path):  # noqa: F811
    """Also when its first stage is killed with it, which otherwise ends what it leaves."""
    config = options(tester)
    killed = Server("aio", config["args"], config["env"], tmp_path)
    assert screenshot(killed).status_code == 200
    programs = [process_of(name, killed) for name in ("X", "openbox")]
    for pid in (killed.proc.pid, killed.pid):
        os.kill(pid, signal.SIGKILL)
    killed.proc.wait()
    assert all(programs) and eventually(lambda: not [pid for pid in programs if os.path.exists(f"/proc/{pid}")])
    server = start_server(**config)
    assert screenshot(server).status_code == 200
    server.stop()


def test_the_display_of_another_is_not_taken(start_server, tester):  # noqa: F811
    config = options(tester)
    with x11.Hostile(config["env"]["AIO_DISPLAY"], lambda sock: sock.recv(1)):
        server = start_server(**config)  # noqa: F811
        response = server.get("/v1/browser/screenshot")
        assert response.status_code == 503 and f"another X server is display :{config['env']['AIO_DISPLAY']}" in response.text
        server.stop()


def garbage(sock):
    sock.recv(100)
    sock.sendall(os.urandom(1 << 16))


def refusal(sock):
    sock.recv(100)
    sock.sendall(b"\0\x0b\x0b\0\0\0\x03\0Go away\x1b[1m" + bytes(100))


def silence(sock):
    while sock.recv(1000):
        pass


def setup_that_is_cut(sock):
    sock.recv(100)
    sock.sendall(b"\1\0\x0b\0\0\0\xff\xff" + bytes(60))


@pytest.mark.parametrize("say", [garbage, refusal, silence, setup_that_is_cut])
def test_a_server_that_was_replaced_by_a_hostile_one(start_server, tester, say):  # noqa: F811
    """The socket of the X server is in a place that programs of the sandbox may change."""
    config = options(tester)
    server = start_server(**config)  # noqa: F811
    act(server, "MOVE_TO", x=1, y=1)
    path = f"/tmp/.X11-unix/X{config['env']['AIO_DISPLAY']}"
    os.rename(path, path + ".old")
    with x11.Hostile(config["env"]["AIO_DISPLAY"], say):
        os.kill(process_of("openbox", server), signal.SIGKILL)  # the next one is waited for on a new connection
        assert eventually(lambda: server.get("/v1/browser/screenshot", timeout=START_SECONDS).status_code == 503)
        server.check_health()
    os.rename(path + ".old", path)
    server.stop()


# --- programs -----------------------------------------------------------------------------------


@needs("xterm", "xprop")
def test_programs_of_commands_appear_on_the_desktop(server):  # noqa: F811
    session = server.post("/v1/bash/exec", {"command": "exec xterm -bg red", "async_mode": True}).json()["data"]
    assert eventually(lambda: b"\xff\0\0" * 50 in pixels(server, screenshot(server).content)[2])
    server.post("/v1/bash/kill", {"session_id": session["session_id"], "signal": "SIGKILL"})
    assert eventually(lambda: b"\xff\0\0" * 50 not in pixels(server, screenshot(server).content)[2])


@needs("xterm", "xwininfo")
def test_a_new_window_manager_gives_a_window_the_focus(start_server, tester):  # noqa: F811
    """Windows that are there before it are taken for those that have been there always, which do not get it."""
    server = start_server(**options(tester))  # noqa: F811
    warm(server)
    os.kill(process_of("openbox", server), signal.SIGKILL)
    typed = "exec xterm -e 'read word; echo \"$word\" >~/typed'"
    server.post("/v1/bash/exec", {"command": typed, "async_mode": True})
    assert eventually(lambda: b"xterm" in run(server, "xwininfo", "-root", "-tree"))
    first_that_works(lambda: server.get("/v1/browser/screenshot"))
    act(server, "TYPING", text="heard\n", use_clipboard=False)
    assert eventually(lambda: server.post("/v1/bash/exec", {"command": "cat ~/typed"}).json()["data"]["stdout"] == "heard\n")
    server.stop()


@pytest.mark.concurrency
def test_many_at_once(server):  # noqa: F811
    def use(what):
        for i in range(8):
            if what % 3 == 0:
                assert screenshot(server).content[:4] == b"\x89PNG"
            elif what % 3 == 1:
                act(server, "MOVE_TO", x=i, y=i)
            else:
                browser.ask(server, "config", resolution=("1280x1024", "800x600")[i % 2])

    failures = []

    def guarded(what):
        try:
            use(what)
        except BaseException as problem:
            failures.append(problem)

    users = [threading.Thread(target=guarded, args=(what,)) for what in range(6)]
    for user in users:
        user.start()
    for user in users:
        user.join()
    assert not failures
    browser.ask(server, "config", resolution="1280x1024")
