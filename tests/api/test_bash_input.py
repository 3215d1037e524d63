"""Input and signals for commands on pipes."""

import pytest

from commands import ask, begun, ended, no_sessions, read, refused, run, warm  # noqa: F401
from harness import eventually

EURO = "\u20ac"  # three bytes in UTF-8
pytestmark = pytest.mark.server(warm=warm)


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


def test_the_end_of_a_command_ends_its_input(server, tmp_path):
    """Also when another of its processes has the pipe, and reads nothing."""
    command = run(server, f"sleep 100 <&0 & until [ -e {tmp_path}/go ]; do sleep 0.02; done </dev/null", async_mode=True)
    with server.begin("/v1/bash/write", session_id=command["session_id"], input="x" * 300_000) as writing:
        assert server.at_rest(), "it waits for room"
        (tmp_path / "go").touch()
        answer = writing.answer()
        assert answer.status == 409 and "does not read its input any more" in answer.body.decode()


def test_input_larger_than_the_pipe(server, tmp_path):
    command = run(server, f"until [ -e {tmp_path}/go ]; do sleep 0.02; done </dev/null; wc -c", async_mode=True)
    with server.begin("/v1/bash/write", session_id=command["session_id"], input="x" * 3_000_000, close=True) as writing:
        assert server.at_rest(), "it waits for room"
        (tmp_path / "go").touch()
        assert writing.answer().status == 200
    assert ended(server, command)["stdout"] == "3000000\n"


@pytest.mark.concurrency
def test_input_that_waits_for_room_ends_with_its_command(server):
    command = run(server, "sleep 100", async_mode=True)
    sid = command["session_id"]
    with server.begin("/v1/bash/write", session_id=sid, input="x" * 1_000_000) as writing:
        assert server.at_rest(), "it waits for room"
        ask(server, "kill", session_id=sid)
        assert writing.answer().status == 409


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
    traps = "trap 'echo got it' USR1; trap 'echo bye; exit 3' TERM"
    command = begun(server, f"{traps}; echo on; while :; do sleep 0.05; done", "on\n")
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
