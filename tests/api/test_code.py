"""Code of any language through one call: in a process of its own, in a session, as it happens."""

import base64
import json
import struct
import time

import pytest

from harness import LEAN, Calls, Events, request
from kernels import close_all, hear, no_node_sessions, no_sessions, sessions, warm  # noqa: F401
from processes import cpu_seconds, gone, patience, text_of, together

CODE = Calls("/v1/code", timeout=120)
pytestmark = pytest.mark.server(env=LEAN, warm=warm)


def run(server, code, language="python", **more):
    reply = CODE.reply(server, "execute", language=language, code=code, **more)
    return {**reply["data"], "message": reply["message"]}


def refused(server, code="1", language="python", **more):
    return CODE.refused(server, "execute", language=language, code=code, **more)


def languages(server):
    return {one["language"]: one for one in server.get("/v1/code/info").json()["data"]["languages"]}


# --- a process of its own ----------------------------------------------------------------------


def test_python(server):
    got = run(server, "import sys\nprint('out')\nprint('err', file=sys.stderr)\n1+1")
    assert got == {
        "language": "python", "status": "ok", "code": got["code"], "stdout": "out\n", "stderr": "err\n",
        "exit_code": 0, "traceback": None, "session_id": None, "outputs": got["outputs"], "message": "Code executed"}
    assert {(out["name"], out["text"]) for out in got["outputs"]} == {("stdout", "out\n"), ("stderr", "err\n")}
    assert not sessions(server)


def test_official_sdk_understands(server):
    from agent_sandbox import Sandbox

    client = Sandbox(base_url=server.url, httpx_client=server.client)
    got = client.code.execute_code(language="python", code="print(3)").data
    assert (got.status, got.stdout, got.exit_code) == ("ok", "3\n", 0) and got.outputs[0]["text"] == "3\n"
    got = client.code.execute_code(language="python", code="x = 4", stateful=True).data
    assert client.code.execute_code(language="python", code="print(x)", stateful=True,
                                    session_id=got.session_id).data.stdout == "4\n"


def test_python_runs_as_a_script_does(server, tmp_path):
    (tmp_path / "mine.py").write_text("answer = 6")
    code = "import os, mine, sys\nprint(__name__, os.getcwd(), mine.answer, len(sys.argv))"
    assert run(server, code, cwd=str(tmp_path))["stdout"] == f"__main__ {tmp_path} 6 1\n"
    assert run(server, "import os; print(os.getcwd())")["stdout"] == f"{server.home}\n"
    code = "from multiprocessing import Pool\ndef f(x): return x * x\nif __name__ == '__main__':\n  print(Pool(2).map(f, [1, 2, 3]))"
    assert run(server, code)["stdout"] == "[1, 4, 9]\n"


@pytest.mark.parametrize("last, name, value", [("Foo:", "Foo", ""), ("Foo", "Foo", ""), ("Foo:bar", "Foo", "bar")])
def test_what_looks_like_a_traceback(server, last, name, value):
    text = f"Traceback (most recent call last):\n{last}"
    got = run(server, f"import sys\nsys.stderr.write({text!r})\nsys.exit(1)")
    assert (got["outputs"][-1]["ename"], got["outputs"][-1]["evalue"]) == (name, value)


def test_python_error_with_traceback(server):
    got = run(server, "def f():\n    return 1/0\nf()")
    assert (got["status"], got["exit_code"]) == ("error", 1)
    assert got["traceback"][0] == "Traceback (most recent call last):"
    assert "    return 1/0" in got["traceback"] and got["traceback"][-1] == "ZeroDivisionError: division by zero"
    assert "script.py" not in got["stderr"]
    error = got["outputs"][-1]
    assert (error["output_type"], error["ename"], error["evalue"]) == ("error", "ZeroDivisionError", "division by zero")
    got = run(server, "x = (")
    assert got["exit_code"] == 1 and got["outputs"][-1]["ename"] == "SyntaxError"


