"""Shells on a terminal: what lasts from one command to the next, how commands and shells end, what
a terminal shows of them, and that none of it gets into another's output."""

import contextlib
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from harness import LEAN, ROOT, SETTLE_SECONDS, Events, eventually, program, request
from processes import (  # noqa: F401
    DAEMONS, ROOT_ONLY, alive, below, comm, cpu_seconds, daemon, gone, patiently, tester, text_of, together)

SHELL_FOLDER = re.compile(r"/tmp/aio-\w+/shell-\w+")

MIB = 1 << 20
EURO = "\u20ac"


def warm(server):
    """The pump runs after the first command, and for good."""
    delete(server, run(server, "true")["session_id"])
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
    (parent,) = {os.path.dirname(folder) for folder in folders_of(*below(server))} or {None}
    assert server.request("DELETE", "/v1/shell/sessions").status_code == 200
    assert eventually(lambda: not parent or not os.listdir(parent)), "a shell has left its folder"


@pytest.fixture
def start(start_server):
    """A server of one's own, started and warm."""
    return lambda *args, **more: warm(start_server(*args, **more))


@pytest.fixture
def shell(server):
    """The id of a new session."""
    return ask(server, "sessions/create")["session_id"]


# --- asking ------------------------------------------------------------------------------------


def post(server, what, **body):
    answer = server.post(f"/v1/shell/{what}", body, timeout=110)
    assert answer.status_code == 200, answer.text
    return answer.json()


def ask(server, what, **body):
    return post(server, what, **body)["data"]


def refused(server, what, **body):
    """The status and the text of an answer that is not 200."""
    answer = server.post(f"/v1/shell/{what}", body)
    assert answer.status_code != 200, answer.text
    return answer.status_code, answer.text


def run(server, command, id=None, **more):
    return ask(server, "exec", command=command, **({"id": id} if id else {}), **more)


def output(server, command, id=None, **more):
    """Of a command that is to complete with code 0."""
    data = run(server, command, id, **more)
    assert (data["status"], data["exit_code"]) == ("completed", 0), data
    return data["output"]


def view(server, id):
    return ask(server, "view", id=id)


def write(server, id, text, press_enter=False):
    return ask(server, "write", id=id, input=text, press_enter=press_enter)


def wait(server, id, seconds=60):
    return ask(server, "wait", id=id, seconds=seconds)["status"]


def begun(server, command, id, says):
    """Starts a command, and answers as soon as it has said so much."""
    run(server, command, id, async_mode=True)

    def said():
        *_, last = view(server, id)["console"] or [{"command": None}]
        return last["command"] == command and last["output"].startswith(says)

    assert eventually(said), view(server, id)


def delete(server, id):
    answer = server.request("DELETE", f"/v1/shell/sessions/{quote(id, safe='')}")
    assert answer.status_code == 200, answer.text


def sessions(server):
    return server.get("/v1/shell/sessions").json()["data"]["sessions"]


def shows(server, id, text, seconds=SETTLE_SECONDS):
    """Waits for the screen to show something."""
    assert eventually(lambda: text in view(server, id)["screen"], seconds), view(server, id)["screen"]
    return view(server, id)["screen"]


# Until go(): a key could be typed too early, and would then be seen in the output.
WAIT = "until rm go 2>/dev/null; do sleep 0.02; done"


def go(server):
    (server.home / "go").touch()


def folder_of(server):
    """That of the only shell there is."""
    (pid,) = server.children()
    return SHELL_FOLDER.search(text_of(f"/proc/{pid}/cmdline")).group()


