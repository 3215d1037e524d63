"""`aio mcp --box` runs on a person's machine, and what a box answers is hostile. The host and its box are played."""

import http.server
import json
import threading

import pytest

from harness import STOP_SECONDS, check_sanitizers, clean_environment, eventually
from mcp_stdio import Stdio

pytestmark = pytest.mark.timeout(120)

BOX = {"id": "played", "state": "running", "token": "t0ken", "auto_resume": False}


class Hostile(http.server.BaseHTTPRequestHandler):
    """Answers initialize with `revision`, and whatever comes after it with `stream`."""

    protocol_version = "HTTP/1.1"

    def answer(self, status, body=b"", kind="application/json", **headers):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path.startswith("/v1/sandboxes"):
            return self.answer(200, json.dumps({"data": BOX}).encode())
        self.server.resumed.append(self.headers.get("Last-Event-ID"))
        return self.answer(405, b"{}")

    def do_DELETE(self):
        self.answer(200, b"{}")

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.seen.append(self.headers.as_string())
        message = json.loads(body)
        if message["method"] == "initialize":
            result = {"protocolVersion": self.server.revision, "capabilities": {}, "serverInfo": {"name": "a", "version": "1"}}
            return self.answer(200, json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode(),
                               Mcp_Session_Id="s1")
        if "id" not in message:
            return self.answer(400, json.dumps({"detail": "\x1b]0;title\x07no"}).encode()) if self.server.escapes else self.answer(202)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            for piece in self.server.stream(message["id"]):
                self.wfile.write(piece)
                self.wfile.flush()
        except OSError:
            pass
        return None

    def log_message(self, *_):
        pass


def reply(number):
    return json.dumps({"jsonrpc": "2.0", "id": number, "result": {}}).encode()


@pytest.fixture
def played():
    host = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hostile)
    host.daemon_threads = True
    host.revision, host.escapes, host.seen, host.resumed = "2025-06-18", False, [], []
    host.stream = lambda number: [b"data: " + reply(number) + b"\n\n"]
    threading.Thread(target=host.serve_forever, daemon=True).start()
    yield host
    host.shutdown()
    host.server_close()


@pytest.fixture
def relay(played, tmp_path):
    env = clean_environment(tmp_path, {"AIO_URL": f"http://127.0.0.1:{played.server_port}", "AIO_HOST_TOKEN": "h"})
    one = Stdio(tmp_path, "--box", "played", env=env)
    yield one
    if one.proc.poll() is None:
        one.end()
    check_sanitizers((tmp_path / "stderr").read_text(errors="replace"))


def test_a_revision_that_holds_headers(relay, played):
    played.revision = "2025-06-18\r\nX-Injected: yes\r\n\r\nPOST /v1/bash/exec HTTP/1.1"
    relay.initialize()
    assert relay.ask("ping")["result"] == {}
    assert len(played.seen) >= 3 and not [head for head in played.seen if "Injected" in head or "bash" in head]


def test_a_message_with_nul_bytes(relay, played):
    played.stream = lambda number: [b'data: {"a":"b\0' + b"x" * 5000 + b'\\ud800"}\n\n', b"data: " + reply(number) + b"\n\n"]
    relay.initialize()
    assert relay.ask("ping")["result"] == {}


def test_a_stream_without_end_does_not_keep_it(relay, played):
    def endless(_):
        while True:
            yield b": nothing\n" * 6000

    played.stream = endless
    relay.initialize()
    relay.send({"jsonrpc": "2.0", "id": 9, "method": "ping"})
    assert eventually(lambda: len(played.seen) >= 3)
    relay.proc.terminate()
    assert relay.proc.wait(STOP_SECONDS) == 0


def test_an_event_that_is_cut_is_asked_for_again(relay, played):
    def cut(number):
        yield b"id: 1-4\ndata:\n\nid: 1-5\ndata: " + reply(number)[:20]

    played.stream = cut
    relay.initialize()
    relay.send({"jsonrpc": "2.0", "id": 9, "method": "ping"})
    assert eventually(lambda: "1-4" in played.resumed)
    assert "1-5" not in played.resumed


def test_what_it_prints_does_nothing_to_a_terminal(relay, played, tmp_path):
    played.escapes = True
    relay.initialize()
    assert eventually(lambda: b"a message to the box failed: ?]0;title?no" in (tmp_path / "stderr").read_bytes())
    assert b"\x1b" not in (tmp_path / "stderr").read_bytes()
