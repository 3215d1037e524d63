"""What happened in the sandbox: its history, and the stream of what happens next."""

import json
import socket
import struct
import threading

import commands
import kernels
import pytest

from harness import LEAN, Calls, Events, connect, eventually, request, sanitizer
from mcp_peer import BOTH, Peer

pytestmark = pytest.mark.server(env=LEAN, warm=commands.warm)

PATH = "/v1/sandbox/events"
COUNT_MAX, BYTES_MAX, TEXT_MAX = 2048, 512 << 10, 500  # of src/journal/journal.h
SHARE = 3 if sanitizer() == "thread" else 1
FILES = Calls("/v1/file")


@pytest.fixture(autouse=True)
def no_sessions(server):
    yield
    commands.close_all(server)
    server.request("DELETE", "/v1/shell/sessions")


def history(server, query=""):
    answer = server.get(f"{PATH}{query}")
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def newest(server):
    """The number of the newest event, of which there is one at least."""
    return history(server)[-1]["seq"]


def since(server, seq, kind=None):
    """The data of the events after that number, by kind or all, with their types."""
    found = history(server, f"?after={seq}" + (f"&type={kind}" if kind else ""))
    return [event["data"] for event in found] if kind else [event["type"] for event in found]


def flood(server, count, name="x"):
    """Adds that many events, each with a text of its own, over one connection."""
    with server.connect() as peer:
        for i in range(count):
            call = {"jsonrpc": "2.0", "id": i, "method": "tools/call", "params": {"name": f"{name}{i}"}}
            answer = peer.ask(request("/mcp", "POST", {"Content-Type": "application/json", "Accept": BOTH}, json.dumps(call).encode()))
            assert answer.status == 200, answer


class Stream(Events):
    """Ends with a reset: of a client that only stops to send, the server hears when it next has something to say."""

    def __exit__(self, *_):
        self.peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.peer.sock.close()


# --- the kinds ---------------------------------------------------------------------------------


def test_a_command_and_its_end(server):
    before = newest(server)
    data = commands.run(server, "sleep 0.2; exit 7")
    ids = {"by": "bash", "session_id": data["session_id"], "command_id": "cmd-1"}
    assert since(server, before) == ["session_opened", "command_started", "command_ended"]
    assert since(server, before, "command_started") == [{**ids, "command": "sleep 0.2; exit 7"}]
    (end,) = since(server, before, "command_ended")
    assert end.pop("duration_ms") >= 200
    assert end == {**ids, "status": "completed", "exit_code": 7}


def test_a_command_in_the_background_has_its_end_too(server):
    before = newest(server)
    data = commands.begun(server, "echo on; read", "on\n")
    assert since(server, before, "command_ended") == []
    commands.ask(server, "kill", session_id=data["session_id"], signal="SIGKILL")
    (end,) = eventually(lambda: since(server, before, "command_ended"))
    assert (end["status"], end["exit_code"]) == ("killed", 137)


def test_a_command_that_runs_into_its_time_out(server):
    before = newest(server)
    commands.run(server, "sleep 1000", hard_timeout=0.1)
    (end,) = since(server, before, "command_ended")
    assert end["status"] == "timed_out"


def test_a_command_in_a_shell(server):
    before = newest(server)
    data = Calls("/v1/shell").ask(server, "exec", command="echo hi; (exit 3)")
    ids = {"by": "shell", "session_id": data["session_id"], "command_id": None}
    assert since(server, before, "command_started") == [{**ids, "command": "echo hi; (exit 3)"}]
    (end,) = since(server, before, "command_ended")
    assert (end["status"], end["exit_code"], end["session_id"]) == ("completed", 3, data["session_id"])


def test_a_command_of_aio_exec(server):
    before = newest(server)
    with connect(f"ws{server.url[4:]}/v1/bash/ws") as ws:
        ws.send(json.dumps({"command": "exit 5"}))
        assert json.loads(ws.recv())["exit_code"] == 5
    assert since(server, before) == ["command_started", "command_ended"]
    assert since(server, before, "command_started")[0] == {"by": "exec", "session_id": None, "command_id": None, "command": "exit 5"}
    assert since(server, before, "command_ended")[0]["exit_code"] == 5


