"""Jupyter's API of kernels and sessions, as notebooks call it: the kernels are the sessions of /v1/jupyter."""

import os
import signal

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from harness import LEAN, START_SECONDS, eventually
from kernels import error, execute, no_sessions, pid_of, sessions, text, value, warm  # noqa: F401
from notebooks import API, V1, Channels, kernel, kernels, notebooks, open_notebook

pytestmark = pytest.mark.server(env=LEAN, warm=warm)
BOTH = pytest.mark.parametrize("v1", [False, True], ids=["json", "v1"])


@BOTH
def test_one_kernel_for_rest_and_notebooks(server, v1):
    execute(server, "x = 41", session_id="one")
    with Channels(server, "one", v1) as client:
        assert client.ws.subprotocol == (V1 if v1 else None)
        assert client.info()["language_info"]["name"] == "python"
        assert client.value("y = x + 1; y") == "42"
        assert kernel(server, "one")["connections"] == 1
        assert value(execute(server, "y", session_id="one")) == "42"
        # The notebook hears what others run in its kernel.
        assert client.until("execute_result")[0]["content"]["data"]["text/plain"] == "42"
    assert sessions(server)["one"]["executions"] == 3


@BOTH
def test_buffers_pass_both_ways(server, v1):
    with Channels(server, start(server), v1) as client:
        client.run("from comm import create_comm\n"
                   "def opened(comm, message):\n"
                   "    comm.on_msg(lambda m: comm.send({'got': [bytes(b)[::-1].hex() for b in m['buffers']]}, "
                   "buffers=[bytes(b) + b'!' for b in m['buffers']]))\n"
                   "import ipykernel.comm; get_ipython().kernel.comm_manager.register_target('echo', opened)")
        client.send("comm_open", {"comm_id": "c", "target_name": "echo", "data": {}})
        client.send("comm_msg", {"comm_id": "c", "data": {}}, buffers=[b"\x00\x01\xff", b""])
        message, _ = client.until("comm_msg")
        assert message["content"]["data"] == {"got": ["ff0100", ""]}
        assert [bytes(each) for each in message["buffers"]] == [b"\x00\x01\xff!", b"!"]


def start(server, **body):
    answer = server.post(f"{API}/kernels", body)
    assert answer.status_code == 201, answer.text
    assert answer.headers["location"].endswith(f"{API}/kernels/{answer.json()['id']}")
    return answer.json()["id"]


def test_a_kernel_of_a_notebook_is_a_session(server):
    (server.home / "sub").mkdir(exist_ok=True)
    name = start(server, name="python3", path="sub/a.ipynb")
    assert name in sessions(server)
    assert value(execute(server, "import os; os.path.basename(os.getcwd())", session_id=name)) == "'sub'"
    assert [each["id"] for each in kernels(server)] == [name]
    assert server.request("DELETE", f"{API}/kernels/{name}").status_code == 204
    assert name not in sessions(server) and kernels(server) == []


def test_input_is_asked_of_the_client_whose_code_wants_it(server):
    execute(server, "1", session_id="asks")
    with Channels(server, "asks") as client, Channels(server, "asks", v1=True) as other:
        client.info()
        other.info()
        request = client.begin("name = input('who? ')")
        question, _ = client.until("input_request", request)
        assert question["content"]["prompt"] == "who? "
        client.send("input_reply", {"status": "ok", "value": "Ada"}, channel="stdin")
        assert client.end(request)[0]["status"] == "ok"
        assert value(execute(server, "name", session_id="asks")) == "'Ada'"
        assert error(execute(server, "input()", session_id="asks"))["ename"] == "StdinNotImplementedError"
        mark = other.run("'mark'", store_history=False)
        assert mark[0]["status"] == "ok"
        client.run("0")
        with pytest.raises(TimeoutError):  # nothing was asked of the other one, nor twice
            while other.next(0.2)["header"]["msg_type"] != "input_request":
                pass