@pytest.mark.parametrize("code, exit_code", [
    ("import sys; sys.exit(7)", 7), ("import os; os._exit(200)", 200),
    ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137), ("import sys; sys.exit('bye')", 1)])
def test_exit_code_is_the_true_one(server, code, exit_code):
    got = run(server, code)
    assert (got["status"], got["exit_code"]) == ("error", exit_code)


def test_nothing_can_be_read(server):
    assert run(server, "input()")["outputs"][-1]["ename"] == "EOFError"
    assert run(server, "read x; echo \"[$x]\"", "bash")["stdout"] == "[]\n"


def test_timeout_keeps_what_was_printed_and_ends_all(server, tmp_path):
    code = (f"import subprocess\nprint('begun')\np = subprocess.Popen(['sleep', '1000'])\n"
            f"open('{tmp_path}/pid', 'w').write(str(p.pid))\nopen('{tmp_path}/said', 'w').close()\nwhile True: pass")
    for seconds in patience((tmp_path / "said").exists):
        begin = time.monotonic()
        got = run(server, code, timeout=seconds)
        assert got["status"] == "timeout" and seconds <= time.monotonic() - begin < seconds + 20
    assert got["stdout"] == "begun\n" and gone(int(text_of(tmp_path / "pid")))


def test_what_is_left_running_is_ended(server, tmp_path):
    run(server, f"setsid sleep 1000 >/dev/null 2>&1 & echo $! >{tmp_path}/pid", "bash")
    assert gone(int(text_of(tmp_path / "pid")))


def test_a_caller_that_leaves_at_once_ends_the_program(server):
    body = json.dumps({"language": "python", "code": "import time\ntime.sleep(100)", "timeout": 120}).encode()
    head = {"Content-Type": "application/json", "Accept": "text/event-stream"}
    for _ in range(3):
        peer = server.connect()
        peer.send(request("/v1/code/execute", "POST", head, body)[:-1])
        assert server.at_rest()  # so that the end of the request comes with the end of the connection
        peer.send(body[-1:])
        peer.reset()
    # That nothing is left of it is looked at after each test.


def test_a_caller_that_leaves_ends_the_program(server, tmp_path):
    code = f"import os, time\nopen('{tmp_path}/pid', 'w').write(str(os.getpid()))\ntime.sleep(1000)"
    with server.begin("/v1/code/execute", language="python", code=code, timeout=300) as peer:
        pid = int(text_of(tmp_path / "pid"))
        peer.reset()
    assert gone(pid)


def test_a_program_that_waits_costs_the_server_nothing(server, tmp_path):
    code = f"import time\nopen('{tmp_path}/begun', 'w').write('x')\ntime.sleep(1000)"
    with server.begin("/v1/code/execute", language="python", code=code, timeout=300) as peer:
        text_of(tmp_path / "begun")
        before = cpu_seconds(server)
        time.sleep(2)
        assert cpu_seconds(server) - before < 0.5
        peer.reset()


def test_much_code_and_much_output(server):
    code = "x = '" + "y" * 3_000_000 + "'\nprint(len(x))"
    assert run(server, code)["stdout"] == "3000000\n"
    got = run(server, "for i in range(100_000): print(f'{i:>99}')")
    assert got["status"] == "ok" and len(got["stdout"]) < 1_200_000 and "left out" in got["stdout"]
    assert got["stdout"].endswith("99999\n")
    got = run(server, "import sys; sys.stdout.buffer.write(b'a\\xff\\xfe\\x00b')")
    assert got["stdout"] == "a\ufffd\ufffd\x00b"


PLOT = """
import matplotlib.pyplot as plt
plt.figure(figsize=(4, 3), dpi=100).add_axes([0, 0, 1, 1])
plt.show()
plt.figure(figsize=(2, 1), dpi=100).add_axes([0, 0, 1, 1])
"""


