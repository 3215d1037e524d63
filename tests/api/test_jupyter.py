"""Code in Jupyter kernels: what it gives, how it fails, what stays, and what is left behind."""

import base64
import json
import os
import re
import struct
import subprocess
import time

import pytest

from harness import LEAN, ROOT, Events, eventually
from kernels import (close_all, error, execute, hear, kill, no_sessions, package, pid_of, refused,  # noqa: F401
                     sessions, text, value, warm)
from processes import alive, comm, gone, patience, patiently, together

EURO = "\u20ac"
PYTHON = ROOT / ".venv/bin/python"
pytestmark = pytest.mark.server(env=LEAN, warm=warm)


# --- results -----------------------------------------------------------------------------------


def test_value_and_shape_of_the_answer(server):
    got = execute(server, "print('a')\n6*7", session_id="s")
    assert got["status"] == "ok" and got["kernel_name"] == "python3" and got["session_id"] == "s"
    assert got["execution_count"] == 1 and got["code"] == "print('a')\n6*7" and got["msg_id"]
    assert got["outputs"] == [
        {"output_type": "stream", "name": "stdout", "text": "a\n"},
        {"output_type": "execute_result", "data": {"text/plain": "42"}, "metadata": {}, "execution_count": 1},
    ]
    assert execute(server, "_", session_id="s")["execution_count"] == 2


def test_official_sdk_understands(server):
    from agent_sandbox import Sandbox

    client = Sandbox(base_url=server.url, httpx_client=server.client)
    data = client.jupyter.execute_code(code="print(1)\n2", session_id="sdk").data
    assert data.outputs[0].text == "1\n" and data.outputs[1].data == {"text/plain": "2"}
    assert data.status == "ok" and data.session_id == "sdk"
    assert client.jupyter.execute_code(code="1/0", session_id="sdk").data.outputs[0].ename == "ZeroDivisionError"
    made = client.jupyter.create_session(session_id="sdk2").data
    assert (made.session_id, made.kernel_name) == ("sdk2", "python3")
    listed = client.jupyter.list_sessions().data.sessions
    assert set(listed) == {"sdk", "sdk2"} and listed["sdk"].kernel_name == "python3"
    info = client.jupyter.get_info().data
    assert info.active_sessions == 2 and "python3" in info.available_kernels
    assert info.session_timeout_seconds == 1800 and info.max_sessions == 64 and info.default_kernel == "python3"
    assert client.jupyter.delete_session("sdk").success
    assert set(client.jupyter.list_sessions().data.sessions) == {"sdk2"}
    assert client.jupyter.delete_sessions().success
    assert client.jupyter.list_sessions().data.sessions == {}


def test_state_stays_and_sessions_are_apart(server):
    execute(server, "x = 1\nimport math", session_id="a")
    execute(server, "x = 2", session_id="b")
    assert value(execute(server, "(x, math.pi > 3)", session_id="a")) == "(1, True)"
    assert error(execute(server, "(x, math)", session_id="b"))["ename"] == "NameError"
    assert pid_of(server, "a") != pid_of(server, "b")


def test_without_an_id_each_call_has_a_new_session(server):
    first, second = execute(server, "x = 1"), execute(server, "x")
    assert first["session_id"] and first["session_id"] != second["session_id"]
    assert error(second)["evalue"] == "name 'x' is not defined"
    assert value(execute(server, "x", session_id=first["session_id"])) == "1"


@pytest.mark.parametrize("id", ["ä ö/ü", "a" * 64, "..", "'\"\\ $(x)", "\u65e5\u672c"])
def test_any_id(server, id):
    assert execute(server, "x = 5", session_id=id)["session_id"] == id
    assert value(execute(server, "x", session_id=id)) == "5"


def test_streams_are_apart_and_in_order(server):
    got = execute(server, "import sys\nprint(1)\nprint(2, file=sys.stderr)\nprint(3)")
    assert text(got) == "1\n3\n" and text(got, "stderr") == "2\n"


def test_unicode_and_ansi_arrive_as_they_are(server):
    words = f"{EURO} \U0001f600 \u65e5\u672c \x1b[31mred\x1b[0m \x00 \x07"
    assert text(execute(server, f"print({words!r})")) == words + "\n"
    assert text(execute(server, r"print('\ud800'.encode('utf-8', 'replace'))")) == "b'?'\n"
    assert value(execute(server, f"{EURO!r}*3")) == f"'{EURO * 3}'"


