"""Commands on pipes: what they print, how they end, what they leave, and who may wait for them."""

import json
import os
import re
import resource
import signal
import subprocess
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from harness import LEAN, ROOT, Events, clean_environment, eventually, program, request
from processes import (  # noqa: F401
    DAEMONS, ROOT_ONLY, alive, below, comm, cpu_seconds, daemon, gone, patiently, tester, text_of, together)

MIB = 1 << 20
EURO = "\u20ac"  # three bytes in UTF-8
BAD = "\ufffd"


def warm(server):
    """The pump runs after the first command, and for good."""
    close(server, run(server, "true")["session_id"])
    server.settle()
    server.baseline = server.possessions()
    return server


@pytest.fixture(scope="module")
def server(start_shared):
    return warm(start_shared(env=LEAN))


@pytest.fixture(autouse=True)
def no_sessions(server):
    """What a test opened is closed before the look at what it left behind."""
    yield
    for session in server.get("/v1/bash/sessions").json()["data"]:
        close(server, session["session_id"])


@pytest.fixture
def start(start_server):
    """A server of one's own, started and warm."""
    return lambda *args, **more: warm(start_server(*args, **more))


# --- asking ------------------------------------------------------------------------------------


def ask(server, what, **body):
    answer = server.post(f"/v1/bash/{what}", body, timeout=110)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


def refused(server, what, **body):
    """The status and the text of an answer that is not 200."""
    answer = server.post(f"/v1/bash/{what}", body)
    assert answer.status_code != 200, answer.text
    return answer.status_code, answer.text


def run(server, command, **more):
    return ask(server, "exec", command=command, **more)


def read(server, command, **more):
    return ask(server, "output", session_id=command["session_id"], command_id=command["command_id"], **more)


def begun(server, command, says, **more):
    """A command that was left running, as soon as it has said so much."""
    data = run(server, command, async_mode=True, **more)
    assert eventually(lambda: read(server, data)["stdout"] == says), read(server, data)
    return data


def close(server, session_id):
    answer = server.post(f"/v1/bash/sessions/{quote(session_id, safe='')}/close")
    assert answer.status_code == 200, answer.text


def ended(server, command):
    """Waits for the end of a command: all it printed."""
    assert eventually(lambda: read(server, command)["command"]["status"] != "running", 60)
    return read(server, command)


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
    before = len(server.get("/v1/bash/sessions").json()["data"])
    assert refused(server, "exec", command="pwd", exec_dir=path)[0] == status
    assert refused(server, "sessions/create", exec_dir=path)[0] == status
    assert len(server.get("/v1/bash/sessions").json()["data"]) == before


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
    server.settle()
    server.baseline = server.possessions()


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
    data = patiently(lambda times: run(server, "echo before; sleep 100 & echo $!; wait; echo after", hard_timeout=times),
                     lambda data: len(data["stdout"].split()) == 2)
    assert 1 <= time.monotonic() - start < 90
    assert data["status"] == "timed_out" and data["exit_code"] == 143
    assert data["stdout"].startswith("before\n") and "after" not in data["stdout"]
    assert gone(data["stdout"].split()[1])


def test_hard_timeout_of_a_command_that_ignores_sigterm(server):
    start = time.monotonic()
    data = patiently(lambda times: run(server, "trap '' TERM; echo $$; while :; do sleep 100; done", hard_timeout=times),
                     lambda data: data["stdout"])
    assert 3 <= time.monotonic() - start < 90, "two seconds to end by itself"
    assert data["status"] == "timed_out" and data["exit_code"] == 137
    assert gone(data["stdout"])


def test_hard_timeout_gives_time_to_clean_up(server):
    command = "trap 'echo cleaned; exit 3' TERM; echo on; while :; do sleep 0.05; done"
    data = patiently(lambda times: run(server, command, hard_timeout=times), lambda data: data["stdout"])
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
    body = json.dumps({"session_id": sid, "command": f"echo $$ >{tmp_path}/pid; until rm {tmp_path}/go; do sleep 0.02; done 2>/dev/null; echo done"}).encode()
    for how in ("reset", "close"):
        with server.connect() as peer:
            peer.send(request("/v1/bash/exec", "POST", {"Content-Type": "application/json"}, body))
            pid = text_of(tmp_path / "pid")
            if how == "reset":
                peer.reset()
        assert alive(pid)
        (tmp_path / "go").touch()
        assert gone(pid)
        assert eventually(lambda: ask(server, "output", session_id=sid)["command"]["status"] == "completed")
        assert ask(server, "output", session_id=sid)["stdout"] == "done\n"
        (tmp_path / "pid").unlink()


def test_caller_who_only_closes_its_side_is_answered(server):
    body = json.dumps({"command": "sleep 0.3; echo done"}).encode()
    with server.connect() as peer:
        peer.send(request("/v1/bash/exec", "POST", {"Content-Type": "application/json"}, body))
        peer.half_close()
        assert peer.answer().json()["data"]["stdout"] == "done\n"


# --- reading the output ------------------------------------------------------------------------


def test_output_from_offsets(server):
    data = run(server, "printf 0123456789; printf abcdef >&2")
    piece = read(server, data, offset=4, stderr_offset=2)
    assert piece["stdout"] == "456789" and piece["stderr"] == "cdef"
    assert (piece["offset"], piece["stderr_offset"]) == (10, 6)
    piece = read(server, data, offset=10, stderr_offset=6)
    assert piece["stdout"] == piece["stderr"] == "" and (piece["offset"], piece["stderr_offset"]) == (10, 6)
    piece = read(server, data, offset=1 << 62, stderr_offset=7)
    assert piece["stdout"] == piece["stderr"] == "" and (piece["offset"], piece["stderr_offset"]) == (10, 6)


def test_output_without_command_is_of_the_current_or_the_latest(server):
    first = run(server, "echo 1")
    sid = first["session_id"]
    assert ask(server, "output", session_id=sid)["stdout"] == "1\n"
    running = begun(server, "echo 2; sleep 100", "2\n", session_id=sid)
    run(server, "echo 3", session_id=sid)
    data = ask(server, "output", session_id=sid)
    assert data["stdout"] == "2\n" and data["command"]["command_id"] == running["command_id"]
    ask(server, "kill", session_id=sid)
    ended(server, running)
    assert ask(server, "output", session_id=sid)["stdout"] == "3\n"
    assert read(server, first)["stdout"] == "1\n"


def test_output_of_what_is_not_there(server):
    sid = ask(server, "sessions/create")["session_id"]
    assert refused(server, "output", session_id="nobody")[0] == 404
    assert refused(server, "output", session_id=sid)[0] == 404
    run(server, "true", session_id=sid)
    assert refused(server, "output", session_id=sid, command_id="cmd-77")[0] == 404
    assert refused(server, "output", session_id=sid, offset=-1)[0] == 422