def folders_of(*pids):
    """Where the shells among these processes read their commands."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", errors="replace") as file:
            found.update(SHELL_FOLDER.findall(file.read()))
    return found


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
    ("f() { return 9; }; f", 9), ("false || (exit 12)", 12), ("true | false", 1), ("set -o pipefail; (exit 4) | cat", 4),
    ("[ 1 = 2 ]", 1), ("test -e /", 0), ("cat /no/such/file 2>/dev/null", 1), ("a=$(exit 8)", 8),
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
    text = output(server, "tty; test -t 0 && test -t 1 && test -t 2 && echo yes; echo $TERM; stty size; tput cols", shell)
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
    server.settle()
    server.baseline = server.possessions()


# --- must hold ---------------------------------------------------------------------------------


def test_exit_ends_the_shell_and_says_so(server, shell):
    run(server, "cd /usr; A=b", shell)
    data = (answer := post(server, "exec", command="echo x; exit 3", id=shell))["data"]
    assert (data["status"], data["exit_code"], data["output"]) == ("completed", 3, "x")
    assert "fresh" in answer["hint"]
    answer = post(server, "exec", command="echo [$A]; pwd", id=shell)
    assert answer["data"]["output"] == f"[]\n{server.home}" and "fresh" in answer["hint"]
    assert post(server, "exec", command="echo again", id=shell)["hint"] is None


@pytest.mark.parametrize("command, code", [
    ("echo x; exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137), ("kill -TERM $$; kill -HUP $$", 129), ("set -e; false", 1),
    ("exec true", 0), ("exec sh -c 'exit 9'", 9), ("logout 2>/dev/null || exit 5", 5), ("trap 'exit 8' EXIT; exit 4", 8),
    ("set -u; : $unset_variable; exit 1", 1), ("exec no-such-program; exit 127", 127), ("exit", 0), ("exec sleep 0.1", 0),
    ("kill -SEGV $$", 139), ("exec 2>&-; exit 2", 2), ("exec <&-; exit 2", 2), ("exec >&- 2>&- <&-; exit 2", 2),
])
def test_command_that_ends_its_shell(server, shell, command, code):
    data = run(server, command, shell, timeout=20)
    assert (data["status"], data["exit_code"]) == ("completed", code)
    assert output(server, "echo alive", shell) == "alive"


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
    data = run(server, "sleep 1000 & echo x; exit 3", shell, timeout=20)
    assert data["exit_code"] == 3 and "x" in data["output"]
    assert output(server, "echo alive", shell) == "alive"


def test_unset_prompt_command(server, shell):
    assert output(server, "unset PROMPT_COMMAND; echo x", shell) == "x"
    assert output(server, "echo y", shell) == "y"
    assert run(server, "PROMPT_COMMAND='echo mine'; (exit 3)", shell)["exit_code"] == 3
    assert output(server, "echo z", shell) == "z"
    assert output(server, "readonly PROMPT_COMMAND; echo w", shell) == "w"
    assert output(server, "echo v", shell) == "v"


@pytest.mark.parametrize("other", ["zsh", "sh", "dash", "bash", "bash --norc", "bash -l", "/bin/sh"])
def test_exec_of_another_shell(server, shell, other):
    if not shutil.which(other.split()[0]):
        pytest.skip(f"NOT TESTED: {other} is not installed")
    (server.home / ".zshrc").touch()  # or it asks about it
    run(server, "cd /usr; export A=b", shell)
    data = run(server, f"exec {other}", shell, timeout=50)
    assert data["status"] == "completed" and data["exit_code"] == 0
    assert output(server, "pwd; echo $A", shell, timeout=50) == "/usr\nb"
    assert run(server, "(exit 3)", shell, timeout=50)["exit_code"] == 3
    data = run(server, "exit 4", shell, timeout=50)
    assert (data["status"], data["exit_code"]) == ("completed", 4)
    assert output(server, "echo $0", shell) == "bash"


@pytest.mark.parametrize("command, code, text", [
    ("exec sh -c 'sleep 0.7; echo hi; exit 7'", 7, "hi"),
    ("echo 'sleep 0.7; echo hi; exit 7' >script; exec bash script", 7, "hi"),
    ("exec bash --norc -c 'sleep 0.7; echo hi; exit 7'", 7, "hi"),
    ("exec python3 -c 'import time; time.sleep(0.7); print(\"hi\"); exit(7)'", 7, "hi"),
])
def test_exec_of_a_script_is_no_new_shell(server, shell, command, code, text):
    data = run(server, command, shell)
    assert (data["status"], data["exit_code"], data["output"]) == ("completed", code, text)


def test_set_e(server, shell):
    data = run(server, "set -e; echo before; false; echo after", shell)
    assert data["exit_code"] == 1 and data["output"].startswith("before") and "after" not in data["output"]
    assert output(server, "set -e; true; echo ok", shell) == "ok"
    assert run(server, "false", shell)["exit_code"] == 1, "and the shell with it"
    assert output(server, "echo fresh", shell) == "fresh"


def test_exec_to_dev_null(server, shell):
    """All later output is lost, as asked; codes are not."""
    assert run(server, "exec >/dev/null 2>&1; echo lost", shell)["output"] == ""
    data = run(server, "echo lost; (exit 3)", shell)
    assert (data["status"], data["exit_code"], data["output"]) == ("completed", 3, "")
    assert output(server, "exec >/dev/tty 2>&1; echo back", shell) == "back"


@pytest.mark.parametrize("command", ['echo "open', "echo 'open", "echo $(open", "if true; then", "f() {", "cat <<EOF\nx",
                                     "echo `x", "(", ")", "}", ";;", "echo \\", "&", "[[ x", "case x in"])
def test_command_that_is_not_finished(server, shell, command):
    data = run(server, command, shell, timeout=20)
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


def test_background_job_that_is_disowned(server, shell):
    data = run(server, "sleep 1000 & disown; echo $!", shell)
    pid = data["output"].split()[-1]
    assert data["status"] == "completed" and alive(pid)
    assert output(server, "echo next", shell) == "next"
    delete(server, shell)
    assert not alive(pid), "deleting answers when all is ended"


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
        assert output(server, f"echo whole {i}", shell, timeout=50) == f"whole {i}"
    write(server, shell, "touch 'half\nmore\n")
    assert output(server, "echo whole", shell, timeout=50) == "whole"


def test_interrupts_that_nobody_asked_for(server, shell, tmp_path):
    """The line editor drops what it has read when it is interrupted: a command is not lost with that."""
    over = tmp_path / "over"
    tmp_path.chmod(0o777)
    run(server, f"(for i in $(seq 300); do kill -INT $$; sleep 0.002; done; touch {over}) & disown", shell)
    for _ in range(12):
        data = run(server, "true", shell, timeout=50)
        assert (data["status"], data["exit_code"]) in (("completed", 0), ("completed", 130))
    assert eventually(over.exists, 60)
    assert output(server, "echo whole", shell, timeout=20) == "whole"


def test_line_typed_while_a_command_runs(server, shell):
    run(server, "sleep 0.5", shell, async_mode=True)
    write(server, shell, "no-such-command 'x")
    assert output(server, "echo whole", shell, timeout=50) == "whole"
    assert output(server, "echo next", shell, timeout=50) == "next"


def test_program_started_by_hand_is_waited_for(server, shell):
    """What a person runs in the terminal is neither typed into nor interrupted."""
    run(server, "rm -f begun", shell)
    write(server, shell, f"sh -c 'touch begun; {WAIT}'; echo sle''pt", press_enter=True)
    assert eventually((server.home / "begun").exists)
    with ThreadPoolExecutor(1) as pool:
        after = pool.submit(output, server, "echo after", shell, timeout=50)
        time.sleep(1)  # in which it could be typed or interrupt
        go(server)
        assert after.result(60) == "after"
    assert re.search(r"\nslept\n.*echo after\nafter", view(server, shell)["screen"], re.S)


def test_output_larger_than_memory(server, shell):
    """A terminal is slow: 20 MB stand for 200 here, which a bash session prints in earnest."""
    before = server.reset_peak()
    data = run(server, "seq -w 02222222 | cat", shell, timeout=100)
    assert data["status"] == "completed" and data["exit_code"] == 0
    head, middle, tail = data["output"].partition("\n... [19969997 bytes left out] ...\n")
    assert middle and head.startswith("00000001\n00000002\n") and len(head) == len(tail) == 15000
    assert tail.endswith("\n02222221\n02222222")
    assert server.memory("VmHWM") - before < 40 * MIB
    assert output(server, "echo next", shell) == "next"


def test_output_without_truncation(server, shell):
    text = output(server, "seq 200000", shell, truncate=False)
    assert text == "\n".join(str(i) for i in range(1, 200001))
    text = output(server, "seq 200000", shell)
    assert len(text) < 30100 and "bytes left out" in text
    assert text.startswith("1\n2\n") and text.endswith("\n199999\n200000")
    assert output(server, "head -c 30000 /dev/zero | tr '\\0' x", shell) == "x" * 30000


def test_character_split_over_two_reads(server, shell):
    assert output(server, r"printf 'a\xe2'; sleep 0.2; printf '\x82'; sleep 0.2; printf '\xacb\n'", shell) == f"a{EURO}b"


def test_raw_binary_output(server, shell):
    data = run(server, "head -c 300000 /dev/urandom; echo; echo end", shell, timeout=20)
    assert data["status"] == "completed" and data["exit_code"] == 0
    assert output(server, "stty sane; tput rs1; echo fine", shell, timeout=50).endswith("fine")


def test_output_cannot_pretend_to_be_the_end(server, shell):
    """What looks like the shell's own marks is only output."""
    data = run(server, r"printf '\033]777;aio;%032d;E\a' 0; echo a; cat /tmp/aio-*/shell-*/c | tail -3 | cat -v; sleep 0.3;"
                       " echo b; (exit 3)", shell)
    assert data["exit_code"] == 3 and data["output"].startswith("a\n") and data["output"].endswith("\nb")


