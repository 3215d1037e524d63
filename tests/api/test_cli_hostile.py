"""What a box tells the CLI, which runs on a person's terminal, is hostile. The host and its box are played."""

import http.server
import json
import subprocess
import threading

import pytest

from harness import ANSWER_SECONDS, clean_environment, program

BOX = {"id": "played", "state": "running", "token": "t0ken", "auto_resume": False}
EVENT = {"seq": 1, "at": "2026-01-31T12:00:00.000Z", "type": "\x1b]0;t\x07kind", "sandbox": "\x1b[31m",
         "data": {"\x1b[2Jname": "\x1b[2Jvalue\0", "text": "grüße… 好", "c1": "\x9b31m", "turned": "\u202eabc\u2066"}}


class Hostile(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path.startswith("/v1/sandboxes"):
            body = json.dumps({"data": BOX}).encode()
        elif "follow" in self.path:
            body = b"data: " + b"x" * (3 << 19) + b"\n\ndata: " + json.dumps(EVENT).encode() + b"\n\n"
        else:
            body = json.dumps({"data": [EVENT]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def env(tmp_path):
    host = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hostile)
    threading.Thread(target=host.serve_forever, daemon=True).start()
    yield clean_environment(tmp_path, {"AIO_URL": f"http://127.0.0.1:{host.server_port}", "AIO_HOST_TOKEN": "h"})
    host.shutdown()
    host.server_close()


@pytest.mark.parametrize("more", [[], ["--follow"]], ids=["history", "follow"])
def test_events_do_nothing_to_a_terminal(env, more):
    """A line that is too long is passed over, too."""
    done = subprocess.run([program("aio"), "events", "played", "--inside", *more], capture_output=True, env=env,
                          timeout=ANSWER_SECONDS, check=True)
    assert b"kind" in done.stdout and b"name=" in done.stdout and b"value" in done.stdout
    assert not set(done.stdout) & set(b"\x1b\x07")
    said = done.stdout.decode()
    assert "grüße… 好" in said and not set(said) & set("\x9b\u202e\u2066\0"), said


class Broken(Hostile):
    def do_GET(self):
        body = b'{"data": [{"seq": 1'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def test_what_cannot_be_read_is_an_error(tmp_path):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Broken) as host:
        threading.Thread(target=host.serve_forever, daemon=True).start()
        env = clean_environment(tmp_path, {"AIO_URL": f"http://127.0.0.1:{host.server_port}", "AIO_HOST_TOKEN": "h"})
        done = subprocess.run([program("aio"), "ls"], capture_output=True, env=env, timeout=ANSWER_SECONDS)
        host.shutdown()
    assert done.returncode == 1 and b"cannot be read" in done.stderr, done