@pytest.mark.concurrency
def test_wait_is_woken_by_output_and_by_the_end(server):
    command = run(server, "read a; echo $a; read a; echo $a >&2; read a; exit 5", async_mode=True)
    at = {"offset": 0, "stderr_offset": 0}

    def news():
        return read(server, command, wait=True, wait_timeout=50, **at)

    with ThreadPoolExecutor(1) as pool:
        for line, out, err, status in (("x", "x\n", "", "running"), ("y", "", "y\n", "running"),
                                       ("z", "", "", "completed")):
            waiting = pool.submit(news)
            time.sleep(0.2)
            assert not waiting.done()
            ask(server, "write", session_id=command["session_id"], input=line + "\n")
            data = waiting.result(25)
            assert (data["stdout"], data["stderr"], data["command"]["status"]) == (out, err, status)
            at = {name: data[name] for name in at}
    assert data["command"]["exit_code"] == 5


def test_wait_ends_with_its_time(server):
    command = run(server, "sleep 100", async_mode=True)
    start = time.monotonic()
    data = read(server, command, wait=True, wait_timeout=0.3)
    assert 0.25 < time.monotonic() - start < 20
    assert data["stdout"] == "" and data["command"]["status"] == "running"


def test_wait_answers_at_once_when_there_is_something(server):
    command = begun(server, "echo a; sleep 100", "a\n")
    start = time.monotonic()
    assert read(server, command, wait=True, wait_timeout=50)["stdout"] == "a\n"
    done = run(server, "true")
    assert read(server, done, wait=True, wait_timeout=50)["stdout"] == ""
    assert time.monotonic() - start < 40


def test_incremental_reads_lose_nothing(server):
    command = run(server, f"for i in $(seq 2000); do echo {EURO}$i; done", async_mode=True)
    text, offset = "", 0
    while True:
        data = read(server, command, offset=offset, wait=True)
        text, offset = text + data["stdout"], data["offset"]
        if data["command"]["status"] != "running" and not data["stdout"]:
            break
    assert text == "".join(f"{EURO}{i}\n" for i in range(1, 2001))
    assert offset == len(text.encode())


def test_character_split_over_two_reads_is_whole(server):
    command = patiently(lambda times: run(server, r"printf 'a\xe2\x82'; read x; printf '\xacb'", timeout=times),
                        lambda data: data["stdout"])
    assert command["stdout"] == "a" and command["offset"] == 1
    assert read(server, command)["stdout"] == "a"
    held = read(server, command, offset=1)
    assert held["stdout"] == "" and held["offset"] == 1
    ask(server, "write", session_id=command["session_id"], input="\n")
    rest = ended(server, command)
    assert rest["stdout"] == f"a{EURO}b"
    assert read(server, command, offset=1)["stdout"] == f"{EURO}b"


def test_character_that_is_never_completed(server):
    data = run(server, r"printf 'a\xe2\x82'")
    assert data["stdout"] == "a" + BAD and data["offset"] == 3


def test_raw_binary_output(server):
    """Any bytes come as valid JSON; offsets count the bytes that were printed."""
    data = run(server, "head -c 1000000 /dev/urandom | tee copy", max_output_length=0)
    copy = (server.home / "copy").read_bytes()
    assert data["offset"] == 1000000 and data["stdout"] == copy.decode("utf-8", "replace")
    data = run(server, r"printf '\0\1\x80\xff\xc3(\xed\xa0\x80\xf0\x9f\x98\x80'")
    assert data["stdout"] == b"\0\1\x80\xff\xc3(\xed\xa0\x80\xf0\x9f\x98\x80".decode("utf-8", "replace")


@pytest.mark.parametrize("length, output, shown", [
    (10, "0123456789", "0123456789"),
    (10, "0123456789A", "01234\n... [1 bytes left out] ...\n6789A"),
    (5, "0123456789", "012\n... [5 bytes left out] ...\n89"),
    (1, "0123456789", "0\n... [9 bytes left out] ...\n"),
    (4, EURO * 4, EURO * 4),
    (4, EURO * 6, f"{EURO}{EURO}\n... [6 bytes left out] ...\n{EURO}{EURO}"),
    (0, "x" * 70000, "x" * 70000),
    (None, "x" * 50000, "x" * 50000),
    (None, "x" * 50001, "x" * 25000 + "\n... [1 bytes left out] ...\n" + "x" * 25000),
])
def test_long_output_loses_its_middle(server, length, output, shown):
    (server.home / "text").write_text(output)
    more = {} if length is None else {"max_output_length": length}
    data = run(server, "cat text; cat text >&2", **more)
    assert data["stdout"] == shown and data["stderr"] == shown
    assert data["offset"] == data["stderr_offset"] == len(output.encode()), "nothing is lost"
    assert read(server, data)["stdout"] == output
    assert data["truncated"] is False


@pytest.mark.parametrize("byte", [0x80, 0xFF, 0xC3])
def test_long_binary_output_loses_its_middle(server, byte):
    (server.home / "bytes").write_bytes(bytes([byte]) * 200000)
    data = run(server, "cat bytes", max_output_length=1000)
    head, middle, tail = data["stdout"].split("\n")
    assert head == tail == BAD * 500 and middle == "... [199000 bytes left out] ..."


def test_output_of_200_mb(server):
    """It is in a file: memory stays as it is, and every offset is right."""
    size = 200_000_000
    before = server.reset_peak()
    data = run(server, f"seq -w 99999999 | head -c {size}; echo err >&2")
    assert data["status"] == "completed" and data["offset"] == size and not data["truncated"]
    head, middle, tail = data["stdout"].partition("\n... [199950000 bytes left out] ...\n")
    assert middle and head.startswith("00000001\n00000002\n") and len(head) == len(tail) == 25000
    assert tail.endswith("\n22222221\n22222222\n22")
    piece = read(server, data, offset=size - 9)
    assert piece["stdout"] == "222222\n22" and piece["offset"] == size
    assert server.memory("VmHWM") - before < 40 * MIB

    half = size // 2
    body = json.dumps({"session_id": data["session_id"], "offset": half}).encode()
    with server.connect(timeout=60) as peer:  # half of it in one answer, by hand because of its size
        peer.send(request("/v1/bash/output", "POST", {"Content-Type": "application/json"}, body))
        assert peer.head().status == 200
        while b'"stdout":"' not in peer.data or len(peer.data) < 1000:
            assert peer.more()
        assert f"{half // 9 + 1:08}\n"[half % 9 :].replace("\n", "\\n").encode() in peer.data[:200]
        total, end = len(peer.data), b""
        while not end.endswith(b"0\r\n\r\n"):
            piece = peer.sock.recv(MIB)
            assert piece
            total, end = total + len(piece), (end + piece)[-300:]
    assert total > half + half // 9 and f'"offset":{size},'.encode() in end
    assert server.memory("VmHWM") - before < 40 * MIB


