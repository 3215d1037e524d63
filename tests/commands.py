"""Commands on pipes: what the tests of /v1/bash share.

A module that uses them sets pytestmark = pytest.mark.server(warm=warm) and imports no_sessions.
"""

from urllib.parse import quote

import pytest

from harness import Calls, eventually

calls = Calls("/v1/bash")
ask, refused = calls.ask, calls.refused


def run(server, command, **more):
    return ask(server, "exec", command=command, **more)


def read(server, command, **more):
    return ask(server, "output", session_id=command["session_id"], command_id=command["command_id"], **more)


def begun(server, command, says, **more):
    """Starts a command, and returns it as soon as it has printed exactly that."""
    data = run(server, command, async_mode=True, **more)
    assert eventually(lambda: read(server, data)["stdout"] == says), read(server, data)
    return data


def ended(server, command):
    """Waits for the end of a command: all it printed."""
    assert eventually(lambda: read(server, command)["command"]["status"] != "running")
    return read(server, command)


def sessions(server):
    return server.get("/v1/bash/sessions").json()["data"]


def close(server, session_id):
    response = server.post(f"/v1/bash/sessions/{quote(session_id, safe='')}/close")
    assert response.status_code == 200, response.text


def close_all(server):
    for session in sessions(server):
        close(server, session["session_id"])


def warm(server):
    """The pump starts with the first command and stays for good."""
    close(server, run(server, "true")["session_id"])
    server.take_baseline()
    return server


@pytest.fixture(autouse=True)
def no_sessions(server):
    """Closes what a test opened before conftest looks at what it left behind."""
    yield
    close_all(server)


@pytest.fixture
def start(start_server):
    """Starts a warm server for this test alone."""
    return lambda *args, **more: warm(start_server(*args, **more))