def test_half_characters_are_replaced(server):
    got = execute(server, r"print('a\ud83db')" + "\n" + r"'c\udcffd'", session_id="half")
    assert text(got) == "a?b\n" and text(got, "stderr") == "" and got["status"] == "ok"
    assert text(execute(server, "print(1)", session_id="half")) == "1\n"


def test_progress_bar_leaves_its_last_state(server):
    got = execute(server, "import sys\nfor i in range(0, 101, 10):\n  sys.stderr.write(f'\\r{i}% done')\nprint()")
    assert text(got, "stderr") == "100% done"
    assert text(execute(server, "print('a\\r\\nb')")) == "a\r\nb\n"


def test_output_of_programs(server):
    assert text(execute(server, "import os; os.system('echo hello; echo oops >&2')")) == "hello\n"
    assert text(execute(server, "!echo from a shell")).split() == ["from", "a", "shell"]
    got = execute(server, "%%bash\necho out\necho err >&2")
    assert text(got) == "out\n" and text(got, "stderr") == "err\n"
    assert error(execute(server, "%%bash\nexit 3"))["ename"] == "CalledProcessError"


def test_exception_with_traceback(server):
    got = execute(server, "print('before')\ndef f():\n    return 1/0\nf()")
    assert got["status"] == "error" and text(got) == "before\n"
    assert error(got)["ename"] == "ZeroDivisionError" and error(got)["evalue"] == "division by zero"
    trace = "\n".join(error(got)["traceback"])
    assert "return" in trace and "ZeroDivisionError" in trace
    assert error(execute(server, "x = ("))["ename"] in ("SyntaxError", "_IncompleteInputError")
    assert value(execute(server, "1", session_id=got["session_id"])) == "1"


def test_async_cells(server):
    got = execute(server, "import asyncio\nawait asyncio.sleep(0.01)\nprint('awaited')\nasyncio.get_running_loop().is_running()")
    assert got["status"] == "ok" and text(got) == "awaited\n" and value(got) == "True"


def test_displays(server):
    got = execute(server, """
from IPython.display import *
display(HTML('<b>h</b>'), SVG('<svg xmlns="http://www.w3.org/2000/svg"/>'), Latex('$x$'), JSON({'a': [1]}), Markdown('*m*'))
""")
    shown = [out["data"] for out in got["outputs"]]
    assert all(out["output_type"] == "display_data" and "metadata" in out for out in got["outputs"])
    assert shown[0]["text/html"] == "<b>h</b>" and shown[1]["image/svg+xml"].startswith("<svg")
    assert shown[2]["text/latex"] == "$x$" and shown[3]["application/json"] == {"a": [1]}
    assert shown[4]["text/markdown"] == "*m*"
    assert not any("transient" in out for out in got["outputs"])


def test_displays_are_updated_and_cleared(server):
    got = execute(server, """
from IPython.display import display, clear_output
handle = display('one', display_id=True)
display('other')
handle.update('two')
""")
    assert [out["data"]["text/plain"] for out in got["outputs"]] == ["'two'", "'other'"]
    got = execute(server, "from IPython.display import clear_output\nprint('gone')\nclear_output()\nprint('kept')")
    assert text(got) == "kept\n"
    got = execute(server, "from IPython.display import clear_output\nprint('kept')\nclear_output(wait=True)")
    assert text(got) == "kept\n"
    got = execute(server, "from IPython.display import clear_output\nfor i in range(5):\n  clear_output(wait=True)\n  print(i)")
    assert text(got) == "4\n"


def test_help_is_shown(server):
    (shown,) = execute(server, "len?")["outputs"]
    assert "Return the number of items" in shown["data"]["text/plain"]


def test_plot_is_a_png_of_the_right_size(server):
    execute(server, "import matplotlib.pyplot", timeout=120)  # warns when its first list of fonts takes more than 5 s
    got = execute(server, "import matplotlib.pyplot as plt\nplt.figure(figsize=(4, 3), dpi=100)\nplt.axis('off')\nplt.plot([1, 2])\nplt.show()",
                  timeout=120)
    (shown,) = got["outputs"]
    assert shown["output_type"] == "display_data"
    png = base64.b64decode(shown["data"]["image/png"])
    width, height = struct.unpack(">II", png[16:24])
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert 250 <= width <= 400 and 200 <= height <= 300  # the inline backend cuts the margins off
    got = execute(server, "from IPython import get_ipython\nget_ipython().run_line_magic('config', \"InlineBackend.print_figure_kwargs={'bbox_inches': None}\")\n"
                  "plt.figure(figsize=(4, 3), dpi=100); plt.plot([1, 2]); plt.show()", session_id=got["session_id"])
    png = base64.b64decode(got["outputs"][-1]["data"]["image/png"])
    assert struct.unpack(">II", png[16:24]) == (400, 300)


