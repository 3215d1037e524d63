"""Waiting for commands on a terminal: queues, timeouts, kills."""

import contextlib
import time

import pytest

from harness import eventually
from processes import patiently, text_of, together
from shells import (  # noqa: F401
    WAIT, ask, begun, delete, delete_all, go, no_sessions, output, post, run, sessions, shell, shows, view, wait, warm)

pytestmark = pytest.mark.server(warm=warm)


# --- a queue -----------------------------------------------------------------------------------


@pytest.mark.concurrency
def test_200_parallel_commands(server):
    def one(i):
        data = run(server, f"echo {i}; sleep 0.2; exit {i % 256}", timeout=90)
        lines = data["output"].split("\n")
        delete(server, data["session_id"])
        return lines[0] == str(i) and data["exit_code"] == i % 256

    assert together(40, lambda i: [one(i * 5 + k) for k in range(5)]) == [[True] * 5] * 40


@pytest.mark.concurrency
def test_commands_of_one_session_queue(server, shell):
    """Each gets its own output and code, and none overlaps another."""
    run(server, "n=0; rm -f log", shell)

    def one(i):
        data = run(server, f"n=$((n+1)); echo start {i} >>log; echo {i} $n; sleep 0.02; echo end {i} >>log; (exit {i})",
                   shell, timeout=90)
        return data["output"].split()[0] == str(i) and data["exit_code"] == i

    assert together(30, one) == [True] * 30
    log = (server.home / "log").read_text().split("\n")[:-1]
    assert len(log) == 60 and all(log[k + 1] == log[k].replace("start", "end") for k in range(0, 60, 2))
    assert output(server, "echo $n", shell) == "30"


def test_queue_is_first_come_first_served(server, shell):
    run(server, f"{WAIT}; echo 0 >order", shell, async_mode=True)
    for i in range(1, 6):
        data = run(server, f"echo {i} >>order", shell, async_mode=True)
        assert data["status"] == "running"
    go(server)
    assert wait(server, shell) == "completed"
    assert (server.home / "order").read_text().split() == list("012345")


def test_queue_goes_on_in_a_fresh_shell(server, shell):
    run(server, f"{WAIT}; exit 3", shell, async_mode=True)
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(server.begin("/v1/shell/exec", command=f"echo {i}", id=shell)) for i in range(3)]
        assert server.at_rest()
        go(server)
        answers = [peer.answer().json() for peer in peers]
    assert [a["data"]["output"] for a in answers] == ["0", "1", "2"]
    assert sum("fresh" in (a["hint"] or "") for a in answers) == 1


def test_queue_has_a_cap(server, shell):
    run(server, "sleep 100", shell, async_mode=True)
    codes = [server.post("/v1/shell/exec", {"command": "true", "id": shell, "async_mode": True}).status_code
             for _ in range(260)]
    assert codes[:250] == [200] * 250 and codes[-1] == 429
    ask(server, "kill", id=shell)
    assert eventually(lambda: view(server, shell)["status"] == "completed", 90), "all 256 of them"


# --- waiting, or not ---------------------------------------------------------------------------


def test_soft_timeout(server):
    def begin(times):
        delete_all(server)  # or an earlier one takes the go
        return run(server, f"echo a; {WAIT}; echo b; (exit 4)", timeout=times)

    data = patiently(begin, lambda data: data["output"])
    shell = data["session_id"]
    assert (data["status"], data["exit_code"], data["output"]) == ("running", None, "a")
    go(server)
    assert wait(server, shell) == "completed"
    seen = view(server, shell)
    assert seen["exit_code"] == 4 and seen["console"][-1]["output"] == "a\nb" and seen["status"] == "completed"


def test_message_says_how_it_went(server, shell):
    def said(command, **more):
        answer = post(server, "exec", command=command, id=shell, **more)
        return answer["message"], answer["hint"]

    assert said("(exit 3)") == ("Command executed", None)
    # Where the command has not begun by then, or does not end in time, its shell is ended and the hint says so.
    assert patiently(lambda times: run(server, "true", shell) and said("sleep 100", hard_timeout=0.2 * times),
                     lambda said: not said[1]) == ("Command ended by hard_timeout", None)
    message, hint = said("sleep 100", timeout=0)
    assert message == "Command is still running" and "/v1/shell/wait" in hint
    post(server, "kill", id=shell)
    message, hint = said("sleep 100", no_change_timeout=1)
    assert message == "Command is still running, and has printed nothing for 1 s" and "/v1/shell/wait" in hint


def test_async_mode(server, shell):
    answer = post(server, "exec", command=f"{WAIT}; echo done", id=shell, async_mode=True)
    assert answer["message"] == "Command started"
    assert answer["data"]["status"] == "running"
    assert sessions(server)[shell]["status"] == "running"
    assert sessions(server)[shell]["current_command"] == f"{WAIT}; echo done"
    go(server)
    assert wait(server, shell) == "completed"
    assert sessions(server)[shell]["current_command"] is None
    assert view(server, shell)["console"][-1]["output"] == "done"


def test_no_change_timeout(server):
    start = time.monotonic()
    data = patiently(lambda times: run(server, "echo a; sleep 100", no_change_timeout=times),
                     lambda data: data["output"])
    shell = data["session_id"]
    assert 0.9 < time.monotonic() - start < 90
    assert (data["status"], data["output"], data["exit_code"]) == ("no_change_timeout", "a", None)
    assert view(server, shell)["status"] == "running", "the command lives on"


