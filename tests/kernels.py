"""Running code: what the tests of jupyter, code, contexts and nodejs share.

A module whose server keeps kernels sets pytestmark = pytest.mark.server(env=LEAN, warm=warm) and imports no_sessions.
"""

import os
import signal
from pathlib import Path

import pytest

from harness import START_SECONDS, Calls, children_of, eventually
from processes import below, gone

JUPYTER = Calls("/v1/jupyter", timeout=120)
NODEJS = "/v1/nodejs/sessions"


def execute(server, code, timeout=30, **more):
    """The data of the response to code in a kernel, with its message and hint."""
    reply = JUPYTER.reply(server, "execute", code=code, timeout=timeout, **more)
    assert reply["success"] is True
    return {**reply["data"], "message": reply["message"], "hint": reply["hint"]}


def refused(server, code="1", **more):
    return JUPYTER.refused(server, "execute", code=code, **more)


def text(data, name="stdout"):
    """All that it printed."""
    return "".join(out["text"] for out in data["outputs"] if out.get("name") == name)


def value(data):
    """The value of its last expression."""
    found = [out for out in data["outputs"] if out["output_type"] == "execute_result"]
    assert len(found) == 1, data
    return found[0]["data"]["text/plain"]


def error(data):
    found = [out for out in data["outputs"] if out["output_type"] == "error"]
    assert found, data
    return found[-1]


def hear(events, text):
    """Takes events until they have said that on stdout: it may come in pieces."""
    said = ""
    while said != text:
        name, data = events.next()
        said += data["text"]
        assert name == "stdout" and text.startswith(said), (name, said)


def sessions(server):
    return server.get("/v1/jupyter/sessions").json()["data"]["sessions"]


def pid_of(server, session_id):
    return sessions(server)[session_id]["pid"]


def fork_server(server):
    """The process that kernels are forked from; None where there is none."""
    for pid in children_of(server.pid):
        try:
            if b"forkserver.py" in Path(f"/proc/{pid}/cmdline").read_bytes():
                return pid
        except (FileNotFoundError, ProcessLookupError):
            pass
    return None


def threads(pid):
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except (FileNotFoundError, ProcessLookupError):
        return 0


def spares(server):
    """The kernels that wait for their first order: they have opened all their sockets."""
    parent = fork_server(server)
    busy = {session["pid"] for session in sessions(server).values()}
    return [pid for pid in children_of(parent) if pid not in busy and threads(pid) >= 6] if parent else []


def ready(server):
    """Waits until the next kernel is there, and no other one is left over."""
    assert eventually(lambda: len(spares(server)) == 1, START_SECONDS), (fork_server(server), sessions(server))


def kill(server, session_id):
    """Kills a kernel by hand, and waits until all its threads have ended and somebody has buried it."""
    pid = pid_of(server, session_id)
    os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: not os.path.exists(f"/proc/{pid}"))


def close_all(server):
    """Ends all sessions, and waits until their kernels have ended: a kernel that is ending looks like a ready one."""
    pids = {session["pid"] for session in sessions(server).values()} & below(server)
    assert server.request("DELETE", "/v1/jupyter/sessions").status_code == 200
    assert gone(*pids)


def warm(server):
    """The first kernel leaves ZeroMQ's threads, the fork server and a ready kernel for good."""
    execute(server, "1", session_id="warm")
    close_all(server)
    ready(server)
    server.at_rest()  # it has taken the ready kernel's descriptors
    server.baseline = server.possessions()
    return server


@pytest.fixture(autouse=True)
def no_sessions(server):
    """Ends the sessions of a test before conftest looks at what it left behind."""
    yield
    close_all(server)
    ready(server)


def node_sessions(server):
    return server.get(NODEJS).json()["data"]["sessions"]


def delete_node_session(server, session):
    response = server.request("DELETE", f"{NODEJS}/{session}")
    assert response.status_code == 200 and response.json()["data"] == {"deleted": True}, response.text


@pytest.fixture
def no_node_sessions(server):
    """The same for sessions of Node.js."""
    yield
    for session in node_sessions(server):
        delete_node_session(server, session)


BACKEND = """
import zipfile
def build_wheel(where, settings=None, metadata=None):
    with zipfile.ZipFile(f"{where}/NAME-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("NAME.py", "answer = 42")
        info = "NAME-1.0.dist-info"
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: NAME\\nVersion: 1.0\\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{info}/RECORD", "")
    return "NAME-1.0-py3-none-any.whl"
"""


def package(folder, name):
    """A package that pip can install without a network; its module has `answer`."""
    folder = folder / name
    folder.mkdir()
    (folder / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n')
    (folder / "backend.py").write_text(BACKEND.replace("NAME", name))
    return folder