@pytest.mark.parametrize("language, code, status, exit_code", [
    ("python", "raise SystemExit(3)", "error", 3),
    ("bash", "echo hi", "ok", 0),
    ("javascript", "process.exit(4)", "error", 4),
])
def test_code(server, language, code, status, exit_code):
    before = newest(server)
    Calls("/v1/code").ask(server, "execute", language=language, code=code)
    assert since(server, before) == ["code_started", "code_ended"]
    assert since(server, before, "code_started") == [{"language": language, "session_id": None, "code": code}]
    (end,) = since(server, before, "code_ended")
    assert (end["language"], end["status"], end["exit_code"]) == (language, status, exit_code)


@pytest.fixture(scope="module")
def with_kernels(start_shared):
    server = start_shared(env=LEAN)
    kernels.warm(server)
    yield server
    server.request("DELETE", "/v1/jupyter/sessions")


def test_code_in_a_session(with_kernels):
    server = with_kernels
    before = newest(server)
    Calls("/v1/jupyter").ask(server, "execute", code="1/0", session_id="mine")
    server.request("DELETE", "/v1/jupyter/sessions")
    assert since(server, before) == ["session_opened", "code_started", "code_ended", "session_closed"]
    assert since(server, before, "session_opened") == [{"kind": "jupyter", "session_id": "mine"}]
    assert since(server, before, "code_started") == [{"language": "python", "session_id": "mine", "code": "1/0"}]
    (end,) = since(server, before, "code_ended")
    assert (end["status"], end["session_id"]) == ("error", "mine")


def test_files_written(server, tmp_path):
    before, path = newest(server), str(tmp_path / "a.txt")
    FILES.ask(server, "write", file=path, content="one")
    FILES.ask(server, "write", file=path, content="two!", append=True)
    FILES.ask(server, "replace", file=path, old_str="one", new_str="1")
    FILES.ask(server, "replace", file=path, old_str="nowhere", new_str="1")
    FILES.ask(server, "read", file=path)
    FILES.ask(server, "str_replace_editor", command="view", path=path)
    FILES.ask(server, "str_replace_editor", command="insert", path=path, insert_line=0, new_str="x\n")
    server.request("POST", "/v1/file/upload", files={"file": ("b.txt", b"12345")}, data={"path": str(tmp_path / "b.txt")})
    assert FILES.reply(server, "write", file=str(tmp_path), content="no")["success"] is False
    assert [(e["operation"], e["bytes"]) for e in since(server, before, "file_written")] == [
        ("write", 3), ("append", 4), ("replace", None), ("insert", None), ("upload", 5)]
    assert {e["path"] for e in since(server, before, "file_written")} == {path, str(tmp_path / "b.txt")}


def test_sessions(server):
    before = newest(server)
    Calls("/v1/bash").ask(server, "sessions/create", session_id="mine")
    Calls("/v1/bash").ask(server, "sessions/create", session_id="mine")
    commands.close(server, "mine")
    assert since(server, before) == ["session_opened", "session_closed"]
    assert since(server, before, "session_opened") == [{"kind": "bash", "session_id": "mine"}]


def test_the_id_of_an_mcp_session_is_nobody_elses(server):
    """Whoever has it can read and answer in the place of its client."""
    before = newest(server)
    asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}}
    accept = {"Accept": "application/json, text/event-stream"}
    session = server.post("/mcp", asked, headers=accept).headers["mcp-session-id"]
    assert since(server, before, "session_opened") == [{"kind": "mcp", "session_id": None}]
    assert server.request("DELETE", "/mcp", headers={"Mcp-Session-Id": session}).status_code in (200, 204)
    assert session not in server.get("/v1/sandbox/events?limit=1000").text


