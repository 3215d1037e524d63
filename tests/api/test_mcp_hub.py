"""Other MCP servers behind ours: started when needed, ended when idle, and whatever they do wrong."""

import json
import sys
import time
from pathlib import Path

import pytest

import mcp_servers
from harness import eventually
from mcp_peer import FIXTURE, Peer, failed, in_thread, progress, progress_left
from processes import gone


def program(kind, **more):
    return {"command": sys.executable, "args": [mcp_servers.__file__, kind], **more}


@pytest.fixture
def hub(start_server, tmp_path):
    """A server with these behind it, whose programs end with the test."""
    started = []

    def start(idle="600", **servers):
        file = tmp_path / "mcp-servers.json"
        file.write_text(json.dumps({"mcpServers": servers}))
        server = start_server(["--mcp-servers", file, "--mcp-idle-timeout", idle], program="fixture", env=FIXTURE)
        server.config_file = file
        started.append(server)
        return server

    yield start
    for server in started:
        if server.proc.poll() is None:
            server.config_file.write_text("{}")
            server.get("/v1/mcp/servers")


def names(peer, *wanted):
    """What is listed, once these are: a list waits for servers that start, but not for long."""
    def listed():
        found = [tool["name"] for tool in peer.ask("tools/list")["tools"]]
        return set(wanted) <= set(found) and (found,)

    (found,) = eventually(listed) or pytest.fail(f"{wanted} are not listed")
    return found


def status(server, name, hidden=False):
    answer = server.get("/v1/mcp/servers", params={"include_hidden": hidden}).json()
    return next((one for one in answer["servers"] if one["name"] == name), None)


# --- good ones ---------------------------------------------------------------------------------


def test_tools_of_others_are_ours_too(hub):
    server = hub(good=program("good"))
    with Peer(server) as peer:
        assert not server.children()  # nothing runs before it is needed
        assert [name for name in names(peer, "good_echo") if name.startswith("good_")] == [
            f"good_{name}" for name in ["echo", "add", "slow", "grow", "pid", "env", "big"]]
        assert names(peer)[0].startswith("sandbox_")  # ours first
        assert peer.text("good_echo", text="h\u00e9 \u20ac") == "h\u00e9 \u20ac"
        assert peer.call("good_add", a=2, b=3)["structuredContent"] == {"sum": 5}
        assert status(server, "good")["status"] == "ready"


def test_an_idle_program_is_ended_and_comes_back(hub):
    server = hub(good=program("good"), idle="0.5")
    with Peer(server) as peer:
        first = peer.text("good_pid")
        assert eventually(lambda: not server.children())
        assert "good_echo" in names(peer)  # what it offers is remembered
        assert not server.children()
        assert peer.text("good_pid") != first


def test_a_program_stays_while_it_is_used(hub):
    server = hub(good=program("good"), idle="60")
    with Peer(server) as peer:
        assert peer.text("good_pid") == peer.text("good_pid")
        server.config_file.write_text("{}")
        names(peer)
        assert eventually(lambda: not server.children())


@pytest.mark.concurrency
def test_many_calls_at_once(hub):
    server = hub(good=program("good"))
    with Peer(server) as peer:
        waits = [in_thread(lambda n=n: peer.text("good_echo", text=str(n))) for n in range(30)]
        assert [wait() for wait in waits] == [str(n) for n in range(30)]


def test_progress_is_passed_on(hub):
    server = hub(good=program("good"))
    with Peer(server) as peer:
        names(peer, "good_slow")
        message = peer.build("tools/call", {"name": "good_slow"}, meta={"progressToken": "mine"})
        with peer.stream(message) as events:
            got = [json.loads(event["data"]) for event in events if event.get("data")]
        assert progress_left(got) in ([3, 2, 1], [2, 1])
        assert {params["progressToken"] for params in progress(got)} == {"mine"}
        assert got[-1]["result"]["content"][0]["text"] == "slowly"