def test_output_is_all_there_with_no_limit(server):
    text = "".join(f"{i}\n" for i in range(1_000_000))
    data = run(server, "seq 0 999999; seq 0 9 >&2", max_output_length=0)
    assert data["stdout"] == text and data["stderr"] == text[:20]


@ROOT_ONLY
def test_output_that_does_not_fit_on_the_disk(start, tmp_path):
    """What fits is kept, the rest is counted as lost, and the command is not held up."""
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", tmp_path]).returncode:
        pytest.skip("a file system cannot be mounted here")
    try:
        server = start(env={"TMPDIR": str(tmp_path)})
        data = run(server, "head -c 5000000 /dev/zero | tr '\\0' x; echo end >&2; exit 3", max_output_length=0)
        assert data["truncated"] is True and data["exit_code"] == 3 and data["stderr"] == "end\n"
        assert data["stdout"] == "x" * data["offset"] and 500_000 < data["offset"] <= MIB
        close(server, data["session_id"])
        (tmp_path / "full").write_bytes(b"x" * 900_000)
        answer = server.post("/v1/bash/exec", json={
            "command": "head -c 5000000 /dev/zero | tr '\\0' x", "max_output_length": 0}).json()
        assert "no room for it on the disk" in answer["hint"] and answer["data"]["truncated"] is True
        assert answer["data"]["stdout"] == "x" * 256 * 1024, "what is in memory stays"
        close(server, answer["data"]["session_id"])
        answer = server.post("/v1/code/execute", json={"language": "bash", "code": "head -c 5000000 /dev/zero | tr '\\0' x"}).json()
        assert "no room for it on the disk" in answer["hint"], answer["hint"]
        (tmp_path / "full").unlink()
        data = run(server, "echo fine")
        assert data["stdout"] == "fine\n" and not data["truncated"]
        close(server, data["session_id"])
    finally:
        subprocess.run(["umount", "-l", tmp_path], check=True)


def test_temporary_directory_that_is_missing(start):
    server = start(env={"TMPDIR": "/no/such/dir"})
    data = run(server, "head -c 1000000 /dev/zero | tr '\\0' x", max_output_length=0)
    assert data["stdout"] == "x" * 1000000 and not data["truncated"]
    close(server, data["session_id"])


def test_limit_on_the_size_of_files_does_not_end_the_server(start):
    server = start()
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (MIB, MIB))
    data = run(server, "head -c 3000000 /dev/zero | tr '\\0' x", max_output_length=0)
    assert data["truncated"] is True and data["stdout"] == "x" * MIB
    close(server, data["session_id"])


def test_nothing_on_the_disk_has_a_name(start, tmp_path):
    server = start(env={"TMPDIR": str(tmp_path)})
    before = os.listdir(tmp_path)
    data = run(server, "head -c 3000000 /dev/zero")
    assert os.listdir(tmp_path) == before
    links = [link for link in server._links() if "(deleted)" in link]
    assert len(links) == 1, "the output of a remembered command is in a file without a name"
    close(server, data["session_id"])
    assert eventually(lambda: not [link for link in server._links() if "(deleted)" in link])


# --- pipes that others hold --------------------------------------------------------------------


def test_command_that_closes_its_own_stdout(server):
    data = run(server, "echo a; exec >&- 2>&-; sleep 0.3; exit 7")
    assert (data["status"], data["exit_code"], data["stdout"]) == ("completed", 7, "a\n")


def test_child_that_keeps_the_pipe_open(server, tmp_path):
    """The command is completed when its shell is; what its child prints later is kept as well."""
    start = time.monotonic()
    command = f"(until [ -e {tmp_path}/go ]; do sleep 0.02; done; echo late) & echo early; exit 6"
    data = run(server, command)
    assert time.monotonic() - start < 40
    assert (data["status"], data["exit_code"], data["stdout"]) == ("completed", 6, "early\n")
    (tmp_path / "go").touch()
    assert eventually(lambda: read(server, data)["stdout"] == "early\nlate\n")


def test_last_output_is_there_when_the_end_is_told(server):
    """The end and the output come by different ways."""
    for i in range(30):
        data = run(server, f"head -c {65536 + i} /dev/zero; echo last; echo err >&2", max_output_length=0)
        assert data["stdout"].endswith("\0last\n") and data["stderr"] == "err\n"
        assert data["offset"] == 65536 + i + 5
        close(server, data["session_id"])


def test_background_job_lives_until_its_session_is_closed(server):
    data = run(server, "sleep 1000 >/dev/null 2>&1 & disown; echo $!")
    assert data["status"] == "completed" and alive(data["stdout"])
    run(server, "true", session_id=data["session_id"])
    assert alive(data["stdout"])
    close(server, data["session_id"])
    assert not alive(data["stdout"]), "closing answers when all is ended"


# --- input -------------------------------------------------------------------------------------


def test_cat_waits_for_its_input(server):
    command = run(server, "cat; echo end", timeout=0.2)
    sid = command["session_id"]
    assert command["status"] == "running" and command["stdout"] == ""
    assert ask(server, "write", session_id=sid, input="no newline") is None
    assert eventually(lambda: read(server, command)["stdout"] == "no newline")
    ask(server, "write", session_id=sid, command_id=command["command_id"], input=f"\n{EURO}\0\x7f\n", close=True)
    assert ended(server, command)["stdout"] == f"no newline\n{EURO}\0\x7f\nend\n"


def test_prompt_on_stderr(server):
    command = run(server, "read -p 'name? ' name; echo hello $name", timeout=0.2)
    sid = command["session_id"]
    ask(server, "write", session_id=sid, input="world\n")
    assert ended(server, command)["stdout"] == "hello world\n"


def test_input_goes_to_the_newest_command_that_runs(server):
    first = run(server, "cat", async_mode=True)
    sid = first["session_id"]
    second = run(server, "cat", async_mode=True, session_id=sid)
    run(server, "true", session_id=sid)
    ask(server, "write", session_id=sid, input="2", close=True)
    assert ended(server, second)["stdout"] == "2"
    ask(server, "write", session_id=sid, command_id=first["command_id"], input="1", close=True)
    assert ended(server, first)["stdout"] == "1"


def test_input_that_nobody_reads(server):
    done = run(server, "true")
    sid = done["session_id"]
    assert refused(server, "write", session_id=sid, input="x")[0] == 409
    assert refused(server, "write", session_id=sid, input="x", command_id="cmd-9")[0] == 404
    assert refused(server, "write", session_id="nobody", input="x")[0] == 404
    closed = begun(server, "exec <&-; echo shut; sleep 100", "shut\n", session_id=sid)
    assert refused(server, "write", session_id=sid, input="x")[0] == 409
    assert read(server, closed)["command"]["status"] == "running"


def test_input_larger_than_the_pipe(server):
    command = run(server, "sleep 0.3; wc -c", async_mode=True)
    ask(server, "write", session_id=command["session_id"], input="x" * 3_000_000, close=True)
    assert ended(server, command)["stdout"] == "3000000\n"


