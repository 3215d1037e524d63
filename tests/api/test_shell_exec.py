"""Commands in shells on a terminal: what they answer, where they run, and what clients may send."""

import json
import subprocess

import httpx
import pytest

from harness import ANSWER_SECONDS, ROOT, eventually, program
from shells import ask, no_sessions, output, post, refused, run, sessions, shell, warm  # noqa: F401

pytestmark = pytest.mark.server(warm=warm)


# --- what a command answers --------------------------------------------------------------------


def test_exec(server):
    answer = post(server, "exec", command="echo out; echo err >&2; exit_code() { return 3; }; exit_code")
    data = answer["data"]
    assert answer["success"] is True and answer["message"] == "Command executed" and answer["hint"] is None
    assert data["output"] == "out\nerr" and data["exit_code"] == 3 and data["status"] == "completed"
    assert data["command"].startswith("echo out") and data["session_id"]
    assert data["console"] == [{"ps1": data["console"][0]["ps1"], "command": data["command"], "output": "out\nerr"}]
    assert data["console"][0]["ps1"].endswith(("$ ", "# ", "$", "#"))


@pytest.mark.parametrize("command, code", [
    ("true", 0), ("false", 1), ("(exit 3)", 3), ("(exit 255)", 255), ("sh -c 'exit 77'", 77), ("no-such-program", 127),
    ("/etc/passwd", 126), ("sh -c 'kill -9 $$'", 137), ("sh -c 'kill -TERM $$'", 143), ("! true", 1), ("return 6", 6),
    ("f() { return 9; }; f", 9), ("false || (exit 12)", 12), ("true | false", 1),
    ("set -o pipefail; (exit 4) | cat", 4), ("[ 1 = 2 ]", 1), ("test -e /", 0),
    ("cat /no/such/file 2>/dev/null", 1), ("a=$(exit 8)", 8),
    ("for i in 1 2; do (exit $i); done", 2), ("if false; then :; fi", 0), ("kill -9 $BASHPID & wait $!", None),
])
def test_exit_code_is_exact(server, shell, command, code):
    data = run(server, command, shell)
    assert data["status"] == "completed"
    if code is not None:
        assert data["exit_code"] == code
    assert output(server, "echo fine", shell) == "fine"


def test_last_exit_code_is_the_commands_own(server, shell):
    run(server, "(exit 42)", shell)
    assert output(server, "echo $?", shell) == "42"
    assert output(server, "echo $?", shell) == "0"


def test_what_a_command_changes_lasts(server, shell):
    run(server, "cd /usr; export A=b; c=d; f() { echo f$1; }; alias g='f alias'; shopt -s extglob; set -f; umask 027",
        shell)
    text = output(server, "pwd; echo $A $c; sh -c 'echo $A'; f x; g; shopt -q extglob && echo on; echo *; umask", shell)
    assert text.split("\n") == ["/usr", "b d", "b", "fx", "falias", "on", "*", "0027"]
    assert sessions(server)[shell]["working_dir"] == "/usr"


def test_sessions_do_not_share(server):
    first, second = run(server, "cd /usr; A=b")["session_id"], run(server, "cd /etc")["session_id"]
    assert output(server, "pwd; echo [$A]", second) == "/etc\n[]"
    assert output(server, "pwd; echo [$A]", first) == "/usr\n[b]"


def test_command_is_on_a_terminal(server, shell):
    text = output(server, "tty; test -t 0 && test -t 1 && test -t 2 && echo yes; echo $TERM; stty size; tput cols",
                  shell)
    tty, yes, term, size, cols = text.split("\n")
    assert tty.startswith("/dev/pts/") and yes == "yes" and term == "xterm-256color"
    assert size == "40 120" and cols == "120"


def test_environment(server, shell):
    text = output(server, 'echo "$HOME:$USER:$LOGNAME:$SHELL:${AIO_HOME-no}"; [[ $- == *i* ]] && echo interactive; '
                          "ls /proc/self/fd", shell)
    home, interactive, *fds = text.split("\n")
    user = subprocess.run(["id", "-un"], capture_output=True, text=True).stdout.strip()
    assert home == f"{server.home}:{user}:{user}:/bin/bash:no" and interactive == "interactive"
    assert " ".join(fds).split() == ["0", "1", "2", "3"], "3 is what ls reads"


