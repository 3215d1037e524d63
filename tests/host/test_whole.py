"""Everything that a server can do, it can do in a box."""

import json
import time

import pytest

from harness import ROOT, eventually
from processes import patiently


def call(box, path, body, timeout=120):
    answer = box.request("POST", path, json=body, timeout=timeout)
    assert answer.status_code == 200, answer.text
    data = answer.json()
    assert data.get("success", True), data
    return data.get("data", data)


def needs(name):
    if not (ROOT / name).exists():
        pytest.skip(f"NOT TESTED: there is no {name}; make deps makes it")


def test_python(box):
    needs(".venv/bin/python")
    first = call(box, "/v1/jupyter/execute", {"code": "import os; x = 20; x + 22", "session_id": "w", "timeout": 100})
    assert first["status"] == "ok" and first["outputs"][-1]["data"]["text/plain"] == "42"
    again = call(box, "/v1/jupyter/execute", {"code": "print(x, os.getuid(), os.getcwd())", "session_id": "w", "timeout": 100})
    assert again["outputs"][0]["text"].startswith("20 1000 /home/gem")
    assert call(box, "/v1/code/execute", {"language": "python", "code": "print(6 * 7)"})["stdout"] == "42\n"


def test_a_kernel_that_takes_too_long(box):
    needs(".venv/bin/python")
    call(box, "/v1/jupyter/execute", {"code": "1", "session_id": "slow", "timeout": 100})  # it has started, however long that takes
    loop = {"code": "print('before')\nwhile True: pass", "session_id": "slow"}
    run = lambda seconds: call(box, "/v1/jupyter/execute", {**loop, "timeout": seconds})
    got = patiently(run, lambda got: got["outputs"])
    assert got["status"] == "timeout" and got["outputs"][0]["text"] == "before\n"
    assert call(box, "/v1/jupyter/execute", {"code": "1 + 1", "session_id": "slow", "timeout": 100})["status"] == "ok"


def test_no_session_is_idle_while_its_box_is_paused(host):
    needs(".venv/bin/python")
    python, node = {"session_id": "w", "timeout": 100}, {"stateful": True, "session_id": "w"}

    def use(box, code):
        """Once each: what they answer."""
        return [json.dumps(call(box, path, body)) for path, body in (
            ("/v1/jupyter/execute", {"code": code.format("x"), **python}),
            ("/v1/nodejs/execute", {"code": code.format("globalThis.x"), **node}),
            ("/v1/shell/exec", {"command": "pwd", "id": "w"}),
            ("/v1/bash/exec", {"command": "true", "session_id": "w"}))]

    def survive(idle):
        """What is still there after a pause that is longer than they may be idle."""
        box = host.create(env={"AIO_KERNEL_TIMEOUT": str(idle), "AIO_SESSION_TIMEOUT": str(idle)})
        call(box, "/v1/shell/exec", {"command": "cd /tmp", "id": "w"})
        use(box, "{} = 42")  # they have started, however long that takes
        use(box, "{} = 42")
        box.call("POST", "/pause")
        time.sleep(idle + 1)
        box.call("POST", "/resume")
        sessions = [one["session_id"] for one in box.request("GET", "/v1/bash/sessions").json()["data"]]
        sessions += box.request("GET", "/v1/jupyter/sessions").json()["data"]["sessions"]
        python, node, shell, _ = use(box, "{}") if sessions == ["w", "w"] else [""] * 4
        return box, (sessions, "42" in python, "42" in node, '"/tmp"' in shell)

    for idle in (4, 30):  # on a busy machine they are idle for longer than wanted
        box, kept = survive(idle)
        if kept == (["w", "w"], True, True, True):
            break
    assert kept == (["w", "w"], True, True, True)
    assert eventually(lambda: not box.request("GET", "/v1/jupyter/sessions").json()["data"]["sessions"])
    box.delete()


def test_bash_that_keeps_its_state(box):
    needs(".venv/bin/python")
    session = {"language": "bash", "session_id": "b", "timeout": 100}
    assert call(box, "/v1/code/execute", {"code": "x=42; cd /tmp", **session})["status"] == "ok"
    got = call(box, "/v1/code/execute", {"code": "echo $x; pwd; (exit 3)", **session})
    assert (got["stdout"], got["exit_code"]) == ("42\n/tmp\n", 3)


def test_javascript(box):
    assert call(box, "/v1/nodejs/execute", {"code": "console.log(1 + 1)"})["stdout"] == "2\n"
    session = {"stateful": True, "session_id": "w"}
    assert call(box, "/v1/nodejs/execute", {"code": "const a = await Promise.resolve(20)", **session})["status"] == "ok"
    assert "42" in json.dumps(call(box, "/v1/nodejs/execute", {"code": "a + 22", **session})["outputs"])


def test_files(box):
    call(box, "/v1/file/write", {"file": "/home/gem/a/b.txt", "content": "one\ntwo\n"})
    assert call(box, "/v1/file/read", {"file": "/home/gem/a/b.txt"})["content"] == "one\ntwo\n"
    assert box.run("stat -c '%U %a' /home/gem/a/b.txt").split()[0] == "gem"
    found = call(box, "/v1/file/grep", {"path": "/home/gem/a", "pattern": "tw."})
    assert [match["line_number"] for match in found["matches"]] == [2]
    call(box, "/v1/file/write", {"file": "/root-made", "content": "x", "sudo": True})
    assert box.run("stat -c %U /root-made") == "root\n"


def test_documents(box):
    needs(".venv/bin/markitdown")
    box.run("printf '<h1>Title</h1><p>text</p>' >/tmp/page.html")
    assert "# Title" in call(box, "/v1/util/convert_to_markdown", {"uri": "file:///tmp/page.html"})


def test_shell_and_mcp(box):
    assert call(box, "/v1/shell/exec", {"id": "w", "command": "cd /tmp; pwd"})["output"] == "/tmp"
    answer = box.request("POST", "/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "sandbox_execute_bash", "arguments": {"cmd": "whoami", "command": "whoami"}}},
        headers={"Accept": "application/json"})
    assert answer.status_code == 200 and "gem" in answer.text, answer.text


def test_default_box_is_always_there(host):
    default = host.default()
    default.run("touch ~/old")
    host.cli("rm", "default")
    assert default.run("ls ~; whoami") == "gem\n"