@pytest.mark.concurrency
def test_input_that_waits_for_room_ends_with_its_command(server):
    command = run(server, "sleep 100", async_mode=True)
    sid = command["session_id"]
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(refused, server, "write", session_id=sid, input="x" * 1_000_000)
        time.sleep(0.3)  # for it to wait; if that comes later, the answer is the same
        ask(server, "kill", session_id=sid)
        assert writing.result(25)[0] == 409


# --- signals -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name, code", [
    (None, 143), ("SIGTERM", 143), ("SIGKILL", 137), ("SIGINT", 130), ("term", 143), ("KILL", 137), ("15", 143),
    ("SIGHUP", 129), ("sigusr1", 138), ("9", 137),
])
def test_kill_by_name(server, name, code):
    command = run(server, "sleep 100 & wait; echo no", async_mode=True)
    more = {"signal": name} if name else {}
    answer = server.post("/v1/bash/kill", {"session_id": command["session_id"], **more}).json()
    assert answer["success"] is True and answer["data"] is None
    info = ended(server, command)["command"]
    assert (info["status"], info["exit_code"]) == ("killed", code)


def test_signal_that_the_command_handles(server):
    command = begun(server, "trap 'echo got it' USR1; trap 'echo bye; exit 3' TERM; echo on; while :; do sleep 0.05; done",
                    "on\n")
    sid = command["session_id"]
    ask(server, "kill", session_id=sid, signal="SIGUSR1")
    assert eventually(lambda: "got it" in read(server, command)["stdout"])
    assert read(server, command)["command"]["status"] == "running"
    ask(server, "kill", session_id=sid)
    data = ended(server, command)
    assert data["stdout"].endswith("bye\n")
    assert (data["command"]["status"], data["command"]["exit_code"]) == ("completed", 3)


def test_command_that_ignores_sigterm_is_killed(server):
    command = begun(server, "trap '' TERM; echo on; sleep 100", "on\n")
    sid = command["session_id"]
    ask(server, "kill", session_id=sid)
    assert read(server, command, wait=True, offset=3, wait_timeout=0.3)["command"]["status"] == "running"
    ask(server, "kill", session_id=sid, signal="SIGKILL")
    assert ended(server, command)["command"]["exit_code"] == 137


@pytest.mark.parametrize("name", ["", "SIG", "SIGNOTHING", "0", "-9", "99999", "1e1", "TERM ", "SIGTERM;", "9x"])
def test_signal_that_is_none(server, name):
    command = run(server, "sleep 100", async_mode=True)
    assert refused(server, "kill", session_id=command["session_id"], signal=name)[0] == 400
    assert read(server, command)["command"]["status"] == "running"


def test_kill_when_nothing_runs(server):
    sid = run(server, "true")["session_id"]
    answer = server.post("/v1/bash/kill", {"session_id": sid}).json()
    assert answer["success"] is False and answer["message"] == "No command is running"
    assert refused(server, "kill", session_id="nobody")[0] == 404


def test_kill_one_of_several(server):
    first = run(server, "sleep 100", async_mode=True)
    second = run(server, "sleep 100", async_mode=True, session_id=first["session_id"])
    ask(server, "kill", session_id=first["session_id"], command_id=first["command_id"])
    assert ended(server, first)["command"]["status"] == "killed"
    assert read(server, second)["command"]["status"] == "running"
    third = run(server, "sleep 100", async_mode=True, session_id=first["session_id"])
    ask(server, "kill", session_id=first["session_id"])
    assert ended(server, second)["command"]["status"] == ended(server, third)["command"]["status"] == "killed"


def test_command_that_kills_itself_was_not_killed_by_us(server):
    assert run(server, "kill -9 $$")["status"] == "completed"


# --- events ------------------------------------------------------------------------------------


def test_events_come_as_they_happen(server):
    with Events(server, "/v1/bash/exec", command="echo a; read x; echo b >&2; read x; exit 3") as events:
        assert events.head.status == 200 and events.head["content-type"].startswith("text/event-stream")
        name, start = events.next()
        assert name == "start" and start["status"] == "running"
        ids = {"session_id": start["session_id"], "command_id": start["command_id"]}
        assert events.next() == ("stdout", {**ids, "data": "a\n", "offset": 2})
        ask(server, "write", session_id=start["session_id"], input="\n")
        assert events.next() == ("stderr", {**ids, "data": "b\n", "offset": 2})
        ask(server, "write", session_id=start["session_id"], input="\n")
        assert events.next() == ("exit", {**ids, "status": "completed", "exit_code": 3, "offset": 2,
                                          "stderr_offset": 2})
        assert events.next() is None


def test_events_of_much_output(server):
    text = "".join(f"{EURO}{i}\n" for i in range(200_000))
    (server.home / "much").write_text(text)
    with Events(server, "/v1/bash/exec", command="cat much; printf '\\xe2\\x82'") as events:
        all_of_it = list(events)
    assert "".join(data["data"] for name, data in all_of_it if name == "stdout") == text + BAD
    assert all_of_it[-1][0] == "exit" and all_of_it[-1][1]["offset"] == len(text.encode()) + 2


def test_events_with_a_split_character(server):
    with Events(server, "/v1/bash/exec", command=r"printf 'a\xe2'; read x; printf '\x82\xacb'") as events:
        sid = events.next()[1]["session_id"]
        assert events.next()[1]["data"] == "a"
        ask(server, "write", session_id=sid, input="\n")
        assert "".join(data["data"] for name, data in events if name == "stdout") == f"{EURO}b"


def test_events_until_the_timeout(server):
    def names(times):
        with Events(server, "/v1/bash/exec", command="echo a; sleep 100", timeout=times) as events:
            return [(name, data.get("status")) for name, data in events]

    assert patiently(names, lambda names: len(names) == 3) == [("start", "running"), ("stdout", None), ("exit", "running")]


def test_events_of_a_hard_timeout(server):
    with Events(server, "/v1/bash/exec", command="echo a; sleep 100; true", hard_timeout=0.2) as events:
        last = list(events)[-1]
    assert last[0] == "exit" and last[1]["status"] == "timed_out"


def test_listener_who_leaves_leaves_the_command_running(server):
    with Events(server, "/v1/bash/exec", command="echo a; read x; echo b") as events:
        command = events.next()[1]
        assert events.next()[0] == "stdout"
        events.peer.reset()
    ask(server, "write", session_id=command["session_id"], input="\n")
    assert ended(server, command)["stdout"] == "a\nb\n"


# --- several at once ---------------------------------------------------------------------------