@pytest.mark.concurrency
def test_200_parallel_commands(server):
    def one(i):
        data = run(server, f"echo {i}; sleep 0.2; exit {i % 256}", timeout=50)
        lines = data["output"].split("\n")
        delete(server, data["session_id"])
        return lines[0] == str(i) and data["exit_code"] == i % 256

    assert together(40, lambda i: [one(i * 5 + k) for k in range(5)]) == [[True] * 5] * 40


# --- order -------------------------------------------------------------------------------------


def test_output_keeps_its_order(server, shell):
    command = "for i in $(seq 200); do echo o$i; echo e$i >&2; done"
    text = output(server, command, shell)
    assert text.split("\n") == [f"{kind}{i}" for i in range(1, 201) for kind in "oe"]


def test_colours_are_stripped(server, shell):
    text = output(server, r"printf '\033[31mred\033[0m \033[1;38;2;1;2;3mbold\033[m\n'; ls --color=always -d /usr; "
                          r"printf 'a\tb\033[K\n\033]0;title\aend\n'", shell)
    assert text == "red bold\n/usr\na\tb\nend"


def test_progress_bar_is_what_it_ends_with(server, shell):
    text = output(server, r"for i in 1 2 3; do printf '\r%d%%' $i; sleep 0.05; done; echo; printf 'ab\b\bcd\n'", shell)
    assert text == "3%\ncd"


def test_output_without_newline_at_its_end(server, shell):
    assert output(server, "printf abc", shell) == "abc"
    assert output(server, "printf def", shell) == "def"
    assert output(server, "echo; echo; echo x; echo", shell) == "\n\nx\n"


@pytest.mark.concurrency
def test_commands_of_one_session_queue(server, shell):
    """Each gets its own output and code, and none overlaps another."""
    run(server, "n=0; rm -f log", shell)

    def one(i):
        data = run(server, f"n=$((n+1)); echo start {i} >>log; echo {i} $n; sleep 0.02; echo end {i} >>log; (exit {i})",
                   shell, timeout=50)
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
    run(server, "sleep 0.3; exit 3", shell, async_mode=True)
    with ThreadPoolExecutor(3) as pool:
        answers = [pool.submit(post, server, "exec", command=f"echo {i}", id=shell) for i in range(3)]
        answers = [answer.result(60) for answer in answers]
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
    data = patiently(lambda times: run(server, f"echo a; {WAIT}; echo b; (exit 4)", timeout=times),
                     lambda data: data["output"])
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
    assert said("sleep 100", hard_timeout=0.1) == ("Command ended by hard_timeout", None)
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
    data = patiently(lambda times: run(server, "echo a; sleep 100", no_change_timeout=times), lambda data: data["output"])
    shell = data["session_id"]
    assert 0.9 < time.monotonic() - start < 90
    assert (data["status"], data["output"], data["exit_code"]) == ("no_change_timeout", "a", None)
    assert view(server, shell)["status"] == "running", "the command lives on"


