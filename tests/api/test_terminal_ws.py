"""Shell sessions seen through a WebSocket, as the terminal's page sees them."""

import json
import re
import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from harness import LEAN, SETTLE_SECONDS, connect, eventually
from processes import alive, gone, together
from shells import ask, delete, delete_all, no_sessions, run, sessions, warm  # noqa: F401

MIB = 1 << 20
EURO = "\u20ac"
NORMAL, GOING_AWAY, TRY_LATER = 1000, 1001, 1013


pytestmark = pytest.mark.server(env=LEAN, warm=warm)


def plain(text):
    return re.sub(r"\x1b(\[[0-9;?]*[a-zA-Z]|\][^\x07]*\x07)|\r", "", text)


class Terminal:
    """A viewer. `text` is all the output it was sent."""

    def __init__(self, server, session_id=None, query="", **more):
        target = "/v1/shell/ws" + (f"?session_id={session_id}" if session_id else "") + query
        url = f"ws://{server.host}:{server.port}{target}"
        self.ws = connect(url, compression=None, max_size=None, close_timeout=1, **more).__enter__()
        self.text, self.messages = "", []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ws.close()

    def recv(self, seconds=SETTLE_SECONDS):
        """The next message."""
        message = json.loads(self.ws.recv(timeout=seconds))
        if message["type"] in ("output", "restore_output"):
            self.text = self.text[-MIB:] + message["data"]
        self.messages.append(message)
        return message

    def get(self, kind, seconds=SETTLE_SECONDS):
        """The next message of a kind, past all others."""
        until = time.monotonic() + seconds
        while (message := self.recv(until - time.monotonic()))["type"] != kind:
            pass
        return message

    def shows(self, pattern, seconds=SETTLE_SECONDS, raw=False):
        """Waits for output, without its escape sequences; past what was waited for before."""
        until = time.monotonic() + seconds
        while True:
            text = self.text if raw else plain(self.text)
            if match := re.search(pattern, text):
                self.text = text[match.end() :]
                return match
            try:
                self.recv(max(0, until - time.monotonic()))
            except TimeoutError:
                raise AssertionError(f"{pattern!r} is not in {text[-2000:]!r}") from None

    def send(self, kind, **more):
        self.ws.send(json.dumps({"type": kind, **more}))

    def type(self, text):
        self.send("input", data=text)

    def ready(self):
        """Waits until the shell reads what is typed: the session's id."""
        self.get("ready")
        return next(m["data"] for m in self.messages if m["type"] == "session_id")

    def prompt(self):
        """Waits until there is a prompt: a line editor that starts sets the terminal's size to what it was a moment
        ago."""
        sid = self.ready()
        self.shows(r"[$#] $")
        return sid

    def closed(self, seconds=SETTLE_SECONDS):
        """Waits for the server to close: the code and the reason."""
        try:
            while True:
                self.recv(seconds)
        except ConnectionClosed as end:
            return end.rcvd.code, end.rcvd.reason


# --- greeting ----------------------------------------------------------------------------------


def test_greeting(server):
    with Terminal(server) as terminal:
        sid = terminal.ready()
        kinds = [message["type"] for message in terminal.messages]
        assert kinds[0] == "session_id" and kinds[-1] == "ready" and set(kinds[1:-1]) <= {"output"}
        assert terminal.messages[-1] == {"type": "ready", "data": "Terminal ready"}
        assert terminal.messages[0] == {"type": "session_id", "data": sid} and sid in sessions(server)
        terminal.shows(r"[$#] $")


def test_what_is_typed_runs(server):
    with Terminal(server) as terminal:
        terminal.ready()
        terminal.type("echo ty''ped\r")
        terminal.shows("echo ty''ped\n")
        terminal.shows("typed\n")
        terminal.type("echo with\n")
        terminal.shows("\nwith\n")
        for key in f"echo {EURO}\r":
            terminal.type(key)
        terminal.shows(f"\n{EURO}\n")
        terminal.type("sh -c 'echo be''gun; exec sleep 100'\r")
        terminal.shows("\nbegun\n")
        terminal.type("\x03")
        terminal.shows(r"\^C")
        terminal.shows(r"[$#] $")
        terminal.type("echo $?\r")
        terminal.shows("\n130\n")


