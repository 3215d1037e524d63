"""Contexts, as clients of sandbox-code-interpreter use them."""

import itertools
import re
from datetime import datetime, timezone

import pytest

from harness import LEAN, Calls, Events
from kernels import execute, no_sessions, sessions, warm  # noqa: F401
from processes import gone, patience, together

URL = "/api/v1/contexts"
CONTEXTS = Calls(URL)
pytestmark = pytest.mark.server(env=LEAN, warm=warm)


def make(server, **body):
    return CONTEXTS.reply(server, **{"type": "jupyter", "language": "python", **body})


def run(server, context, code, **more):
    return CONTEXTS.reply(server, f"{context['context_id']}/execute", code=code, **more)


def test_life_of_a_context(server, tmp_path):
    made = make(server, session_name="mine", working_dir=str(tmp_path))
    assert re.fullmatch(r"ctx-[0-9a-f]{16}", made["context_id"])
    assert made["type"] == "jupyter" and made["status"] == "active" and made["language"] == "python"
    assert made["session_name"] == "mine" and made["working_dir"] == str(tmp_path)
    when = datetime.fromisoformat(made["created_at"].replace("Z", "+00:00"))
    assert made["created_at"].endswith("Z") and abs((datetime.now(timezone.utc) - when).total_seconds()) < 60
    got = run(server, made, "import os, sys\nx = 5\nprint(os.getcwd())\nprint('e', file=sys.stderr)\nx + 1")
    assert got["output"] == {"stdout": f"{tmp_path}\n", "stderr": "e\n"} and got["success"] is True
    assert 0 < got["execution_time"] < 60
    assert [out["data"]["text/plain"] for out in got["results"]] == ["6"]
    assert run(server, made, "print(x)", timeout=10)["output"]["stdout"] == "5\n"
    assert server.get(f"{URL}/{made['context_id']}").json() == made
    assert [one["context_id"] for one in server.get(URL).json()] == [made["context_id"]]
    pid = sessions(server)[made["context_id"]]["pid"]
    assert server.request("DELETE", f"{URL}/{made['context_id']}").json()["success"] is True
    assert gone(pid) and server.get(URL).json() == []
    for method, target in (("GET", ""), ("DELETE", ""), ("POST", "/execute")):
        answer = server.request(method, f"{URL}/{made['context_id']}{target}", json={"code": "1"})
        assert answer.status_code == 404 and answer.json()["code"] == "CONTEXT_NOT_FOUND"
        assert made["context_id"] in answer.json()["error"]


def test_everything_may_be_absent(server):
    made = server.post(URL, {}).json()
    assert made["session_name"] is None and made["working_dir"] == str(server.home)
    assert run(server, made, "print(1)")["success"]


def test_code_that_fails(server, tmp_path):
    context = make(server)
    got = run(server, context, "print('before')\n1/0")
    assert got["success"] is False and got["output"]["stdout"] == "before\n"
    assert "ZeroDivisionError: division by zero" in got["output"]["stderr"] and "\x1b" not in got["output"]["stderr"]
    for seconds in patience((tmp_path / "said").exists):
        got = run(server, context, f"print('on', flush=True)\nopen('{tmp_path}/said', 'w').close()\nwhile True: pass",
                  timeout=seconds)
    assert got["success"] is False and got["output"]["stdout"] == "on\n" and got["message"]
    got = run(server, context, "import os; os._exit(9)")
    assert got["success"] is False and "exit code 9" in got["output"]["stderr"]
    got = run(server, context, "1")
    assert got["success"] is True and "new kernel" in got["message"]
    assert run(server, context, "1")["message"] is None


def test_contexts_are_apart(server):
    contexts = together(4, lambda i: make(server, name=f"n{i}"))
    together(4, lambda i: run(server, contexts[i], f"x = {i}"))
    assert [run(server, one, "print(x)")["output"]["stdout"] for one in contexts] == [f"{i}\n" for i in range(4)]
    assert {one["session_name"] for one in server.get(URL).json()} == {f"n{i}" for i in range(4)}


def test_sessions_are_no_contexts(server):
    execute(server, "1", session_id="plain")
    assert server.get(URL).json() == []
    assert server.get(f"{URL}/plain").status_code == 404
    assert server.request("DELETE", f"{URL}/plain").status_code == 404 and "plain" in sessions(server)


LANGUAGES = [
    ("javascript", "javascript", "const x = 1; console.log(process.cwd()); x + 1", "console.log(x); nope", "ReferenceError"),
    ("ts", "typescript", "let x: number = 1; console.log(process.cwd()); x + 1", "console.log(x); nope", "ReferenceError"),
    ("bash", "bash", "x=1; pwd", "echo $x; nope", "nope: command not found"),
]


@pytest.mark.parametrize("name, language, first, then, problem", LANGUAGES)
def test_other_languages(server, tmp_path, name, language, first, then, problem):
    if language not in [one["language"] for one in server.get("/v1/code/info").json()["data"]["languages"]]:
        pytest.skip(f"{language} is not installed")
    made = make(server, language=name, name="n", working_dir=str(tmp_path))
    assert (made["language"], made["session_name"], made["working_dir"]) == (language, "n", str(tmp_path))
    assert [one for one in server.get(URL).json()] == [made] and server.get(f"{URL}/{made['context_id']}").json() == made
    got = run(server, made, first)
    assert got["success"] is True and got["output"] == {"stdout": f"{tmp_path}\n", "stderr": ""}
    assert [out["data"]["text/plain"] for out in got["results"]] == ([] if language == "bash" else ["2"])
    got = run(server, made, then)
    assert got["success"] is False and got["output"]["stdout"] == "1\n" and problem in got["output"]["stderr"]
    got = run(server, made, "sleep 100" if language == "bash" else "while (true) {}", timeout=0.3)
    assert got["success"] is False and got["message"].startswith("The code timed out")
    with Events(server, f"{URL}/{made['context_id']}/execute", code=first) as events:
        assert events.next() == ("start", {"language": language, "session_id": made["context_id"]})
        assert [name for name, _ in events if name != "result"] == ["stdout", "end"]
    assert server.request("DELETE", f"{URL}/{made['context_id']}").json()["success"] is True
    assert server.get(URL).json() == [] and server.get(f"{URL}/{made['context_id']}").status_code == 404


def test_events(server):
    context = make(server)
    with Events(server, f"{URL}/{context['context_id']}/execute", code="print(1)\n2") as events:
        names = [name for name, _ in itertools.groupby(events, lambda event: event[0])]
    assert names == ["start", "stdout", "result", "end"]  # text may come in pieces


def test_bad_requests(server):
    assert server.post(URL, {"language": "cobol"}).status_code == 400
    assert server.post(URL, {"type": "docker"}).status_code == 400
    assert server.post(URL, {"working_dir": "relative"}).status_code == 400
    assert server.post(URL, {"working_dir": "/no/such/place"}).status_code == 404
    assert server.post(URL, {"language": "js", "working_dir": "relative"}).status_code == 400
    assert server.post(URL, {"language": "js", "working_dir": "/no/such/place"}).status_code == 404
    assert server.get(URL).json() == []
    context = make(server)
    for body in ({}, {"code": 3}, {"code": "1", "timeout": 0}, {"code": "1", "timeout": 301}):
        assert server.post(f"{URL}/{context['context_id']}/execute", body).status_code == 422, body
