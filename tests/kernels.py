"""Asking for code to be run: for the tests of jupyter, code and contexts."""

import os
import signal
from pathlib import Path

from harness import START_SECONDS, children_of, eventually


def execute(server, code, timeout=30, **more):
    """What a kernel says to code: the data of the answer."""
    answer = server.post("/v1/jupyter/execute", {"code": code, "timeout": timeout, **more},
                         timeout=timeout + 90)
    assert answer.status_code == 200, answer.text
    assert answer.json()["success"] is True
    return {**answer.json()["data"], "message": answer.json()["message"], "hint": answer.json()["hint"]}


def refused(server, code="1", **more):
    """The status and text of an answer that is not 200."""
    answer = server.post("/v1/jupyter/execute", {"code": code, **more}, timeout=60)
    assert answer.status_code != 200, answer.text
    return answer.status_code, answer.text


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
    except FileNotFoundError:
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
    assert server.request("DELETE", "/v1/jupyter/sessions").status_code == 200


def warm(server):
    """After the first kernel there are ZeroMQ's threads, the fork server, and a ready kernel, for good."""
    execute(server, "1", session_id="warm")
    close_all(server)
    ready(server)
    server.baseline = server.possessions()
    return server


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