def test_figures_of_a_program(server):
    run(server, "import matplotlib.pyplot", timeout=120)  # warns when its first list of fonts takes more than 5 s
    got = run(server, PLOT + "print('done')", timeout=120)
    assert got["stdout"] == "done\n" and got["stderr"] == ""
    shown = [out["data"] for out in got["outputs"] if out["output_type"] == "display_data"]
    assert [one["text/plain"] for one in shown] == [f"<Figure size {size} with 1 Axes>" for size in ("400x300", "200x100")]
    pictures = [base64.b64decode(one["image/png"]) for one in shown]
    sizes = [struct.unpack(">II", one[16:24]) for one in pictures]
    assert all(one.startswith(b"\x89PNG") for one in pictures) and sizes[0] > sizes[1] and 350 < sizes[0][0] < 500
    with Events(server, "/v1/code/execute", language="python", code=PLOT + "1/0", timeout=120) as events:
        names = [name for name, _ in events]
    assert names[0] == "start" and names[-4:] == ["result", "result", "error", "end"]
    got = run(server, "import matplotlib\nmatplotlib.use('Agg')" + PLOT, timeout=120)
    assert {out["output_type"] for out in got["outputs"]} <= {"stream"}  # another backend was chosen


def test_what_is_no_figure_is_ignored(server):
    code = "import os\nos.write(3, b'no JSON\\n{}\\n[1]\\n{\"data\": 3}\\n\\xff\\n{\"data\"')\nprint(1)"
    got = run(server, code)
    assert got["outputs"] == [{"output_type": "stream", "name": "stdout", "text": "1\n"}]
    assert "left out" in run(server, "import os\nfor i in range(40): os.write(3, b'x' * 2**20)")["stderr"]


def test_bash(server):
    got = run(server, "echo out; echo err >&2; cd /; pwd; exit 4", "bash")
    assert (got["stdout"], got["stderr"], got["exit_code"], got["status"]) == ("out\n/\n", "err\n", 4, "error")
    assert run(server, "echo $0", "shell")["language"] == "bash"
    assert run(server, "-x", "bash")["exit_code"] == 127  # no option


def test_javascript_and_typescript(server):
    got = run(server, "console.log(1 + 1); console.error('e')", "javascript")
    assert (got["stdout"], got["stderr"], got["exit_code"], got["status"]) == ("2\n", "e\n", 0, "ok")
    got = run(server, "const x: number = 5; interface A { b: string }; console.log(x)", "typescript")
    if "typescript" in languages(server):
        assert (got["stdout"], got["language"]) == ("5\n", "typescript"), got
    else:
        assert got["status"] == "error" and "newer" in got["stderr"]
    got = run(server, "throw new TypeError('bad')", "js")
    assert (got["status"], got["exit_code"], got["language"]) == ("error", 1, "javascript")
    assert got["outputs"][-1]["ename"] == "TypeError" and any("bad" in line for line in got["traceback"])
    assert run(server, "console.log(1); while (true);", "javascript", timeout=1)["status"] == "timeout"


# --- sessions ----------------------------------------------------------------------------------


def test_stateful_javascript(server, no_node_sessions):  # noqa: F811
    first = run(server, "const x = 20; x + 1", "javascript", stateful=True)
    assert first["session_id"] and first["outputs"][-1]["data"]["text/plain"] == "21"
    assert first["outputs"][-1]["execution_count"] is None
    again = run(server, "console.log(x)", "javascript", stateful=True, session_id=first["session_id"])
    assert again["stdout"] == "20\n"
    with Events(server, "/v1/code/execute", language="javascript", code="console.log(x); x * 2", stateful=True,
                session_id=first["session_id"]) as events:
        got = list(events)
    assert [name for name, _ in got] == ["start", "stdout", "result", "end"]
    assert got[0][1] == {"language": "javascript", "session_id": first["session_id"]}
    assert got[1][1] == {"text": "20\n"} and got[2][1]["data"]["text/plain"] == "40"