def test_several_commands_in_one_session(server):
    sid = ask(server, "sessions/create")["session_id"]
    commands = [run(server, f"read x; echo {i}$x; exit {i}", session_id=sid, async_mode=True) for i in range(5)]
    assert len({command["command_id"] for command in commands}) == 5
    for i in reversed(range(5)):
        ask(server, "write", session_id=sid, command_id=commands[i]["command_id"], input=f"in{i}\n")
    for i, command in enumerate(commands):
        data = ended(server, command)
        assert data["stdout"] == f"{i}in{i}\n" and data["command"]["exit_code"] == i


@pytest.mark.concurrency
def test_200_parallel_commands(server):
    def one(i):
        data = run(server, f"echo {i}; sleep 0.5; echo {i} >&2; exit {i % 256}")
        return (data["stdout"], data["stderr"], data["exit_code"]) == (f"{i}\n", f"{i}\n", i % 256)

    assert together(200, one) == [True] * 200


@pytest.mark.concurrency
def test_200_commands_of_one_session(server):
    sid = ask(server, "sessions/create")["session_id"]

    def one(i):
        data = run(server, f"echo {i}", session_id=sid)
        return data["stdout"] == f"{i}\n", data["command_id"]

    answers = together(40, lambda i: [one(i) for _ in range(5)])
    assert all(good for some in answers for good, _ in some)
    assert len({id for some in answers for _, id in some}) == 200


def test_200_commands_where_the_usual_limit_is_1024(start_server, tmp_path, monkeypatch):
    """The server takes as many descriptors as it may have; what it starts is given the limit it had."""
    wrapper = tmp_path / "aio"
    wrapper.write_text(f"#!/bin/bash\nulimit -Sn 1024\nexec '{program('aio')}' \"$@\"\n")
    wrapper.chmod(0o755)
    monkeypatch.setenv("AIO", str(wrapper))
    server = warm(start_server())
    hard = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)[1]
    data = run(server, "ulimit -Sn; ulimit -Hn")
    assert data["stdout"].split() == ["1024", str(hard)]
    answers = together(200, lambda i: run(server, f"sleep 0.7; echo {i}", session_id=data["session_id"])["stdout"])
    assert answers == [f"{i}\n" for i in range(200)]
    close(server, data["session_id"])


def test_too_few_descriptors(start):
    """Those who find none are told so, and all is well when there are some again."""
    server = start()
    soft, hard = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
    for more in range(2, 12):
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (len(server._links()) + more, hard))
        try:
            code = server.post("/v1/bash/exec", {"command": "true", "timeout": 5}).status_code
        except httpx.HTTPError:
            code = None  # not even a connection
        finally:
            resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (soft, hard))
        assert code in (None, 200, 429, 503), more
        for session in server.get("/v1/bash/sessions").json()["data"]:
            close(server, session["session_id"])
    assert code == 200
    server.check_leaks(server.baseline)


@pytest.mark.concurrency
def test_one_who_waits_for_each_other(server):
    """Commands and those who wait for them, all at once on one session."""
    sid = ask(server, "sessions/create")["session_id"]
    command = run(server, "for i in 1 2 3 4 5; do echo $i; sleep 0.1; done", session_id=sid, async_mode=True)

    def follow(_):
        text, offset, status = "", 0, "running"
        while status == "running":
            data = read(server, command, offset=offset, wait=True)
            text, offset, status = text + data["stdout"], data["offset"], data["command"]["status"]
        return text + read(server, command, offset=offset)["stdout"]

    assert together(20, follow) == ["1\n2\n3\n4\n5\n"] * 20


# --- sessions ----------------------------------------------------------------------------------


def test_sessions_are_listed(server):
    made = ask(server, "sessions/create", session_id="mine", exec_dir="/usr")
    assert made["session_id"] == "mine" and made["status"] == "ready" and made["working_dir"] == "/usr"
    assert made["current_command"] is None and made["command_count"] == 0
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", made["created_at"])
    run(server, "true", session_id="mine")
    run(server, "sleep 100", session_id="mine", async_mode=True, exec_dir="/")
    listed = {s["session_id"]: s for s in server.get("/v1/bash/sessions").json()["data"]}["mine"]
    assert listed["current_command"] == "sleep 100" and listed["command_count"] == 2
    assert listed["working_dir"] == "/" and listed["created_at"] == made["created_at"]
    assert listed["last_used_at"] > made["last_used_at"]
    assert ask(server, "sessions/create", session_id="mine")["command_count"] == 2, "the same one"
    close(server, "mine")
    assert "mine" not in [s["session_id"] for s in server.get("/v1/bash/sessions").json()["data"]]
    assert server.post("/v1/bash/sessions/mine/close").status_code == 404


@pytest.mark.parametrize("absent", [{}, {"session_id": None}, {"session_id": ""}])
def test_session_without_a_name_gets_one(server, absent):
    made = {ask(server, "sessions/create", **absent)["session_id"] for _ in range(3)}
    made |= {run(server, "true", **absent)["session_id"] for _ in range(3)}
    assert len(made) == 6 and "" not in made


@pytest.mark.parametrize("name", ["a b/c?d#e", EURO * 64, "'; rm -rf /tmp/x; '", "%s%n", "a=b"])
def test_session_with_an_odd_name(server, name):
    data = run(server, "sleep 1000 >/dev/null 2>&1 & echo $!", session_id=name)
    assert data["session_id"] == name
    assert ask(server, "output", session_id=name)["stdout"] == data["stdout"]
    close(server, name)
    assert not alive(data["stdout"])


def test_session_name_that_is_too_long(server):
    assert refused(server, "exec", command="true", session_id="x" * 65)[0] == 422
    assert refused(server, "sessions/create", session_id="x" * 65)[0] == 422


def test_unnamed_session_does_not_take_over_a_named_one(server):
    """A client may have chosen the very name that would be next."""
    first = run(server, "true")["session_id"]
    kind, stamp, number = first.rsplit("-", 2)
    taken = [f"{kind}-{stamp}-{int(number, 16) + i:x}" for i in range(1, 4)]
    for name in taken:
        ask(server, "sessions/create", session_id=name)
    for _ in range(3):
        run(server, "true")
    names = [s["session_id"] for s in server.get("/v1/bash/sessions").json()["data"]]
    assert len(names) == len(set(names)) == 7


def test_snapshot_is_sourced(server, tmp_path):
    snapshot = tmp_path / "snap shot"
    snapshot.write_text("export FROM=snapshot\ngreet() { echo hello $1; }\nshopt -s expand_aliases\nalias hi='greet hi'\n")
    sid = ask(server, "sessions/create", snapshot_path=str(snapshot))["session_id"]
    assert run(server, "greet $FROM\nhi", session_id=sid)["stdout"] == "hello snapshot\nhello hi\n"
    assert refused(server, "sessions/create", snapshot_path="/no/such/file")[0] == 400


