"""MCP over HTTP as clients of every revision speak it: versions, sessions, streams, and bad manners."""

import base64
import json
import re
import time
from concurrent.futures import ThreadPoolExecutor

import jsonschema
import pytest

from harness import eventually, request
from mcp_peer import BOTH, FIXTURE, META, MODERN, SESSIONS, Peer, RpcError, progress_left
from processes import text_of as ended  # reads the file in which a call records how it ended


def warm(server):
    """The list of tools is built once and kept."""
    with Peer(server) as peer:
        peer.ask("tools/list")
    server.take_baseline()


pytestmark = pytest.mark.server(program="fixture", env=FIXTURE, warm=warm)


@pytest.fixture
def peer(server):
    with Peer(server) as peer:
        yield peer


@pytest.fixture
def modern(server):
    return Peer(server, modern=True)


def fails(function, *args, **more):
    with pytest.raises(RpcError) as caught:
        function(*args, **more)
    return caught.value


# --- versions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", SESSIONS)
def test_a_revision_that_is_known_is_agreed(server, version):
    with Peer(server) as peer:
        peer.close()
        result = peer.initialize(version)
        assert result["protocolVersion"] == version
        assert result["serverInfo"]["name"] == "aiobox" and result["instructions"]
        assert peer.ask("ping") == {}
        assert peer.text("test_simple_text") == "This is a simple text response for testing."


@pytest.mark.parametrize("version", ["2099-01-01", "1.0", MODERN, ""])
def test_any_other_gets_the_newest_with_sessions(server, version):
    peer = Peer(server)
    assert peer.initialize(version)["protocolVersion"] == "2025-11-25"
    peer.close()


def test_a_version_header_that_is_unknown_is_refused(peer):
    answer = peer.send(peer.build("ping"), MCP_Protocol_Version="2099-01-01")
    assert answer.status_code == 400 and answer.json()["error"]["code"] == -32600
    assert "2025-11-25" in answer.json()["error"]["message"]


def test_structured_content_is_for_those_who_know_it(start_server):
    server = start_server()
    for version, known in [("2025-03-26", False), ("2025-06-18", True)]:
        peer = Peer(server)
        peer.initialize(version)
        assert ("structuredContent" in peer.call("sandbox_get_context")) == known
        peer.close()


# --- sessions ----------------------------------------------------------------------------------


def test_a_session_lives_from_initialize_to_delete(server):
    peer = Peer(server)
    peer.initialize()
    assert re.fullmatch(r"[!-~]{16,}", peer.session)
    session = peer.session
    assert peer.ask("ping") == {}
    peer.close()
    peer.session = session
    error = fails(peer.ask, "ping")
    assert error.status == 404
    with peer.client() as client:
        assert client.delete("/mcp", headers=peer.head()).status_code == 404
        assert client.get("/mcp", headers=peer.head(Accept="text/event-stream")).status_code == 404


def test_session_ids_cannot_be_guessed(server):
    ids = []
    for _ in range(20):
        peer = Peer(server)
        peer.initialize()
        ids.append(peer.session)
        peer.close()
    assert len({i[:8] for i in ids}) == 20  # random from the first character on


def test_delete_without_a_session(server):
    with Peer(server).client() as client:
        assert client.delete("/mcp").status_code == 400
        assert client.delete("/mcp", headers={"MCP-Protocol-Version": MODERN}).status_code == 405


@pytest.mark.concurrency
def test_a_hundred_sessions_at_once(server):
    def work(n):
        with Peer(server) as peer:
            answers = []
            for i in range(5):
                answers.append(peer.ask("tools/call", {"name": "flood", "arguments": {"count": 3, "size": n}}))
                assert peer.text("test_simple_text").startswith("This is")
            return peer.version, [a["content"][0]["text"] for a in answers]

    with ThreadPoolExecutor(100) as pool:
        for version, texts in pool.map(work, range(100)):
            assert version == "2025-11-25" and texts == ["flooded"] * 5


def test_old_sessions_make_room(start_server):
    server = start_server(["--max-sessions", "3"], program="fixture", env=FIXTURE)
    peers = []
    for _ in range(5):
        peers.append(Peer(server))
        peers[-1].initialize()
    assert fails(peers[0].ask, "ping").status == 404
    assert peers[-1].ask("ping") == {}
    for peer in peers[2:]:
        peer.close()


