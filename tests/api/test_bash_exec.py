"""Commands on pipes: what they print, how they end, and how long a caller waits for them."""

import os
import signal
import subprocess
import time

import pytest

from commands import ask, close, ended, no_sessions, read, refused, run, sessions, warm  # noqa: F401
from harness import eventually, program
from processes import alive, cpu_seconds, gone, patiently, text_of

EURO = "\u20ac"  # three bytes in UTF-8
pytestmark = pytest.mark.server(warm=warm)


# --- what a command answers --------------------------------------------------------------------


def test_stdout_and_stderr_are_apart(server):
    answer = server.post("/v1/bash/exec", {"command": "echo out; echo err >&2; echo more"}).json()
    data = answer["data"]
    assert answer["success"] is True and answer["message"] == "Command executed"
    assert data["stdout"] == "out\nmore\n" and data["stderr"] == "err\n"
    assert data["status"] == "completed" and data["exit_code"] == 0
    assert data["command"] == "echo out; echo err >&2; echo more"
    assert data["offset"] == 9 and data["stderr_offset"] == 4 and data["truncated"] is False
    assert data["session_id"] and data["command_id"]


@pytest.mark.parametrize("command, code", [
    ("true", 0), ("false", 1), ("exit 3", 3), ("exit 255", 255), ("exit 256", 0), ("echo x; exit 0", 0),
    ("kill -9 $$", 137), ("kill -TERM $$", 143), ("kill -SEGV $$", 139), ("set -e; false; echo no", 1),
    ("no-such-program", 127), ("-x", 127), ("--version", 127), ("+e", 127), ("/etc/passwd", 126),
    ('echo "open', 2), ("unset PROMPT_COMMAND", 0),
    ("exec sh -c 'exit 5'", 5), ("exec >/dev/null; echo lost; exit 6", 6), ("exec 1>&- 2>&-; exit 8", 8),
    ("trap 'exit 9' TERM; kill $$", 9), ("! true", 1), ("return 4 2>/dev/null || exit 4", 4),
    ("cat <<'EOF'\n$HOME !$\nEOF", 0), ("(exit 11)", 11), ("sh -c 'kill -9 $$'", 137),
])
def test_exit_code_is_exact(server, command, code):
    data = run(server, command)
    assert (data["status"], data["exit_code"]) == ("completed", code)


def test_heredoc_and_bang(server):
    assert run(server, "cat <<EOF\na !b $((1+1))\nEOF\necho '!!' !x \"!\"")["stdout"] == "a !b 2\n!! !x !\n"


@pytest.mark.parametrize("command", ["", " ", "\n", "# only a comment", ":", "\t;" [:1]])
def test_command_that_does_nothing(server, command):
    data = run(server, command)
    assert (data["status"], data["exit_code"], data["stdout"], data["stderr"]) == ("completed", 0, "", "")


def test_every_command_is_a_new_process(server):
    sid = run(server, "cd /usr; export A=b; f() { :; }; pwd")["session_id"]
    data = run(server, "pwd; echo [$A]; type f", session_id=sid)
    assert data["stdout"] == f"{server.home}\n[]\n" and data["exit_code"] == 1


def test_directory_of_a_session(server, tmp_path):
    sid = run(server, "pwd", exec_dir="/usr")["session_id"]
    assert run(server, "pwd", session_id=sid)["stdout"] == "/usr\n"
    assert run(server, "pwd; cd /", session_id=sid, exec_dir=str(tmp_path))["stdout"] == f"{tmp_path}\n"
    assert run(server, "pwd", session_id=sid)["stdout"] == f"{tmp_path}\n"
    os.rmdir(tmp_path)
    status, text = refused(server, "exec", command="pwd", session_id=sid)
    assert status == 404 and str(tmp_path) in text, "the session's directory has been removed"
    assert run(server, "pwd", session_id=sid, exec_dir="/")["stdout"] == "/\n", "but not the session"


@pytest.mark.parametrize("path, status", [
    ("relative", 400), ("/no/such/dir", 404), ("/etc/passwd", 400), ("/etc/passwd/x", 400),
    ("/" + "x" * 5000, 400), ("./", 400),
])
def test_directory_that_is_none(server, path, status):
    before = len(sessions(server))
    assert refused(server, "exec", command="pwd", exec_dir=path)[0] == status
    assert refused(server, "sessions/create", exec_dir=path)[0] == status
    assert len(sessions(server)) == before