def test_new_session_with_a_chosen_name(server):
    with Terminal(server, "chosen%20name") as terminal:
        assert terminal.ready() == "chosen name" and "chosen name" in sessions(server)
    with Terminal(server, "", query="?session_id=") as terminal:
        assert terminal.ready() not in ("", "chosen name")


def test_session_name_that_is_too_long(server):
    with pytest.raises(InvalidStatus) as refusal:
        Terminal(server, "x" * 65)
    assert refusal.value.response.status_code == 422
    assert sessions(server) == {}


def test_plain_request_is_told_to_upgrade(server):
    assert server.get("/v1/shell/ws").status_code == 426


def test_no_more_sessions(start_server):
    server = start_server(["--max-sessions", "1"])
    run(server, "sleep 100", "a", timeout=0.3)
    with Terminal(server) as terminal:
        code, reason = terminal.closed()
        assert code == TRY_LATER and "sessions" in reason
    with Terminal(server, "a") as terminal:
        assert terminal.get("terminal_restored")
    delete_all(server)


def test_credentials(start_server):
    server = start_server(env={"SANDBOX_API_KEY": "key-1"})
    with pytest.raises(InvalidStatus) as refusal:
        Terminal(server)
    assert refusal.value.response.status_code == 401
    with Terminal(server, query="?api_key=key-1") as terminal:
        terminal.ready()
        terminal.type("env | grep -c key-1\r")
        terminal.shows("\n0\n")
    assert server.request("DELETE", "/v1/shell/sessions", headers={"X-AIO-API-Key": "key-1"}).status_code == 200


# --- size --------------------------------------------------------------------------------------


def test_resize(server):
    with Terminal(server) as terminal:
        terminal.prompt()
        terminal.send("resize", data={"cols": 77, "rows": 33})
        terminal.type("stty size; echo $COLUMNS\r")
        terminal.shows("\n33 77\n77\n")
        terminal.type("sh -c 'trap \"stty size\" WINCH; echo on; while :; do sleep 0.05; done'\r")
        terminal.shows("\non\n")
        terminal.send("resize", data={"cols": 90, "rows": 20})
        terminal.shows("20 90\n")


@pytest.mark.parametrize("data", [None, {}, [], "80x24", {"cols": 80}, {"cols": -5, "rows": 10}, {"cols": 0, "rows": 0},
                                  {"cols": "80", "rows": "24"}, {"cols": 1e300, "rows": 5}, {"cols": 10**18, "rows": 5},
                                  {"cols": 80.5, "rows": None}])
def test_resize_that_makes_no_sense(server, data):
    with Terminal(server) as terminal:
        terminal.ready()
        terminal.send("resize", data=data)
        terminal.type("stty size\r")
        terminal.shows("\n40 120\n")


def test_resize_to_the_extremes(server):
    with Terminal(server) as terminal:
        sid = terminal.prompt()
        for cols, rows, want in ((1, 1, "1 1"), (10000, 10000, "500 1000"), (2, 500, "500 2"), (80, 24, "24 80")):
            terminal.send("resize", data={"cols": cols, "rows": rows})
            assert eventually(lambda: run(server, "stty size", sid, timeout=5)["output"] == want)


def test_others_hear_of_a_resize(server):
    with Terminal(server) as first:
        sid = first.ready()
        with Terminal(server, sid) as second:
            assert second.get("size")["data"] == {"cols": 120, "rows": 40}
            second.ready()
            first.send("resize", data={"cols": 70, "rows": 30})
            assert second.get("size")["data"] == {"cols": 70, "rows": 30}
            second.send("resize", data={"cols": 71, "rows": 31})
            assert first.get("size")["data"] == {"cols": 71, "rows": 31}


# --- ping --------------------------------------------------------------------------------------


