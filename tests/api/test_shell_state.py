"""What a command does to its shell: it ends it, replaces it, or leaves it half way."""

import re
import shutil
import sys
import time

import pytest

from processes import alive
from shells import ask, delete, no_sessions, output, post, run, shell, warm  # noqa: F401

pytestmark = pytest.mark.server(warm=warm)


# --- the end of a shell ------------------------------------------------------------------------


def test_exit_ends_the_shell_and_says_so(server, shell):
    run(server, "cd /usr; A=b", shell)
    data = (answer := post(server, "exec", command="echo x; exit 3", id=shell))["data"]
    assert (data["status"], data["exit_code"], data["output"]) == ("completed", 3, "x")
    assert "fresh" in answer["hint"]
    answer = post(server, "exec", command="echo [$A]; pwd", id=shell)
    assert answer["data"]["output"] == f"[]\n{server.home}" and "fresh" in answer["hint"]
    assert post(server, "exec", command="echo again", id=shell)["hint"] is None


@pytest.mark.parametrize("command, code", [
    ("echo x; exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137), ("kill -TERM $$; kill -HUP $$", 129),
    ("set -e; false", 1), ("exec true", 0), ("exec sh -c 'exit 9'", 9), ("logout 2>/dev/null || exit 5", 5),
    ("trap 'exit 8' EXIT; exit 4", 8), ("set -u; : $unset_variable; exit 1", 1),
    ("exec no-such-program; exit 127", 127), ("exit", 0), ("exec sleep 0.1", 0),
    ("kill -SEGV $$", 139), ("exec 2>&-; exit 2", 2), ("exec <&-; exit 2", 2), ("exec >&- 2>&- <&-; exit 2", 2),
])
def test_command_that_ends_its_shell(server, shell, command, code):
    data = run(server, command, shell, timeout=90)
    assert (data["status"], data["exit_code"]) == ("completed", code)
    assert output(server, "echo alive", shell) == "alive"


@pytest.mark.serial
def test_exit_is_reported_within_milliseconds(server, shell):
    took, other = [], []
    for _ in range(15):
        run(server, "true", shell)
        start = time.monotonic()
        run(server, "true", shell)
        other.append(time.monotonic() - start)
        start = time.monotonic()
        assert run(server, "exit 3", shell)["exit_code"] == 3
        took.append(time.monotonic() - start)
    assert min(took) < max(0.1, 5 * min(other)), "the rest is the machine's business"


def test_exit_with_children_that_hold_the_terminal(server, shell):
    data = run(server, "sleep 1000 & echo x; exit 3", shell, timeout=90)
    assert data["exit_code"] == 3 and "x" in data["output"]
    assert output(server, "echo alive", shell) == "alive"


def test_set_e(server, shell):
    data = run(server, "set -e; echo before; false; echo after", shell)
    assert data["exit_code"] == 1 and data["output"].startswith("before") and "after" not in data["output"]
    assert output(server, "set -e; true; echo ok", shell) == "ok"
    assert run(server, "false", shell)["exit_code"] == 1, "and the shell with it"
    assert output(server, "echo fresh", shell) == "fresh"


LEAVES_ITS_TERMINAL = """
import fcntl, os, termios, time
fcntl.ioctl(0, termios.TIOCNOTTY)
if not os.fork():
    time.sleep(0.01)
os._exit(3)
"""


def test_a_command_that_waits_gets_a_whole_shell(server, tmp_path):
    """Though the terminal of the one before ended after it, and just before it was given up."""
    script = tmp_path / "leave.py"
    script.write_text(LEAVES_ITS_TERMINAL)
    for _ in range(4):
        sid = ask(server, "sessions/create")["session_id"]
        ask(server, "exec", id=sid, command=f"trap '' HUP; sleep 0.1; exec {sys.executable} -S {script}",
            async_mode=True)
        data = run(server, "sleep 0.1; echo whole", sid, timeout=90)
        assert (data["status"], data["output"]) == ("completed", "whole")
        delete(server, sid)


# --- another shell in its place ----------------------------------------------------------------


@pytest.mark.parametrize("other", ["zsh", "sh", "dash", "bash", "bash --norc", "bash -l", "/bin/sh"])
def test_exec_of_another_shell(server, shell, other):
    if not shutil.which(other.split()[0]):
        pytest.skip(f"NOT TESTED: {other} is not installed")
    (server.home / ".zshrc").touch()  # or it asks about it
    run(server, "cd /usr; export A=b", shell)
    data = run(server, f"exec {other}", shell, timeout=90)
    assert data["status"] == "completed" and data["exit_code"] == 0
    assert output(server, "pwd; echo $A", shell, timeout=90) == "/usr\nb"
    assert run(server, "(exit 3)", shell, timeout=90)["exit_code"] == 3
    data = run(server, "exit 4", shell, timeout=90)
    assert (data["status"], data["exit_code"]) == ("completed", 4)
    assert output(server, "echo $0", shell) == "bash"


def test_a_shell_that_is_about_to_be_another_program(server, shell, tmp_path):
    """Whenever the server looks at what runs in place of its shell, an exec may be under way: the program
    is already another, or still the same, and its arguments are not there yet."""
    script = tmp_path / "again"
    script.write_text('[ $1 = 0 ] || exec bash "$0" $(($1 - 1))\necho end\nexit 7\n')
    for _ in range(6):
        data = run(server, f"exec bash {script} 500", shell, timeout=90)
        assert (data["status"], data["exit_code"], data["output"]) == ("completed", 7, "end")


@pytest.mark.parametrize("command, code, text", [
    ("exec sh -c 'sleep 0.7; echo hi; exit 7'", 7, "hi"),
    ("echo 'sleep 0.7; echo hi; exit 7' >script; exec bash script", 7, "hi"),
    ("exec bash --norc -c 'sleep 0.7; echo hi; exit 7'", 7, "hi"),
    ("exec python3 -c 'import time; time.sleep(0.7); print(\"hi\"); exit(7)'", 7, "hi"),
])
def test_exec_of_a_script_is_no_new_shell(server, shell, command, code, text):
    """Each sleeps long enough for the server to look at what runs in place of its shell."""
    data = run(server, command, shell)
    assert (data["status"], data["exit_code"], data["output"]) == ("completed", code, text)


def test_exec_to_dev_null(server, shell):
    """All later output is lost, as asked; codes are not."""
    assert run(server, "exec >/dev/null 2>&1; echo lost", shell)["output"] == ""
    data = run(server, "echo lost; (exit 3)", shell)
    assert (data["status"], data["exit_code"], data["output"]) == ("completed", 3, "")
    assert output(server, "exec >/dev/tty 2>&1; echo back", shell) == "back"


def test_unset_prompt_command(server, shell):
    assert output(server, "unset PROMPT_COMMAND; echo x", shell) == "x"
    assert output(server, "echo y", shell) == "y"
    assert run(server, "PROMPT_COMMAND='echo mine'; (exit 3)", shell)["exit_code"] == 3
    assert output(server, "echo z", shell) == "z"
    assert output(server, "readonly PROMPT_COMMAND; echo w", shell) == "w"
    assert output(server, "echo v", shell) == "v"


# --- commands that are hard to read ------------------------------------------------------------


@pytest.mark.parametrize("command", ['echo "open', "echo 'open", "echo $(open", "if true; then", "f() {",
                                     "cat <<EOF\nx", "echo `x", "(", ")", "}", ";;", "echo \\", "&", "[[ x",
                                     "case x in"])
def test_command_that_is_not_finished(server, shell, command):
    data = run(server, command, shell, timeout=90)
    assert data["status"] == "completed"
    assert output(server, "echo fine", shell) == "fine"
    if "<<" in command:
        assert data["output"].endswith("\nx") and data["exit_code"] == 0
    elif command != "echo \\":
        assert data["exit_code"] in (1, 2) and re.search("syntax|EOF|unexpected", data["output"])


def test_heredoc(server, shell):
    command = "cat <<EOF\nline $((1+1))\n\ttab\nEOF\ncat <<'X'\n$HOME `date` \\n\nX\ncat <<-Y\n\tno tab\n\tY"
    assert output(server, command, shell) == "line 2\n\ttab\n$HOME `date` \\n\nno tab"


def test_bang(server, shell):
    run(server, "echo first", shell)
    text = output(server, "echo hello! '!!' \"!$\" !x\n! false && echo not", shell)
    assert text == "hello! !! !$ !x\nnot"


def test_command_of_100_kb(server, shell):
    text = "".join(f"echo line {i} '{'x' * 80}' >/dev/null\n" for i in range(1000))
    assert len(text) > 100_000
    data = run(server, text + "echo end", shell)
    assert data["output"] == "end" and data["exit_code"] == 0 and data["command"] == text + "echo end"
    assert output(server, f"v='{'y' * 500_000}'; echo ${{#v}}", shell) == "500000"


# --- jobs --------------------------------------------------------------------------------------


def test_background_job_that_is_disowned(server, shell):
    data = run(server, "sleep 1000 & disown; echo $!", shell)
    pid = data["output"].split()[-1]
    assert data["status"] == "completed" and alive(pid)
    assert output(server, "echo next", shell) == "next"
    delete(server, shell)
    assert not alive(pid), "deleting answers when all is ended"
