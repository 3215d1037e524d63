"""`aio mcp`: the same server on standard input and output, as desktop clients start it."""

import getpass
import json
import pwd
import signal
import socket
import subprocess

import pytest

from harness import STOP_SECONDS, eventually, program
from mcp_peer import META, MODERN
from mcp_stdio import Stdio, alone
from processes import below, gone

USER = next((one.pw_name for one in pwd.getpwall() if one.pw_name == "gem"), getpass.getuser())
AT_ONCE = 25  # seconds: less than the 30 that a call gets to end


@pytest.fixture
def stdio(tmp_path):
    started = []

    def start(*args, **more):
        started.append(Stdio(tmp_path, *args, **more))
        return started[-1]

    yield start
    for one in started:
        if one.proc.poll() is None:
            one.proc.kill()
        if one.proc.stdout:
            one.proc.stdout.close()
        one.proc.wait()


def test_a_conversation(stdio, tmp_path):
    s = stdio()
    assert s.initialize("2025-06-18")["protocolVersion"] == "2025-06-18"
    assert "sandbox_execute_bash" in [tool["name"] for tool in s.ask("tools/list")["result"]["tools"]]
    assert s.call("sandbox_execute_bash", command="echo hi; pwd")["structuredContent"]["output"] == f"hi\n{tmp_path}\n"
    assert s.ask("nothing")["error"]["code"] == -32601
    assert s.end() == (0, b"")


@pytest.mark.parametrize("args", [(), ("--no-box",)])
def test_without_a_box_the_model_is_told_so(stdio, tmp_path, args):
    s = stdio(*args)
    said = s.initialize()["instructions"]
    assert "NOT a sandbox" in said and f"'{USER}'" in said and str(tmp_path) in said and "of your own" not in said
    meta = {META + "protocolVersion": MODERN, META + "clientCapabilities": {}}
    modern = s.ask("server/discover", {"_meta": meta})["result"]["instructions"]
    assert modern == said
    assert s.end()[0] == 0
    assert ("without isolation" in (tmp_path / "stderr").read_text()) == (not args)


def test_what_was_asked_before_the_end_is_answered(stdio):
    s = stdio()
    s.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "sandbox_execute_bash", "arguments": {"command": "sleep 1; echo late"}}})
    code, rest = s.end()
    assert code == 0 and json.loads(rest)["result"]["structuredContent"]["output"] == "late\n"


def test_a_reply_is_not_lost_at_the_end(stdio):
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "sandbox_execute_bash", "arguments": {"command": "true"}}}
    for _ in range(20):
        s = stdio()
        s.send(call)
        code, rest = s.end()
        assert code == 0 and rest and json.loads(rest)["id"] == 1


def test_what_is_no_message(stdio):
    s = stdio()
    for line, code in [(b"nonsense", -32700), (b"{}", -32600), (b"5", -32600), (b'{"id":[],"method":"ping"}', -32600)]:
        s.send(line)
        assert s.read()["error"]["code"] == code
    s.send(b"")
    s.send(b"  \r")
    assert s.ask("ping")["result"] == {}
    assert s.end() == (0, b"")


def test_a_line_that_is_too_long(stdio):
    s = stdio("--max-body", "10K")
    s.send(b'{"id":1,"method":"ping","params":{"x":"' + b"y" * 50000 + b'"}}')
    assert "too large" in s.read()["error"]["message"]
    assert s.ask("ping")["result"] == {}
    assert s.end() == (0, b"")


def test_calls_do_not_wait_for_each_other(stdio):
    s = stdio()
    s.initialize()
    s.send({"jsonrpc": "2.0", "id": "slow", "method": "tools/call",
            "params": {"name": "sandbox_execute_bash", "arguments": {"command": "sleep 60"}}})
    assert s.ask("ping")["result"] == {}
    s.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "slow"}})
    assert s.ask("ping")["result"] == {}
    assert s.end() == (0, b"")


def test_news_and_progress_come_in_between(stdio, tmp_path):
    s = stdio()
    s.initialize()
    file = tmp_path / "watched"
    file.write_text("1")
    s.ask("resources/subscribe", {"uri": f"file://{file}"})
    s.send({"jsonrpc": "2.0", "id": "long", "method": "tools/call",
            "params": {"name": "sandbox_execute_bash", "_meta": {"progressToken": 7},
                       "arguments": {"command": f"echo 2 >{file}; until [ -e heard ]; do sleep 0.1; done"}}})
    wanted = {"notifications/resources/updated", "notifications/progress"}
    methods = set()
    while methods != wanted:
        methods.add(s.read()["method"])
        assert methods <= wanted
    (tmp_path / "heard").touch()
    while "id" not in (message := s.read()):
        assert message["method"] in wanted
    assert message["id"] == "long" and message["result"]["structuredContent"]["exit_code"] == 0
    s.ask("resources/unsubscribe", {"uri": f"file://{file}"})
    assert s.end() == (0, b"")