@pytest.mark.parametrize("ping, stamp", [({"timestamp": 123456789012}, 123456789012), ({"data": 5}, 5), ({}, 0),
                                         ({"timestamp": "x"}, 0), ({"timestamp": "5"}, 0), ({"timestamp": 2.7}, 2),
                                         ({"timestamp": 1e300}, None),
                                         ({"data": {"timestamp": 7}}, None)])
def test_ping_is_answered(server, ping, stamp):
    with Terminal(server) as terminal:
        terminal.ready()
        terminal.send("ping", **ping)
        answer = terminal.get("pong")
        assert stamp is None or answer["timestamp"] == stamp
        for pong in ({"data": {"timestamp": 5}}, {"timestamp": 5}, {}):
            terminal.send("pong", **pong)
        terminal.type("echo fi''ne\r")
        terminal.shows("fine")
        assert "error" not in [message["type"] for message in terminal.messages]


# --- coming again, and coming together ---------------------------------------------------------


def test_reconnect_restores_what_was_there(server):
    with Terminal(server) as terminal:
        sid = terminal.ready()
        terminal.type("A=kept; echo be''fore; until rm left 2>&-; do sleep 0.02; done; echo whi''le away\r")
        terminal.shows("before")
    (server.home / "left").touch()
    assert eventually(lambda: "while away" in ask(server, "view", id=sid)["screen"])
    with Terminal(server, sid) as terminal:
        kinds = [terminal.recv()["type"] for _ in range(4)]
        assert kinds == ["session_id", "size", "restore_output", "terminal_restored"]
        assert terminal.ready() == sid
        assert re.search("before.*while away", terminal.text, re.S)
        terminal.type("echo [$A]\r")
        terminal.shows(r"\n\[kept\]\n")


def test_abrupt_end_of_a_viewer(server):
    with Terminal(server) as terminal:
        sid = terminal.ready()
        terminal.type("echo $$\r")
        pid = terminal.shows(r"\n(\d+)\n").group(1)
        terminal.ws.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        terminal.ws.socket.close()
    assert server.at_rest()
    assert alive(pid) and sid in sessions(server)
    with Terminal(server, sid) as terminal:
        terminal.ready()
        assert pid in terminal.text


@pytest.mark.serial
def test_ready_comes_at_once(server):
    with Terminal(server) as terminal:
        sid = terminal.ready()
        opened, took = [], []
        for _ in range(10):
            start = time.monotonic()
            with Terminal(server, sid) as other:
                opened.append(time.monotonic() - start)
                other.ready()
                took.append(time.monotonic() - start)
        assert min(took) < max(0.2, 5 * min(opened)), "the rest is the machine's business"


def test_viewers_share_a_session(server):
    with Terminal(server) as first:
        sid = first.ready()
        with Terminal(server, sid) as second, Terminal(server, sid) as third:
            assert second.ready() == third.ready() == sid
            for i, terminal in enumerate((first, second, third)):
                terminal.type(f"echo from {i}; x=${{x}}{i}\r")
                for other in (first, second, third):
                    other.shows(f"\nfrom {i}\n")
        first.type("echo $x\r")
        first.shows("\n012\n")


def test_late_viewer_sees_a_full_screen_program(server):
    with Terminal(server) as first:
        sid = first.ready()
        first.type("vim -u NONE file\r")
        first.shows("~.*~")
        first.type("ihello from vim")
        first.shows("vim")
        with Terminal(server, sid) as second:
            second.get("terminal_restored")
            assert "hello from vim" in second.text and "~" in second.text and "\x1b[?1049h" in second.text
            second.type("\x1b:q!\r")
        first.shows(r"[$#] $")


def test_session_made_by_exec_is_seen(server):
    run(server, "cd /usr; echo one", "seen")
    run(server, "echo two; (exit 3)", "seen")
    with Terminal(server, "seen") as terminal:
        terminal.ready()
        screen = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", terminal.text)
        assert re.search(r"[$#] cd /usr; echo one\s+one\s.*[$#] echo two; \(exit 3\)\s+two\s", screen, re.S), screen
        assert "/shell-" not in terminal.text and "777;" not in terminal.text
        terminal.type("pwd\r")
        terminal.shows("/usr\n")