def test_a_timeout_does_not_touch_the_cell_of_another_client(server):
    execute(server, "1", session_id="queue")
    with Channels(server, "queue") as client:
        client.info()
        request = client.begin("go = None\nwhile go is None:\n    try: go = open('go').read()\n"
                               "    except FileNotFoundError: pass\n'whole'")
        late = execute(server, "never = 1", timeout=1, session_id="queue")
        assert late["status"] == "timeout" and late["outputs"] == [] and "was not run" in late["message"]
        assert kernel(server, "queue")["execution_state"] == "busy"
        assert sessions(server)["queue"]["status"] == "busy"
        # Nor does a caller who leaves.
        with server.begin("/v1/jupyter/execute", code="never = 2", session_id="queue", timeout=300) as peer:
            assert eventually(lambda: sessions(server)["queue"]["executions"] == 4)
            peer.reset()
        assert execute(server, "never = 3", timeout=1, session_id="queue")["status"] == "timeout"
        (server.home / "go").write_text("now")
        reply, outputs = client.end(request)
        assert reply["status"] == "ok" and outputs[-1][1]["data"]["text/plain"] == "'whole'"
        assert value(execute(server, "'never' in globals()", session_id="queue")) == "False"
    (server.home / "go").unlink()


def test_a_timeout_interrupts_its_own_execution(server):
    execute(server, "1", session_id="own")
    with Channels(server, "own") as client:
        client.info()
        slow = execute(server, "import time\nprint('begun')\ntime.sleep(1000)", timeout=1, session_id="own")
        assert slow["status"] == "timeout" and text(slow) == "begun\n"
        assert error(slow)["ename"] == "KeyboardInterrupt"
        slow = execute(server, "import asyncio\nawait asyncio.sleep(1000)", timeout=1, session_id="own")
        assert slow["status"] == "timeout"
        assert client.value("1 + 1") == "2"


def test_a_kernel_of_another_language_waits_too(server):
    shell = {"session_id": "shell", "kernel_name": "bash"}
    execute(server, "x=5", **shell)
    with Channels(server, "shell", v1=True) as client:
        client.info()
        request = client.begin("while [ ! -e stop ]; do sleep 0.1; done; echo whole")
        assert execute(server, "touch never", timeout=1, **shell)["status"] == "timeout"
        (server.home / "stop").touch()
        reply, outputs = client.end(request)
        assert reply["status"] == "ok" and outputs[-1][1]["text"] == "whole\n"
        assert execute(server, "sleep 1000", timeout=1, **shell)["status"] == "timeout"
        assert text(execute(server, "echo $x; ls never 2>&1", **shell)).startswith("5\nls: ")
    (server.home / "stop").unlink()


def test_an_error_of_a_notebook_does_not_abort_what_waits(server):
    execute(server, "1", session_id="abort")
    with Channels(server, "abort") as client:
        client.info()
        request = client.begin("import os\nwhile not os.path.exists('fail'): pass\n1 / 0")
        with server.begin("/v1/jupyter/execute", code="kept = 'kept'; kept", session_id="abort", timeout=60) as peer:
            assert eventually(lambda: sessions(server)["abort"]["executions"] == 3)
            (server.home / "fail").touch()
            assert b"'kept'" in peer.answer("POST").body
        assert client.end(request)[0]["ename"] == "ZeroDivisionError"
    (server.home / "fail").unlink()


def test_interrupt_and_restart(server):
    execute(server, "x = 1", session_id="again")
    before = pid_of(server, "again")
    with Channels(server, "again") as client:
        client.info()
        request = client.begin("import time; print('begun', flush=True); time.sleep(1000)")
        client.until("stream", request)
        assert server.post(f"{API}/kernels/again/interrupt").status_code == 204
        assert client.end(request)[0]["ename"] == "KeyboardInterrupt"
        assert server.post(f"{API}/kernels/again/restart").json()["id"] == "again"
        assert client.until("status", execution_state="restarting")
        with pytest.raises(ConnectionClosed):
            client.next()
    assert pid_of(server, "again") != before
    with Channels(server, "again") as client:
        client.info()
        assert client.value("'x' in globals()") == "False"
    assert "restarted" in execute(server, "1", session_id="again")["message"]