def test_progress_goes_on_from_what_was_told(hub, tmp_path):
    """Before a tool reports for the first time, the server reports the seconds."""
    server, go = hub(good=program("good")), tmp_path / "go"
    with Peer(server) as peer:
        names(peer, "good_slow")
        message = peer.build("tools/call", {"name": "good_slow", "arguments": {"after": str(go)}},
                             meta={"progressToken": 1})
        with peer.stream(message) as events:
            got = [events.message(), events.message()]
            go.touch()
            got += [json.loads(event["data"]) for event in events if event.get("data")]
        assert "total" not in progress(got)[0] and progress_left(got) == [2, 1]
        assert got[-1]["result"]["content"][0]["text"] == "slowly"


def test_a_new_tool_is_told_and_listed(hub):
    server = hub(good=program("good"), idle="30")
    with Peer(server) as peer:
        names(peer, "good_grow")
        with peer.stream() as events:
            peer.call("good_grow")
            assert events.message(lambda m: m["method"] == "notifications/tools/list_changed")
        assert eventually(lambda: "good_grown_0" in names(peer))
        server.config_file.write_text("{}")
        names(peer)
        assert eventually(lambda: not server.children())


def test_a_program_s_environment(hub):
    server = hub(good=program("good", env={"MINE": "yes"}))
    with Peer(server) as peer:
        assert peer.text("good_env", name="MINE") == "yes"
        assert peer.text("good_env", name="SANDBOX_API_KEY") == "absent"
        assert peer.text("good_env", name="HOME") == str(server.home)


def test_only_one_server_s_tools(hub):
    server = hub(good=program("good"), other=program("good"))
    found = names(Peer(server, "/mcp?search=good"), "good_echo")
    assert all(name.startswith("good_") for name in found)
    with Peer(server, "/mcp?search=good") as peer:  # a session remembers it
        peer.path = "/mcp"
        assert names(peer) == found
    assert names(Peer(server, "/mcp?search=nobody")) == []


def test_the_plain_view(hub):
    server = hub(good=program("good"), secret=program("good", hidden=True), off=program("good", disabled=True))
    listed = server.get("/v1/mcp/servers").json()["data"]
    assert "good" in listed and "off" in listed and "secret" not in listed
    assert "secret" in server.get("/v1/mcp/servers", params={"include_hidden": True}).json()["data"]
    tools = server.get("/v1/mcp/good/tools").json()["data"]["tools"]
    assert [tool["name"] for tool in tools][:2] == ["echo", "add"]  # under their own names
    answer = server.post("/v1/mcp/good/tools/add", {"a": 1, "b": 2}).json()
    assert answer["success"] and answer["data"] == {
        "content": [{"type": "text", "text": "3"}], "structuredContent": {"sum": 3}, "isError": False, "_meta": None}
    assert server.post("/v1/mcp/good/tools/good_echo", {"text": "x"}).json()["data"]["content"][0]["text"] == "x"
    assert server.post("/v1/mcp/good/tools/nothing", {}).status_code == 404
    assert server.get("/v1/mcp/nobody/tools").status_code == 404
    assert server.post("/v1/mcp/nobody/tools/x", {}).status_code == 404
    assert "disabled" in server.get("/v1/mcp/off/tools").json()["message"]
    assert not any(name.startswith("secret_") for name in names(Peer(server)))


def test_a_server_over_http(hub, start_server):
    """Another server of ours is behind this one; it answers with JSON and with events."""
    upstream = start_server(program="fixture", env={**FIXTURE, "SANDBOX_API_KEY": "secret"})
    server = hub(far={"url": f"{upstream.url}/mcp", "headers": {"Authorization": "Bearer secret"}},
                 locked={"type": "http", "url": f"{upstream.url}/mcp"})
    with Peer(server) as peer:
        names(peer, "far_test_simple_text")
        assert peer.text("far_test_simple_text").startswith("This is a simple")
        assert peer.call("far_test_image_content")["content"][0]["mimeType"] == "image/png"
        message = peer.build("tools/call", {"name": "far_test_tool_with_progress"}, meta={"progressToken": 1})
        with peer.stream(message) as events:
            got = [json.loads(event["data"]) for event in events if event.get("data")]
        assert progress_left(got) in ([100, 50, 0], [50, 0])
        assert "401" in failed(peer.call("locked_anything"))
        assert "401" in status(server, "locked")["reason"]