def test_exec_is_shown_to_viewers_as_if_typed(server):
    with Terminal(server) as terminal:
        sid = terminal.ready()
        terminal.shows(r"[$#] $")
        for i in range(3):
            assert run(server, f"echo exec {i}", sid)["output"] == f"exec {i}"
            terminal.shows(rf"echo exec {i}\nexec {i}\n")
        run(server, "printf '\\033[31mred\\033[0m'; for i in 1 2; do\n echo $i\ndone", sid)
        terminal.shows(r"for i in 1 2; do\r\n echo \$i\r\ndone\r\n\x1b\[31mred\x1b\[0m1\r\n2\r\n", raw=True)
        terminal.shows(r"[$#] $")
        sent = json.dumps(terminal.messages)
        assert "/shell-" not in sent and "__aio" not in sent and "777;aio" not in sent


def test_half_typed_line_when_an_exec_arrives(server):
    with Terminal(server) as terminal:
        sid = terminal.ready()
        for half in ("echo half", "echo 'open quote", "echo 'open\rand more", "for i in 1 2; do\r", "cat <<X\rabc"):
            terminal.type(half)
            terminal.shows(re.escape(half.split("\r")[-1]) if half[-1] != "\r" else "> ")
            data = run(server, "echo whole; (exit 4)", sid, timeout=50)
            assert (data["status"], data["output"], data["exit_code"]) == ("completed", "whole", 4), half
            terminal.shows(r"\^C")
            terminal.shows(r"echo whole; \(exit 4\)\nwhole\n")
        terminal.type("echo $?\r")
        terminal.shows("\n4\n")


def test_exec_keeps_the_exit_code_of_a_typed_command(server):
    with Terminal(server) as terminal:
        sid = terminal.ready()
        terminal.type("(exit 41)\r")
        terminal.shows(r"exit 41\)\n.*[$#] $")
        assert run(server, "echo $?", sid)["output"] == "41"
        terminal.type("(exit 42)\rhalf a li")
        terminal.shows("half a li")
        assert run(server, "echo $?", sid)["output"] == "42"


def test_exec_waits_for_what_a_person_runs(server):
    with Terminal(server) as terminal:
        sid = terminal.ready()
        terminal.type("sh -c 'echo be''gun; until rm done; do sleep 0.02; done 2>&-'; echo sl''ept\r")
        terminal.shows("\nbegun\n")
        with ThreadPoolExecutor(1) as pool:
            after = pool.submit(run, server, "echo after", sid, timeout=50)
            time.sleep(1)  # in which it could be typed or interrupt
            (server.home / "done").touch()
            assert after.result(60)["output"] == "after"
        terminal.shows(r"^slept\n.*[$#] echo after\nafter\n.*[$#] $")


def test_viewer_can_answer_a_command_that_exec_runs(server):
    with Terminal(server) as terminal, ThreadPoolExecutor(1) as pool:
        sid = terminal.ready()
        running = pool.submit(run, server, "read -p 'name? ' x; echo hello $x", sid, timeout=50)
        terminal.shows(r"name\? $")
        terminal.type("world\r")
        assert running.result(60)["output"].endswith("hello world")


# --- the end of a shell ------------------------------------------------------------------------


def test_exit_and_restart(server):
    with Terminal(server) as terminal:
        sid = terminal.ready()
        terminal.type("A=b; exit 3\r")
        assert terminal.get("exit")["data"] == {"exit_code": 3}
        terminal.type("echo lost\r")
        terminal.send("restart")
        assert terminal.get("ready")
        terminal.type("echo [$A]\r")
        terminal.shows(r"\n\[\]\n")
        assert "lost" not in json.dumps(terminal.messages)
        assert list(sessions(server)) == [sid]


def test_exec_after_exit_shows_to_viewers(server):
    with Terminal(server) as terminal:
        sid = terminal.ready()
        assert run(server, "exit 5", sid)["exit_code"] == 5
        assert terminal.get("exit")["data"] == {"exit_code": 5}
        assert run(server, "echo fresh", sid)["output"] == "fresh"
        terminal.get("ready")
        terminal.shows(r"echo fresh\nfresh\n")