def test_who_is_refused_opens_no_session(start_server):
    server = start_server(["--max-sessions", "1"], program="fixture", env=FIXTURE)
    with Peer(server) as peer:
        other = Peer(server)
        hello = other.build("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}})
        assert other.send(hello, MCP_Protocol_Version="nonsense").status_code == 400
        assert peer.ask("ping") == {}


def test_busy_sessions_do_not(start_server):
    server = start_server(["--max-sessions", "1"], program="fixture", env=FIXTURE)
    with Peer(server) as peer:
        message = peer.build("tools/call", {"name": "wait", "arguments": {}})
        with peer.stream(message) as events:
            next(events)
            answer = Peer(server).send(peer.build("initialize", {"protocolVersion": "2025-11-25"}))
            assert answer.status_code == 429, answer.text
            peer.tell("notifications/cancelled", {"requestId": message["id"]})


# --- plain clients -----------------------------------------------------------------------------


@pytest.mark.parametrize("headers", [{}, {"Accept": "application/json"}, {"Accept": "*/*"}, {"Accept": BOTH}])
@pytest.mark.parametrize("path", ["/mcp", "/v1/mcp"])
def test_a_bare_call_is_answered(server, headers, path):
    def ask():
        answer = server.post(path, {"method": "tools/call", "params": {"name": "test_simple_text"}}, headers=headers)
        assert answer.status_code == 200
        # A call that takes more than a second is answered with events, where the client accepts them.
        return answer.headers["content-type"] == "application/json" and answer

    answer = eventually(ask)
    assert answer.json()["result"]["content"][0]["text"].startswith("This is a simple text")


def test_a_bare_call_without_a_content_type(server):
    answer = server.request("POST", "/mcp", content=b'{"method":"tools/list"}')
    assert answer.status_code == 200 and answer.json()["result"]["tools"]


def test_a_bare_call_that_fails_has_an_error(server):
    answer = server.post("/mcp", {"method": "tools/call", "params": {"name": "test_error_handling"}})
    error = answer.json()["error"]
    assert answer.status_code == 200 and "intentionally" in error["message"]
    assert error["data"]["isError"] is True


def test_with_an_id_the_same_is_a_result(server):
    answer = Peer(server).call("test_error_handling")
    assert answer["isError"] is True and "intentionally" in answer["content"][0]["text"]


def test_progress_needs_somebody_to_hear_it(server):
    """Who takes no events gets the result alone."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "test_tool_with_progress", "_meta": {"progressToken": 1}}}
    answer = server.post("/mcp", body, headers={"Accept": "application/json"})
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["result"]["content"][0]["text"] == "Tool with progress executed successfully"


def test_who_takes_only_events_gets_events(server):
    answer = server.post("/mcp", {"jsonrpc": "2.0", "id": 7, "method": "ping"}, headers={"Accept": "text/event-stream"})
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert json.loads(answer.text.split("data: ")[1]) == {"jsonrpc": "2.0", "id": 7, "result": {}}


# --- messages that are none --------------------------------------------------------------------


@pytest.mark.parametrize("body, code", [
    (b"", -32700), (b"{", -32700), (b"nonsense", -32700), (b'{"jsonrpc":"2.0","id":1,"method":"ping"', -32700),
    (b"\xff\xfe", -32700), (b"[" * 1000, -32700), (b"1", -32600), (b'"x"', -32600), (b"null", -32600),
    (b"{}", -32600), (b"[]", -32600), (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600),
    (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600), (b'{"jsonrpc":"2.0","id":1,"method":5}', -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}', -32600), (b"[1]", -32600),
    (b'[{"method":"initialize","id":1}]', -32600),
])
def test_what_is_no_message(server, body, code):
    answer = server.request("POST", "/mcp", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == code and answer.json()["jsonrpc"] == "2.0"


def test_a_message_that_is_too_large(start_server):
    server = start_server(["--max-body", "10K"], program="fixture", env=FIXTURE)
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "y" * 20000}}
    assert server.post("/mcp", body).status_code == 413


@pytest.mark.parametrize("method", ["nothing/here", "tools", "", "tools/call/", "subscriptions/listen"])
def test_an_unknown_method(peer, method):
    error = fails(peer.ask, method)
    assert (error.code, error.status) == (-32601, 200)


@pytest.mark.parametrize("params", [{}, {"name": 5}, {"name": ""}, {"name": "no_such_tool"}, {"name": "x" * 10000}])
def test_an_unknown_tool(peer, params):
    assert fails(peer.ask, "tools/call", params).code == -32602


@pytest.mark.parametrize("arguments", ["x", [1], 5])
def test_arguments_that_are_no_object(peer, arguments):
    result = peer.ask("tools/call", {"name": "flood", "arguments": arguments})
    assert result["isError"] and "must be an object" in result["content"][0]["text"]


def test_ids_come_back_as_they_are(peer):
    for id in ["a", "", 0, -1, 2**53, "\u20ac", 1.5]:
        answer = peer.send(peer.build("ping", id=id))
        assert answer.json()["id"] == id and type(answer.json()["id"]) is type(id)


def test_what_is_only_told_is_accepted(peer):
    peer.tell("notifications/roots/list_changed")
    peer.tell("notifications/nobody/knows", {"a": 1})
    peer.tell("notifications/cancelled", {"requestId": 12345})
    peer.tell("notifications/cancelled", {"requestId": None})
    answer = peer.send({"jsonrpc": "2.0", "id": 99, "result": {}})
    assert answer.status_code == 202


# --- batches -----------------------------------------------------------------------------------


def test_a_batch_where_the_revision_has_them(server):
    peer = Peer(server)
    peer.initialize("2025-03-26")
    batch = [peer.build("ping", id="a"), {"jsonrpc": "2.0", "method": "notifications/x"},
             peer.build("tools/call", {"name": "test_simple_text"}, id="b"), peer.build("nope", id="c")]
    replies = {reply["id"]: reply for reply in peer.send(batch, Accept="application/json").json()}
    assert replies["a"]["result"] == {} and replies["c"]["error"]["code"] == -32601
    assert replies["b"]["result"]["content"][0]["type"] == "text" and len(replies) == 3
    assert peer.send([{"jsonrpc": "2.0", "method": "notifications/x"}]).status_code == 202
    peer.close()


def test_a_batch_of_slow_calls(server):
    """Eight calls of three seconds each do not take 24, and their replies come with what precedes them."""
    batch = [{"jsonrpc": "2.0", "id": n, "method": "tools/call",
              "params": {"name": "wait", "arguments": {"seconds": 3}}} for n in range(8)]
    begin = time.monotonic()
    answer = server.post("/mcp", batch, headers={"Accept": "application/json"})
    assert sorted(reply["id"] for reply in answer.json()) == list(range(8))
    assert time.monotonic() - begin < 20


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
def test_no_batch_where_it_has_none(server, version):
    peer = Peer(server)
    peer.initialize(version)
    answer = peer.send([peer.build("ping")])
    assert answer.status_code == 400 and answer.json()["error"]["code"] == -32600
    peer.close()


def test_a_batch_has_an_end(server):
    batch = [{"jsonrpc": "2.0", "id": n, "method": "ping"} for n in range(101)]
    assert server.post("/mcp", batch).status_code == 400
    assert len(server.post("/mcp", batch[:100]).json()) == 100


# --- routes as tools ---------------------------------------------------------------------------


def test_a_picture_is_image_content(peer):
    (image,) = peer.call("picture")["content"]
    assert (image["type"], image["mimeType"]) == ("image", "image/png")
    assert base64.b64decode(image["data"]).startswith(b"\x89PNG")


def test_a_list_is_structured_too(peer):
    tool = next(tool for tool in peer.ask("tools/list")["tools"] if tool["name"] == "things")
    assert tool["inputSchema"]["required"] == ["name"] and tool["inputSchema"]["properties"]["size"]["default"] == 1
    result = peer.call("things", name="one", size=5)
    assert result["structuredContent"] == {"result": [{"name": "one", "size": 5}, {"name": "other", "size": 2}]}
    jsonschema.validate(result["structuredContent"], tool["outputSchema"])


def test_what_a_route_refuses_is_the_tool_s_failure(peer):
    result = peer.call("refused", name="x")
    texts = [item["text"] for item in result["content"]]
    assert result["isError"] and texts[0] == "It cannot be done" and texts[-1] == "Do something else."
    assert json.loads(texts[1]) == {"name": "x", "size": 1}
    result = peer.call("broken")
    assert result["isError"] and result["content"][0]["text"] == "somebody else is at it"
    assert "name: Field required" in peer.call("things")["content"][0]["text"]


def test_a_tool_without_its_route_is_not_there(peer):
    assert "absent" not in [tool["name"] for tool in peer.ask("tools/list")["tools"]]
    assert fails(peer.call, "absent").code == -32602


# --- whose pages may call ----------------------------------------------------------------------


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
def test_a_foreign_origin_is_refused(server, method):
    answer = server.request(method, "/mcp", headers={"Origin": "http://evil.example.com", "Accept": BOTH},
                            **({"json": {"method": "ping"}} if method == "POST" else {}))
    assert answer.status_code == 403


def test_our_own_origin_and_a_configured_one_are_not(start_server):
    server = start_server(["--cors-origins", "https://app.example.com"], program="fixture", env=FIXTURE)
    for origin in [server.url, "https://app.example.com"]:
        answer = server.post("/mcp", {"id": 1, "method": "ping"}, headers={"Origin": origin})
        assert answer.status_code == 200 and answer.headers["access-control-allow-origin"] == origin


def test_a_foreign_host_is_refused(server):
    answer = server.post("/mcp", {"id": 1, "method": "ping"}, headers={"Host": "evil.example.com"})
    assert answer.status_code == 403


def test_credentials_are_asked_for(start_server):
    server = start_server(env={"SANDBOX_API_KEY": "k", **FIXTURE}, program="fixture")
    body = {"id": 1, "method": "ping"}
    for path in ["/mcp", "/v1/mcp"]:
        answer = server.post(path, body)
        assert answer.status_code == 401 and "Bearer" in answer.headers["www-authenticate"]
        assert server.post(path, body, headers={"Authorization": "Bearer k"}).status_code == 200


# --- streams -----------------------------------------------------------------------------------


def test_what_comes_before_the_reply_comes_first(peer):
    message = peer.build("tools/call", {"name": "test_tool_with_progress"}, meta={"progressToken": "t"})
    with peer.stream(message) as events:
        got = [json.loads(event["data"]) for event in events if event.get("data")]
    assert progress_left(got) in ([100, 50, 0], [50, 0])
    assert {m["params"]["progressToken"] for m in got[:-1]} == {"t"}
    assert got[-1]["id"] == message["id"] and "result" in got[-1]


@pytest.mark.parametrize("version, primed", [("2025-06-18", False), ("2025-11-25", True)])
def test_a_stream_begins_with_an_empty_event_for_those_who_know_it(server, version, primed):
    peer = Peer(server)
    peer.initialize(version)
    with peer.stream(peer.build("tools/call", {"name": "test_tool_with_logging"})) as events:
        first = next(events)
        assert first["id"] and (first["data"] == "") == primed
    peer.close()


def test_a_long_call_tells_how_long(peer):
    message = peer.build("tools/call", {"name": "wait", "arguments": {"seconds": 5}}, meta={"progressToken": 5})
    with peer.stream(message) as events:
        got = [json.loads(event["data"]) for event in events if event.get("data")]
    values = [m["params"]["progress"] for m in got[:-1]]
    assert values and values == sorted(values) and values[0] >= 0.9
    assert got[-1]["result"]["content"][0]["text"] == "waited"


@pytest.mark.concurrency
def test_a_broken_stream_goes_on_where_it_broke(peer):
    """The client is cut off in the middle, comes back, and misses nothing."""
    message = peer.build("tools/call", {"name": "test_tool_with_logging"})
    peer.ask("logging/setLevel", {"level": "debug"})
    with peer.stream(message) as events:
        next(events)
        seen = next(events)
    assert json.loads(seen["data"])["params"]["data"] == "Tool execution started"
    with peer.stream(Last_Event_ID=seen["id"]) as events:
        texts, reply = [], None
        for event in events:
            one = json.loads(event["data"]) if event.get("data") else {}
            texts += [one["params"]["data"]] if "method" in one else []
            reply = one if one.get("id") == message["id"] else reply
    assert texts == ["Tool processing data", "Tool execution completed"]
    assert reply["result"]["content"][0]["text"] == "Tool with logging executed successfully"


def test_a_stream_can_be_read_again_from_any_event(peer):
    peer.ask("logging/setLevel", {"level": "debug"})
    with peer.stream(peer.build("tools/call", {"name": "test_tool_with_logging"})) as events:
        all = [event for event in events if "id" in event]
    assert len(all) == 5  # the empty one, three messages, the reply
    for i, event in enumerate(all):
        with peer.stream(Last_Event_ID=event["id"]) as events:
            assert [e["data"] for e in events if e.get("data")] == [e["data"] for e in all[i + 1:]]


def test_a_server_that_closes_early_is_found_again(peer):
    message = peer.build("tools/call", {"name": "test_reconnection"})
    with peer.stream(message) as events:
        got = list(events)
    assert not any(event.get("data") for event in got) and got[-1] == {"retry": "500"}
    with peer.stream(Last_Event_ID=got[0]["id"]) as events:
        assert "completed successfully" in events.message()["result"]["content"][0]["text"]


@pytest.mark.parametrize("id, status", [("x", 400), ("", 400), ("1", 400), ("77_0", 404), ("99999999999999999999_1", 404)])
def test_an_event_that_never_was(peer, id, status):
    with peer.client() as client:
        answer = client.get("/mcp", headers=peer.head(Accept="text/event-stream", Last_Event_ID=id))
        assert answer.status_code == status


def test_streams_are_not_remembered_for_ever(peer):
    first = None
    for _ in range(20):
        with peer.stream(peer.build("tools/call", {"name": "test_tool_with_logging"})) as events:
            first = first or next(events)["id"]
            list(events)
    with peer.client() as client:
        assert client.get("/mcp", headers=peer.head(Accept="text/event-stream", Last_Event_ID=first)).status_code == 404


def test_news_come_on_the_session_s_own_stream(peer):
    with peer.stream() as events:
        peer.call("test_trigger_tool_change")
        assert events.message()["method"] == "notifications/tools/list_changed"
        peer.call("test_trigger_prompt_change")
        assert events.message()["method"] == "notifications/prompts/list_changed"


def test_news_of_the_time_between_two_streams_are_kept(peer):
    with peer.stream() as events:
        peer.call("test_trigger_tool_change")
        event = next(e for e in events if e.get("data"))
    peer.call("test_trigger_prompt_change")
    with peer.stream(Last_Event_ID=event["id"]) as events:
        assert events.message()["method"] == "notifications/prompts/list_changed"


def test_the_newest_reader_has_the_stream(peer):
    with peer.stream() as old:
        with peer.stream() as new:
            assert all(not event.get("data") for event in old)  # and it ends
            peer.call("test_trigger_tool_change")
            assert new.message()["method"] == "notifications/tools/list_changed"


def test_a_stream_needs_a_session(server):
    with Peer(server).client() as client:
        for headers in [{"Accept": "text/html"}, {}, {"Accept": "text/event-stream", "MCP-Protocol-Version": MODERN}]:
            answer = client.get("/mcp", headers=headers)
            assert answer.status_code == 405 and "POST" in answer.headers["allow"]
        assert client.head("/mcp").status_code == 405


def test_the_end_of_a_session_ends_its_stream(server):
    peer = Peer(server)
    peer.initialize()
    with peer.stream() as events:
        peer.close()
        assert not [event for event in events if event.get("data")]
    assert fails(Peer(server, headers={"Mcp-Session-Id": "gone"}).ask, "ping").status == 404


@pytest.mark.concurrency
def test_the_end_of_the_server_ends_all_streams(start_server):
    server = start_server(program="fixture", env=FIXTURE)
    peer = Peer(server)
    peer.initialize()
    with peer.stream() as events, peer.stream(peer.build("tools/call", {"name": "wait"})) as call:
        next(call)
        server.signal()
        list(events), list(call)
    assert server.wait() == 0 and "did not finish" not in server.log


def test_logs_are_what_was_asked_for(peer):
    def logs(level):
        peer.ask("logging/setLevel", {"level": level})
        message = peer.build("tools/call", {"name": "test_tool_with_logging"})
        text = peer.send(message).text
        return text.count("notifications/message")

    assert (logs("debug"), logs("info"), logs("warning"), logs("emergency"), logs("info")) == (3, 3, 0, 0, 3)
    assert fails(peer.ask, "logging/setLevel", {"level": "loud"}).code == -32602


@pytest.mark.concurrency
def test_a_client_is_asked_and_answers(server):
    with Peer(server, capabilities={"elicitation": {}}) as peer:
        message = peer.build("tools/call", {"name": "test_elicitation", "arguments": {"message": "who?"}})
        with peer.stream(message) as events:
            question = events.message()
            assert question["method"] == "elicitation/create" and question["params"]["message"] == "who?"
            answer = {"action": "accept", "content": {"username": "me", "email": "a@b"}}
            assert peer.send({"jsonrpc": "2.0", "id": question["id"], "result": answer}).status_code == 202
            assert '"username": "me"' in events.message()["result"]["content"][0]["text"]


def test_a_question_is_answered_by_its_own_session_only(server):
    with Peer(server) as peer, Peer(server) as other:
        message = peer.build("tools/call", {"name": "test_sampling", "arguments": {"prompt": "x"}})
        with peer.stream(message) as events:
            question = events.message()
            forged = {"jsonrpc": "2.0", "id": question["id"],
                      "result": {"content": {"type": "text", "text": "forged"}}}
            assert other.send(forged).status_code == 202
            forged["result"]["content"]["text"] = "true"
            assert peer.send(forged).status_code == 202
            assert events.message()["result"]["content"][0]["text"] == "LLM response: true"


# --- leaving and cancelling --------------------------------------------------------------------


@pytest.mark.concurrency
def test_a_call_is_cancelled(peer, tmp_path):
    trace = tmp_path / "trace"
    message = peer.build("tools/call", {"name": "wait", "arguments": {"trace": str(trace)}})
    with peer.stream(message) as events:
        next(events)
        peer.tell("notifications/cancelled", {"requestId": message["id"], "reason": "enough"})
        assert not [e for e in events if e.get("data")]  # no reply
    assert ended(trace) == "cut"


def test_cancelling_another_s_call_does_nothing(server, tmp_path):
    trace = tmp_path / "trace"
    with Peer(server) as peer, Peer(server) as other:
        message = peer.build("tools/call", {"name": "wait", "arguments": {"trace": str(trace), "seconds": 2}})
        with peer.stream(message, Accept="text/event-stream") as events:
            other.tell("notifications/cancelled", {"requestId": message["id"]})
            assert events.message()["result"]["content"][0]["text"] == "waited"
    assert ended(trace) == "whole"


def test_who_leaves_a_session_s_call_finds_it_done(peer, tmp_path):
    trace = tmp_path / "trace"
    message = peer.build("tools/call", {"name": "wait", "arguments": {"trace": str(trace), "seconds": 2}})
    with peer.stream(message, Accept="text/event-stream") as events:
        event = next(events)
    assert ended(trace) == "whole"
    with peer.stream(Last_Event_ID=event["id"]) as events:
        assert events.message()["result"]["content"][0]["text"] == "waited"


@pytest.mark.parametrize("kind", ["modern", "plain"])
def test_who_leaves_without_a_session_cancels(server, tmp_path, kind):
    trace = tmp_path / "trace"
    peer = Peer(server, modern=kind == "modern")
    with peer.stream(peer.build("tools/call", {"name": "wait", "arguments": {"trace": str(trace)}})):
        pass
    assert ended(trace) == "cut"


@pytest.mark.concurrency
def test_deleting_a_session_cancels_its_calls(server, tmp_path):
    trace = tmp_path / "trace"
    peer = Peer(server)
    peer.initialize()
    with peer.stream(peer.build("tools/call", {"name": "wait", "arguments": {"trace": str(trace)}})) as events:
        next(events)
        peer.close()
        assert not [e for e in events if e.get("data")]
    assert ended(trace) == "cut"


def test_a_client_that_never_reads(start_server):
    """What it is sent is bounded, and after a while it is given up."""
    server = start_server(["--send-timeout", "1"], program="fixture", env=FIXTURE)
    with Peer(server) as peer:
        peer.ask("logging/setLevel", {"level": "debug"})
        message = peer.build("tools/call", {"name": "flood", "arguments": {"count": 400, "size": 100000}})
        body = json.dumps(message).encode()
        before, answered = server.memory(), lambda: server.log.count("target=/mcp status=200")
        assert eventually(lambda: answered() == 2)  # initialize and logging/setLevel
        with server.connect(receive_buffer=4096) as deaf:
            deaf.send(request("/mcp", "POST", {"Content-Type": "application/json", **peer.head()}, body))
            assert peer.ask("ping") == {}  # others are served
            assert eventually(lambda: answered() == 4 and server._sockets() <= 2)
        assert server.memory() - before < 60 << 20


def test_a_stream_that_nobody_reads_forgets_the_oldest(start_server):
    server = start_server(program="fixture", env=FIXTURE)
    with Peer(server) as peer, Peer(server) as other:
        before = server.memory()
        for _ in range(60):  # 100 messages of 1 KiB each
            peer.call("test_trigger_tool_change")
            other.call("test_trigger_tool_change")
        assert server.memory() - before < 20 << 20
        with peer.stream() as events:
            assert events.message()["method"] == "notifications/tools/list_changed"


@pytest.fixture
def large(start_server):
    """A server, and the URI of a file of 4 MiB there, which as JSON are 24."""
    server = start_server(["--send-timeout", "100"], program="fixture", env=FIXTURE)
    (server.home / "large").write_bytes(b"\x01" * (4 << 20))
    return server, f"file://{server.home}/large"


def test_a_batch_of_large_replies(large):
    server, uri = large
    before = server.memory()
    peer = Peer(server)
    batch = [peer.build("resources/read", {"uri": uri}) for _ in range(6)]
    answers = peer.send(batch, 60, MCP_Protocol_Version="2025-03-26", Accept="application/json").json()
    assert [answer["id"] for answer in answers] == [message["id"] for message in batch]
    given = [answer for answer in answers if "result" in answer]
    assert len(given) == 3 and all("too large" in answer["error"]["message"] for answer in answers[3:])
    assert server.memory() - before < 250 << 20


def test_the_first_transport_that_nobody_reads(large):
    server, uri = large
    with server.connect(receive_buffer=4096) as deaf:
        deaf.send(request("/sse", "GET", {"Accept": "text/event-stream"}))
        while b"sessionId=" not in deaf.data or not deaf.data.endswith(b"\n\n\r\n"):
            assert deaf.more()
        sender = Peer(server, re.search(rb"data: (\S+)", deaf.data).group(1).decode())
        before = server.memory()
        statuses = [sender.send(sender.build("resources/read", {"uri": uri}), 60).status_code for _ in range(8)]
        assert statuses[0] == 202 and set(statuses[5:]) == {429}
        assert server.memory() - before < 250 << 20


def test_large_replies_are_not_remembered_for_ever(large):
    server, uri = large
    with Peer(server) as peer:
        before = server.memory()
        for _ in range(6):
            with peer.stream(peer.build("resources/read", {"uri": uri}), Accept="text/event-stream") as events:
                assert sum(map(len, events.answer.iter_raw())) > 24 << 20
        assert server.memory() - before < 125 << 20


# --- the revision without sessions -------------------------------------------------------------


def test_discover(modern):
    result = modern.ask("server/discover")
    assert result["supportedVersions"] == [MODERN] and result["resultType"] == "complete"
    assert result["capabilities"]["tools"] and result["_meta"][META + "serverInfo"]["name"] == "aiobox"
    assert result["ttlMs"] >= 0 and result["cacheScope"] in ("public", "private")


def test_results_say_what_they_are(modern):
    assert modern.call("test_simple_text")["resultType"] == "complete"
    for method in ["tools/list", "prompts/list", "resources/list", "resources/templates/list"]:
        result = modern.ask(method)
        assert result["resultType"] == "complete" and isinstance(result["ttlMs"], int) and result["cacheScope"]


@pytest.mark.parametrize("change, code", [
    ({"MCP_Protocol_Version": "2025-11-25"}, -32020), ({"Mcp_Method": "tools/list"}, -32020),
    ({"Mcp_Method": "Tools/Call"}, -32020), ({"Mcp_Name": "other"}, -32020), ({"Mcp_Name": "=?base64?!!?="}, -32020),
])
def test_headers_must_say_the_same(modern, change, code):
    message = modern.build("tools/call", {"name": "test_simple_text"})
    answer = modern.send(message, **change)
    assert answer.status_code == 400 and answer.json()["error"]["code"] == code
    assert answer.json()["id"] == message["id"]


@pytest.mark.parametrize("name", ["Mcp-Method", "Mcp-Name", "MCP-Protocol-Version"])
def test_no_header_may_be_missing(modern, name):
    message = modern.build("tools/call", {"name": "test_simple_text"})
    head = {k: v for k, v in modern.head(message).items() if k != name}
    answer = modern.server.post("/mcp", message, headers=head)
    assert answer.status_code == 400 and answer.json()["error"]["code"] == -32020


def test_a_name_may_be_base64(modern):
    message = modern.build("tools/call", {"name": "test_simple_text"})
    assert modern.send(message, Mcp_Name="=?base64?dGVzdF9zaW1wbGVfdGV4dA==?=").status_code == 200


@pytest.mark.parametrize("lack", ["protocolVersion", "clientCapabilities"])
def test_meta_must_be_there(modern, lack):
    message = modern.build("tools/list")
    del message["params"]["_meta"][META + lack]
    answer = modern.send(message)
    assert answer.status_code == 400 and answer.json()["error"]["code"] == -32602


def test_another_version_is_named_with_those_we_speak(modern):
    message = modern.build("tools/list")
    message["params"]["_meta"][META + "protocolVersion"] = "2030-01-01"
    answer = modern.send(message, MCP_Protocol_Version="2030-01-01")
    assert answer.status_code == 400 and answer.json()["error"]["code"] == -32022
    assert answer.json()["error"]["data"] == {"supported": [MODERN], "requested": "2030-01-01"}


@pytest.mark.parametrize("method", ["initialize", "ping", "logging/setLevel", "resources/subscribe", "what/ever"])
def test_what_it_does_not_have_is_not_found(modern, method):
    error = fails(modern.ask, method)
    assert (error.status, error.code) == (404, -32601)


def test_no_log_unless_it_was_asked_for(modern):
    message = modern.build("tools/call", {"name": "test_logging_tool"})
    assert "notifications/message" not in modern.send(message).text
    message = modern.build("tools/call", {"name": "test_logging_tool"}, meta={META + "logLevel": "info"})
    assert modern.send(message).text.count("notifications/message") == 3


@pytest.mark.concurrency
def test_listening(modern):
    message = modern.build("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id="sub")
    with modern.stream(message) as events:
        first = events.message()
        assert first["method"] == "notifications/subscriptions/acknowledged"
        modern.call("test_trigger_prompt_change")  # not asked for
        modern.call("test_trigger_tool_change")
        news = events.message()
        assert news["method"] == "notifications/tools/list_changed"
        assert news["params"]["_meta"][META + "subscriptionId"] == "sub"


def test_a_capability_that_is_missing(modern):
    error = fails(modern.call, "test_missing_capability")
    assert (error.status, error.code, error.data) == (400, -32021, {"requiredCapabilities": {"sampling": {}}})
    modern.capabilities = {"sampling": {}}
    assert modern.text("test_missing_capability") == "the client can sample"


# --- the transport of 2024-11-05 ---------------------------------------------------------------


@pytest.mark.parametrize("path", ["/mcp", "/sse"])
def test_the_first_transport(server, path):
    peer = Peer(server, path)
    with peer.stream() as events:
        endpoint = next(events)
        assert endpoint["event"] == "endpoint" and endpoint["data"].startswith(path + "?sessionId=")
        sender = Peer(server, endpoint["data"])
        hello = sender.build("initialize", {"protocolVersion": "2024-11-05", "capabilities": {}})
        assert sender.send(hello).status_code == 202
        assert events.message()["result"]["protocolVersion"] == "2024-11-05"
        assert sender.send(sender.build("ping", id="x")).status_code == 202
        assert events.message() == {"jsonrpc": "2.0", "id": "x", "result": {}}
    assert eventually(lambda: sender.send(sender.build("ping")).status_code == 404)
