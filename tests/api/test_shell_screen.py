"""What a terminal shows: full-screen programs, prompts, and the commands before."""

import json
import re
import select
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness import eventually
from processes import patiently, text_of
from shells import ask, no_sessions, output, refused, run, shell, shows, view, wait, warm, write  # noqa: F401

EURO = "\u20ac"
pytestmark = pytest.mark.server(warm=warm)


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
    data = run(server, f"tmux -L aiotest{server.pid} -f /dev/null new-session -s x", shell, async_mode=True)
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


@pytest.mark.serial
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
            began.result(60)
            assert all(entry["ps1"].endswith(("$ ", "# ")) for console in consoles for entry in console[:-1])
            assert ask(server, "wait", id=shell)["status"] == "completed"