def test_environment_of_one_command(server):
    env = {"A": "b c", "EMPTY": "", "PATH": "/bin:/usr/bin", "QUOTE": "'\"$x`\n", "U": EURO}
    data = run(server, 'printf "%s|" "$A" "${EMPTY-unset}" "$PATH" "$QUOTE" "$U"', env=env)
    assert data["stdout"] == f"b c||/bin:/usr/bin|'\"$x`\n|{EURO}|"
    assert run(server, "echo [$A]", session_id=data["session_id"])["stdout"] == "[]\n"


def test_many_variables(server):
    before = cpu_seconds(server)
    data = run(server, 'echo "$V0 $V11999"', env={f"V{i}": str(i) for i in range(12000)})
    assert data["stdout"] == "0 11999\n"
    assert cpu_seconds(server) - before < 0.5, "each is looked at once"


def test_environment_that_every_command_has(server):
    data = run(server, 'echo "$HOME:$USER:$LOGNAME:$SHELL"; env | grep -c ^AIO_SESSION=; echo ${AIO_HOME-no}')
    user = subprocess.run(["id", "-un"], capture_output=True, text=True).stdout.strip()
    assert data["stdout"] == f"{server.home}:{user}:{user}:/bin/bash\n1\nno\n"


def test_secrets_of_the_server_stay_with_it(start_server):
    server = start_server(env={"SANDBOX_API_KEY": "hush-1", "AUTH_TOKEN": "hush-2", "PLAIN": "seen"})
    auth = {"X-AIO-API-Key": "hush-1"}
    assert server.post("/v1/bash/exec", {"command": "env"}).status_code == 401
    answer = server.post("/v1/bash/exec", {"command": "env; tr '\\0' '\\n' </proc/self/environ"}, headers=auth)
    out = answer.json()["data"]["stdout"]
    assert "PLAIN=seen" in out and "hush" not in out
    sid = answer.json()["data"]["session_id"]
    assert server.post(f"/v1/bash/sessions/{sid}/close", headers=auth).status_code == 200
    server.take_baseline()


def test_command_gets_its_three_descriptors_and_no_more(server):
    assert run(server, "ls /proc/$$/fd; :")["stdout"].split() == ["0", "1", "2"]


def test_command_is_alone_in_its_session_and_group(server):
    pid, group, sid, tty = run(server, "ps -o pid=,pgid=,sid=,tty= -p $$")["stdout"].split()
    assert pid == group == sid and tty == "?"


@pytest.mark.parametrize("ignored", [signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGCHLD])
def test_signals_are_clean_however_the_server_was_started(start_server, tmp_path, monkeypatch, ignored):
    """A server started with nohup, or in the background of a script, ignores some."""
    wrapper = tmp_path / "aio"
    wrapper.write_text(f"#!/bin/sh\ntrap '' {ignored.value}\nexec '{program('aio')}' \"$@\"\n")
    wrapper.chmod(0o755)
    monkeypatch.setenv("AIO", str(wrapper))
    server = warm(start_server())
    data = run(server, "grep -E '^Sig(Ign|Blk):' /proc/self/status")
    assert {line.split()[1] for line in data["stdout"].splitlines()} == {"0" * 16}
    close(server, data["session_id"])


# --- waiting, or not ---------------------------------------------------------------------------


def test_soft_timeout_leaves_the_command_running(server):
    data = patiently(lambda times: run(server, "echo a; read x; echo b; exit 4", timeout=times),
                     lambda data: data["stdout"])
    assert (data["status"], data["exit_code"], data["stdout"]) == ("running", None, "a\n")
    assert data["offset"] == 2
    ask(server, "write", session_id=data["session_id"], input="\n")
    rest = read(server, data, offset=data["offset"], wait=True)
    assert rest["stdout"] == "b\n" and rest["offset"] == 4
    assert ended(server, data)["command"] == {
        "command_id": data["command_id"], "command": "echo a; read x; echo b; exit 4",
        "status": "completed", "exit_code": 4}


def test_message_says_how_it_went(server):
    def said(command, **more):
        answer = server.post("/v1/bash/exec", {"command": command, **more}, timeout=60).json()
        return answer["message"], answer["hint"]

    assert said("exit 3") == ("Command executed", None)
    message, hint = said("sleep 100", timeout=0)
    assert message == "Command is still running" and "/v1/bash/output" in hint
    assert said("sleep 100", hard_timeout=0.1) == ("Command ended by hard_timeout", None)
    assert said("kill -9 $$")[0] == "Command executed"  # by itself: it is completed, with 137


def test_timeout_of_zero_answers_at_once(server):
    assert run(server, "sleep 100", timeout=0)["status"] == "running"