def test_close_ends_what_runs_and_answers_who_waits(server):
    command = begun(server, "echo a; sleep 100", "a\n")
    sid = command["session_id"]
    with server.begin("/v1/bash/output", **{name: command[name] for name in ("session_id", "command_id")}, wait=True,
                      offset=2) as waiting, \
            server.begin("/v1/bash/exec", command="trap '' TERM HUP INT; echo b; sleep 100; echo c",
                         session_id=sid) as running:
        assert eventually(lambda: ask(server, "output", session_id=sid)["stdout"] == "b\n")
        assert server.at_rest()
        close(server, sid)
        assert waiting.answer().json()["data"]["command"]["status"] == "killed"
        data = running.answer().json()["data"]
        assert (data["status"], data["exit_code"], data["stdout"]) == ("killed", 137, "b\n")
    assert refused(server, "output", session_id=sid)[0] == 404
    assert run(server, "echo again", session_id=sid)["stdout"] == "again\n", "the name is free again"


@pytest.mark.concurrency
def test_close_and_exec_at_once_leave_nothing_running(server):
    """A command that starts while its session is being closed is ended as well."""

    def one(i):
        sid = f"race-{i % 8}"
        if i % 2:
            server.post(f"/v1/bash/sessions/{sid}/close")
        else:
            server.post("/v1/bash/exec", {"command": "sleep 1000", "session_id": sid, "async_mode": True})

    for _ in range(6):
        together(32, one)
    listed = [s["session_id"] for s in server.get("/v1/bash/sessions").json()["data"]]
    for sid in listed:
        close(server, sid)
    assert eventually(lambda: not server.children()), "a command runs on without a session"


@pytest.mark.parametrize("how", DAEMONS)
def test_daemon_is_ended_with_its_session(server, tmp_path, how):
    data = run(server, daemon(how, tmp_path))
    pid = text_of(tmp_path / "pid")
    assert data["exit_code"] == 0 and alive(pid)
    other = run(server, "sleep 1000", async_mode=True)
    close(server, data["session_id"])
    assert not alive(pid)
    assert read(server, other)["command"]["status"] == "running", "another session is left alone"


def test_1000_sessions_leave_nothing(server):
    before, memory = server.possessions(), None
    for i in range(1000):
        sid = f"s{i}"
        if i % 10 == 0:
            run(server, "echo x", session_id=sid)
        else:
            ask(server, "sessions/create", session_id=sid)
        close(server, sid)
        if i == 200:
            memory = server.memory()
    assert server.get("/v1/bash/sessions").json()["data"] == []
    server.check_leaks(before)
    assert server.memory() - memory < 8 * MIB


def test_commands_that_a_session_forgets(server):
    sid = ask(server, "sessions/create")["session_id"]
    running = run(server, "sleep 100", session_id=sid, async_mode=True)
    commands = [run(server, f"echo {i}", session_id=sid) for i in range(70)]
    assert refused(server, "output", session_id=sid, command_id=commands[0]["command_id"])[0] == 404
    assert read(server, commands[-1])["stdout"] == "69\n"
    assert read(server, commands[10])["stdout"] == "10\n"
    assert read(server, running)["command"]["status"] == "running", "what runs is not forgotten"
    assert server.get("/v1/bash/sessions").json()["data"][0]["command_count"] == 71


def test_number_of_sessions_has_a_cap(start):
    server = start(["--max-sessions", "3"])
    for name in "abc":
        run(server, "sleep 100", session_id=name, async_mode=True)
    status, text = refused(server, "exec", command="true", session_id="d")
    assert status == 429 and "--max-sessions" in text
    assert refused(server, "sessions/create")[0] == 429
    assert run(server, "echo x", session_id="a")["stdout"] == "x\n"
    ask(server, "kill", session_id="b")
    assert eventually(lambda: server.post("/v1/bash/sessions/create", {"session_id": "d"}).status_code == 200)
    assert {s["session_id"] for s in server.get("/v1/bash/sessions").json()["data"]} == set("acd")
    for name in "acd":
        close(server, name)


@pytest.mark.concurrency
def test_idle_sessions_make_room_for_many_at_once(start):
    """Nobody is refused while something idle could go."""
    server = start(["--max-sessions", "16"])
    codes = together(12, lambda i: [server.post("/v1/bash/sessions/create", {}).status_code for _ in range(20)])
    assert {code for some in codes for code in some} == {200}
    assert len(server.get("/v1/bash/sessions").json()["data"]) <= 16
    for session in server.get("/v1/bash/sessions").json()["data"]:
        close(server, session["session_id"])


@pytest.mark.concurrency
def test_a_session_is_not_taken_from_one_who_has_just_got_it(start):
    server = start(["--max-sessions", "4"])
    codes = together(8, lambda i: [server.post("/v1/bash/exec", {"command": "true"}, timeout=60).status_code for _ in range(5)])
    assert {200} <= {code for some in codes for code in some} <= {200, 429}
    for session in server.get("/v1/bash/sessions").json()["data"]:
        close(server, session["session_id"])


def test_idle_session_expires_with_all_it_left(start_server):
    server = start_server(["--session-timeout", "2"])
    idle = run(server, "sleep 1000 >/dev/null 2>&1 & echo $!")
    busy = run(server, "sleep 1000", async_mode=True)
    used = ask(server, "sessions/create")["session_id"]

    def listed():
        run(server, "true", session_id=used)
        return {s["session_id"] for s in server.get("/v1/bash/sessions").json()["data"]}

    assert eventually(lambda: idle["session_id"] not in listed())
    assert listed() == {busy["session_id"], used}
    assert gone(idle["stdout"])
    close(server, busy["session_id"])
    server.post(f"/v1/bash/sessions/{used}/close")  # unless it has just expired as well


# --- the end of the server ---------------------------------------------------------------------

BUSY = ["sleep 1000", "trap '' TERM; while :; do sleep 1000; done", "cat", "yes >/dev/null",
        "setsid sh -c 'sleep 1000 &' >/dev/null 2>&1 & sleep 1000", "exec sleep 1000", "yes"]


def busy_server(start_server, *args):
    """With commands of all kinds: the server, and all the processes below it."""
    server = start_server(*args)
    for command in BUSY:
        run(server, command, async_mode=True)

    def stay():
        """All the processes, when only those are left that stay."""
        pids = below(server)
        names = Counter(map(comm, pids))
        return pids if names >= Counter(sleep=5, cat=1, yes=2) and not {"", "sh", "setsid"} & set(names) else None

    pids = eventually(stay)
    assert pids, Counter(map(comm, below(server)))
    return server, pids


def _text(path):
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


@pytest.mark.concurrency
def test_sigterm_ends_all_commands(start_server):
    server, pids = busy_server(start_server)
    assert len(pids) >= len(BUSY) and all(map(alive, pids))
    sid = ask(server, "sessions/create")["session_id"]
    before = server.tasks()  # the pump's never rests, with so much to read
    with server.begin("/v1/bash/exec", command="echo a >begun; sleep 1000", session_id=sid) as waiting:
        assert text_of(server.home / "begun")
        with server.begin("/v1/bash/output", session_id=sid, wait=True, offset=1 << 40) as polling:
            assert eventually(lambda: len(server.tasks().keys() - before) == 2) and server.at_rest(before)
            server.signal()
            assert server.wait() == 0
            assert waiting.answer().json()["data"]["status"] == "running" and polling.answer().status == 200
    assert gone(*pids, seconds=0)


