"""Servers with a desktop of their own. In a test file:

    from desktop import NEEDED, server, tester  # noqa: F401
    pytestmark = NEEDED

    server    one per module, with a display number, a DevTools port and a sandbox user (tester) that nobody else has;
              its desktop runs already, so that it belongs to the baseline of what may be held
    start     options(user) gives what start_server() and start_shared() want, for more such servers; those have no
              browser, which would cover the screen: browser_options(user) has"""

import contextlib
import json
import random
import re
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from harness import ANSWER_SECONDS, START_SECONDS, children_of, connect, eventually
from processes import tester  # noqa: F401

XVNC = next((path for path in ("/usr/bin/Xvnc", "/usr/bin/Xtigervnc") if Path(path).exists()), None)
MISSING = [name for name, path in (("Xvnc", XVNC), ("openbox", shutil.which("openbox"))) if not path]
NEEDED = pytest.mark.skipif(bool(MISSING), reason=f"NOT TESTED: no {' and no '.join(MISSING)} on this machine")


def free_display():
    """A number that no X server of this machine has, and hardly another test."""
    while True:
        number = random.randrange(1000, 60000)
        if not Path(f"/tmp/.X11-unix/X{number}").exists() and not Path(f"/tmp/.X{number}-lock").exists():
            return number


def free_port():
    """One that nobody listens on, below those that the kernel gives to whoever asks for any: until it is used, no other
    test may get it."""
    while True:
        port = random.randrange(12000, 32000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def environment(user, **more):
    home = f"/home/{user}"
    return {"AIO_DISPLAY": str(free_display()), "BROWSER_REMOTE_DEBUGGING_PORT": str(free_port()),
            "WORKSPACE": home, "HOME": home, "USER": user, **more}


def options(user, *args, **more):
    """The arguments and the environment of a server: start_server(**options(tester))."""
    return browser_options(user, *args, DISABLE_BROWSER="true", **more)


def browser_options(user, *args, **more):
    return {"args": ["--user", user, *args], "env": environment(user, **more)}


def warm(server):
    """Starts the desktop, and takes what that holds for granted from now on: two services, and our
    connections to X, one of which has a thread."""
    response = server.get("/v1/browser/screenshot", timeout=START_SECONDS)
    assert response.status_code == 200, response.text
    done = server.post("/v1/browser/actions", {"action_type": "MOVE_TO", "x": 0, "y": 0})
    assert done.status_code == 200, done.text
    server.at_rest()
    server.baseline = server.possessions()


@pytest.fixture(scope="module")
def server(tester, start_shared):  # noqa: F811  (the user outlives the server)
    server = start_shared(**options(tester))
    warm(server)
    return server


# --- programs on it -----------------------------------------------------------------------------


def access(server):
    """DISPLAY and XAUTHORITY, as every command of the server has them from the first on."""
    if hasattr(server, "access"):
        return server.access
    text = server.post("/v1/bash/exec", {"command": "echo $DISPLAY; echo $XAUTHORITY"}).json()["data"]["stdout"]
    display, authority = text.split()
    server.access = {"DISPLAY": display, "XAUTHORITY": authority}
    return server.access


def run(server, *command, check=True, **more):
    """Runs an X client of this machine on the desktop, beside the server; its output as bytes."""
    env = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", **access(server)}
    return subprocess.run(command, env=env, check=check, capture_output=True, timeout=60, **more).stdout


def pixels(server, picture):
    """Width, height and RGB bytes of a picture of any format, as ImageMagick reads it."""
    raw = run(server, "convert", "-", "-depth", "8", "ppm:-", input=picture)
    width, height = map(int, re.match(rb"P6\n(\d+) (\d+)\n255\n", raw).groups())
    return width, height, raw[-width * height * 3:]


# --- the browser on it --------------------------------------------------------------------------

CHROMIUM = next((path for path in ("/usr/lib/chromium/chromium", "/usr/lib64/chromium-browser/chromium-browser",
                                   "/opt/google/chrome/chrome") if Path(path).exists()), None)
BROWSER_NEEDED = pytest.mark.skipif(bool(MISSING) or not CHROMIUM,
                                    reason="NOT TESTED: no Xvnc, openbox or chromium on this machine")


def warm_browser(server):
    """Starts the browser with its desktop, and takes what they hold for granted from now on."""
    response = server.get("/v1/browser/info", timeout=START_SECONDS)
    assert response.status_code == 200, response.text
    assert eventually(lambda: server.get("/v1/browser/info").json()["data"]["page_viewport"], START_SECONDS)  # its page is there
    server.at_rest()
    server.baseline = server.possessions()


def browser_processes(server):
    """The browser's processes, by the type that Chromium gives them; its first one is "browser"."""
    found, below = {}, [(pid, False) for pid in children_of(server.pid)]
    while below:
        pid, within = below.pop()
        children, kind = children_of(pid), None
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            # Those that a zygote has made have one long word.
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").replace("\0", " ").split()
            if words and "chrom" in words[0]:
                kinds = [word.removeprefix("--type=") for word in words if word.startswith("--type=")]
                kind = kinds[0] if kinds else "browser"
        if kind and not (within and kind == "browser"):  # a fork of it has its name until it has one of its own
            found.setdefault(kind, []).append(pid)
        below += [(child, within or kind == "browser") for child in children]
    return found


class DevTools:
    """A client of the DevTools protocol: on a page, or with sessions on the whole browser."""

    def __init__(self, url, **more):
        self.opening = connect(url, max_size=None, **more)
        self.last, self.events = 0, []

    def __enter__(self):
        self.socket = self.opening.__enter__()
        return self

    def __exit__(self, *how):
        self.opening.__exit__(*how)

    def send(self, method, session=None, **params):
        self.last += 1
        message = {"id": self.last, "method": method, "params": params}
        self.socket.send(json.dumps({**message, **({"sessionId": session} if session else {})}))
        return self.last

    def call(self, method, session=None, **params):
        """The result; a refusal of the browser is an AssertionError."""
        number = self.send(method, session, **params)
        while True:
            message = json.loads(self.socket.recv(ANSWER_SECONDS))
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]
            if "method" in message:
                self.events.append(message)

    def evaluate(self, expression, session=None):
        """The value of JavaScript, as if a person had clicked for it."""
        answer = self.call("Runtime.evaluate", session, expression=expression, returnByValue=True, userGesture=True,
                           awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def look(self, expression):
        """evaluate() while the page may be on its way to another document: None where it did not tell."""
        try:
            return self.evaluate(expression)
        except AssertionError:
            return None

    def event(self, method):
        """The next event of that name."""
        while not (found := [event for event in self.events if event["method"] == method]):
            message = json.loads(self.socket.recv(ANSWER_SECONDS))
            if "method" in message:
                self.events.append(message)
        self.events.remove(found[0])
        return found[0]


def tabs(server):
    response = server.get("/v1/browser/tabs", timeout=START_SECONDS)
    assert response.status_code == 200, response.text
    return response.json()["data"]


def devtools(server, tab=None, **more):
    """A client of a tab, the active one by itself."""
    tab = tab or next(tab for tab in tabs(server) if tab["active"])
    return DevTools(f"ws://{server.host}:{server.port}/devtools/page/{tab['id']}", **more)