def test_a_kernel_that_dies_comes_back_with_the_next_connection(server):
    execute(server, "1", session_id="dies")
    with Channels(server, "dies") as client:
        client.info()
        os.kill(pid_of(server, "dies"), signal.SIGKILL)
        assert client.until("status", execution_state="restarting")
    with Channels(server, "dies") as client:
        client.info()
        assert client.value("1 + 1") == "2"


def test_a_session_that_is_ended_is_dead(server):
    execute(server, "1", session_id="ended")
    with Channels(server, "ended") as client:
        client.info()
        assert server.request("DELETE", "/v1/jupyter/sessions/ended").status_code == 200
        assert client.until("status", execution_state="dead")
    with Channels(server, "none") as client:
        assert client.until("status", execution_state="dead")
        with pytest.raises(ConnectionClosed, match="no jupyter session 'none'"):
            client.next()


def test_notebooks_keep_their_kernels(server):
    execute(server, "x = 1", session_id="rest")
    first = open_notebook(server, "a.ipynb", id="rest")
    assert first["kernel"]["id"] == "rest" and first["notebook"]["path"] == "a.ipynb"
    assert open_notebook(server, "a.ipynb", name="python3") == {**first, "kernel": kernel(server, "rest")}
    second = open_notebook(server, "b.ipynb", name="python3")
    assert second["kernel"]["id"] != "rest" and len(notebooks(server)) == 2
    moved = server.request("PATCH", f"{API}/sessions/{first['id']}", json={"path": "c/d.ipynb", "name": "d.ipynb"}).json()
    assert (moved["path"], moved["name"], moved["kernel"]["id"]) == ("c/d.ipynb", "d.ipynb", "rest")
    # Another kernel: the one that was started for it ends, and one of somebody else does not.
    changed = server.request("PATCH", f"{API}/sessions/{second['id']}", json={"kernel": {"id": "rest"}}).json()
    assert changed["kernel"]["id"] == "rest" and set(sessions(server)) == {"rest"}
    new = server.request("PATCH", f"{API}/sessions/{second['id']}", json={"kernel": {"name": "python3"}}).json()
    assert new["kernel"]["id"] != "rest" and set(sessions(server)) == {"rest", new["kernel"]["id"]}
    assert server.request("DELETE", f"{API}/sessions/{second['id']}").status_code == 204
    assert set(sessions(server)) == {"rest"} and len(notebooks(server)) == 1
    server.request("DELETE", "/v1/jupyter/sessions/rest")
    assert notebooks(server) == [] and server.get(f"{API}/sessions/{first['id']}").status_code == 404


def test_kernelspecs(server):
    specs = server.get(f"{API}/kernelspecs").json()
    python = specs["kernelspecs"][specs["default"]]
    assert python["spec"]["language"] == "python"
    assert python["resources"]["logo-64x64"].startswith("data:image/png;base64,iVBORw0KGgo")
    assert server.get(f"{API}/kernelspecs/{specs['default']}").json()["name"] == specs["default"]
    assert server.get(f"{API}/kernelspecs/none").status_code == 404


def test_wrong_requests(server):
    for method, path, status in (("POST", "kernels/none/interrupt", 404), ("POST", "kernels/none/restart", 404),
                                 ("GET", "kernels/none", 404), ("DELETE", "kernels/none", 404),
                                 ("GET", "sessions/none", 404), ("PATCH", "sessions/none", 404),
                                 ("POST", "sessions", 400), ("GET", "kernels/none/what/ever", 404)):
        body = {"json": {}} if method in ("POST", "PATCH") else {}
        assert server.request(method, f"{API}/{path}", **body).status_code == status, (method, path)
    assert server.post(f"{API}/kernels", {"name": "cobol"}).status_code == 400
    assert server.post(f"{API}/sessions", {"path": "x.ipynb", "kernel": {"id": "none"}}).status_code == 404


def test_messages_that_are_wrong_are_left_out(server):
    name = start(server)
    for v1 in (False, True):
        with Channels(server, name, v1) as client:
            client.info()
            for junk in (b"", b"\xff" * 40, b"\x06" + b"\0" * 7 + b"\xff" * 48, bytes(200), b"\0\0\0\2\0\0\0\x0c\0\0\0\1"):
                client.ws.send(junk)
            for junk in ("", "{", "[]", "{}", '{"channel":"iopub"}', '{"channel":7}', '{"channel":"%s"}' % ("x" * 99)):
                client.ws.send(junk)
            client.send("execute_request", {"code": "1"}, channel="hb")
            assert client.value("6 * 7") == "42"