def test_stop_does_not_wait_for_input_to_be_read(start_server):
    server = start_server()
    sid = run(server, "sleep 1000", async_mode=True)["session_id"]
    with server.begin("/v1/bash/write", session_id=sid, input="x" * 1_000_000) as writing:
        assert server.at_rest()
        server.signal()
        assert server.wait() == 0
        assert writing.answer().status in (409, 503)


def test_sigkill_leaves_nothing_behind(start_server):
    """The first stage ends what the server cannot."""
    server, pids = busy_server(start_server)
    if server.pid == server.proc.pid:
        pytest.fail("the server has no first stage")
    os.kill(server.pid, signal.SIGKILL)
    assert server.wait() == 128 + signal.SIGKILL
    assert gone(*pids)
    server.stop = lambda: None  # it did not end well, as it had to


def test_end_of_the_first_stage_is_the_end_of_the_server(start_server):
    server, pids = busy_server(start_server)
    if server.pid == server.proc.pid:
        pytest.fail("the server has no first stage")
    os.kill(server.proc.pid, signal.SIGKILL)
    assert server.wait() == -signal.SIGKILL
    assert gone(server.pid, *pids)
    server.check_reports()
    server.stop = lambda: None


def test_no_zombies(server):
    """Neither the children nor those that lost their parents."""
    sid = run(server, "for i in 1 2 3 4 5; do (sleep 0.1 &) ; sh -c 'exit 3' & done; wait")["session_id"]
    assert eventually(lambda: server.children() == []), [_text(Path(f"/proc/{pid}/stat")) for pid in server.children()]
    close(server, sid)
    assert server.children() == []


# --- a fork bomb -------------------------------------------------------------------------------