def test_shell_that_is_killed(server):
    with Terminal(server) as terminal:
        terminal.ready()
        terminal.type("kill -9 $$\r")
        assert terminal.get("exit")["data"] == {"exit_code": 137}


def test_viewer_of_a_session_whose_shell_has_ended(server):
    run(server, "echo before; exit 4", "ended")
    with Terminal(server, "ended") as terminal:
        assert terminal.get("exit")["data"] == {"exit_code": 4}
        assert "before" in terminal.text
        terminal.send("restart")
        terminal.ready()


def test_delete_closes_the_viewers(server):
    with Terminal(server) as first:
        sid = first.ready()
        with Terminal(server, sid) as second:
            second.ready()
            delete(server, sid)
            assert first.closed()[0] == second.closed()[0] == NORMAL, "no reason to connect again"
    assert sessions(server) == {}


def test_stop_of_the_server(start_server):
    server = start_server()
    with Terminal(server) as terminal:
        terminal.ready()
        terminal.type("sleep 1000 & echo $!\r")
        pid = terminal.shows(r"\n(\d+)\n").group(1)
        server.signal()
        assert terminal.closed()[0] == GOING_AWAY
        assert server.wait() == 0 and "did not finish" not in server.log
    assert gone(pid, seconds=0)


# --- what may be sent --------------------------------------------------------------------------


@pytest.mark.parametrize("frame", ["", "x", "[]", "5", '"input"', "null", "{", "{}", '{"type":5}', '{"type":null}',
                                   '{"data":"x"}', '{"type":"input"', "\0", "[" * 100000])
def test_message_that_is_none(server, frame):
    with Terminal(server) as terminal:
        terminal.ready()
        terminal.ws.send(frame)
        assert terminal.get("error")["data"]
        terminal.type("echo fi''ne\r")
        terminal.shows("fine")


@pytest.mark.parametrize("message", [{"type": "input"}, {"type": "input", "data": 5}, {"type": "input", "data": None},
                                     {"type": "input", "data": ["x"]}, {"type": "unknown", "data": "x"}, {"type": ""},
                                     {"type": "input", "data": ""}, {"type": "restart", "data": {}}])
def test_message_without_effect(server, message):
    with Terminal(server) as terminal:
        terminal.ready()
        terminal.ws.send(json.dumps(message))
        terminal.type("echo fi''ne\r")
        terminal.shows("fine")


def test_binary_message(server):
    """JSON in a binary frame is as good; what is no UTF-8 is refused without harm."""
    with Terminal(server) as terminal:
        terminal.ready()
        terminal.ws.send(json.dumps({"type": "input", "data": "echo bi''nary\r"}).encode())
        terminal.ws.send(b"\xff\xfe\0")
        terminal.type("echo fi''ne\r")
        terminal.shows("fine")


def test_nul_is_a_key_too(server):
    with Terminal(server) as terminal:
        terminal.ready()
        terminal.type("stty raw -echo; echo be''gun; head -c 3 | od -An -c; stty sane\r")
        terminal.shows("\nbegun\n")
        terminal.type("a\0b")
        terminal.shows(r"a\s+\\0\s+b")


def test_large_paste(server):
    text = "".join(f"{i:05} {'x' * 70}\n" for i in range(4000))
    with Terminal(server) as terminal:
        terminal.ready()
        terminal.type("stty -echo; echo be''gun; cat >pasted; stty echo; echo do''ne\r")
        terminal.shows("\nbegun\n")
        terminal.type(text.replace("\n", "\r") + "\x04")
        terminal.shows("done", 60)
    assert (server.home / "pasted").read_text() == text


def test_paste_that_nobody_reads(server):
    """It is dropped beyond a cap, and said so; the terminal can be used again."""
    with Terminal(server) as terminal:
        sid = terminal.ready()
        terminal.type("stty -echo; echo be''gun; sleep 100\r")
        terminal.shows("\nbegun\n")
        for _ in range(4):
            terminal.type("x\r" * 500_000)
        assert "dropped" in terminal.get("error", 60)["data"]
        delete(server, sid)
        assert terminal.closed()[0] == NORMAL