def test_typing_waits_for_a_shell_that_takes_its_time(start):
    """More than is kept until a command begins: the rest waits, and nothing is busy meanwhile."""
    server = start()
    sid = run(server, "echo 'sleep 2' >~/.bashrc; exit")["session_id"]
    ask(server, "exec", id=sid, command="head -c 9000 | wc -l", async_mode=True)
    before = cpu_seconds(server)
    ask(server, "write", id=sid, input=("x" * 89 + "\n") * 100, press_enter=False)
    assert cpu_seconds(server) - before < 0.4
    assert ask(server, "wait", id=sid, seconds=20)["status"] == "completed"
    assert ask(server, "view", id=sid)["output"].splitlines()[-1] == "100"
    delete(server, sid)


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
        data = run(server, "sleep 0.1; echo whole", sid, timeout=20)
        assert (data["status"], data["output"]) == ("completed", "whole")
        delete(server, sid)


@ROOT_ONLY
def test_a_shell_that_finds_no_room_leaves_nothing(start):
    server = start()
    sid = ask(server, "sessions/create")["session_id"]
    (folder,) = {os.path.dirname(folder) for folder in folders_of(*below(server))}
    delete(server, sid)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "none", folder], capture_output=True).returncode:
        pytest.skip("NOT TESTED: nothing can be mounted here")
    try:
        Path(folder, "full").write_bytes(b"x" * 4096)
        for _ in range(2):
            status, text = refused(server, "sessions/create")
            assert status == 507 and "No space left" in text
            assert os.listdir(folder) == ["full"]
        os.unlink(f"{folder}/full")
    finally:
        subprocess.run(["umount", "-l", folder], check=True)
    delete(server, run(server, "true")["session_id"])


@pytest.mark.concurrency
def test_a_screen_that_is_hard_to_draw_holds_up_nobody_else(server, tmp_path):
    """What it is drawn from is seven bytes for a line each; meanwhile other sessions' commands end."""

    def ended_meanwhile(times):
        shell, told = ask(server, "sessions/create")["session_id"], tmp_path / str(times)
        code = ("p=$(printf 'a\\e[1000b%.0s' {1..500}); for i in {1..150}; do printf %s \"$p\"; done; "
                f"echo all >{told}; while sleep 0.01; do echo; done")
        ask(server, "exec", id=shell, command=code, async_mode=True)
        assert text_of(told) == "all"
        ended = 0
        with server.begin("/v1/shell/view", id=shell) as view:
            while not select.select([view.sock], [], [], 0)[0]:
                answer = server.post("/v1/bash/exec", {"command": "true", "session_id": "other"})
                assert answer.status_code == 200
                ended += not select.select([view.sock], [], [], 0)[0]
            assert view.answer().status == 200
        return ended

    assert patiently(ended_meanwhile, lambda ended: ended >= 10) >= 10
    assert server.post("/v1/bash/sessions/other/close").status_code == 200


@pytest.mark.concurrency
def test_a_look_at_a_command_that_just_begins(server, shell):
    with ThreadPoolExecutor(2) as pool:
        for i in range(12):
            began = pool.submit(ask, server, "exec", id=shell, command=f"echo {i}", async_mode=True)
            consoles = [ask(server, "view", id=shell)["console"] for _ in range(4)]
            began.result(30)
            assert all(entry["ps1"].endswith(("$ ", "# ")) for console in consoles for entry in console[:-1])
            assert ask(server, "wait", id=shell)["status"] == "completed"


def test_no_change_timeout_of_ages(server, shell):
    assert run(server, "sleep 0.2; echo a", shell, no_change_timeout=2**63 - 1)["status"] == "completed"


def test_no_change_timeout_is_of_silence(server):
    data = patiently(lambda times: run(server, f"for i in 1 2 3 4 5; do echo $i; sleep {0.6 * times}; done",
                                       no_change_timeout=2 * times), lambda data: data["status"] == "completed")
    assert data["status"] == "completed" and data["output"] == "1\n2\n3\n4\n5"


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
                                     "python3 -c 'import time; time.sleep(100)'", "yes", "trap 'echo no' INT; sleep 100"])
def test_hard_timeout_of_what_does_not_want_to_end(server, shell, command):
    run(server, "A=b", shell)
    start = time.monotonic()
    data = run(server, command, shell, hard_timeout=0.4)
    assert data["status"] == "hard_timeout" and time.monotonic() - start < 40
    assert output(server, "echo next", shell, timeout=50) == "next"


def test_kill(server, shell):
    run(server, "A=b", shell)
    begun(server, "echo a; sleep 100; echo b", shell, "a")
    answer = post(server, "kill", id=shell)
    assert answer["data"] == {"status": "terminated", "exit_code": None, "returncode": None}
    assert view(server, shell)["status"] == "terminated"
    assert output(server, "echo [$A]", shell) == "[b]", "the shell stays"
    answer = post(server, "kill", id=shell)
    assert answer["data"] == {"status": "completed", "exit_code": 0, "returncode": 0}
    assert answer["message"] == "No process was running"


def test_kill_answers_who_waits(server, shell):
    with ThreadPoolExecutor(2) as pool:
        running = pool.submit(run, server, "echo a; sleep 100", shell)
        shows(server, shell, "\na")
        waiting = pool.submit(wait, server, shell, 50)
        time.sleep(0.2)  # for it to wait; if that comes later, the answer is the same
        ask(server, "kill", id=shell)
        assert waiting.result(25) == "terminated"
        data = running.result(25)
        assert data["status"] == "terminated" and data["output"].startswith("a")


def test_kill_starts_the_next_of_the_queue(server, shell):
    run(server, "sleep 100", shell, async_mode=True)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(output, server, "echo next", shell)
        time.sleep(0.2)  # for it to queue; if that comes later, the answer is the same
        ask(server, "kill", id=shell)
        assert waiting.result(25) == "next"