def test_secrets_of_the_server_stay_with_it(start_server):
    server = start_server(env={"SANDBOX_API_KEY": "hush-1", "AUTH_TOKEN": "hush-2", "PLAIN": "seen"})
    auth = {"X-AIO-API-Key": "hush-1"}
    assert server.post("/v1/shell/exec", {"command": "env"}).status_code == 401
    answer = server.post("/v1/shell/exec", {"command": "env; set; history"}, headers=auth)
    text = answer.json()["data"]["output"]
    assert "PLAIN=seen" in text and "hush" not in text
    assert server.request("DELETE", "/v1/shell/sessions", headers=auth).status_code == 200
    server.take_baseline()


# --- directories -------------------------------------------------------------------------------


def test_exec_dir(server, shell, tmp_path):
    assert output(server, "pwd", shell, exec_dir="/usr") == "/usr"
    assert output(server, "pwd", shell) == "/usr", "it stays there"
    assert output(server, "pwd", shell, exec_dir=str(tmp_path)) == str(tmp_path)
    odd = tmp_path / "it's $(odd) \"dir\"\n-e"
    odd.mkdir()
    assert output(server, "pwd", shell, exec_dir=str(odd)) == str(odd)


def test_exec_dir_that_is_missing(server, shell):
    run(server, "cd /usr", shell)
    for strict in ({}, {"strict": False}, {"strict": None}):
        assert output(server, "pwd", shell, exec_dir="/no/such/dir", **strict) == "/usr"
    status, text = refused(server, "exec", command="pwd", id=shell, exec_dir="/no/such/dir", strict=True)
    assert status == 404 and "/no/such/dir" in text
    assert refused(server, "exec", command="pwd", id=shell, exec_dir="relative")[0] == 400
    assert refused(server, "exec", command="pwd", id=shell, exec_dir="/etc/passwd", strict=True)[0] in (400, 404)
    assert refused(server, "sessions/create", exec_dir="/no/such/dir")[0] == 404
    assert output(server, "pwd", shell, exec_dir="/etc", strict=True) == "/etc"


