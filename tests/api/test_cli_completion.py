"""aio completion in the shells themselves: a person types, and presses Tab."""

import http.server
import json
import os
import pty
import shutil
import subprocess
import threading

import pytest

from harness import ANSWER_SECONDS, clean_environment, program

BOXES = [{"id": "agent-1", "state": "running"}, {"id": "agent-2", "state": "\x1b[2J"}, {"id": "evil$(x)", "state": "running"}]


def words(*given, env=None):
    done = subprocess.run([program("aio"), "completion", "words", "--", *given], capture_output=True, text=True,
                          timeout=ANSWER_SECONDS, env=env)
    assert done.returncode == 0 and not done.stderr, done
    return [line.split("\t")[0] for line in done.stdout.splitlines()]


@pytest.mark.parametrize("given, some, none", [
    ([""], ["browser", "create", "completion", "mcp", "sandbox"], ["navigate"]),
    (["br"], ["browser"], ["bash"]),
    (["help", "sh"], ["shell"], ["skills"]),
    (["browser", "na"], ["navigate"], ["tabs"]),
    (["browser", "tabs", ""], ["open", "close", "activate"], ["navigate"]),
    (["browser", "network", "r"], ["requests", "route"], ["unroute"]),
    (["file", "c"], ["cp"], ["read"]),
    (["file", "read", "--"], ["--start-line", "--json", "--api-url", "--box"], ["--content", "--output"]),
    (["file", "download", "--o"], ["--output"], []),
    (["file", "list", "--sort-by", ""], ["name", "modified"], ["--json"]),
    (["file", "list", "--sort-by", "=", "m"], ["modified"], ["name"]),
    (["file", "list", "--sort-by", "="], ["modified", "name"], []),
    (["file", "list", "/tmp", "--rec"], ["--recursive"], []),
    (["gui", "record", ""], ["start", "status"], []),
    (["gui", "record", "--fps", "3", "st"], ["start", "status"], []),
    (["gui", "record", "start", ""], [], ["start"]),
    (["create", "--"], ["--memory", "--network"], []),
    (["template", ""], ["import", "build"], []),
    (["template", "build", "--"], ["--json", "--state"], []),
    (["serve", "--max-b"], ["--max-body"], []),
    (["completion", ""], ["bash", "zsh", "fish"], []),
    (["nonsense", ""], [], ["nonsense"]),
    (["file", "nonsense", ""], [], ["read"]),
])
def test_what_is_offered(given, some, none):
    found = words(*given)
    assert set(some) <= set(found) and not set(none) & set(found) and len(found) == len(set(found)), found
    assert all(word.startswith(given[-1].lstrip("=")) for word in found)


def test_boxes_of_a_host(tmp_path):
    class Host(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = json.dumps({"data": {"sandboxes": BOXES, "total": len(BOXES)}}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Host) as host:
        threading.Thread(target=host.serve_forever, daemon=True).start()
        env = clean_environment(tmp_path, {"AIO_URL": f"http://127.0.0.1:{host.server_port}", "AIO_HOST_TOKEN": "h"})
        assert words("exec", "", env=env) == words("file", "read", "--box", "", env=env) == ["agent-1", "agent-2"]
        host.shutdown()
    assert words("exec", "", env={**env, "AIO_URL": "http://127.0.0.1:1"}) == []


def environment(tmp_path):
    """In which `aio` is the program under test, and nothing of this machine's shells counts."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/aio").symlink_to(program("aio"))
    return clean_environment(tmp_path, {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "TERM": "dumb", "PS1": "$ ",
                                        "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "")})


def typed(command, env, start, text, expected):
    """What the terminal shows once `expected` is there."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(command[0], command, env)
    shown = b""

    def until(wanted):
        nonlocal shown
        while wanted not in shown:
            try:
                piece = os.read(terminal, 65536)
            except OSError:
                piece = b""
            assert piece, shown
            shown += piece

    try:
        os.write(terminal, start + b"; echo rea''dy\n")
        until(b"ready")
        os.write(terminal, text)
        until(expected)
    finally:
        os.close(terminal)
        os.kill(pid, 9)
        os.waitpid(pid, 0)


@pytest.mark.parametrize("text, expected", [(b"aio brow\t", b"aio browser "), (b"aio file grep --multil\t", b"--multiline "),
                                            (b"aio gui screenshot --format=jpe\t", b"--format=jpeg "),
                                            (b"aio file cp some\t", b"something ")])
def test_bash(tmp_path, text, expected):
    (tmp_path / "something").write_text("")
    start = f'cd {tmp_path}; eval "$(aio completion bash)"'.encode()
    typed(["bash", "--norc", "--noprofile", "-i"], environment(tmp_path), start, text, expected)


@pytest.mark.skipif(not shutil.which("zsh"), reason="NOT TESTED: no zsh on this machine")
@pytest.mark.parametrize("text, expected", [(b"aio browser navi\t", b"navigate "), (b"aio file grep --multil\t", b"--multiline "),
                                            (b"aio file list --sort-by modi\t", b"modified ")])
def test_zsh(tmp_path, text, expected):
    start = b'autoload -Uz compinit; compinit -D -u; eval "$(aio completion zsh)"'
    typed(["zsh", "-f", "-i"], environment(tmp_path), start, text, expected)


@pytest.mark.skipif(not shutil.which("zsh"), reason="NOT TESTED: no zsh on this machine")
def test_zsh_finds_the_installed_file(tmp_path):
    (tmp_path / "site").mkdir()
    (tmp_path / "site/_aio").write_text(subprocess.run([program("aio"), "completion", "zsh"], capture_output=True, text=True).stdout)
    start = f"fpath=({tmp_path}/site $fpath); autoload -Uz compinit; compinit -D -u".encode()
    typed(["zsh", "-f", "-i"], environment(tmp_path), start, b"aio browser navi\t", b"navigate ")


@pytest.mark.skipif(not shutil.which("fish"), reason="NOT TESTED: no fish on this machine")
def test_fish(tmp_path):
    for text, expected in (("aio brow", "browser"), ("aio file grep --multil", "--multiline"), ("aio browser tabs ", "open")):
        done = subprocess.run(["fish", "--no-config", "-c", f"aio completion fish | source; complete -C '{text}'"],
                              env=environment(tmp_path) if not (tmp_path / "bin").exists() else
                              clean_environment(tmp_path, {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}),
                              capture_output=True, text=True, timeout=ANSWER_SECONDS)
        assert expected in [line.split("\t")[0] for line in done.stdout.splitlines()], done


def test_wrong_usage():
    for given in ([], ["csh"], ["bash", "x"]):
        done = subprocess.run([program("aio"), "completion", *given], capture_output=True, text=True, timeout=ANSWER_SECONDS)
        assert done.returncode == 2 and "bash | zsh | fish" in done.stderr and not done.stdout