def test_wait_ends_with_its_time(server, shell):
    run(server, "sleep 100", shell, async_mode=True)
    start = time.monotonic()
    assert ask(server, "wait", id=shell, seconds=1)["status"] == "running"
    assert ask(server, "wait", id=shell, max_wait_seconds=1)["status"] == "running"
    assert 1.8 < time.monotonic() - start < 20
    assert ask(server, "wait", id=shell, seconds=0)["status"] == "running"
    fresh = ask(server, "sessions/create")["session_id"]
    assert wait(server, fresh) == "completed", "nothing runs"


@pytest.mark.concurrency
def test_caller_who_leaves_leaves_the_command_running(server, shell, tmp_path):
    body = json.dumps({"id": shell, "command": f"echo $BASHPID >{tmp_path}/pid; until rm {tmp_path}/go; do sleep 0.02; done 2>/dev/null; echo done"}).encode()
    for how in ("reset", "close"):
        with server.connect() as peer:
            peer.send(request("/v1/shell/exec", "POST", {"Content-Type": "application/json"}, body))
            assert text_of(tmp_path / "pid")
            if how == "reset":
                peer.reset()
        assert view(server, shell)["status"] == "running"
        (tmp_path / "go").touch()
        assert wait(server, shell) == "completed"
        assert view(server, shell)["console"][-1]["output"] == "done"
        (tmp_path / "pid").unlink()


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


# --- typing ------------------------------------------------------------------------------------


def test_typed_lines_run(server, shell):
    assert write(server, shell, "echo ty''ped", press_enter=True)["status"] == "completed"
    shows(server, shell, "\ntyped\n")
    write(server, shell, "A=typed\r")
    assert output(server, "echo $A", shell) == "typed"


def test_typed_line_runs_before_a_command_however_late_it_is_read(server, shell):
    """On a busy machine the shell may get round to it after more than a moment: that is no half-typed line."""
    run(server, "true", shell)
    (pid,) = server.children()
    os.kill(pid, signal.SIGSTOP)
    try:
        write(server, shell, "A=typed", press_enter=True)
        with server.begin("/v1/shell/exec", id=shell, command="echo [$A]") as after:
            time.sleep(1)  # more than a moment
            os.kill(pid, signal.SIGCONT)
            assert after.answer().json()["data"]["output"] == "[typed]"
    finally:
        os.kill(pid, signal.SIGCONT)


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
    assert run(server, "kill %1; wait %1", shell, timeout=20)["status"] == "completed"


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


# --- full-screen programs ----------------------------------------------------------------------


def needs(name):
    if not shutil.which(name):
        pytest.skip(f"NOT TESTED: {name} is not installed")


def test_vim(server, shell):
    needs("vim")
    run(server, "vim -u NONE file", shell, async_mode=True)
    assert eventually(lambda: "~\n~" in (screen := view(server, shell)["screen"]) and '"file"' in screen)
    assert view(server, shell)["status"] == "running"
    write(server, shell, f"ihello {EURO} vim\x1b")
    shows(server, shell, f"hello {EURO} vim")
    write(server, shell, ":wq", press_enter=True)
    assert wait(server, shell) == "completed"
    assert (server.home / "file").read_text() == f"hello {EURO} vim\n"
    assert view(server, shell)["exit_code"] == 0
    assert output(server, "cat file", shell) == f"hello {EURO} vim"


def test_less(server, shell):
    needs("less")
    (server.home / "lines").write_text("".join(f"line {i}\n" for i in range(1, 1001)))
    run(server, "less lines", shell, async_mode=True)
    assert eventually(lambda: view(server, shell)["screen"].startswith("line 1\nline 2\n")), view(server, shell)
    assert view(server, shell)["status"] == "running"
    write(server, shell, "G")
    shows(server, shell, "line 1000")
    write(server, shell, "/line 5$\rg")
    shows(server, shell, "line 1\nline 2")
    write(server, shell, "q")
    assert wait(server, shell) == "completed"


def test_python_repl(server, shell):
    run(server, "python3 -q", shell, async_mode=True)
    shows(server, shell, ">>>")
    write(server, shell, "6 * 7", press_enter=True)
    shows(server, shell, "\n42\n")
    write(server, shell, "import os; os._exit(5)", press_enter=True)
    assert wait(server, shell) == "completed"
    assert view(server, shell)["exit_code"] == 5


def test_nested_shell(server, shell):
    run(server, "PS1='nes''ted> ' bash --norc", shell, async_mode=True)
    shows(server, shell, "\nnested>")
    write(server, shell, "echo in''side; exit 6", press_enter=True)
    assert wait(server, shell) == "completed"
    assert view(server, shell)["exit_code"] == 6 and "inside" in view(server, shell)["output"]


def test_tmux(server, shell):
    needs("tmux")
    data = run(server, "tmux -L aiotest -f /dev/null new-session -s x", shell, async_mode=True)
    assert data["status"] == "running"
    shows(server, shell, "[x]")
    write(server, shell, "echo in''side", press_enter=True)
    shows(server, shell, "inside")
    write(server, shell, "exit", press_enter=True)
    assert wait(server, shell) == "completed"


# --- looking -----------------------------------------------------------------------------------


def test_view(server, shell):
    seen = view(server, shell)
    assert seen["session_id"] == shell and seen["status"] == "completed"
    assert seen["command"] is None and seen["exit_code"] is None and seen["console"] == []
    run(server, "echo one", shell)
    run(server, "cd /usr; (exit 3)", shell)
    seen = view(server, shell)
    assert [(c["command"], c["output"]) for c in seen["console"]] == [("echo one", "one"), ("cd /usr; (exit 3)", "")]
    assert all(c["ps1"].rstrip()[-1] in "$#" for c in seen["console"])
    assert seen["command"] == "cd /usr; (exit 3)" and seen["exit_code"] == 3 and seen["status"] == "completed"
    assert re.search(r"[$#] ?echo one\none\n.*[$#] ?cd /usr; \(exit 3\)", seen["output"])
    assert refused(server, "view", id="nobody")[0] == 404