def test_stateful_bash(server, tmp_path):
    def bash(code, **more):
        return run(server, code, "bash", session_id="b", **more)

    got = bash("x=5; f() { echo f$1; }; cd /usr; echo out; echo err >&2; (exit 4)")
    assert (got["stdout"], got["stderr"], got["status"], got["exit_code"]) == ("out\n", "err\n", "error", 4)
    got = bash("echo $x; f 3; pwd; read y; echo \"[$y]\" !!")
    assert (got["stdout"], got["stderr"], got["exit_code"]) == ("5\nf3\n/usr\n[] !!\n", "", 0)
    for seconds in patience((tmp_path / "said").exists):
        got = bash(f"echo on; >{tmp_path}/said; sleep 1000; echo never", timeout=seconds)
    assert (got["status"], got["stdout"], got["exit_code"]) == ("timeout", "on\n", None)
    got = bash("while :; do :; done", timeout=1)
    assert got["status"] == "timeout"
    got = bash("if true; then")
    assert got["exit_code"] == 2 and "unexpected end of file" in got["stderr"]
    for n, way in enumerate(["PROMPT_COMMAND='echo mine'", "PS1='mine '", "readonly PROMPT_COMMAND", "printf() { :; }", "set -C",
                             "exec </dev/null", "trap : INT", "alias builtin=false declare=false"], 10):
        got = bash(f"{way}; (exit {n})")
        assert (got["stdout"], got["stderr"], got["exit_code"]) == ("", "", n), way
    assert bash("sleep 1000", timeout=1)["status"] == "timeout"
    got = bash("echo $x; : ${unset?is missing}")
    assert (got["stdout"], got["exit_code"]) == ("5\n", 1) and "is missing" in got["stderr"]
    (tmp_path / "it's").mkdir()
    got = bash(f"echo $x; pwd; sleep 1000 & echo $! >{tmp_path}/pid", cwd=f"{tmp_path}/it's")
    assert got["stdout"] == f"5\n{tmp_path}/it's\n"
    got = bash("seq -f %099g 20000 | tee /dev/stderr")
    assert len(got["stdout"]) + len(got["stderr"]) > 1_000_000 and "left out" in got["stdout"] + got["stderr"]
    assert bash("yes & echo $x")["status"] == "ok"  # what it leaves running may say what it likes
    assert bash("kill $!; wait $!; echo $x")["stdout"].endswith("5\n")
    got = bash("exit 3")
    assert got["exit_code"] == 3 and "new one" in got["stderr"]
    assert bash("echo \"<$x>\"")["stdout"] == "<>\n"
    got = bash("exec >/dev/null 2>&1; echo hidden")
    assert (got["stdout"], got["exit_code"]) == ("", 0) and bash("true")["exit_code"] == 0
    assert sessions(server)["b"]["kernel_name"] == "bash"
    close_all(server)
    assert gone(int(text_of(tmp_path / "pid")))


def test_stateful_python(server, tmp_path):
    first = run(server, "x = 20\nprint('hi')\nx + 1", stateful=True, cwd=str(tmp_path))
    assert first["session_id"] and first["stdout"] == "hi\n" and first["exit_code"] == 0
    assert first["outputs"][1]["data"]["text/plain"] == "21"
    again = run(server, "import os\nprint(x, os.getcwd())", stateful=True, session_id=first["session_id"])
    assert again["stdout"] == f"20 {tmp_path}\n" and again["session_id"] == first["session_id"]
    failed = run(server, "1/0", stateful=True, session_id=first["session_id"])
    assert (failed["status"], failed["exit_code"]) == ("error", 1) and "ZeroDivisionError" in failed["traceback"][-1]
    timed_out = run(server, "while True: pass", stateful=True, session_id=first["session_id"], timeout=1)
    assert (timed_out["status"], timed_out["exit_code"]) == ("timeout", None)
    assert run(server, "print(x)", stateful=True, session_id=first["session_id"])["stdout"] == "20\n"
    assert run(server, "print(x)", stateful=True, session_id="own")["status"] == "error"
    assert set(sessions(server)) == {first["session_id"], "own"}


