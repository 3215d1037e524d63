"""Every verb of the CLI against the running server: aio shell, bash, file, code, jupyter, nodejs, skills, mcp, sandbox. Those
of the browser and the desktop are in test_cli_browser.py."""

import json
import os
import re
import shlex
import subprocess

import pytest

import commands
import kernels
import shells
from harness import LEAN, ROOT, eventually, program
from shell_calls import aio, bad, good, on_terminal


def warm(server):
    shells.warm(server)
    commands.warm(server)
    kernels.warm(server)


pytestmark = pytest.mark.server(env=LEAN, warm=warm)


@pytest.fixture(autouse=True)
def no_sessions(server):
    """Ends the sessions of a test before conftest looks at what it left behind."""
    yield
    shells.delete_all(server)
    commands.close_all(server)
    kernels.close_all(server)
    kernels.ready(server)


@pytest.fixture(scope="module")
def folder(server):
    path = f"{server.home}/verbs"
    os.makedirs(f"{path}/skills/greet")
    with open(f"{path}/skills/greet/SKILL.md", "w") as file:
        file.write("---\nname: greet\ndescription: Greets all.\n---\nSay hello.\n")
    with open(f"{path}/text.txt", "w") as file:
        file.write("one\ntwo\n")
    return path


# What is called, and what a person reads then. {folder} and {…} of answers before are filled in; "" stands for nothing that
# is the same each time.
ROWS = """
sandbox info | System Environment
sandbox packages python | NAME +VERSION
sandbox packages nodejs | NAME +VERSION
sandbox health | OK
sandbox auth |
sandbox ticket --scope view | ticket +\\S{16}
sandbox metrics | # TYPE
sandbox manual | POST /v1/file/read
sandbox events --type file_written |
sandbox hooks create bye 'echo bye' | name +bye
sandbox hooks | ^bye
sandbox hooks delete bye |
sandbox proxy mappings create http://shop.test/api http://localhost:1 | shop.test
sandbox proxy mappings | shop.test
sandbox proxy diagnose http://shop.test/api | route +mapping
sandbox proxy mappings delete http://shop.test/api |
sandbox proxy excludes create '*.direct.test' |
sandbox proxy excludes | ^\\*.direct.test$
sandbox proxy excludes delete '*.direct.test' |
sandbox proxy upstream set http://localhost:1 | addr
sandbox proxy upstream | addr
sandbox proxy upstream clear |
sandbox proxy health | healthy
shell sessions create --id work --exec-dir {folder} | session_id +work
shell exec 'pwd; x=42' --id work | ^{folder}$
shell exec --id=work 'echo $x' | ^42$
shell exec 'read y; echo got $y' --id work --async-mode | still running
shell write work typed --press-enter | status
shell wait work | status
shell view work | got typed
shell kill work | status
shell sessions update work --no-change-timeout 5 |
shell sessions | work
shell sessions stats | total_sessions +[1-9]
shell terminal-url | http
shell sessions delete work |
shell sessions clear |
bash sessions create --session-id b --exec-dir {folder} | session_id +b
bash exec 'cat >got' --session-id b --async-mode | still running
bash write b 'words' --close |
bash output b --wait | ^$
bash exec 'cat got; echo $A$B' --exec-dir {folder} --env A=1 --env B=2 | words12
bash exec 'sleep 600' --session-id b --async-mode |
bash kill b --signal SIGKILL |
bash sessions | b
bash sessions close b |
file write {folder}/a.txt 'some text' | bytes_written +9
file read {folder}/a.txt | ^some text$
file read {folder}/text.txt --start-line 1 --end-line 2 | ^two$
file replace {folder}/a.txt some any | replaced_count +1
file search {folder}/a.txt 'a.y' | any text
file find {folder} '*.txt' | {folder}/text.txt
file glob {folder} '**/*.md' | SKILL.md
file grep {folder} 'two' --include '*.txt' | text.txt +2 +two
file list {folder} --include-permissions | 644 +8 +{folder}/text.txt
file edit view {folder}/a.txt | any text
file edit insert {folder}/text.txt --insert-line 1 --new-str between | between
file edit view {folder}/text.txt --view-range [2,2] | between
file markdown file://{folder}/text.txt | between
file upload {folder}/text.txt --path {folder}/uploaded.txt | file_size
file download {folder}/uploaded.txt | between
file watch | watchers
skills register {folder}/skills | greet
skills list | greet +{folder}/skills/greet
skills show greet | Say hello
skills delete greet | name +greet
skills clear | count +0
code info | python
code run --language python 'print(6*7)' | ^42$
code run --language javascript 'console.log(6*7)' | ^42$
code contexts | context_id|done|^$
jupyter sessions create --session-id j | session_id +j
jupyter run --session-id j 'x = 20' |
jupyter run --session-id j 'x + 22' | ^42$
jupyter info | default_kernel
jupyter sessions | ^j
jupyter sessions delete j |
jupyter sessions clear |
nodejs info | node_version
nodejs sessions create --session-id n | session_id +n
nodejs run --session-id n --stateful 'console.log(6*7)' | ^42$
nodejs sessions | ^n
nodejs sessions show n | session
nodejs sessions update n --max-idle-time 100 | updated +true
nodejs sessions delete n | deleted +true
mcp list | sandbox +ready
mcp tools sandbox | sandbox_execute_bash
mcp call sandbox sandbox_execute_bash '{"cmd": "echo 6$((6+1))"}' | 67
"""