def test_prompt_is_the_shells_own(server, shell):
    run(server, "PS1='[\\w]> '; cd /usr", shell)
    data = run(server, "echo x", shell)
    assert data["console"][0]["ps1"].rstrip() == "[/usr]>" and data["output"] == "x"
    run(server, "PS1=$'\\033[31mtwo\\nlines>\\033[0m '", shell)
    assert run(server, "echo x", shell)["console"][0]["ps1"].rstrip() == "lines>"


def test_view_of_many_commands(server, shell):
    for i in range(70):
        run(server, f"echo {i}", shell)
    console = view(server, shell)["console"]
    assert len(console) == 64 and console[-1]["output"] == "69", "the oldest are forgotten"


def test_nothing_of_the_wrapper_is_to_be_seen(server, shell):
    run(server, "echo one", shell)
    run(server, "exit 3", shell)
    run(server, "echo two", shell)
    write(server, shell, "fc -l; set | grep -c . ; history | tail -5; echo lo''oked", press_enter=True)
    shows(server, shell, "\nlooked\n")
    seen = json.dumps(view(server, shell))
    assert "777;" not in seen and "__aio" not in view(server, shell)["console"][-1]["output"]
    assert ". /tmp/aio" not in view(server, shell)["screen"]
    text = output(server, "history", shell)
    assert "echo two" in text and "/shell-" not in text


# --- events ------------------------------------------------------------------------------------


def test_events_come_as_they_happen(server, shell):
    with Events(server, "/v1/shell/exec", id=shell, command="echo a; read x; echo b; (exit 3)") as events:
        assert events.head.status == 200 and events.head["content-type"].startswith("text/event-stream")
        name, start = events.next()
        assert name == "start" and start["status"] == "running" and start["session_id"] == shell
        text = ""
        while text != "a\n":  # a terminal may give a line in pieces
            name, data = events.next()
            assert name == "output" and data["session_id"] == shell and "a\n".startswith(text + data["data"])
            text += data["data"]
        write(server, shell, "", press_enter=True)
        rest = list(events)
    assert "".join(data["data"] for name, data in rest if name == "output").endswith("b\n")
    assert rest[-1] == ("exit", {"session_id": shell, "status": "completed", "exit_code": 3})


def test_events_of_a_view(server, shell):
    run(server, f"echo a; {WAIT}; echo b; (exit 4)", shell, async_mode=True)
    with Events(server, "/v1/shell/view", id=shell) as events:
        all_of_it = [events.next()]
        go(server)
        all_of_it += list(events)
    assert "".join(data["data"] for name, data in all_of_it if name == "output") == "a\nb\n"
    assert all_of_it[-1][0] == "exit" and all_of_it[-1][1]["exit_code"] == 4


def test_events_of_much_output(server, shell):
    with Events(server, "/v1/shell/exec", id=shell, command="seq 100000; exit 3") as events:
        all_of_it = list(events)
    text = "".join(data["data"] for name, data in all_of_it if name == "output")
    assert text.startswith("".join(f"{i}\n" for i in range(1, 100001)))
    assert all_of_it[-1][1]["exit_code"] == 3


def test_events_until_the_timeout(server):
    def until_then(times):
        with Events(server, "/v1/shell/exec", command="echo a; sleep 100", timeout=times) as events:
            return list(events)

    all_of_it = patiently(until_then, lambda events: "output" in dict(events))
    names = [(name, data.get("status")) for name, data in all_of_it if name != "output"]
    assert names == [("start", "running"), ("exit", "running")] and all_of_it[-1][0] == "exit"
    assert "".join(data["data"] for name, data in all_of_it if name == "output") == "a\n"


def test_listener_who_leaves(server, shell):
    with Events(server, "/v1/shell/exec", id=shell, command=f"echo a; {WAIT}; echo b") as events:
        assert events.next()[0] == "start" and events.next()[0] == "output"
        events.peer.reset()
    go(server)
    assert wait(server, shell) == "completed"
    assert view(server, shell)["console"][-1]["output"] == "a\nb"


# --- sessions ----------------------------------------------------------------------------------


def test_sessions(server):
    made = ask(server, "sessions/create", id="mine", exec_dir="/usr")
    assert made == {"session_id": "mine", "working_dir": "/usr"}
    run(server, "cd /etc", "mine")
    assert ask(server, "sessions/create", id="mine", exec_dir="/") == {"session_id": "mine", "working_dir": "/etc"}
    info = sessions(server)["mine"]
    assert info["working_dir"] == "/etc" and info["status"] == "ready" and info["current_command"] is None
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", info["created_at"]) and 0 <= info["age_seconds"] < 60
    assert info["last_used_at"] >= info["created_at"]
    delete(server, "mine")
    assert "mine" not in sessions(server)
    assert server.request("DELETE", "/v1/shell/sessions/mine").status_code == 404


@pytest.mark.parametrize("absent", [{}, {"id": None}, {"id": ""}])
def test_session_without_a_name_gets_one(server, absent):
    made = {ask(server, "sessions/create", **absent)["session_id"] for _ in range(2)}
    made |= {ask(server, "exec", command="true", **absent)["session_id"] for _ in range(2)}
    assert len(made) == 4 and "" not in made


@pytest.mark.parametrize("name", ["a b/c?d#e", EURO * 64, "'; touch /tmp/x; '", "%s%n", "$(id)"])
def test_session_with_an_odd_name(server, name):
    data = run(server, "sleep 1000 & echo $!", name)
    assert data["session_id"] == name
    assert view(server, name)["session_id"] == name and name in sessions(server)
    delete(server, name)
    assert not alive(data["output"].split()[-1])