def test_the_revision_without_sessions(stdio):
    s = stdio()
    meta = {META + "protocolVersion": MODERN, META + "clientCapabilities": {}}
    result = s.ask("server/discover", {"_meta": meta})["result"]
    assert result["supportedVersions"] == [MODERN]
    assert s.ask("tools/list", {"_meta": meta})["result"]["resultType"] == "complete"
    assert s.ask("server/discover")["error"]["code"] == -32602
    wrong = {**meta, META + "protocolVersion": "2040-01-01"}
    assert s.ask("tools/list", {"_meta": wrong})["error"]["code"] == -32022
    assert s.end() == (0, b"")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_and_all_it_started(stdio, tmp_path, number):
    s = stdio()
    pid = int(s.call("sandbox_execute_bash", command="sleep 1000 >/dev/null 2>&1 & echo $!")["structuredContent"]["output"])
    s.proc.send_signal(number)
    assert s.proc.wait(AT_ONCE) == 0
    assert gone(pid)


@pytest.mark.parametrize("number", [None, signal.SIGKILL])
def test_nothing_is_left_of_what_sessions_started(stdio, tmp_path, number):
    """Of a kernel, its fork server, Node.js and the document worker: also when its first process, which would end what it
    adopts, is killed."""
    s = stdio()
    s.initialize()
    for language, code in [("python", "import os; print(os.getpid())"), ("javascript", "console.log(process.pid)")]:
        result = s.call("sandbox_execute_code", language=language, code=code, session_id=f"kept-{language}")
        assert int(result["structuredContent"]["stdout"]) in below(s)
    (tmp_path / "page.html").write_text("<h1>Title</h1>")
    assert "# Title" in s.call("sandbox_convert_to_markdown", uri=(tmp_path / "page.html").as_uri())["content"][0]["text"]
    everything = below(s)
    assert len(everything) >= 4
    if number:
        s.proc.send_signal(number)
    else:
        assert s.end() == (0, b"")
    assert gone(*everything)


def test_a_client_that_is_gone(stdio):
    """Its output has no reader any more: a call that lasts does not keep it."""
    s = stdio()
    s.send({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "sandbox_execute_bash", "arguments": {"command": "sleep 600", "timeout": 600}}})
    assert s.ask("ping")["result"] == {}
    s.proc.stdin.close()
    s.proc.stdout.close()
    assert s.proc.wait(AT_ONCE) == 0


def test_a_client_that_does_not_read(stdio):
    """What it does not take waits; a signal does not."""
    s = stdio()
    for id in range(20):  # far more than a pipe holds
        s.send({"jsonrpc": "2.0", "id": id, "method": "tools/list"})
    s.send({"jsonrpc": "2.0", "id": "last", "method": "tools/call",
            "params": {"name": "sandbox_execute_bash", "arguments": {"command": "touch asked"}}})
    assert eventually((s.home / "asked").exists)
    s.proc.send_signal(signal.SIGTERM)
    assert s.proc.wait(AT_ONCE) == 0


def test_an_output_that_others_made_nonblocking(stdio):
    ours, its = socket.socketpair()
    its.setblocking(False)
    s = stdio(stdout=its)
    its.close()
    for id in range(20):
        s.send({"jsonrpc": "2.0", "id": id, "method": "tools/list"})
    s.proc.stdin.close()
    with ours, ours.makefile("rb") as lines:
        assert sorted(json.loads(line)["id"] for line in lines) == list(range(20))
    assert s.proc.wait(AT_ONCE) == 0


@pytest.mark.parametrize("closed", ["<&-", "<&- >&- 2>&-"])
def test_descriptors_that_are_closed(tmp_path, closed):
    """Something else would have their numbers, and be read as input or written to as a log."""
    command = ["sh", "-c", f'exec "$0" "$@" {closed}', program("aio"), "mcp"]
    done = subprocess.run(command, cwd=tmp_path, env=alone(tmp_path), capture_output=True, timeout=AT_ONCE)
    assert done.returncode == 0


def test_help_and_wrong_usage():
    done = subprocess.run([program("aio"), "mcp", "--help"], capture_output=True, text=True)
    assert done.returncode == 0 and "mcpServers" in done.stdout
    assert subprocess.run([program("aio"), "mcp", "--nonsense"], capture_output=True).returncode == 2