def test_no_change_timeout_of_ages(server, shell):
    assert run(server, "sleep 0.2; echo a", shell, no_change_timeout=2**63 - 1)["status"] == "completed"


def test_no_change_timeout_is_of_silence(server):
    data = patiently(lambda times: run(server, f"for i in 1 2 3 4; do echo $i; sleep {0.6 * times}; done",
                                       no_change_timeout=2 * times), lambda data: data["status"] == "completed")
    assert data["status"] == "completed" and data["output"] == "1\n2\n3\n4"


def test_no_change_timeout_of_a_session(server):
    sid = ask(server, "sessions/create", no_change_timeout=1)["session_id"]
    assert run(server, "sleep 100", sid)["status"] == "no_change_timeout"
    ask(server, "kill", id=sid)
    answer = post(server, "sessions/update", id=sid, no_change_timeout=100)
    assert answer["success"] and answer["data"] is None
    assert run(server, "sleep 1.5", sid)["status"] == "completed"
    assert run(server, "sleep 100", sid, no_change_timeout=1)["status"] == "no_change_timeout", "for one command"


def test_hard_timeout(server):
    start = time.monotonic()
    data = patiently(lambda times: run(server, "echo before; sleep 100; echo after", hard_timeout=times),
                     lambda data: data["output"])
    shell = data["session_id"]
    assert 1 <= time.monotonic() - start < 90
    assert (data["status"], data["exit_code"]) == ("hard_timeout", None)
    assert data["output"].startswith("before") and "after" not in data["output"]
    assert output(server, "echo next", shell) == "next"


@pytest.mark.parametrize("command", ["trap '' INT TERM; sleep 100", "sh -c 'trap \"\" INT TERM HUP; sleep 100'",
                                     "while :; do :; done", "while :; do sleep 100; done", "sleep 100 | cat | cat",
                                     "trap '' INT TERM; while :; do :; done", "cat", "read x", "sleep 100 && sleep 100",
                                     "python3 -c 'import time; time.sleep(100)'", "yes",
                                     "trap 'echo no' INT; sleep 100"])
def test_hard_timeout_of_what_does_not_want_to_end(server, shell, command):
    run(server, "A=b", shell)
    start = time.monotonic()
    data = run(server, command, shell, hard_timeout=0.4)
    assert data["status"] == "hard_timeout" and time.monotonic() - start < 80
    assert output(server, "echo next", shell, timeout=90) == "next"


def test_kill(server):
    def kill(_):
        shell = run(server, "A=b")["session_id"]
        begun(server, "echo a; sleep 100; echo b", shell, "a")
        answer = post(server, "kill", id=shell)
        assert answer["data"] == {"status": "terminated", "exit_code": None, "returncode": None}
        assert view(server, shell)["status"] == "terminated"
        return shell, output(server, "echo [$A]", shell)

    # The command has two seconds to end, which a busy machine may use up; then its shell is ended.
    shell, text = patiently(kill, lambda result: result[1] == "[b]")
    assert text == "[b]", "the shell stays"
    answer = post(server, "kill", id=shell)
    assert answer["data"] == {"status": "completed", "exit_code": 0, "returncode": 0}
    assert answer["message"] == "No process was running"


def test_kill_answers_who_waits(server, shell):
    with server.begin("/v1/shell/exec", id=shell, command="echo a; sleep 100") as running:
        shows(server, shell, "\na")
        with server.begin("/v1/shell/wait", id=shell, seconds=60) as waiting:
            assert server.at_rest()
            ask(server, "kill", id=shell)
            assert waiting.answer().json()["data"]["status"] == "terminated"
        data = running.answer().json()["data"]
        assert data["status"] == "terminated" and data["output"].startswith("a")


def test_kill_starts_the_next_of_the_queue(server, shell):
    run(server, "sleep 100", shell, async_mode=True)
    with server.begin("/v1/shell/exec", id=shell, command="echo next") as queued:
        assert server.at_rest()
        ask(server, "kill", id=shell)
        data = queued.answer().json()["data"]
    assert (data["status"], data["exit_code"], data["output"]) == ("completed", 0, "next")


def test_wait_ends_with_its_time(server, shell):
    run(server, "sleep 100", shell, async_mode=True)
    start = time.monotonic()
    assert ask(server, "wait", id=shell, seconds=1)["status"] == "running"
    assert ask(server, "wait", id=shell, max_wait_seconds=1)["status"] == "running"
    assert 1.8 < time.monotonic() - start < 60
    assert ask(server, "wait", id=shell, seconds=0)["status"] == "running"
    fresh = ask(server, "sessions/create")["session_id"]
    assert wait(server, fresh) == "completed", "nothing runs"


@pytest.mark.concurrency
def test_caller_who_leaves_leaves_the_command_running(server, shell, tmp_path):
    command = f"echo $BASHPID >{tmp_path}/pid; until rm {tmp_path}/go; do sleep 0.02; done 2>/dev/null; echo done"
    for how in ("reset", "close"):
        with server.begin("/v1/shell/exec", id=shell, command=command) as peer:
            assert text_of(tmp_path / "pid")
            if how == "reset":
                peer.reset()
        assert server.at_rest() and view(server, shell)["status"] == "running"
        (tmp_path / "go").touch()
        assert wait(server, shell) == "completed"
        assert view(server, shell)["console"][-1]["output"] == "done"
        (tmp_path / "pid").unlink()