def test_stats(server):
    before = server.get("/v1/shell/sessions/stats").json()["data"]
    assert before == {"total_sessions": 0, "active_sessions": 0, "idle_sessions": 0, "max_sessions": 512,
                      "session_timeout": 86400, "usage_ratio": 0.0}
    for _ in range(4):
        ask(server, "sessions/create")
    stats = server.get("/v1/shell/sessions/stats").json()["data"]
    assert stats["total_sessions"] == stats["active_sessions"] == 4 and stats["usage_ratio"] == 4 / 512


def test_terminal_url(server):
    url = server.get("/v1/shell/terminal-url").json()["data"]
    match = re.fullmatch(re.escape(server.url) + r"/terminal\?session_id=(\S+)", url)
    assert match and match.group(1) in sessions(server)
    page = server.get(url)
    assert page.status_code == 200 and "Web Terminal" in page.text


def test_delete_ends_what_runs_and_answers_who_waits(server, shell):
    with server.begin("/v1/shell/exec", id=shell, command="trap '' TERM HUP INT; echo a; sleep 100") as running:
        shows(server, shell, "\na")
        with server.begin("/v1/shell/exec", id=shell, command="echo no") as queued, \
                server.begin("/v1/shell/wait", id=shell, seconds=50) as waiting:
            assert server.at_rest()
            delete(server, shell)
            told = [peer.answer().json()["data"] for peer in (running, queued, waiting)]
    assert [data["status"] for data in told] == ["terminated"] * 3 and told[0]["output"] == "a"
    assert refused(server, "view", id=shell)[0] == 404
    assert output(server, "echo again", shell) == "again", "the name is free again"


def test_delete_all(server):
    pids = [run(server, "sleep 1000 & echo $!")["output"].split()[-1] for _ in range(5)]
    assert len(sessions(server)) == 5
    answer = server.request("DELETE", "/v1/shell/sessions").json()
    assert answer["success"] and answer["message"] == "5 sessions ended" and sessions(server) == {}
    assert not any(map(alive, pids))


@pytest.mark.parametrize("how", DAEMONS)
def test_daemon_is_ended_with_its_session(server, shell, tmp_path, how):
    data = run(server, daemon(how, tmp_path), shell)
    pid = text_of(tmp_path / "pid")
    assert data["exit_code"] == 0 and alive(pid)
    run(server, "exit", shell)
    assert alive(pid), "it outlives the shell"
    other = run(server, "sleep 1000 & echo $!")["output"].split()[-1]
    delete(server, shell)
    assert not alive(pid)
    assert alive(other), "another session is left alone"


@pytest.mark.concurrency
def test_delete_and_exec_at_once(server):
    """A command that starts while its session is being deleted is ended as well."""

    def one(i):
        sid = f"race-{i % 6}"
        if i % 2:
            server.request("DELETE", f"/v1/shell/sessions/{sid}")
        else:
            server.post("/v1/shell/exec", {"command": "sleep 1000", "id": sid, "timeout": 0.05})

    for _ in range(4):
        together(24, one)
    assert server.request("DELETE", "/v1/shell/sessions").status_code == 200
    assert eventually(lambda: not server.children()), "a shell runs on without a session"


def test_1000_sessions_leave_nothing(server):
    before, memory = server.possessions(), None
    for i in range(1000):
        sid = f"s{i}"
        if i % 20 == 0:
            assert output(server, "echo x", sid) == "x"
        else:
            # The shell itself starts with its first command or viewer.
            assert server.get("/v1/shell/terminal-url").status_code == 200
        for sid in sessions(server):
            delete(server, sid)
        if i == 200:
            memory = server.memory()
    server.check_leaks(before)
    assert server.memory() - memory < 8 * MIB


def test_number_of_sessions_has_a_cap(start):
    server = start(["--max-sessions", "3"])
    for name in "abc":
        run(server, "sleep 100", name, async_mode=True)
    status, text = refused(server, "exec", command="true", id="d")
    assert status == 429 and "--max-sessions" in text
    assert server.get("/v1/shell/sessions/stats").json()["data"]["usage_ratio"] == 1
    ask(server, "kill", id="b")
    assert output(server, "echo x", "d") == "x"
    assert set(sessions(server)) == set("acd")
    server.request("DELETE", "/v1/shell/sessions")


@pytest.mark.concurrency
def test_a_session_is_not_taken_from_one_who_has_just_got_it(start):
    server = start(["--max-sessions", "4"])
    codes = together(8, lambda i: [server.post("/v1/shell/exec", {"command": "true"}, timeout=60).status_code for _ in range(2)])
    assert {200} <= {code for some in codes for code in some} <= {200, 429}
    server.request("DELETE", "/v1/shell/sessions")


def test_idle_session_expires_with_all_it_left(start_server):
    server = start_server(["--session-timeout", "2"])
    pid = run(server, "sleep 1000 & echo $!")["output"].split()[-1]
    busy = run(server, "sleep 1000", async_mode=True)["session_id"]
    assert eventually(lambda: set(sessions(server)) == {busy})
    assert gone(pid)
    assert server.get("/v1/shell/sessions/stats").json()["data"]["session_timeout"] == 2
    delete(server, busy)


# --- the end of the server ---------------------------------------------------------------------