def test_pandas_as_html(server):
    got = execute(server, "import pandas\npandas.DataFrame({'name': ['x'], 'n': [3]})", timeout=120)
    (shown,) = got["outputs"]
    assert "<th>name</th>" in shown["data"]["text/html"] and "name" in shown["data"]["text/plain"]


def test_packages_of_this_field_are_there(server):
    names = ["numpy", "requests", "markdownify", "sklearn", "fastapi"]
    got = execute(server, "".join(f"import {name}\n" for name in names) + "'all'", timeout=120)
    assert value(got) == "'all'", got["outputs"]


@pytest.mark.timeout(300)
def test_installed_packages_are_usable_at_once(server, tmp_path):
    """%pip, from local files: nothing is downloaded. The name is unique, as all runs share one interpreter."""
    name = f"aiotestpackage{os.getpid()}"
    folder = package(tmp_path, name)
    try:
        assert error(execute(server, f"import {name}", session_id="pip"))["ename"] == "ModuleNotFoundError"
        execute(server, f"%pip install --no-index --no-build-isolation --no-deps {folder}", 120, session_id="pip")
        assert value(execute(server, f"import {name}; {name}.answer", session_id="pip")) == "42"
    finally:
        execute(server, f"%pip uninstall -y {name}", 120, session_id="pip")


# --- too much, too long ------------------------------------------------------------------------


def test_much_output_is_bounded(server):
    before = server.memory()
    got = execute(server, "for i in range(100_000):\n    print(f'{i:>99}')", timeout=120)  # 10 MB
    out = text(got)
    assert got["status"] == "ok" and len(out) < 1_100_000
    assert out.startswith(" " * 98 + "0\n") and out.endswith("99999\n")
    left_out = int(re.search(r"\[… (\d+) bytes of output were left out …\]", out).group(1))
    assert 8_900_000 < left_out < 9_500_000
    assert server.memory() - before < 100 << 20
    assert value(execute(server, "1", session_id=got["session_id"])) == "1"


def test_one_huge_output_is_bounded(server):
    got = execute(server, "from IPython.display import HTML\nHTML('x' * 40_000_000)", timeout=120)
    assert "left out" in got["outputs"][0]["data"]["text/plain"]
    got = execute(server, "print('y' * 10_000_000)", timeout=120, session_id=got["session_id"])
    assert 900_000 < len(text(got)) < 1_100_000
    got = execute(server, "print('z' * 100_000_000)", timeout=120, session_id=got["session_id"])
    assert got["status"] == "ok" and len(json.dumps(got)) < 2_000_000  # longer than a message may be
    assert text(execute(server, "print(5)", session_id=got["session_id"])) == "5\n"


def test_many_outputs_are_bounded(server):
    got = execute(server, "for i in range(12000): display(i)", timeout=120)
    assert got["status"] == "ok" and 10_000 <= len(got["outputs"]) < 10_010
    assert "left out" in text(got, "stderr")


def test_endless_loop_is_interrupted_and_the_session_stays(server, tmp_path):
    said = tmp_path / "said"
    for seconds in patience(said.exists):
        execute(server, "x = 7", session_id="loop")
        begin = time.monotonic()
        got = execute(server, f"print('first', flush=True)\nopen('{said}', 'w').close()\nwhile True: pass",
                      timeout=seconds, session_id="loop")
        assert got["status"] == "timeout" and time.monotonic() - begin >= seconds
    assert text(got) == "first\n"
    assert error(got)["ename"] == "KeyboardInterrupt" and "timed out" in got["message"]
    assert value(execute(server, "x", session_id="loop")) == "7"


@pytest.mark.parametrize("code", ["import time; time.sleep(1000)", "!sleep 1000", "%%bash\nsleep 1000",
                                  "import asyncio; await asyncio.sleep(1000)"])