def test_symbolic_links(server, shell, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    link, real = str(tmp_path / "link"), str(tmp_path / "real")
    assert output(server, "pwd", shell, exec_dir=link) == real
    assert output(server, "pwd; pwd -P", shell, exec_dir=link, preserve_symlinks=True) == f"{link}\n{real}"
    assert output(server, "pwd", shell, exec_dir=link, preserve_symlinks=False) == real
    sid = ask(server, "sessions/create", exec_dir=link, preserve_symlinks=True)["session_id"]
    assert output(server, "pwd", sid) == link
    made = ask(server, "sessions/create", exec_dir=link)
    assert made["working_dir"] == real and output(server, "pwd", made["session_id"]) == real


def test_directory_that_is_removed(server, tmp_path):
    """The session's directory has gone: it still has a shell."""
    folder = tmp_path / "gone"
    folder.mkdir()
    sid = ask(server, "sessions/create", exec_dir=str(folder))["session_id"]
    assert output(server, "pwd", sid) == str(folder)
    folder.rmdir()
    assert output(server, "cd /; echo fine", sid) == "fine"
    run(server, "exit 3", sid)
    data = run(server, "echo fresh", sid)
    assert (data["status"], data["output"]) == ("completed", "fresh"), data


# --- what a client may send --------------------------------------------------------------------


@pytest.mark.parametrize("what, body", [
    ("exec", {}), ("exec", {"command": None}), ("exec", {"command": 5}), ("exec", {"command": "a\0b"}),
    ("exec", {"command": "true", "timeout": -1}), ("exec", {"command": "true", "hard_timeout": "x"}),
    ("exec", {"command": "true", "no_change_timeout": -1}), ("exec", {"command": "true", "no_change_timeout": 1.5}),
    ("exec", {"command": "true", "id": "x" * 65}), ("exec", {"command": "true", "id": "a\0"}),
    ("exec", {"command": "true", "truncate": "x"}), ("exec", {"command": "x" * ((1 << 20) + 1)}),
    ("view", {}), ("wait", {}), ("wait", {"id": "x", "seconds": -1}), ("write", {"id": "x", "input": "x"}),
    ("write", {"id": "x", "press_enter": True}), ("write", {"input": "x", "press_enter": True}), ("kill", {}),
    ("sessions/create", {"id": 5}), ("sessions/create", {"no_change_timeout": 0}), ("sessions/update", {}),
    ("sessions/update", {"id": "x", "no_change_timeout": -5}),
])
def test_request_that_makes_no_sense(server, what, body):
    status, text = refused(server, what, **body)
    assert status == 422, text
    assert json.loads(text)["detail"][0]["loc"][0] == "body" and sessions(server) == {}


def test_unknown_sessions(server):
    for what, more in (("view", {}), ("wait", {}), ("kill", {}), ("write", {"input": "x", "press_enter": True}),
                       ("sessions/update", {"no_change_timeout": 5})):
        assert refused(server, what, id="nobody", **more)[0] == 404
    assert sessions(server) == {}


def test_unset_fields_may_be_null(server):
    names = ("id", "exec_dir", "timeout", "strict", "no_change_timeout", "hard_timeout", "preserve_symlinks")
    assert ask(server, "exec", command="echo x", **dict.fromkeys(names))["output"] == "x"
    assert ask(server, "sessions/create", exec_dir=None, no_change_timeout=None, preserve_symlinks=None)["session_id"]


def test_other_spelling_of_the_id(server):
    sid = ask(server, "exec", command="A=b", session_id="spelled")["session_id"]
    assert sid == "spelled" and ask(server, "exec", command="echo $A", session_id=sid)["output"] == "b"


@pytest.mark.parametrize("command", ["", " ", "\n\n", "# comment", "\t\n # x\n", ":"])
def test_command_that_does_nothing(server, shell, command):
    data = run(server, command, shell, timeout=90)
    assert (data["status"], data["exit_code"], data["output"]) == ("completed", 0, "")


# --- clients -----------------------------------------------------------------------------------


def test_official_sdk(server):
    from agent_sandbox import Sandbox

    with httpx.Client(timeout=ANSWER_SECONDS) as client:
        use_shell_of_sdk(server, Sandbox(base_url=server.url, httpx_client=client).shell)


def use_shell_of_sdk(server, shell):
    sid = shell.create_session(exec_dir="/usr", no_change_timeout=60).data.session_id
    result = shell.exec_command(id=sid, command="export A=b; pwd", truncate=True).data
    assert (result.status, result.output, result.exit_code, result.session_id) == ("completed", "/usr", 0, sid)
    assert shell.exec_command(id=sid, command="echo $A", exec_dir="/etc", strict=True).data.output == "b"
    assert shell.exec_command(id=sid, command="read x; read y; echo got $x", async_mode=True).data.status == "running"
    assert shell.write_to_process(id=sid, input="it", press_enter=True).data.status == "running"
    shell.write_to_process(id=sid, input="", press_enter=True)
    assert shell.wait_for_process(id=sid, seconds=50).data.status == "completed"
    seen = shell.view(id=sid).data
    assert "got it" in seen.output and seen.console[-1].command == "read x; read y; echo got $x"
    assert shell.list_sessions().data.sessions[sid].working_dir == "/etc"
    assert shell.exec_command(id=sid, command="echo on; sleep 100", timeout=0.2).data.status == "running"
    assert eventually(lambda: shell.view(id=sid).data.console[-1].output.startswith("on"))
    killed = shell.kill_process(id=sid).data
    assert killed.status == "terminated" and killed.exit_code is None
    assert shell.update_session(id=sid, no_change_timeout=50).success
    stats = shell.get_session_stats().data
    assert stats.total_sessions == 1 and 0 < stats.usage_ratio < 1
    assert shell.get_terminal_url().data.startswith(server.url)
    assert shell.cleanup_session(sid).success and shell.cleanup_all_sessions().success


def test_contract_is_whole():
    tool = ROOT.parent / "shared/tools/contract-coverage"
    if not tool.exists():
        pytest.skip(f"NOT TESTED: there is no {tool}")
    document = subprocess.run([program("aio"), "openapi"], capture_output=True, check=True).stdout
    done = subprocess.run([tool, "--only", "/v1/shell", "--all"], input=document, capture_output=True)
    assert done.returncode == 0, done.stdout.decode()
