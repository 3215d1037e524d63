"""aio sandbox, skills and mcp list: the API of a sandbox for a shell. The browser's are in test_cli_browser.py."""

import http.server
import json
import os
import subprocess
import threading

import pytest

from harness import program
from shell_calls import bad, good, on_terminal

KEY = "the-key"


def test_text_on_a_terminal_and_json_elsewhere(server):
    response = server.get("/v1/sandbox").json()
    assert json.loads(good(server, "sandbox", "info"))["version"] == response["version"]
    text = on_terminal(server, "sandbox", "info")
    assert text.startswith("System Environment") and "{" not in text.partition("\n")[0]
    assert json.loads(on_terminal(server, "sandbox", "info", "--json"))["version"] == response["version"]


def test_lists(server, tmp_path):
    os.chmod(tmp_path, 0o755)
    skill = tmp_path / "greet"
    skill.mkdir()
    (skill / "SKILL.md").write_text("---\nname: greet\ndescription: Greets all.\n---\nSay hello.\n")
    assert server.request("POST", "/v1/skills/register", files=[("path", (None, str(tmp_path)))]).json()["success"]
    try:
        assert [skill["name"] for skill in json.loads(good(server, "skills", "list"))["data"]["skills"]] == ["greet"]
        text = on_terminal(server, "skills", "list")
        assert text.split("\n")[1].split() == ["greet", str(skill)]
    finally:
        server.request("DELETE", "/v1/skills/greet")
    servers = {one["name"]: one["status"] for one in server.get("/v1/mcp/servers").json()["servers"]}
    lines = on_terminal(server, "mcp", "list").strip().split("\n")
    assert {line.split()[0]: line.split()[1] for line in lines[1:]} == servers


@pytest.mark.parametrize("words", [["browser"], ["gui", "nonsense"], ["browser", "navigate"], ["browser", "navigate", "a", "b"],
                                   ["gui", "screenshot", "x"], ["sandbox", "info", "x"], ["sandbox", "info", "--nonsense", "1"],
                                   ["gui", "screenshot", "-o"]])
def test_wrong_usage(server, words):
    done = subprocess.run([program("aio"), *words], capture_output=True, text=True, timeout=20)
    assert done.returncode == 2 and not done.stdout and "aio" in done.stderr


@pytest.mark.parametrize("words", [["browser"], ["gui", "screenshot"], ["mcp", "list"], ["sandbox", "info"], ["skills"]])
def test_help(words):
    done = subprocess.run([program("aio"), *words, "--help"], capture_output=True, text=True, timeout=20)
    assert done.returncode == 0 and not done.stderr and f"aio {' '.join(words)}" in done.stdout


def test_credentials(start_server):
    server = start_server(env={"SANDBOX_API_KEY": KEY})
    clean = {"SANDBOX_API_KEY": ""}
    assert good(server, "sandbox", "info", "--api-key", KEY, env=clean)
    assert good(server, "sandbox", "info", env={"SANDBOX_API_KEY": KEY})
    for key in ([], ["--api-key", "wrong"]):
        assert "aio sandbox info: " in bad(server, "sandbox", "info", *key, env=clean)


class Liar(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.server.words)

    do_POST = do_GET

    def log_message(self, *_):
        pass


def test_what_is_not_a_sandbox(server):
    assert "cannot connect" in bad(server, "sandbox", "info", url="http://127.0.0.1:1")
    assert bad(server, "sandbox", "info", url="nonsense")
    assert bad(server, "sandbox", "info", url=f"{server.url}/nothing/here")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Liar) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{site.server_address[1]}"
        for words in (b"", b"[", b'{"success": false, "message": "\\u001b[31mno"}', b'{"success": false}'):
            site.words = words
            said = bad(server, "sandbox", "info", url=url)
            assert said.startswith("aio sandbox info: ") and "\x1b" not in said
        site.words = b'{"data": "a\\u001b[31mb\\u009b2J\\nc"}'
        assert on_terminal(server, "sandbox", "info", url=url) == "a?[31mb??2J\nc\n"
        site.words = b'{"data": {"k\\u001b[2J": "v\\u009b2J", "deep": {"k\\u009b": ["\\u202e"]}}, "message": "m"}'
        lines = on_terminal(server, "sandbox", "info", url=url)
        assert lines.splitlines()[0].split() == ["k?[2J", "v??2J"] and not {"\x1b", "\x9b", "\u202e"} & set(lines)
        lines = on_terminal(server, "sandbox", "info", "--json", url=url)
        assert json.loads(lines) == json.loads(site.words) and not {"\x1b", "\x9b", "\u202e"} & set(lines)
        site.words = b"\x1b[2Jno picture"
        for words in (["-o", "-"], []):
            assert "terminal" in on_terminal(server, "gui", "screenshot", *words, url=url, code=2)
        site.shutdown()


EVIL = "\x1b]0;t\x07\x1b[2J\x9b31m\u202e\x07shown"
SHAPES = [EVIL, [EVIL], [[EVIL]], {EVIL: EVIL}, [{EVIL: EVIL, "name": EVIL}], {"sessions": {EVIL: {"name": EVIL}}},
          {name: EVIL for name in ("output", "content", "stdout", "stderr", "markdown", "status", "skills", "servers", "files")},
          {"outputs": [{"output_type": "stream", "name": "stderr", "text": EVIL}, {"output_type": "error", "traceback": [EVIL]},
                       {"output_type": "execute_result", "data": {"text/plain": EVIL}}, EVIL, None]},
          {"content": [{"type": "text", "text": EVIL}, {"x": EVIL}, EVIL]}, 7, None, True, [], {}, [None], [1, "a", {}]]


@pytest.mark.parametrize("words", [["skills", "list"], ["mcp", "call", "a", "b"], ["code", "run", "--language", "x", "y"]],
                         ids=" ".join)
def test_no_shape_of_an_answer_does_anything_to_a_terminal(server, words):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Liar) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{site.server_address[1]}"
        for shape in SHAPES:
            site.words = json.dumps({"success": True, "message": EVIL, "hint": EVIL, "data": shape}).encode()
            said = on_terminal(server, *words, url=url)
            assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(said), said
        site.shutdown()
