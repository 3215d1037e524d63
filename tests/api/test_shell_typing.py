"""Typing into a terminal, before, while and after a command runs there."""

import os
import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness import eventually
from processes import cpu_seconds, patiently
from shells import (  # noqa: F401
    WAIT, ask, begun, delete, go, no_sessions, output, refused, run, shell, shows, start, view, wait, warm, write)

EURO = "\u20ac"
pytestmark = pytest.mark.server(warm=warm)


# --- typing ------------------------------------------------------------------------------------


def test_typed_lines_run(server, shell):
    assert write(server, shell, "echo ty''ped", press_enter=True)["status"] == "completed"
    shows(server, shell, "\ntyped\n")
    write(server, shell, "A=typed\r")
    assert output(server, "echo $A", shell) == "typed"


def test_typed_line_runs_before_a_command_however_late_it_is_read(server, shell):
    """On a busy machine the shell may get round to it after more than a moment: that is no half-typed line."""
    def late(_):
        data = run(server, "unset A; echo $$", shell)
        pid = int(data["output"])
        os.kill(pid, signal.SIGSTOP)
        try:
            write(server, shell, "A=typed", press_enter=True)
            with server.begin("/v1/shell/exec", id=shell, command="echo [$A]") as after:
                time.sleep(1)  # more than a moment, and less than the five seconds after which it counts as half typed
                os.kill(pid, signal.SIGCONT)
                return after.answer().json()["data"]["output"]
        finally:
            os.kill(pid, signal.SIGCONT)

    assert patiently(late, lambda text: text == "[typed]") == "[typed]"


def test_typing_right_after_a_command_is_for_the_command(server, shell):
    """Not for the line editor, which would keep the Enter to itself."""
    for i in range(20):
        run(server, "read x; echo got $x", shell, async_mode=True)
        write(server, shell, f"it {i}", press_enter=True)
        assert wait(server, shell) == "completed"
        assert view(server, shell)["console"][-1]["output"].endswith(f"got it {i}")


def test_control_characters_are_keys(server, shell):
    begun(server, "sh -c 'echo on; exec sleep 100'; echo no", shell, "on")
    write(server, shell, "\x03")
    assert wait(server, shell) == "completed"
    assert view(server, shell)["exit_code"] == 130
    begun(server, "sh -c 'echo on; exec cat -v'", shell, "on")
    write(server, shell, f"{EURO}\x16\x03", press_enter=True)
    assert eventually(lambda: "M-bM-^BM-,^C" in view(server, shell)["output"])
    write(server, shell, "\x04")
    assert wait(server, shell) == "completed"


def test_suspended_command(server, shell):
    begun(server, "sh -c 'echo on; exec sleep 100'", shell, "on")
    write(server, shell, "\x1a")
    assert wait(server, shell) == "completed"
    assert view(server, shell)["exit_code"] == 148
    assert "Stopped" in output(server, "jobs", shell)
    assert run(server, "kill %1; wait %1", shell, timeout=90)["status"] == "completed"


def test_much_is_typed(server, shell):
    begun(server, "sh -c 'echo on; exec cat >typed'", shell, "on")
    lines = "".join(f"{i:05} {'x' * 60}\n" for i in range(4000))
    write(server, shell, lines.replace("\n", "\r") + "\x04")
    assert wait(server, shell) == "completed"
    assert (server.home / "typed").read_text() == lines


def test_write_to_what_is_not_there(server, shell):
    assert refused(server, "write", id="nobody", input="x", press_enter=False)[0] == 404
    run(server, "exit 3", shell)
    write(server, shell, "echo ty''ped", press_enter=True)
    shows(server, shell, "\ntyped\n")


# --- typing and commands -----------------------------------------------------------------------


def test_cat_waits_for_stdin(server, shell):
    data = run(server, "cat; echo end", shell, timeout=0.3)
    assert data["status"] == "running" and data["exit_code"] is None
    assert write(server, shell, "hello", press_enter=True)["status"] == "running"
    assert eventually(lambda: view(server, shell)["output"].count("hello") == 2), "typed, and printed"
    write(server, shell, "\x04")
    assert wait(server, shell) == "completed"
    assert view(server, shell)["console"][-1]["output"] == "hello\nhello\nend"


def test_half_typed_line_is_given_up(server, shell):
    for i in range(10):
        write(server, shell, f"echo half {i} 'open")
        assert output(server, f"echo whole {i}", shell, timeout=90) == f"whole {i}"
    write(server, shell, "touch 'half\nmore\n")
    assert output(server, "echo whole", shell, timeout=90) == "whole"


def test_interrupts_that_nobody_asked_for(server, shell, tmp_path):
    """The line editor drops what it has read when it is interrupted: a command is not lost with that."""
    over = tmp_path / "over"
    tmp_path.chmod(0o777)
    run(server, f"(for i in $(seq 300); do kill -INT $$; sleep 0.002; done; touch {over}) & disown", shell)
    for _ in range(12):
        data = run(server, "true", shell, timeout=90)
        assert (data["status"], data["exit_code"]) in (("completed", 0), ("completed", 130))
    assert eventually(over.exists)
    assert output(server, "echo whole", shell, timeout=90) == "whole"


def test_line_typed_while_a_command_runs(server, shell):
    begun(server, f"echo on; {WAIT}", shell, "on")
    write(server, shell, "no-such-command 'x")
    with server.begin("/v1/shell/exec", id=shell, command="echo whole", timeout=90) as whole:
        assert server.at_rest()
        go(server)
        data = whole.answer().json()["data"]
    assert (data["status"], data["exit_code"], data["output"]) == ("completed", 0, "whole")
    assert output(server, "echo next", shell, timeout=90) == "next"


def test_program_started_by_hand_is_waited_for(server, shell):
    """What a person runs in the terminal is neither typed into nor interrupted."""
    run(server, "rm -f begun", shell)
    write(server, shell, f"sh -c 'touch begun; {WAIT}'; echo sle''pt", press_enter=True)
    assert eventually((server.home / "begun").exists)
    with ThreadPoolExecutor(1) as pool:
        after = pool.submit(output, server, "echo after", shell, timeout=90)
        time.sleep(1)  # in which it could be typed or interrupt
        go(server)
        assert after.result(90) == "after"
    assert re.search(r"\nslept\n.*echo after\nafter", view(server, shell)["screen"], re.S)


def test_typing_waits_for_a_shell_that_takes_its_time(start):
    """More than is kept until a command begins: the rest waits, and nothing is busy meanwhile."""
    server = start()
    sid = run(server, "echo 'sleep 2' >~/.bashrc; exit")["session_id"]
    ask(server, "exec", id=sid, command="head -c 9000 | wc -l", async_mode=True)
    before = cpu_seconds(server)
    ask(server, "write", id=sid, input=("x" * 89 + "\n") * 100, press_enter=False)
    assert cpu_seconds(server) - before < 0.4
    assert wait(server, sid) == "completed"
    assert ask(server, "view", id=sid)["output"].splitlines()[-1] == "100"
    delete(server, sid)