def test_a_server_over_http_that_begins_anew(hub, start_server):
    upstream = start_server(["--max-sessions", "1"], program="fixture", env=FIXTURE)
    server = hub(far={"url": f"{upstream.url}/mcp"})
    with Peer(server) as peer:
        assert peer.text("far_test_simple_text")
        with Peer(upstream) as other:  # takes the session's place
            other.ask("ping")
        first = peer.call("far_test_simple_text")
        assert first.get("isError") is None or not peer.call("far_test_simple_text").get("isError")


def test_a_server_over_http_that_is_not_there(hub):
    server = hub(far={"url": "http://127.0.0.1:9/mcp"}, good=program("good"))
    with Peer(server) as peer:
        assert not any(name.startswith("far_") for name in names(peer, "good_echo"))
        assert "cannot be reached" in failed(peer.call("far_x"))
        assert status(server, "far")["status"] == "unavailable"


def test_a_server_over_http_is_spoken_to_in_its_own_revision(hub):
    """Servers refuse a revision that they do not know, but for the request that agrees on one."""
    def answer(message, headers):
        if message.get("method") == "initialize":
            return 200, [{"id": message["id"], "result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}}]
        if headers["MCP-Protocol-Version"] != "2025-06-18":
            return 400, [{"id": None, "error": {"code": -32000, "message": "Unsupported protocol version"}}]

    with mcp_servers.over_http(answer) as far, Peer(hub(far={"url": far.url})) as peer:
        assert peer.text("far_echo") == "good"


def test_names_of_servers_that_begin_alike(hub):
    server = hub(git=program("good"), git_hub=program("good", env={"MINE": "hub"}), git_hub_2={"url": "http://127.0.0.1:9/"})
    with Peer(server) as peer:
        names(peer, "git_echo", "git_hub_echo")
        assert peer.text("git_hub_env", name="MINE") == "hub" and peer.text("git_env", name="MINE") == "absent"


# --- bad ones ----------------------------------------------------------------------------------


def test_one_over_http_that_asks_whenever_it_is_answered(hub):
    """The answer to an answer is of no interest: who looked at it would be asked again, for ever."""
    question = {"jsonrpc": "2.0", "id": "q", "method": "ping"}

    def answer(message, _):
        if "method" not in message:
            return 200, [question]
        if message["method"] == "tools/call":
            return 200, [question, {"id": message["id"], "result": mcp_servers.text("after all")}]

    with mcp_servers.over_http(answer) as far, Peer(hub(far={"url": far.url})) as peer:
        assert peer.text("far_echo") == "after all"
        assert eventually(lambda: [one for one in far.posts if "method" not in one])
        assert peer.server.at_rest() and len([one for one in far.posts if "method" not in one]) == 1


def test_one_over_http_that_asks_too_much(hub):
    """Answering takes no longer than the call may."""
    asked = []

    def answer(message, _):
        if "method" not in message:
            asked.append(message)
            time.sleep(0.4)
        elif message["method"] == "tools/call":
            return 200, [{"id": n, "method": "ping"} for n in range(200)]

    with mcp_servers.over_http(answer) as far, Peer(hub(far={"url": far.url, "timeout": 1})) as peer:
        names(peer, "far_echo")
        begin = time.monotonic()
        assert "in time" in failed(peer.call("far_echo"))
        assert time.monotonic() - begin < 30 and len(asked) < 20  # all would be 80 seconds


@pytest.mark.concurrency
@pytest.mark.serial
def test_one_that_asks_and_hears_nothing(hub):
    """The end does not wait for the 10 seconds that a program has to take a message."""
    server = hub(deaf=program("deaf"))
    with Peer(server) as peer:
        names(peer, "deaf_echo")
        assert peer.text("deaf_echo", text="x") == "x"
        [pid] = server.children()
        assert eventually(lambda: (Path("/proc") / str(pid) / "stat").read_text().split()[2] == "S")  # both pipes are full
    begin = time.monotonic()
    server.stop()
    assert time.monotonic() - begin < 8


def test_one_that_does_not_say_what_has_changed(hub):
    server = hub(late=program("late"), good=program("good"))
    with Peer(server) as peer:
        names(peer, "late_echo", "good_echo")
        peer.call("late_grow")
        begin = time.monotonic()
        for _ in range(6):
            assert {"late_echo", "good_echo"} < set(names(peer))
        assert time.monotonic() - begin < 20  # one wait of 4 seconds, not six
        server.config_file.write_text("{}")
        names(peer)
        assert eventually(lambda: not server.children())


@pytest.mark.concurrency
def test_one_that_crashes_is_started_again(hub):
    server = hub(crash=program("crash"), good=program("good"))
    with Peer(server) as peer:
        names(peer, "crash_echo")
        for _ in range(3):
            text = failed(peer.call("crash_echo"))
            assert "exit code 3" in text and "I cannot go on" in text
        assert peer.text("good_echo", text="unharmed") == "unharmed"


def test_one_that_dies_at_once(hub):
    server = hub(dead=program("stillborn"), good=program("good"))
    with Peer(server) as peer:
        names(peer, "good_echo")
        assert "libmissing.so" in failed(peer.call("dead_echo"))
        one = status(server, "dead")
        assert one["status"] == "unavailable" and "libmissing.so" in one["reason"]


def test_one_that_hangs(hub):
    server = hub(hang=program("hang", timeout=1), good=program("good"))
    with Peer(server) as peer:
        begin = time.monotonic()
        assert "did not answer within 1 s" in failed(peer.call("hang_echo"))
        assert time.monotonic() - begin < 50  # the usual limit is 60 seconds
        assert peer.text("good_echo", text="x") == "x"


@pytest.mark.concurrency
def test_a_hanging_call_can_be_cancelled(hub):
    server = hub(hang=program("hang"))
    with Peer(server) as peer:
        names(peer)
        message = peer.build("tools/call", {"name": "hang_echo"})
        with peer.stream(message) as events:
            next(events)
            peer.tell("notifications/cancelled", {"requestId": message["id"]})
            assert not [event for event in events if event.get("data")]


def test_one_that_says_nothing_keeps_nobody_waiting(hub):
    server = hub(mute=program("mute"), good=program("good"))
    with Peer(server) as peer:
        begin = time.monotonic()
        names(peer, "good_echo")
        assert time.monotonic() - begin < 18  # one that starts has 20 seconds
        server.config_file.write_text("{}")
        names(peer)
        assert eventually(lambda: not server.children())


def test_one_that_floods(hub):
    server = hub(flood=program("flood"), good=program("good"))
    with Peer(server) as peer:
        assert peer.text("good_echo", text="x") == "x"
        before = server.memory()
        names(peer)
        assert peer.ask("ping") == {}
        assert server.memory() - before < 100 << 20
        server.config_file.write_text("{}")
        names(peer)
        assert eventually(lambda: not server.children())


def test_one_whose_message_is_enormous(hub):
    server = hub(huge=program("huge"), good=program("good"))
    with Peer(server) as peer:
        assert "larger than 16 MiB" in failed(peer.call("huge_echo"))
        assert "more than" in failed(peer.call("good_big"))
        assert peer.text("good_echo", text="x") == "x"


def test_one_that_lies_about_its_schemas(hub):
    server = hub(liar=program("liar"))
    with Peer(server) as peer:
        names(peer, "liar_no_schema")
        tools = {tool["name"]: tool for tool in peer.ask("tools/list")["tools"] if tool["name"].startswith("liar_")}
        assert set(tools) == {f"liar_{name}" for name in [
            "no_schema", "list_schema", "wrong_type", "false_output", "no_content", "odd_content", "only_structured"]}
        for tool in tools.values():
            assert tool["inputSchema"]["type"] == "object" and isinstance(tool["description"], str)
            assert "outputSchema" not in tool  # a client would refuse results because of it
        assert peer.text("liar_false_output") == "honest"
        assert "without content" in failed(peer.call("liar_no_content"))
        assert "without content" in failed(peer.call("liar_odd_content"))
        assert json.loads(peer.text("liar_only_structured")) == {"x": 1}


def test_one_that_prints_and_asks(hub, tmp_path):
    trace = tmp_path / "trace"
    trace.touch()
    trace.chmod(0o666)
    server = hub(noisy=program("noisy", env={"NOISY_TRACE": str(trace)}))
    with Peer(server) as peer:
        assert peer.text("noisy_echo", text="x") == "x"
        assert eventually(lambda: trace.read_text().count("\n") == 3)
    answers = {one["id"]: one for one in map(json.loads, trace.read_text().splitlines())}
    assert answers["q1"]["result"] == {} and answers["q3"]["error"]["code"] == -32601
    assert answers["q2"]["result"]["roots"][0]["uri"] == f"file://{server.home}"


# --- the configuration -------------------------------------------------------------------------


def test_servers_that_are_not_installed_say_so(hub):
    server = hub(mine={"command": "no-such-program-anywhere"})
    one = status(server, "mine")
    assert one["status"] == "unavailable" and "is not installed" in one["reason"]
    for name in ["chrome_devtools", "playwright", "arxiv", "markitdown"]:
        one = status(server, name)
        assert one["status"] == "unavailable" and "install" in one["hint"], one
        assert "is not installed" in server.get(f"/v1/mcp/{name}/tools").json()["message"]
    with Peer(server) as peer:
        contents = peer.ask("resources/read", {"uri": "sandbox://mcp-servers"})["contents"][0]
        assert "arxiv" in [s["name"] for s in json.loads(contents["text"])]
        assert "is not installed" in failed(peer.call("arxiv_search_papers"))


@pytest.mark.parametrize("entry, reason", [
    ({}, "either 'command' or 'url'"), ({"command": "x", "url": "http://x"}, "either"), ("x", "must be an object"),
    ({"command": 5}, "'command' must be a string"), ({"command": "x", "args": "y"}, "'args' must be"),
    ({"command": "x", "args": [1]}, "'args' must be"), ({"command": "x", "env": {"A": 1}}, "'env' must be"),
    ({"url": "ftp://x/"}, "http: or https:"), ({"url": "nonsense"}, "http: or https:"),
    ({"url": "http://x/", "headers": {"A": "b\r\nC: d"}}, "'headers' must be"),
    ({"command": "x", "cwd": "relative"}, "absolute"),
])
def test_an_entry_that_is_wrong(hub, entry, reason):
    server = hub(bad=entry, good=program("good"))
    one = status(server, "bad")
    assert one["status"] == "unavailable" and reason in one["reason"]
    assert Peer(server).text("good_echo", text="x") == "x"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"mcpServers": []}', "{}", "\0"])
def test_a_file_that_is_wrong(hub, text):
    server = hub()
    server.config_file.write_text(text)
    answer = server.get("/v1/mcp/servers")
    assert answer.status_code == 200
    reasons = [one["reason"] for one in answer.json()["servers"] if one["name"] == "mcp-servers.json"]
    assert bool(reasons) == bool(text) and all("the file" in reason for reason in reasons)


@pytest.mark.concurrency
def test_a_file_that_changes_is_read_again(hub):
    server = hub()
    with Peer(server) as peer:
        assert not any(name.startswith("late_") for name in names(peer))
        with peer.stream() as events:
            server.config_file.write_text(json.dumps({"mcpServers": {"late": program("good")}}))
            names(peer, "late_echo")
            assert events.message()["method"] == "notifications/tools/list_changed"
    assert peer.session is None


def test_nobody_lives_longer_than_the_server(hub):
    server = hub(good=program("good"), hang=program("hang"), idle="600")
    with Peer(server) as peer:
        names(peer, "good_echo", "hang_echo")
        assert eventually(lambda: len(server.children()) == 2)
        pids = server.children()
        assert int(peer.text("good_pid")) in pids
    server.stop()
    assert len(pids) == 2 and gone(*pids)