def busy_server(start_server):
    server = start_server()
    for command in ("sleep 1000", "trap '' TERM INT HUP; while :; do sleep 1000; done", "cat", "yes >/dev/null", "yes",
                    "setsid sh -c 'sleep 1000 &' >/dev/null 2>&1; sleep 1000", "exec sleep 1000", "python3 -q"):
        run(server, command, async_mode=True)
    ask(server, "sessions/create")

    def stay():
        """All the processes, when only those are left that stay."""
        pids = below(server)
        names = Counter(map(comm, pids))
        busy = names >= Counter(sleep=5, cat=1, yes=2, python3=1)
        return pids if busy and not {"", "sh", "setsid"} & set(names) else None

    pids = eventually(stay)
    assert pids, Counter(map(comm, below(server)))
    return server, pids


@pytest.mark.concurrency
def test_sigterm_ends_all(start_server):
    server, pids = busy_server(start_server)
    assert len(pids) >= 9
    used = folders_of(*pids)
    assert len(used) >= 3
    with ThreadPoolExecutor(2) as pool:
        running = pool.submit(run, server, "echo a >begun; sleep 1000")
        assert text_of(server.home / "begun")
        server.signal()
        assert server.wait() == 0
        assert running.result(20)["status"] in ("running", "terminated")
    assert gone(*pids, seconds=0)
    assert not any(os.path.exists(os.path.dirname(folder)) for folder in used), "nothing is left on the disk"


def test_sigkill_leaves_nothing(start_server):
    server, pids = busy_server(start_server)
    used = folders_of(*pids)
    assert len(used) >= 3
    if server.pid == server.proc.pid:
        pytest.fail("the server has no first stage")
    os.kill(server.pid, signal.SIGKILL)
    assert server.wait() == 128 + signal.SIGKILL
    assert gone(*pids)
    assert not any(os.path.exists(os.path.dirname(folder)) for folder in used), "nothing is left on the disk"
    server.stop = lambda: None  # it did not end well, as it had to


# --- another user ------------------------------------------------------------------------------


@ROOT_ONLY
def test_shell_of_the_sandbox_user(start, tester):
    server = start(["--user", tester], env={"WORKSPACE": "", "HOME": "/root"})
    sid = ask(server, "sessions/create")["session_id"]
    text = output(server, "id -un; id -Gn; echo $HOME $USER; pwd; stat -c %U $(tty); test -w $(tty) && echo writable", sid)
    assert text.split("\n") == [tester, f"{tester} {tester}g", f"/home/{tester} {tester}", f"/home/{tester}", tester,
                                "writable"]
    assert "Permission denied" in run(server, "cat /etc/shadow", sid)["output"]
    assert run(server, "exit 3", sid)["exit_code"] == 3
    assert output(server, "whoami", sid) == tester
    delete(server, sid)


@ROOT_ONLY
def test_sandbox_user_cannot_turn_the_servers_files_against_it(start, tester):
    """The server writes, as root, where its shells read: nobody may put something else in that place."""
    server = start(["--user", tester], env={"WORKSPACE": ""})
    sid = ask(server, "sessions/create")["session_id"]
    folder = folder_of(server)
    data = run(server, f"mv {folder} {folder}x; ln -s /etc {folder}; rm -f {folder}/c; ln -s /etc/victim {folder}/c;"
                       f" rm -f {folder}/u {folder}/up; echo $(ls -ld {folder} | cut -c1)", sid, timeout=50)
    assert data["status"] == "completed" and data["output"].endswith("d")
    assert output(server, "echo fine", sid, timeout=20) == "fine"
    assert not os.path.exists("/etc/victim") and not os.path.exists("/etc/c") and not os.path.exists("/etc/u")
    delete(server, sid)


@ROOT_ONLY
def test_other_users_cannot_read_commands(start, tester):
    server = start()
    sid = run(server, "echo secret", None)["session_id"]
    folder = folder_of(server)
    for name in ("c", "u", "rc"):
        assert subprocess.run(["su", tester, "-c", f"cat {folder}/{name}"], capture_output=True).returncode != 0
    assert subprocess.run(["su", tester, "-c", f"echo x >{folder}/up"], capture_output=True).returncode != 0
    delete(server, sid)


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
    data = run(server, command, shell, timeout=20)
    assert (data["status"], data["exit_code"], data["output"]) == ("completed", 0, "")


# --- clients -----------------------------------------------------------------------------------


def test_official_sdk(server):
    from agent_sandbox import Sandbox

    with httpx.Client(timeout=30) as client:
        use_shell_of_sdk(server, Sandbox(base_url=server.url, httpx_client=client).shell)


def use_shell_of_sdk(server, shell):
    sid = shell.create_session(exec_dir="/usr", no_change_timeout=60).data.session_id
    result = shell.exec_command(id=sid, command="export A=b; pwd", truncate=True).data
    assert (result.status, result.output, result.exit_code, result.session_id) == ("completed", "/usr", 0, sid)
    assert shell.exec_command(id=sid, command="echo $A", exec_dir="/etc", strict=True).data.output == "b"
    assert shell.exec_command(id=sid, command="read x; read y; echo got $x", async_mode=True).data.status == "running"
    assert shell.write_to_process(id=sid, input="it", press_enter=True).data.status == "running"
    shell.write_to_process(id=sid, input="", press_enter=True)
    assert shell.wait_for_process(id=sid, seconds=25).data.status == "completed"
    seen = shell.view(id=sid).data
    assert "got it" in seen.output and seen.console[-1].command == "read x; read y; echo got $x"
    assert shell.exec_command(id=sid, command="sleep 100", timeout=0.2).data.status == "running"
    killed = shell.kill_process(id=sid).data
    assert killed.status == "terminated" and killed.exit_code is None
    assert shell.update_session(id=sid, no_change_timeout=50).success
    assert shell.list_sessions().data.sessions[sid].working_dir == "/etc"
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