@pytest.fixture
def pids_limit():
    """Puts processes, and all that they start, under a limit of their number; skips where that cannot
    be had, for without it a bomb would take the machine."""
    made = []

    def limit(pids, count):
        for root in (Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup")):
            group = root / f"aio-test-{os.getpid()}-{time.monotonic_ns()}"
            try:
                group.mkdir()
                made.append(group)
                with open(group / "pids.max", "r+") as file:  # the kernel's file, not one of our making
                    file.write(str(count))
                for pid in pids:
                    with open(group / "cgroup.procs", "r+") as file:
                        file.write(str(pid))
            except OSError:
                continue
            members = (group / "cgroup.procs").read_text().split()
            if (group / "pids.max").read_text() == f"{count}\n" and set(map(str, pids)) <= set(members):
                return group
        pytest.skip("NOT TESTED: no cgroup with a pids controller can be written here")

    yield limit
    for group in made:
        for _ in range(50):
            for pid in _text(group / "cgroup.procs").split():
                try:
                    os.kill(int(pid), signal.SIGKILL)
                except ProcessLookupError:
                    pass
            try:
                group.rmdir()
                break
            except OSError:
                time.sleep(0.1)


def test_history_is_as_long_as_configured(start_server):
    server = start_server(["--max-history", "3"])
    ids = [run(server, f"echo {i}", session_id="h")["command_id"] for i in range(5)]
    told = [server.post("/v1/bash/output", {"session_id": "h", "command_id": i}) for i in ids]
    assert [answer.status_code for answer in told] == [404, 404, 200, 200, 200]
    assert told[2].json()["data"]["stdout"] == "2\n"
    for i in range(5):
        assert server.post("/v1/shell/exec", {"id": "h", "command": f"echo {i}"}).status_code == 200
    console = server.post("/v1/shell/view", {"id": "h"}).json()["data"]["console"]
    assert [record["output"] for record in console] == ["2", "3", "4"]
    close(server, "h")
    assert server.client.delete("/v1/shell/sessions/h").status_code == 200


def test_first_command_where_nothing_more_can_be_started(pids_limit, start_server):
    """It needs a process, and the pump a thread. What cannot be had once may be had the next time."""
    server = start_server()
    group = pids_limit([server.proc.pid, server.pid], 100)
    threads = server.baseline["threads"]
    for more in range(4):
        assert eventually(lambda: server.possessions()["threads"] == threads)
        (group / "pids.max").write_text(str(int((group / "pids.current").read_text()) + more))
        code = server.post("/v1/bash/exec", {"command": "true", "timeout": 5}).status_code
        assert code in (200, 429, 503), more
    (group / "pids.max").write_text("100")
    data = run(server, "echo fine")
    assert (data["status"], data["stdout"]) == ("completed", "fine\n")
    for session in server.get("/v1/bash/sessions").json()["data"]:
        close(server, session["session_id"])


# It stops by itself when there is a file named "stop", and after some generations.
BOMB = "f() { [ -e stop ] || [ $1 -gt 11 ] || { f $(($1 + 1)) | f $(($1 + 1)) & }; }; f 0; sleep 1000"


@pytest.fixture
def bomb(pids_limit, start_server):
    """A server with a bomb in it: the server, the bomb's session, how many processes there are, and a
    connection from before: under the limit, the server may find no thread for a new one."""
    server = start_server()
    line = httpx.Client(base_url=server.url, timeout=30)
    assert line.get("/health").status_code == 200
    sid = ask(server, "sessions/create")["session_id"]
    other = run(server, "sleep 1000", async_mode=True)
    eventually(lambda: len(server.children()) == 1)
    group = pids_limit([server.proc.pid, server.pid, *server.children()], 150)

    def count():
        return int((group / "pids.current").read_text())

    run(server, BOMB, session_id=sid, async_mode=True)
    assert eventually(lambda: count() >= 140)
    yield server, sid, other, count, line
    line.close()
    (server.home / "stop").touch()


def test_fork_bomb_is_ended_with_its_session(bomb):
    server, sid, other, count, line = bomb
    codes = {server.post("/v1/bash/exec", {"command": "true"}).status_code for _ in range(20)}
    assert codes <= {200, 429, 503}, "the limit is not taken for a fault of ours"
    start = time.monotonic()
    assert line.post(f"/v1/bash/sessions/{sid}/close").status_code == 200
    line.close()
    assert eventually(lambda: count() < 30), count()
    assert time.monotonic() - start < 40
    assert read(server, other)["command"]["status"] == "running"
    for session in server.get("/v1/bash/sessions").json()["data"]:
        close(server, session["session_id"])
    server.settle()
    server.baseline = server.possessions()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_fork_bomb_ends_with_the_server(bomb, number):
    server, _, _, count, _ = bomb
    os.kill(server.pid, number)
    server.wait()
    assert eventually(lambda: count() == 0), count()
    server.stop = lambda: None


# --- another user ------------------------------------------------------------------------------


@ROOT_ONLY
def test_commands_run_as_the_sandbox_user(start, tester):
    server = start(["--user", tester], env={"WORKSPACE": "", "AUTH_TOKEN": "", "HOME": "/root", "MAIL": "/x"})
    command = "id -un; id -Gn; echo $HOME $USER $LOGNAME; pwd; cat /etc/shadow; kill -0 $PPID; touch f; stat -c %U f"
    data = run(server, command)
    assert data["stdout"].splitlines() == [tester, f"{tester} {tester}g", f"/home/{tester} {tester} {tester}",
                                           f"/home/{tester}", tester]
    assert "Permission denied" in data["stderr"] and "not permitted" in data["stderr"]
    assert "uid=0" not in data["stdout"]
    caps = run(server, "grep -E '^(CapPrm|CapEff|CapInh|CapAmb):' /proc/self/status", session_id=data["session_id"])
    assert {line.split()[1] for line in caps["stdout"].splitlines()} == {"0" * 16}
    assert refused(server, "exec", command="pwd", exec_dir="/root", session_id=data["session_id"])[0] in (403, 404)
    close(server, data["session_id"])


@ROOT_ONLY
def test_daemon_of_the_sandbox_user_is_ended(start, tester):
    server = start(["--user", tester], env={"WORKSPACE": ""})
    for how in ("double fork", "without environment"):
        data = run(server, daemon(how, f"/home/{tester}"))
        pid = text_of(f"/home/{tester}/pid")
        assert alive(pid)
        close(server, data["session_id"])
        assert not alive(pid)
        os.unlink(f"/home/{tester}/pid")


def test_user_that_is_none(tmp_path):
    done = subprocess.run([program("aio"), "serve", "--user", "no-such-user"], capture_output=True, text=True,
                          env=clean_environment(tmp_path), timeout=20)
    assert done.returncode == 2 and "no-such-user" in done.stderr


# --- what a client may send --------------------------------------------------------------------


@pytest.mark.parametrize("body", [
    {}, {"command": None}, {"command": 5}, {"command": ["ls"]}, {"command": "a\0b"},
    {"command": "true", "timeout": -1}, {"command": "true", "timeout": "soon"}, {"command": "true", "hard_timeout": -0.1},
    {"command": "true", "max_output_length": -1}, {"command": "true", "max_output_length": 1.5},
    {"command": "true", "env": "A=b"}, {"command": "true", "env": ["A"]}, {"command": "true", "env": {"A": 5}},
    {"command": "true", "env": {"A": "b\0c"}},
    {"command": "true", "async_mode": "perhaps"}, {"command": "true", "session_id": 5},
    {"command": "true", "session_id": "a\0b"}, {"command": "true", "exec_dir": "/usr\0/x"},
    {"command": "x" * ((1 << 20) + 1)},
])
def test_exec_that_makes_no_sense(server, body):
    answer = server.post("/v1/bash/exec", body)
    assert answer.status_code == 422, answer.text
    assert answer.json()["detail"][0]["loc"][0] == "body"
    assert server.get("/v1/bash/sessions").json()["data"] == []


@pytest.mark.parametrize("name", ["", "=", "A=B"])
def test_variable_with_an_impossible_name(server, name):
    status, text = refused(server, "exec", command="true", env={name: "x"})
    assert status == 422 and "variable" in text


@pytest.mark.parametrize("what, body", [
    ("output", {}), ("output", {"session_id": "x", "wait_timeout": -1}), ("output", {"session_id": "x", "offset": "a"}),
    ("write", {}), ("write", {"session_id": "x"}), ("write", {"input": "x"}), ("kill", {}),
    ("kill", {"session_id": "x", "signal": "x" * 21}), ("sessions/create", {"session_id": []}),
])
def test_other_requests_that_make_no_sense(server, what, body):
    assert refused(server, what, **body)[0] == 422


def test_unset_fields_may_be_null(server):
    names = ("session_id", "exec_dir", "env", "timeout", "hard_timeout")
    assert run(server, "echo x", **dict.fromkeys(names))["stdout"] == "x\n"


def test_command_of_100_kb(server):
    text = "x" * 100_000
    data = run(server, f"v='{text}'; echo ${{#v}}", max_output_length=0)
    assert data["stdout"] == "100000\n" and data["command"] == f"v='{text}'; echo ${{#v}}"


@pytest.mark.parametrize("body", [{"command": ": " + "x" * 1_000_000}, {"command": "true", "env": {"A": "x" * 300_000}},
                                  {"command": "true", "env": {f"A{i}": "x" * 100_000 for i in range(100)}}])
def test_command_too_long_for_the_system(server, body):
    answer = server.post("/v1/bash/exec", body)
    assert answer.status_code == 413, answer.text
    assert server.get("/v1/bash/sessions").json()["data"] == [], "no session is left of it"


# --- clients -----------------------------------------------------------------------------------


def test_official_sdk(server):
    from agent_sandbox import Sandbox

    client = httpx.Client(timeout=30)
    bash = Sandbox(base_url=server.url, httpx_client=client).bash
    result = bash.exec(command="echo $A; echo err >&2; exit 2", env={"A": "b"}, exec_dir="/usr").data
    assert (result.stdout, result.stderr, result.exit_code, result.status) == ("b\n", "err\n", 2, "completed")
    sid = result.session_id
    result = bash.exec(command="read x; echo got $x", session_id=sid, async_mode=True).data
    assert result.status == "running"
    assert bash.write(session_id=sid, input="it\n").success
    out = bash.output(session_id=sid, command_id=result.command_id, wait=True, wait_timeout=25).data
    assert out.stdout == "got it\n" and out.offset == 7
    result = bash.exec(command="sleep 100", session_id=sid, timeout=0.1, hard_timeout=50, max_output_length=10).data
    assert result.status == "running"
    assert bash.kill(session_id=sid, signal="SIGKILL").success
    assert eventually(lambda: bash.output(session_id=sid, command_id=result.command_id).data.command.status == "killed")
    session = next(s for s in bash.sessions().data if s.session_id == sid)
    assert session.working_dir == "/usr" and session.command_count == 3 and session.status == "ready"
    assert session.created_at.tzinfo is not None
    assert bash.create_session(session_id=sid).data.command_count == 3
    assert bash.close_session(sid).success
    client.close()


@pytest.mark.parametrize("prefix", ["/v1/bash"])
def test_contract_is_whole(prefix):
    tool = ROOT.parent / "shared/tools/contract-coverage"
    if not tool.exists():
        pytest.skip(f"NOT TESTED: there is no {tool}")
    document = subprocess.run([program("aio"), "openapi"], capture_output=True, check=True).stdout
    done = subprocess.run([tool, "--only", prefix, "--all"], input=document, capture_output=True)
    assert done.returncode == 0, done.stdout.decode()