def test_timeout_that_is_not_reached(server):
    data = run(server, "echo a", timeout=60, hard_timeout=60)
    assert (data["status"], data["stdout"], data["exit_code"]) == ("completed", "a\n", 0)


def test_async_answers_at_once(server):
    answer = server.post("/v1/bash/exec", {"command": "read x; echo done", "async_mode": True}).json()
    assert answer["data"]["status"] == "running" and answer["message"] == "Command started"
    ask(server, "write", session_id=answer["data"]["session_id"], input="\n")
    data = ended(server, answer["data"])
    assert data["stdout"] == "done\n" and data["command"]["exit_code"] == 0


def test_hard_timeout_ends_the_group_and_keeps_the_output(server):
    start = time.monotonic()
    command = "echo before; sleep 100 & echo $!; wait; echo after"
    data = patiently(lambda times: run(server, command, hard_timeout=times),
                     lambda data: len(data["stdout"].split()) == 2)
    assert 1 <= time.monotonic() - start < 90
    assert data["status"] == "timed_out" and data["exit_code"] == 143
    assert data["stdout"].startswith("before\n") and "after" not in data["stdout"]
    assert gone(data["stdout"].split()[1])


def test_hard_timeout_of_a_command_that_ignores_sigterm(server):
    start = time.monotonic()
    command = "trap '' TERM; echo $$; while :; do sleep 100; done"
    data = patiently(lambda times: run(server, command, hard_timeout=times), lambda data: data["stdout"])
    assert 3 <= time.monotonic() - start < 90, "two seconds to end by itself"
    assert data["status"] == "timed_out" and data["exit_code"] == 137
    assert gone(data["stdout"])


def test_hard_timeout_gives_time_to_clean_up(server):
    command = "trap 'echo cleaned; exit 3' TERM; echo on; while :; do sleep 0.05; done"
    # It has two seconds for that, which a busy machine may use up.
    data = patiently(lambda times: run(server, command, hard_timeout=times), lambda data: "cleaned" in data["stdout"])
    assert (data["status"], data["stdout"], data["exit_code"]) == ("timed_out", "on\ncleaned\n", 3)


def test_hard_timeout_ends_those_who_outlive_the_command(server):
    """The shell obeys SIGTERM, its child does not: the whole group is to end all the same."""
    command = "(trap '' TERM; echo $BASHPID; exec sleep 100) & sleep 100"
    data = patiently(lambda times: run(server, command, hard_timeout=times), lambda data: data["stdout"])
    assert data["status"] == "timed_out"
    assert gone(data["stdout"])


def test_hard_timeout_after_the_caller_was_answered(server):
    data = patiently(lambda times: run(server, "echo $$; sleep 100; true", timeout=0.1, hard_timeout=2 * times),
                     lambda data: data["status"] == "running")
    assert data["status"] == "running"
    info = ended(server, data)["command"]
    assert (info["status"], info["exit_code"]) == ("timed_out", 143)


def test_hard_timeout_of_a_stopped_command(server):
    data = run(server, "kill -STOP $$; echo no", hard_timeout=0.2)
    assert data["status"] == "timed_out"


@pytest.mark.concurrency
def test_caller_who_leaves_leaves_the_command_running(server, tmp_path):
    sid = ask(server, "sessions/create")["session_id"]
    command = f"echo $$ >{tmp_path}/pid; until rm {tmp_path}/go; do sleep 0.02; done 2>/dev/null; echo done"
    for how in ("reset", "close"):
        with server.begin("/v1/bash/exec", session_id=sid, command=command) as peer:
            pid = text_of(tmp_path / "pid")
            if how == "reset":
                peer.reset()
        assert server.at_rest() and alive(pid)
        (tmp_path / "go").touch()
        assert gone(pid)
        assert eventually(lambda: ask(server, "output", session_id=sid)["command"]["status"] == "completed")
        assert ask(server, "output", session_id=sid)["stdout"] == "done\n"
        (tmp_path / "pid").unlink()


def test_caller_who_only_closes_its_side_is_answered(server, tmp_path):
    command = f"echo $$ >{tmp_path}/pid; until [ -e {tmp_path}/go ]; do sleep 0.02; done; echo done"
    with server.begin("/v1/bash/exec", command=command) as peer:
        assert text_of(tmp_path / "pid")
        peer.half_close()
        assert server.at_rest()
        (tmp_path / "go").touch()
        assert peer.answer().json()["data"]["stdout"] == "done\n"