@pytest.mark.parametrize("group", sorted({row.split()[0] for row in ROWS.strip().splitlines()}))
def test_the_verbs(server, folder, group):
    """In order: later rows use what earlier ones have made."""
    for row in ROWS.strip().splitlines():
        if row.split()[0] != group:
            continue
        words, _, expected = row.partition(" |")
        words = [word.replace("{folder}", folder) for word in shlex.split(words)]
        done = aio(server, *words, "--plain")
        said = done.stdout.decode() + done.stderr.decode()
        assert done.returncode == 0 and re.search(expected.strip().replace("{folder}", re.escape(folder)), said, re.M), done


def test_observing(server, tmp_path):
    good(server, "sandbox", "observe", "start", "--mode", "capture", "--interval-seconds", "1")
    assert re.search("running +true", on_terminal(server, "sandbox", "observe", "status"))
    assert json.loads(good(server, "sandbox", "observe", "live", "--top-rows", "1"))["data"]["cgroup"]
    assert re.search("stopped +true", on_terminal(server, "sandbox", "observe", "stop"))
    report = json.loads(good(server, "sandbox", "observe", "export"))["data"]["report_id"]
    assert report in on_terminal(server, "sandbox", "observe", "reports")
    good(server, "sandbox", "observe", "reports", "show", report, "-o", str(tmp_path / "report"))
    assert (tmp_path / "report").read_bytes().startswith(b"\x1f\x8b")
    for one in json.loads(good(server, "sandbox", "observe", "reports"))["data"]:
        good(server, "sandbox", "observe", "reports", "delete", one["report_id"])


def test_contexts(server):
    made = json.loads(good(server, "code", "contexts", "create", "--language", "python"))["context_id"]
    assert made in on_terminal(server, "code", "contexts")
    assert on_terminal(server, "code", "contexts", "run", made, "print(6 * 7)") == "42\n"
    assert made in on_terminal(server, "code", "contexts", "show", made)
    good(server, "code", "contexts", "delete", made)


def test_watching(server, folder):
    made = json.loads(good(server, "file", "watch", "start", folder))["watcher_id"]
    events = subprocess.Popen([program("aio"), "file", "watch", "events", made, "--api-url", server.url],
                              stdout=subprocess.PIPE, text=True)
    good(server, "file", "write", f"{folder}/seen", "x")
    assert json.loads(events.stdout.readline())
    assert eventually(lambda: json.loads(good(server, "file", "watch", "poll", made))["events"])
    good(server, "file", "watch", "stop", made)
    assert events.wait(60) == 0
    assert json.loads(good(server, "file", "watch", "wait", f"{folder}/never", "--timeout", "1"))["timed_out"]