# --- output ------------------------------------------------------------------------------------


def test_character_split_over_two_writes(server):
    """The sleeps are for the server to send what there is."""
    with Terminal(server) as terminal:
        terminal.ready()
        terminal.type(r"printf 'a\xe2'; sleep 0.2; printf '\x82'; sleep 0.2; printf '\xacb\n'" + "\r")
        terminal.shows(f"a{EURO}b\n")


def test_raw_binary_output(server):
    with Terminal(server) as terminal:
        terminal.ready()
        terminal.type(r"head -c 200000 /dev/urandom; printf '\033c\nen''d\n'" + "\r")
        terminal.shows("end\n", 60)


def test_much_output(server):
    with Terminal(server) as terminal:
        terminal.ready()
        terminal.type("seq 200000\r")
        terminal.shows("\n199999\r\n200000\r\n", 60, raw=True)


@pytest.mark.serial
def test_viewer_that_does_not_read(server):
    """It holds up nobody; when it reads again it is shown how things are now. cat, because seq writes line by line to a
    terminal, and who does not read for 30 s is sent away."""
    before = server.reset_peak()
    with Terminal(server) as quick, ThreadPoolExecutor(1) as pool:
        sid = quick.ready()
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)  # else the kernel may hold nearly all of it
        sock.connect((server.host, server.port))
        with Terminal(server, sid, max_queue=1, sock=sock) as slow:
            slow.ready()
            running = pool.submit(run, server, "seq -w 0900000 | cat", sid, timeout=80)
            quick.shows("0900000\r\n", 80, raw=True)
            assert running.result(60)["status"] == "completed"
            assert server.memory("VmHWM") - before < 60 * MIB
            quick.type("echo no''w\r")
            quick.shows("[\r\n]now\r\n", raw=True)  # the latter if it has fallen behind as well
            slow.shows("(?s)\x1bc.*0899999\r\n0900000\r\n.*now", 60, raw=True)


def test_viewers_come_and_go(server):
    with Terminal(server) as terminal:
        sid = terminal.ready()
        terminal.shows(r"[$#] $")
        before = server.possessions()
        for _ in range(100):
            with Terminal(server, sid) as other:
                other.get("terminal_restored")
        server.check_leaks(before)


@pytest.mark.concurrency
def test_many_viewers_and_commands_at_once(server):
    """All see all of it, in one order."""
    joined = []
    with Terminal(server) as terminal:
        sid = terminal.ready()

        def view(i):
            with Terminal(server, sid) as viewer:
                viewer.get("terminal_restored")
                joined.append(i)
                viewer.send("resize", data={"cols": 100 + i, "rows": 30})
                viewer.shows("the very end\n", 60)
                return re.findall(r"\nline (\d+)\r", viewer.text)

        def work(i):
            for k in range(5):
                assert run(server, f"echo line {i * 5 + k}", sid, timeout=50)["output"] == f"line {i * 5 + k}"

        with ThreadPoolExecutor(8) as viewers:
            views = [viewers.submit(view, i) for i in range(8)]
            assert eventually(lambda: len(joined) == 8)
            together(6, work)
            run(server, "echo the very end", sid)
            for seen in views:
                seen.result(60)


@pytest.mark.concurrency
def test_viewers_of_sessions_that_end(server):
    """Sessions are deleted while viewers come, type and go."""

    def one(i):
        sid = f"s{i % 4}"
        for _ in range(4):
            if i % 4 == i:
                server.request("DELETE", f"/v1/shell/sessions/{sid}")
            try:
                with Terminal(server, sid) as terminal:
                    terminal.type("echo x\r")
                    terminal.recv()
                    terminal.recv(1)
            except (ConnectionClosed, TimeoutError):
                pass

    together(12, one)
    delete_all(server)
    assert eventually(lambda: not server.children())
