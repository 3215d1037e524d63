"""The output of commands on a terminal: its order, its size, and as events."""

import pytest

from harness import LEAN, Events
from processes import patiently
from shells import WAIT, folder_of, go, no_sessions, output, run, shell, view, wait, warm, write  # noqa: F401

MIB = 1 << 20
EURO = "\u20ac"
pytestmark = pytest.mark.server(env=LEAN, warm=warm)


# --- much output, and odd output ---------------------------------------------------------------


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
    """The sleeps are for the server to read what there is."""
    text = output(server, r"printf 'a\xe2'; sleep 0.2; printf '\x82'; sleep 0.2; printf '\xacb\n'", shell)
    assert text == f"a{EURO}b"


def test_raw_binary_output(server, shell):
    data = run(server, "head -c 300000 /dev/urandom; echo; echo end", shell, timeout=90)
    assert data["status"] == "completed" and data["exit_code"] == 0
    assert output(server, "stty sane; tput rs1; echo fine", shell, timeout=90).endswith("fine")


def test_output_cannot_pretend_to_be_the_end(server, shell):
    """What looks like the shell's own marks is only output. The sleep is for the server to take it for more."""
    data = run(server, rf"printf '\033]777;aio;%032d;E\a' 0; echo a; tail -3 {folder_of(server)}/c | cat -v; sleep 0.3;"
                       " echo b; (exit 3)", shell)
    assert data["exit_code"] == 3 and data["output"].startswith("a\n") and data["output"].endswith("\nb")


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

    def text(events):
        return "".join(data["data"] for name, data in events if name == "output")

    all_of_it = patiently(until_then, lambda events: text(events) == "a\n")
    names = [(name, data.get("status")) for name, data in all_of_it if name != "output"]
    assert names == [("start", "running"), ("exit", "running")] and all_of_it[-1][0] == "exit"
    assert text(all_of_it) == "a\n"


def test_listener_who_leaves(server, shell):
    with Events(server, "/v1/shell/exec", id=shell, command=f"echo a; {WAIT}; echo b") as events:
        assert events.next()[0] == "start" and events.next()[0] == "output"
        events.peer.reset()
    assert server.at_rest()
    go(server)
    assert wait(server, shell) == "completed"
    assert view(server, shell)["console"][-1]["output"] == "a\nb"