def test_what_happens_next(server):
    with subprocess.Popen([program("aio"), "sandbox", "events", "--follow", "--type", "file_written", "--api-url", server.url],
                          stdout=subprocess.PIPE, text=True) as events:
        try:
            good(server, "file", "write", "/tmp/cli-followed", "x")
            while "cli-followed" not in (line := events.stdout.readline()):
                assert line
        finally:
            events.kill()
    good(server, "file", "write", "/tmp/cli-followed", "y")  # with which the server finds it gone
    os.unlink("/tmp/cli-followed")


def test_the_status_is_the_commands(server):
    for words in (["shell", "exec", "exit 7"], ["bash", "exec", "exit 7"], ["code", "run", "--language", "bash", "exit 7"],
                  ["nodejs", "run", "process.exit(7)"]):
        assert aio(server, *words).returncode == 7, words
        on_terminal(server, *words, code=7)
    assert aio(server, "jupyter", "run", "1/0").returncode == 1
    assert aio(server, "bash", "exec", "sleep 100", "--hard-timeout", "0.2").returncode == 124
    assert aio(server, "mcp", "call", "sandbox", "sandbox_file_operations", '{"action": "read", "path": "/nothing"}').returncode == 1
    assert "No such file" in bad(server, "file", "read", "/nothing/here")
    assert "--max-depth: " in bad(server, "file", "list", "/tmp", "--max-depth", "-1")


def test_standard_input(server, folder):
    good(server, "file", "write", f"{folder}/in", input=b"text \xc3\xa9\n")
    assert open(f"{folder}/in", "rb").read() == b"text \xc3\xa9\n"
    good(server, "file", "write", f"{folder}/in", "-", input=b"\0\xff bytes")
    assert open(f"{folder}/in", "rb").read() == b"\0\xff bytes"
    assert aio(server, "code", "run", "--language", "python", "-", "--plain", input=b"print(6 * 7)").stdout == b"42\n"
    assert aio(server, "code", "run", "--language", "python", "--plain", input=b"print(6 * 7)").stdout == b"42\n"
    assert aio(server, "mcp", "call", "sandbox", "sandbox_execute_bash", "-", "--plain", input=b'{"cmd": "echo 6$((6+1))"}'
               ).stdout.startswith(b'{"status"')
    assert "not UTF-8" in bad(server, "jupyter", "run", "-", input=b"\xff", code=2)


def test_names_that_are_not_utf8(server, folder):
    path = folder.encode() + b"/\xff\xfe"
    good(server, "file", "write", path, "bytes")
    assert open(path, "rb").read() == b"bytes"
    assert json.loads(good(server, "file", "read", path))["data"]["content"] == "bytes"
    assert good(server, "file", "download", path) == b"bytes"
    assert "UTF-8" in bad(server, "shell", "exec", b"\xff", code=2)


def test_files_that_are_answered(server, folder, tmp_path):
    assert good(server, "file", "download", f"{folder}/text.txt") == open(f"{folder}/text.txt", "rb").read()
    good(server, "file", "download", f"{folder}/text.txt", "-o", str(tmp_path / "x"))
    assert (tmp_path / "x").read_bytes() == open(f"{folder}/text.txt", "rb").read()
    assert "not for a terminal" in on_terminal(server, "file", "download", f"{folder}/text.txt", code=2)
    assert "No such file" in bad(server, "file", "download", "/nothing/here", "-o", str(tmp_path / "y"))
    assert not (tmp_path / "y").exists()


def test_the_examples_of_the_manual(server):
    """But for those of the browser, whose verbs test_cli_browser.py calls."""
    text = (ROOT / "docs/cli.md").read_text()
    examples = [block for block in re.findall(r"```sh\n(.*?)```", text, re.S) if "aio browser" not in block]
    assert len(examples) >= 1
    folder = os.path.dirname(program("aio"))
    env = {**os.environ, "AIO_URL": server.url, "PATH": f"{folder}:{os.environ['PATH']}"}
    for block in examples:
        done = subprocess.run(["bash", "-ec", block], env=env, capture_output=True, text=True, timeout=100, cwd=server.home)
        assert done.returncode == 0 and not done.stderr, (block, done)