def test_waiting_is_interrupted(server, code):
    # A kernel that does not react within 4 s is ended: on a busy machine once, but not each time.
    for seconds in patience(lambda: "could not be interrupted" not in got["message"]):
        execute(server, "x = 3", session_id="wait")
        got = execute(server, code, timeout=seconds, session_id="wait")
        assert got["status"] == "timeout"
    assert value(execute(server, "x", session_id="wait")) == "3"


def test_code_that_takes_no_interrupt_ends_with_its_kernel(server, tmp_path):
    said = tmp_path / "said"
    for seconds in patience(said.exists):
        execute(server, "1", session_id="deaf")
        pid = pid_of(server, "deaf")
        got = execute(server, "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('on', flush=True)\n"
                      f"open('{said}', 'w').close()\nwhile True: pass", timeout=seconds, session_id="deaf")
    assert got["status"] == "timeout" and text(got) == "on\n" and gone(pid)
    assert error(got)["ename"] == "DeadKernelError" and "could not be interrupted" in got["message"]
    got = execute(server, "1", session_id="deaf")
    assert value(got) == "1" and "A new kernel was started" in got["message"]


def test_input_is_a_clear_error(server):
    for code in ("input('name? ')", "import getpass; getpass.getpass()"):
        assert error(execute(server, code))["ename"] == "StdinNotImplementedError"
    assert error(execute(server, "import sys; sys.stdin.readline()[0]"))["ename"] == "IndexError"


def test_a_caller_that_leaves_interrupts_its_code(server, tmp_path):
    execute(server, "1", session_id="left")
    code = f"open('{tmp_path}/begun', 'w').close()\nimport time\ntime.sleep(1000)"
    with server.begin("/v1/jupyter/execute", code=code, session_id="left", timeout=300) as peer:
        assert eventually((tmp_path / "begun").exists)
        peer.reset()
    assert value(execute(server, "4", session_id="left")) == "4"


def test_calls_of_one_session_take_turns(server):
    execute(server, "log = []", session_id="turns")
    together(8, lambda i: execute(server, f"log.append(({i}, 0))\nimport time; time.sleep(0.02)\nlog.append(({i}, 1))",
                                  session_id="turns"))
    log = eval(value(execute(server, "log", session_id="turns")))
    assert [a for a, _ in log[::2]] == [a for a, _ in log[1::2]] and len({a for a, _ in log}) == 8


def test_a_call_that_never_gets_its_turn(server, tmp_path):
    with Events(server, "/v1/jupyter/execute", code="print(1, flush=True)\nimport time; time.sleep(1000)", session_id="full") as events:
        assert events.next()[0] == "start" and events.next()[0] == "stdout"
        assert refused(server, session_id="full", timeout=1)[0] == 409


# --- kernels that die --------------------------------------------------------------------------


DEATHS = {
    "import os; os._exit(3)": "with exit code 3",
    "import os, signal; os.kill(os.getpid(), signal.SIGKILL)": "by signal 9",
    "import ctypes; ctypes.string_at(0)": "by signal 11",
}


@pytest.mark.parametrize("code", DEATHS)
def test_death_is_reported_and_the_next_call_gets_a_new_kernel(server, code):
    execute(server, "x = 1", session_id="dead")
    got = execute(server, code, session_id="dead")
    assert got["status"] == "error" and error(got)["ename"] == "DeadKernelError"
    assert DEATHS[code] in error(got)["evalue"] and DEATHS[code] in got["message"]
    got = execute(server, "'x' in globals()", session_id="dead")
    assert value(got) == "False" and DEATHS[code] in got["message"] and "new kernel" in got["message"]
    assert execute(server, "1", session_id="dead")["message"] == "Code executed"


def test_what_was_said_before_death_is_kept(server, tmp_path):
    code = f"""
import os, time
print('last words', flush=True)
while not os.path.exists('{tmp_path}/go'): time.sleep(0.01)
os._exit(1)
"""
    with Events(server, "/v1/jupyter/execute", code=code, session_id="words") as events:
        assert events.next()[0] == "start"
        hear(events, "last words\n")
        (tmp_path / "go").touch()
        rest = list(events)
    assert [name for name, _ in rest] == ["error", "end"] and rest[0][1]["ename"] == "DeadKernelError"
    assert rest[1][1]["status"] == "error" and "exit code 1" in rest[1][1]["notice"]