def test_a_tool_is_called_once(server):
    """As a tool; what it runs is there once, too."""
    with Peer(server) as peer:
        before = newest(server)
        peer.ask("tools/call", {"name": "sandbox_execute_bash", "arguments": {"cmd": "true"}})
        assert [kind for kind in since(server, before) if not kind.startswith("session")] == [
            "command_started", "command_ended", "tool_called"]
        (tool,) = since(server, before, "tool_called")
    assert tool.pop("duration_ms") >= 0
    assert tool == {"server": None, "tool": "sandbox_execute_bash", "failed": False}
    before = newest(server)
    server.post("/v1/mcp/sandbox/tools/sandbox_file_operations", {"action": "read", "path": "/nowhere"})
    (tool,) = since(server, before, "tool_called")
    assert (tool["server"], tool["tool"], tool["failed"]) == ("sandbox", "sandbox_file_operations", True)


# --- secrets -----------------------------------------------------------------------------------


def test_secrets_are_masked(server):
    before = newest(server)
    commands.run(server, "DB_PASSWORD=hunter2; : curl -H 'Authorization: Bearer hunter2' https://me:hunter2@host/?api_key=hunter2")
    Calls("/v1/code").ask(server, "execute", language="python", code="api_key = 'hunter2'")
    FILES.send(server, "write", file="/tmp/aio-token=hunter2", content="x")
    text = server.get(f"{PATH}?after={before}").text
    assert "hunter2" not in text and text.count("***") >= 5
    assert "DB_PASSWORD=***" in text and "https://me:***@host/" in text
    commands.run(server, "rm /tmp/aio-token=hunter2")


def test_the_environment_of_a_command_is_never_there(server):
    before = newest(server)
    commands.run(server, "echo $MINE", env={"MINE": "3d0f2b"})
    assert "3d0f2b" not in server.get(f"{PATH}?after={before}").text


def test_texts_are_cut(server):
    before = newest(server)
    commands.run(server, ": " + "ä" * 5000)
    (start,) = since(server, before, "command_started")
    assert start["command"].startswith(": ää") and start["command"].endswith("ä…")
    assert TEXT_MAX - 8 < len(start["command"].encode()) < TEXT_MAX


# --- asking for some ---------------------------------------------------------------------------


def test_events_are_numbered_and_have_a_time(server):
    commands.run(server, "true")
    events = history(server)
    assert [e["seq"] for e in events] == list(range(events[0]["seq"], events[0]["seq"] + len(events)))
    assert [e["at"] for e in events] == sorted(e["at"] for e in events)
    assert all(list(e) == ["seq", "at", "type", "data"] for e in events)


def test_filters(server):
    before = newest(server)
    commands.run(server, "true")
    some = history(server, f"?after={before}&type=command_ended&type=session_opened")
    assert [e["type"] for e in some] == ["session_opened", "command_ended"]
    last = history(server)[-1]
    assert last in history(server, f"?since={last['at']}")
    assert history(server, "?since=2999-01-01T00:00:00Z") == []
    assert history(server, "?since=2001-01-01T00:00:00") == history(server)
    assert history(server, f"?after={last['seq']}") == []


@pytest.mark.parametrize("query", ["type=nothing", "after=-1", "after=x", "since=yesterday", "since=2026-01-31T12:00:00Zx",
                                   "since=" + "1" * 50, "follow=perhaps"])
def test_what_is_asked_for_wrongly(server, query):
    assert server.get(f"{PATH}?{query}").status_code == 422


# --- streams -----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["accept", "follow"])
def test_a_stream_goes_on(server, how):
    before = newest(server)
    commands.run(server, "exit 1")
    headers = {} if how == "accept" else {"Accept": "*/*"}
    follow = "" if how == "accept" else "&follow=true"
    with Stream(server, f"{PATH}?after={before}&type=command_ended{follow}", headers) as events:
        assert events.head["content-type"].startswith("text/event-stream")
        name, number, event = events.next()
        assert (name, event["data"]["exit_code"]) == ("command_ended", 1) and number == str(event["seq"])
        commands.run(server, "exit 2")
        assert events.next()[2]["data"]["exit_code"] == 2