# --- events ------------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [{}, {"stateful": True, "session_id": "e"}])
def test_events_come_as_they_happen(server, tmp_path, more):
    code = (f"print('one', flush=True)\nimport os, sys, time\n"
            f"while not os.path.exists('{tmp_path}/go'): time.sleep(0.01)\nprint('two', file=sys.stderr)\n1/0")
    with Events(server, "/v1/code/execute", language="python", code=code, **more) as events:
        assert events.next() == ("start", {"language": "python", "session_id": more.get("session_id")})
        hear(events, "one\n")
        (tmp_path / "go").touch()
        rest = list(events)
    assert "".join(data["text"] for name, data in rest if name == "stderr").startswith("two\n")
    assert rest[-2][0] == "error" and rest[-2][1]["ename"] == "ZeroDivisionError" and rest[-2][1]["traceback"]
    assert rest[-1][0] == "end" and (rest[-1][1]["status"], rest[-1][1]["exit_code"]) == ("error", 1)


def test_events_begin_with_what_runs_and_where(server, no_node_sessions):  # noqa: F811
    with Events(server, "/v1/code/execute", language="ts", code="let x: number = 1;") as events:
        assert events.next() == ("start", {"language": "typescript", "session_id": None})
    with Events(server, "/v1/code/execute", language="ts", code="console.log(1)", stateful=True) as events:
        got = list(events)
    assert got[0] == ("start", {"language": "typescript", "session_id": got[-1][1]["session_id"]})
    assert got[0][1]["session_id"]


def test_events_of_other_languages(server):
    with Events(server, "/v1/code/execute", language="javascript", code="console.log(1); throw new Error('x')") as events:
        names = [name for name, _ in events]
    assert names[0] == "start" and {*names[1:-2]} == {"stdout", "stderr"} and names[-2:] == ["error", "end"]
    with Events(server, "/v1/code/execute", language="javascript", code="1", cwd="relative") as events:
        assert events.head.status == 400
    with Events(server, "/v1/code/execute", language="bash", code="echo a; echo b >&2; exit 2") as events:
        got = list(events)
    assert got[0][0] == "start" and got[-1][0] == "end" and got[-1][1]["exit_code"] == 2
    assert "".join(data["text"] for name, data in got if name == "stdout") == "a\n"
    assert "".join(data["text"] for name, data in got if name == "stderr") == "b\n"


# --- what is there -----------------------------------------------------------------------------


def test_info_tells_what_is_really_there(server):
    found = languages(server)
    assert {"python", "bash", "javascript"} <= set(found)
    python = found["python"]
    version = run(server, "import sys; print('%d.%d.%d' % sys.version_info[:3])")["stdout"].strip()
    assert python["runtime_version"] == version and python["details"]["kernels"] == ["python3"]
    assert python["default_timeout"] == 30 and python["max_timeout"] == 300 and python["details"]["stateful"] is True
    assert found["bash"]["details"]["kernels"] == ["bash"] and found["bash"]["details"]["stateful"] is True
    assert run(server, "echo ${BASH_VERSION%%(*}", "bash")["stdout"].strip() == found["bash"]["runtime_version"]


def test_bad_requests(server):
    for body in ({}, {"language": "python"}, {"code": "1"}, {"language": "python", "code": "1", "timeout": 0},
                 {"language": "python", "code": "1", "timeout": 301}, {"language": "", "code": "1"},
                 {"language": 3, "code": "1"}):
        assert server.post("/v1/code/execute", body).status_code == 422, body
    status, message = refused(server, language="cobol")
    assert status == 422 and "unknown language 'cobol': expected one of: python, javascript, typescript, bash" in message
    assert refused(server, cwd="relative")[0] == 400 and refused(server, cwd="/no/such/place")[0] == 404
    assert refused(server, cwd="relative", stateful=True)[0] == 400
    assert refused(server, "x" * 300_000, "bash")[0] == 413
    assert not sessions(server)


@pytest.mark.concurrency
def test_many_at_once(server):
    got = together(16, lambda i: run(server, f"print({i} * {i})") if i % 2 else run(server, f"echo $(({i} * {i}))", "bash"))
    assert [one["stdout"] for one in got] == [f"{i * i}\n" for i in range(16)]
