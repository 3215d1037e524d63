"""`aio mcp --box`: a client's standard input and output, connected to the /mcp of a box. The box is a fixture here, whose
tools do what few servers do, behind a host that is played."""

import asyncio
import contextlib
import http.client
import http.server
import json
import threading

import pytest

from harness import ANSWER_SECONDS, clean_environment, eventually, program
from mcp_peer import FIXTURE, META, MODERN
from mcp_sdk import python_client
from mcp_stdio import Stdio

pytestmark = [pytest.mark.timeout(120), pytest.mark.server(program="fixture", env=FIXTURE)]

MODERN_META = {META + "protocolVersion": MODERN, META + "clientCapabilities": {}}
BOX = {"id": "played", "state": "running", "token": "t0ken", "auto_resume": False}


class Played(http.server.BaseHTTPRequestHandler):
    """Knows one box; what is for its /mcp is passed on to the fixture as it comes."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path.startswith("/v1/sandboxes"):
            body = json.dumps({"success": True, "data": BOX}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        else:
            self.pass_on()

    def pass_on(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.seen.append((self.command, dict(self.headers.items()), body))
        keep = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "authorization")}
        to = http.client.HTTPConnection(self.server.target, timeout=ANSWER_SECONDS)
        to.request(self.command, self.path, body or None, keep)
        answer = to.getresponse()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "content-length", "connection"):
                self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        with contextlib.suppress(OSError):
            while piece := answer.read1(65536):
                self.wfile.write(piece)
                self.wfile.flush()
        to.close()
        self.close_connection = True

    do_POST = do_DELETE = pass_on

    def log_message(self, *_):
        pass


class PlayedHost(http.server.ThreadingHTTPServer):
    daemon_threads, request_queue_size = True, 128


@pytest.fixture
def played(server):
    host = PlayedHost(("127.0.0.1", 0), Played)
    host.target, host.seen = server.url.removeprefix("http://"), []
    threading.Thread(target=host.serve_forever, daemon=True).start()
    yield host
    host.shutdown()
    host.server_close()


@pytest.fixture
def env(played, tmp_path):
    return clean_environment(tmp_path, {"AIO_URL": f"http://127.0.0.1:{played.server_port}", "AIO_HOST_TOKEN": "h"})


@pytest.fixture
def relay(env, tmp_path):
    one = Stdio(tmp_path, "--box", "played", env=env)
    yield one
    if one.proc.poll() is None:
        code, rest = one.end()
        assert code == 0 and rest == b""


@pytest.mark.parametrize("mode, version", [("legacy", "2025-11-25"), ("auto", "2026-07-28")])
def test_the_python_sdk(server, env, tmp_path, mode, version):
    """Replies, streams, progress, and questions of the server to the client."""
    import mcp
    out = asyncio.run(python_client(
        mcp.StdioServerParameters(command=program("aio"), args=["mcp", "--box", "played"], env=env, cwd=tmp_path), mode))
    assert out["version"] == version and out["steps"] == [0, 50, 100] and out["bash"]["output"] == "py\n"
    assert out["many"] == 20 and ("accept" in out["asked"] or out["asked"] == "both steps done")


def test_every_message_names_the_box_and_the_session(relay, played):
    relay.initialize()
    assert relay.ask("ping")["result"] == {}
    assert eventually(lambda: any(method == "GET" for method, _, _ in played.seen))
    for method, headers, body in played.seen:
        assert headers["x-aio-sandbox"] == "played" and headers["Authorization"] == "Bearer t0ken"
        if b'"initialize"' not in body:
            assert headers["Mcp-Session-Id"] and headers["MCP-Protocol-Version"] == "2025-11-25"


def test_a_stream_that_breaks_is_resumed(relay, played):
    relay.initialize()
    said = relay.call("test_reconnection")["content"][0]["text"]
    assert "completed successfully" in said
    assert any(method == "GET" and "Last-Event-ID" in headers for method, headers, _ in played.seen)


def test_what_the_server_says_on_its_own(relay, played):
    relay.initialize()
    assert eventually(lambda: any(method == "GET" for method, _, _ in played.seen))
    relay.send({"jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": {"name": "test_trigger_tool_change"}})
    both = [relay.read(), relay.read()]
    assert {one.get("method", one.get("id")) for one in both} == {8, "notifications/tools/list_changed"}


def test_a_session_that_the_box_forgot_begins_again(relay, played, server):
    relay.initialize()
    assert relay.ask("ping")["result"] == {}
    session = played.seen[-1][1]["Mcp-Session-Id"]
    assert server.request("DELETE", "/mcp", headers={"Mcp-Session-Id": session}).status_code == 204
    assert relay.call("test_simple_text")["content"][0]["text"].startswith("This is")
    assert relay.ask("ping")["result"] == {}


@pytest.mark.parametrize("modern", [False, True])
def test_a_call_that_is_cancelled_ends_in_the_box(relay, played, modern, tmp_path):
    trace = tmp_path / "trace"
    params = {"name": "wait", "arguments": {"trace": str(trace)}}
    if modern:
        params["_meta"] = MODERN_META
    else:
        relay.initialize()
    relay.send({"jsonrpc": "2.0", "id": "long", "method": "tools/call", "params": params})
    assert eventually(lambda: any(b'"long"' in body for _, _, body in played.seen))
    relay.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "long"}})
    assert eventually(lambda: trace.exists() and trace.read_text() == "cut")
    relay.send({"jsonrpc": "2.0", "id": 7, "method": "tools/list", "params": {"_meta": MODERN_META} if modern else {}})
    assert relay.read()["id"] == 7  # nobody waits for the other reply


def test_mistakes_are_answered(relay):
    relay.send(b"{nonsense")
    assert relay.read()["error"]["code"] == -32700
    relay.send({"jsonrpc": "2.0", "id": 5})
    assert relay.read()["error"]["code"] == -32600
    relay.initialize()
    assert relay.ask("no/such")["error"]["code"] == -32601
    relay.send({"jsonrpc": "2.0", "id": 6, "method": "server/discover", "params": {"_meta": {**MODERN_META, META + "protocolVersion": "1999-01-01"}}})
    assert relay.read()["id"] == 6


def test_what_was_asked_before_the_end_is_answered(relay, played):
    relay.initialize()
    relay.send({"jsonrpc": "2.0", "id": 9, "method": "tools/call",
                "params": {"name": "sandbox_execute_bash", "arguments": {"command": "sleep 2; echo late"}}})
    code, rest = relay.end()
    assert code == 0 and b"late" in rest
    assert played.seen[-1][0] == "DELETE"


def test_a_host_that_goes_is_an_error(relay, played):
    relay.initialize()
    played.shutdown()
    played.server_close()
    answer = relay.ask("ping")
    assert answer["error"]["message"]
    relay.proc.kill()
    relay.proc.wait()