def test_a_page_that_leaves_does_not_stop_its_cell(server):
    execute(server, "1", session_id="leaves")
    with Channels(server, "leaves") as client:
        client.begin("import os, time\nwhile not os.path.exists('finish'): print('x', flush=True); time.sleep(0.01)\ndone = True")
    assert eventually(lambda: kernel(server, "leaves")["connections"] == 0)
    assert kernel(server, "leaves")["execution_state"] == "busy"
    with Channels(server, "leaves"):
        pass
    assert kernel(server, "leaves")["execution_state"] == "busy"
    (server.home / "finish").touch()
    assert eventually(lambda: kernel(server, "leaves")["execution_state"] == "idle")
    assert value(execute(server, "done", session_id="leaves")) == "True"
    (server.home / "finish").unlink()


def test_a_flood_of_output_is_cut(server):
    name = start(server)
    with Channels(server, name) as client:
        client.info()
        reply, outputs = client.run("for i in range(60): print('x' * (1 << 20), flush=True)")
        said = "".join(content["text"] for kind, content in outputs if kind == "stream")
        assert reply["status"] == "ok" and "left out" in said and len(said) < 58 << 20
        assert client.value("1") == "1"


def test_a_page_keeps_its_kernel_from_expiry(start_server):
    server = warm(start_server(env={**LEAN, "AIO_KERNEL_TIMEOUT": "1"}))
    execute(server, "x = 1", session_id="open")
    with Channels(server, "open") as client:
        client.info()
        execute(server, "1", session_id="idle")
        assert eventually(lambda: "idle" not in sessions(server))
        assert client.value("x") == "1"
    assert eventually(lambda: not sessions(server))


def test_disabled(start_server):
    server = start_server(env={"DISABLE_JUPYTER": "true"})
    for path in (f"{API}/kernels", f"{API}/sessions", f"{API}/kernelspecs", "/jupyter/lab"):
        answer = server.get(path)
        assert answer.status_code == 503 and "DISABLE_JUPYTER" in answer.text, path
    with Channels(server, "x") as client:
        assert client.until("status", execution_state="dead")


def test_who_may_connect(start_server):
    server = start_server(env={"SANDBOX_API_KEY": "secret"})
    key = {"X-AIO-API-Key": "secret"}
    for more in ({}, {"X-AIO-API-Key": "wrong"}, {**key, "Origin": "https://elsewhere.example"}):
        with pytest.raises(InvalidStatus) as refused, Channels(server, "none", additional_headers=more):
            pass
        assert refused.value.response.status_code in (401, 403)
    with Channels(server, "none", additional_headers=key) as client:
        assert client.until("status", execution_state="dead")
    ticket = server.post("/tickets", {"scope": "view"}, headers=key).json()["ticket"]
    for path in ("/jupyter/lab", f"{API}/kernels", "/jupyter", "/jupyter/api/contents"):
        assert server.get(path).status_code == 401
        assert server.get(f"{path}?ticket={ticket}").status_code == 403
    # A preflight is no way to have JupyterLab started.
    preflight = {"Origin": "https://elsewhere.example", "Access-Control-Request-Method": "GET"}
    assert server.request("OPTIONS", "/jupyter/lab", headers=preflight).status_code == 403
    assert "name=jupyter" not in server.log


def test_jupyterlab_stops_when_idle_and_comes_back(start_server):
    server = warm(start_server(env={**LEAN, "AIO_SERVICE_IDLE": "1"}))
    execute(server, "x = 41", session_id="stays")
    assert "jupyter-config-data" in server.get("/jupyter/lab", timeout=START_SECONDS).text
    assert eventually(lambda: "name=jupyter state=idle" in server.log, START_SECONDS)
    assert value(execute(server, "x + 1", session_id="stays")) == "42"
    assert "jupyter-config-data" in server.get("/jupyter/lab", timeout=START_SECONDS).text
    assert server.request("DELETE", "/v1/jupyter/sessions").status_code == 200