def test_killed_by_hand_while_idle(server):
    execute(server, "x = 1", session_id="idle")
    kill(server, "idle")
    got = execute(server, "2", session_id="idle")
    assert value(got) == "2" and "by signal 9" in got["message"] and "new kernel" in got["message"]


def test_exit_is_no_death_but_said(server):
    def leave(_):
        got = execute(server, "x = 1\nexit()", session_id="exit")
        assert got["status"] == "ok"
        return execute(server, "import time\ntime.sleep(0.5)\n'x' in globals()", session_id="exit")

    # A kernel that takes more than a second to exit is killed: on a busy machine once, but not each time.
    got = patiently(leave, lambda got: "exit code 0" in got["message"])
    assert value(got) == "False" and "exit code 0" in got["message"] and "new kernel" in got["message"]
    assert execute(server, "1", session_id="exit")["message"] == "Code executed"


def test_memory_that_runs_out(server):
    got = execute(server, "import resource\nresource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\nx = bytearray(2 << 30)",
                  session_id="oom")
    assert error(got)["ename"] == "MemoryError"
    assert value(execute(server, "1", session_id="oom")) == "1"


# --- where it runs -----------------------------------------------------------------------------


def test_directory(server, tmp_path):
    (tmp_path / "mine.py").write_text("answer = 6")
    got = execute(server, "import os, mine; print(os.getcwd(), mine.answer)", session_id="dir", cwd=str(tmp_path))
    assert text(got) == f"{tmp_path} 6\n"
    assert text(execute(server, "print(os.getcwd())", session_id="dir")) == f"{tmp_path}\n"
    other = tmp_path / "an \" other' \\ one"
    other.mkdir()
    got = execute(server, "print(os.getcwd())", session_id="dir", cwd=str(other))
    assert text(got) == f"{other}\n" and got["execution_count"] == 3
    assert text(execute(server, "import os; print(os.getcwd())", session_id="home")) == f"{server.home}\n"


@pytest.mark.parametrize("cwd, status", [("relative", 400), ("/no/such/place", 404), ("/etc/passwd", 400)])
def test_bad_directory(server, cwd, status):
    assert refused(server, cwd=cwd, session_id="bad")[0] == status
    assert "bad" not in sessions(server)


def test_environment_has_no_secrets(server):
    got = execute(server, "import os; print(sorted(os.environ))")
    assert "AIO_HOME" not in text(got) and "MPLBACKEND" in text(got) and "HOME" in text(got)


def test_bad_requests(server):
    for body in ({}, {"code": 1}, {"code": "1", "timeout": 0}, {"code": "1", "timeout": 301}, {"code": "1", "timeout": "x"},
                 {"code": "1", "session_id": "x" * 65}):
        assert server.post("/v1/jupyter/execute", body).status_code == 422, body
    status, message = refused(server, kernel_name="cobol")
    assert status == 400 and "cobol" in message and "python3" in message
    execute(server, "1", session_id="k")
    assert refused(server, session_id="k", kernel_name="python3.99")[0] == 409
    assert server.request("DELETE", "/v1/jupyter/sessions/none").status_code == 404
    assert sessions(server).keys() == {"k"}


def test_names_of_versions(server):
    version = value(execute(server, "import sys; '%d.%d' % sys.version_info[:2]")).strip("'")
    got = execute(server, "import sys; print('%d.%d' % sys.version_info[:2])", kernel_name=f"python{version}")
    assert text(got) == version + "\n" and got["kernel_name"] == f"python{version}"


def test_create_and_list(server, tmp_path):
    answer = server.post("/v1/jupyter/sessions/create", {"session_id": "made", "cwd": str(tmp_path)}).json()
    assert answer["data"] == {"session_id": "made", "kernel_name": "python3", "message": "Session created"}
    again = server.post("/v1/jupyter/sessions/create", {"session_id": "made"}).json()["data"]
    assert again["message"] != "Session created"
    assert text(execute(server, "import os; print(os.getcwd())", session_id="made")) == f"{tmp_path}\n"
    listed = sessions(server)["made"]
    assert abs(listed["last_used"] - time.time()) < 60 and 0 <= listed["age_seconds"] < 60
    assert listed["status"] == "idle" and alive(listed["pid"])
    assert server.post("/v1/jupyter/sessions/create", {}).json()["data"]["session_id"] in sessions(server)
    assert server.request("DELETE", "/v1/jupyter/sessions/made").json()["success"] is True
    assert gone(listed["pid"]) and "made" not in sessions(server)


