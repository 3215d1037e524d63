"""Shells on a terminal: what the tests of /v1/shell share.

A module that uses them sets pytestmark = pytest.mark.server(warm=warm) and imports no_sessions.
"""

import os
import re
from urllib.parse import quote

import pytest

from harness import SETTLE_SECONDS, Calls, eventually

SHELL_PIPE = re.compile(r"(/tmp/aio-\w+/shell-\w+)/up")  # not one that is deleted

calls = Calls("/v1/shell")
post, ask, refused = calls.reply, calls.ask, calls.refused


def run(server, command, id=None, **more):
    return ask(server, "exec", command=command, **({"id": id} if id else {}), **more)


def output(server, command, id=None, **more):
    """Of a command that is to complete with code 0."""
    data = run(server, command, id, **more)
    assert (data["status"], data["exit_code"]) == ("completed", 0), data
    return data["output"]


def view(server, id):
    return ask(server, "view", id=id)


def write(server, id, text, press_enter=False):
    return ask(server, "write", id=id, input=text, press_enter=press_enter)


def wait(server, id, seconds=60):
    return ask(server, "wait", id=id, seconds=seconds)["status"]


def begun(server, command, id, says):
    """Starts a command, and returns as soon as its output begins with that."""
    run(server, command, id, async_mode=True)

    def said():
        *_, last = view(server, id)["console"] or [{"command": None}]
        return last["command"] == command and last["output"].startswith(says)

    assert eventually(said), view(server, id)


def shows(server, id, text, seconds=SETTLE_SECONDS):
    """Waits for the screen to show something."""
    assert eventually(lambda: text in view(server, id)["screen"], seconds), view(server, id)["screen"]
    return view(server, id)["screen"]


# Until go(): a key could be typed too early, and would then be seen in the output.
WAIT = "until rm go 2>/dev/null; do sleep 0.02; done"


def go(server):
    (server.home / "go").touch()


def sessions(server):
    return server.get("/v1/shell/sessions").json()["data"]["sessions"]


def delete(server, id):
    response = server.request("DELETE", f"/v1/shell/sessions/{quote(id, safe='')}")
    assert response.status_code == 200, response.text


def delete_all(server):
    assert server.request("DELETE", "/v1/shell/sessions").status_code == 200


def folders_of(server):
    """The folders of its shells. The server holds a pipe in each of them; a shell's own command line is empty for a
    moment after its start."""
    return {match.group(1) for match in map(SHELL_PIPE.fullmatch, server._links()) if match}


def folder_of(server):
    """That of the only shell there is, once those that were deleted before are gone."""
    assert eventually(lambda: len(folders_of(server)) == 1), folders_of(server)
    return folders_of(server).pop()


def no_shell_left(server):
    """What else is in the folder is the server's own: its socket for the sandbox's programs, and the files of the desktop and the editor."""
    own = {"api.sock", "desktop", "editor"}
    return all(name.partition("-")[0] in own for name in os.listdir(server.shell_folder))


def warm(server):
    """The pump starts with the first command and stays for good, and so does the folder in which shells have theirs."""
    session_id = run(server, "true")["session_id"]
    server.shell_folder = os.path.dirname(folder_of(server))
    delete(server, session_id)
    assert eventually(lambda: no_shell_left(server))
    server.take_baseline()
    return server


@pytest.fixture(autouse=True)
def no_sessions(server):
    """Deletes what a test opened before conftest looks at what it left behind."""
    yield
    delete_all(server)
    assert eventually(lambda: no_shell_left(server)), "a shell has left its folder"


@pytest.fixture
def start(start_server):
    """Starts a warm server for this test alone."""
    return lambda *args, **more: warm(start_server(*args, **more))


@pytest.fixture
def shell(server):
    """The id of a new session."""
    return ask(server, "sessions/create")["session_id"]