def test_a_stream_resumes(server):
    with Stream(server, f"{PATH}?after={newest(server)}") as events:
        commands.run(server, "true")
        seen = [events.next() for _ in range(2)]
    commands.run(server, "true")
    with Stream(server, f"{PATH}?after=1", {"Last-Event-ID": seen[-1][1]}) as events:
        assert int(events.next()[1]) == int(seen[-1][1]) + 1


def test_a_stream_ends_with_the_server(start_server):
    server = start_server()
    with Stream(server, PATH) as events:
        server.stop()
        assert events.next() is None


# --- what is not kept --------------------------------------------------------------------------


def lost(server, after):
    """The first event of who comes back with that number, which must say what was lost."""
    event = history(server, f"?after={after}")[0]
    assert event["type"] == "lost" and event["data"]["after"] == after
    return event


def test_more_than_is_kept(server):
    first = newest(server)
    flood(server, COUNT_MAX + 10)
    events = history(server)
    assert len(events) == COUNT_MAX and events[0]["type"] == "tool_called"
    gap = lost(server, first)
    assert gap["data"]["next"] == events[0]["seq"] == gap["seq"] + 1
    assert [e["type"] for e in history(server, f"?after={first}&type=file_written")] == ["lost"]
    with Stream(server, PATH, {"Last-Event-ID": str(first)}) as stream:
        name, number, event = stream.next()
        assert name == "lost" and event["data"]["next"] == events[0]["seq"]
        assert int(stream.next()[1]) == int(number) + 1
    with Stream(server, PATH) as stream:  # who asks for whatever is there has lost nothing
        assert stream.next()[0] == "tool_called"


def test_more_bytes_than_are_kept(server):
    flood(server, 1000, "x" * 1000)
    events = history(server)
    assert sum(len(json.dumps(e, separators=(",", ":"), ensure_ascii=False).encode()) for e in events) <= BYTES_MAX
    assert 200 < len(events) < 1000 and events[-1]["data"]["tool"].endswith("…")


def test_numbers_of_another_life(server):
    """Of a server before this one, lower; or of none, higher: what is kept is told from its beginning."""
    commands.run(server, "true")
    first = history(server)[0]["seq"]
    for after in (7, 1 << 53):
        assert lost(server, after)["data"]["next"] == first
        assert history(server, f"?after={after}")[1:] == history(server)


def test_numbers_rise_over_a_restart(start_server):
    one = start_server()
    commands.run(one, "true")
    last = newest(one)
    one.stop()
    two = start_server()
    commands.run(two, "true")
    assert lost(two, last)["data"]["next"] == history(two)[0]["seq"] > last


# --- many readers ------------------------------------------------------------------------------


@pytest.mark.concurrency
def test_readers_under_load(server):
    """Each sees all in order, or is told what it lost; those who do not read hold up nobody."""
    readers, writers, rounds = 12, 4, 300 // SHARE
    start, problems, counts = newest(server), [], []
    idle = [Stream(server, f"{PATH}?after={start}") for _ in range(4)]

    def read(events):
        at, seen = start, 0
        try:
            for name, number, event in events:
                assert event["seq"] == int(number)
                if name == "lost":
                    assert event["data"]["after"] == at and int(number) > at
                else:
                    assert int(number) == at + 1
                at, seen = int(number), seen + 1
                if name == "command_started" and event["data"]["command"] == ": the end":
                    break
            counts.append(seen)
        except BaseException as problem:
            problems.append(problem)

    streams = [Stream(server, f"{PATH}?after={start}") for _ in range(readers)]
    threads = [threading.Thread(target=read, args=(stream,)) for stream in streams]
    threads += [threading.Thread(target=flood, args=(server, rounds, f"w{i}-")) for i in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads[readers:]:
        thread.join()
    commands.run(server, ": the end")
    for thread in threads[:readers]:
        thread.join()
    for stream in streams + idle:
        stream.__exit__()
    assert not problems, problems[0]
    assert len(counts) == readers and min(counts) > 1