def test_ending_a_session_ends_all_its_processes(server):
    got = execute(server, "import subprocess\na = subprocess.Popen(['sleep', '1000'])\n"
                  "b = subprocess.Popen(['setsid', 'env', '-i', 'sleep', '1000'])\nprint(a.pid, b.pid)", session_id="tree")
    pids = list(map(int, text(got).split())) + [pid_of(server, "tree")]
    assert eventually(lambda: list(map(comm, pids[:2])) == ["sleep"] * 2) and all(map(alive, pids))
    server.request("DELETE", "/v1/jupyter/sessions/tree")
    assert gone(*pids)


# --- as it happens -----------------------------------------------------------------------------


def test_events_come_as_they_happen(server, tmp_path):
    code = f"""
print('one', flush=True)
import os, sys, time
while not os.path.exists('{tmp_path}/go'): time.sleep(0.01)
print('two', file=sys.stderr)
display('shown')
1/0
"""
    with Events(server, "/v1/jupyter/execute", code=code, session_id="events") as events:
        assert events.head["content-type"].startswith("text/event-stream")
        assert events.next() == ("start", {"language": "python", "session_id": "events"})
        hear(events, "one\n")
        (tmp_path / "go").touch()
        rest = list(events)
    *errors, shown, error, end = rest
    assert {name for name, _ in errors} == {"stderr"} and "".join(data["text"] for _, data in errors) == "two\n"
    assert shown[0] == "result" and shown[1]["data"]["text/plain"] == "'shown'"
    assert error[0] == "error" and error[1]["ename"] == "ZeroDivisionError" and error[1]["traceback"]
    assert end[0] == "end" and end[1]["status"] == "error" and end[1]["execution_count"] == 1


def test_events_of_a_timeout(server, tmp_path):
    begun = tmp_path / "begun"
    for seconds in patience(begun.exists):  # code that has not begun ends without an error
        with Events(server, "/v1/jupyter/execute", code=f"open('{begun}', 'w').close()\nwhile True: pass",
                    timeout=seconds) as events:
            got = list(events)
    assert [name for name, _ in got] == ["start", "error", "end"] and got[-1][1]["status"] == "timeout"


def test_errors_before_the_events_have_a_status(server):
    with Events(server, "/v1/jupyter/execute", code="1", kernel_name="cobol") as events:
        assert events.head.status == 400


def test_a_listener_that_leaves_interrupts(server):
    with Events(server, "/v1/jupyter/execute", code="import time\nwhile True:\n  print('x' * 1000)\n  time.sleep(0.001)",
                session_id="leaves", timeout=300) as events:
        assert events.next()[0] == "start" and events.next()[0] == "stdout"
    assert value(execute(server, "8", session_id="leaves")) == "8"


# --- many, and others --------------------------------------------------------------------------


@pytest.mark.concurrency
def test_fifty_sessions_at_once(server):
    def one(i):
        assert value(execute(server, f"x = {i}\nx", session_id=f"many{i}")) == str(i)
        return value(execute(server, "x * 2", session_id=f"many{i}"))

    assert together(50, one) == [str(i * 2) for i in range(50)]
    assert len(sessions(server)) == 50
    assert len({session["pid"] for session in sessions(server).values()}) == 50


ATTACH = """
import sys
from jupyter_client import BlockingKernelClient
client = BlockingKernelClient(connection_file=sys.argv[1])
client.load_connection_file()
client.start_channels()
client.wait_for_ready(timeout=60)
client.execute_interactive("print(secret); shared = 'from outside'", timeout=60,
                           output_hook=lambda m: print(m["content"].get("text", ""), end=""))
"""


def test_jupyter_client_attaches_to_the_connection_file(server):
    execute(server, "secret = 'from inside'", session_id="attach")
    file = sessions(server)["attach"]["connection_file"]
    assert os.stat(file).st_mode & 0o077 == 0 and os.stat(os.path.dirname(file)).st_mode & 0o077 == 0
    done = subprocess.run([PYTHON, "-c", ATTACH, file], capture_output=True, text=True, timeout=110)
    assert done.stdout == "from inside\n", done.stderr
    assert value(execute(server, "shared", session_id="attach")) == "'from outside'"
    close_all(server)
    assert eventually(lambda: not os.path.exists(file))
