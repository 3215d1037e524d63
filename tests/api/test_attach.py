"""A command with its input and output on a WebSocket, without a host between."""

import json
import os
import signal
import socket
import sys

import pytest
from websockets.exceptions import ConnectionClosed

from harness import SETTLE_SECONDS, connect, eventually
from processes import comm, gone

OUT, ERR = 1, 2


class Attached:
    def __init__(self, server, sock=None, **wish):
        self.ws = connect(f"ws{server.url[4:]}/v1/bash/ws", max_size=None, compression=None, sock=sock).__enter__()
        self.ws.send(json.dumps(wish))
        self.said, self.taken = {OUT: b"", ERR: b""}, 0

    def say(self, **word):
        self.ws.send(json.dumps(word))

    def step(self):
        """The exit code, when that is what came."""
        message = self.ws.recv(timeout=SETTLE_SECONDS)
        if isinstance(message, str):
            word = json.loads(message)
            if word["type"] == "exit":
                return word["exit_code"]
            assert word["type"] == "taken"
            self.taken += word["bytes"]
            return None
        self.said[message[0]] += message[1:]
        return None

    def until(self, text, which=OUT):
        while text not in self.said[which]:
            assert self.step() is None, self.said

    def end(self):
        while (code := self.step()) is None:
            pass
        with pytest.raises(ConnectionClosed):
            self.ws.recv(timeout=SETTLE_SECONDS)
        return code


def test_both_outputs_and_the_exit_code(server):
    run = Attached(server, command="printf 'a\\377\\0b'; printf c >&2; exit 9")
    assert run.end() == 9 and run.said == {OUT: b"a\xff\0b", ERR: b"c"}
    assert Attached(server, command="kill -9 $$").end() == 137
    assert Attached(server, command="nonsense-nonsense 2>/dev/null").end() == 127


def test_a_command_is_over_although_what_it_left_behind_prints_on(server):
    """As much comes as the pipe held, and what was on its way: to wait until the pipe is empty may take for ever."""
    enlarge = f"{sys.executable} -Sc 'import fcntl; fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 1 << 20)'"
    run = Attached(server, server.connect(receive_buffer=4096).sock,
                   command=f"{enlarge}; echo $$ >&2; for i in {{1..8}}; do yes & done; read x")
    run.until(b"\n", ERR)

    def seen(most):
        size = 0
        while size < most and run.step() is None:
            size += len(run.said[OUT])
            run.said[OUT] = b""
        return size

    seen(32 << 20)  # from here on it comes as fast as it is read
    os.kill(pid := int(run.said[ERR]), signal.SIGKILL)
    assert gone(pid)
    assert seen(8 << 20) < 8 << 20


def test_input_until_its_end(server, tmp_path):
    data = os.urandom(1 << 20)
    run = Attached(server, command=f"cat; until [ -e {tmp_path}/go ]; do sleep 0.02; done")
    for _ in range(3):
        run.ws.send(data)
        while run.taken < len(data):
            assert run.step() is None
        run.taken -= len(data)
    run.say(type="eof")
    run.ws.send(b"too late")
    (tmp_path / "go").touch()
    assert run.end() == 0 and run.said[OUT] == data * 3
    run = Attached(server)
    run.ws.send(b"echo from the shell; exit 3\n")
    assert run.end() == 3 and run.said[OUT] == b"from the shell\n"


def test_all_input_is_told_to_be_taken(server):
    """A caller that waits for this before it sends more would wait for ever for a part that is not told."""
    run = Attached(server, command="cat")
    for size in 1, 300001, 700003, 1 << 20:
        run.ws.send(b"x" * size)
        while run.taken < size:
            assert run.step() is None
        assert run.taken == size
        run.taken = 0
    run.say(type="eof")
    assert run.end() == 0


def test_a_signal_reaches_the_command(server):
    run = Attached(server, command="trap 'echo caught; exit 5' USR1; echo ready; while :; do sleep 0.05; done")
    run.until(b"ready")
    for word in ({"type": "signal", "signal": "SIGNONSENSE"}, {"type": "resize", "cols": -1}, {"type": 7}, {}):
        run.say(**word)
    run.say(type="signal", signal="SIGUSR1")
    assert run.end() == 5 and run.said[OUT] == b"ready\ncaught\n"


def test_a_terminal_of_a_size(server):
    run = Attached(server, command="stty size; read x; stty size", tty=True, cols=70, rows=20, term="vt100")
    run.until(b"20 70\r\n")
    run.say(type="resize", cols=33, rows=11)
    run.ws.send(b"\r")
    assert run.end() == 0 and run.said == {OUT: b"20 70\r\n\r\n11 33\r\n", ERR: b""}


def test_words_that_are_wrong_have_no_effect(server):
    run = Attached(server, command="stty size; read x; stty size", tty=True, cols="70", rows=20, term=5)
    run.until(b"0 0\r\n")
    run.say(type="resize", cols=33, rows=11)
    for word in ({"cols": "44", "rows": "12"}, {"cols": 44.0, "rows": 12}, {"cols": 44}, {"cols": 1001, "rows": 12},
                 {"cols": 0, "rows": 12}, {"cols": True, "rows": True}, {"cols": [], "rows": {}}):
        run.say(type="resize", **word)
    for word in ({"type": "signal", "signal": 9}, {"type": "signal"}, {"type": "other"}, {"type": None}, ["eof"], "eof",
                 {"type": "signal", "signal": "KILL", "more": "x" * 4096}):
        run.ws.send(json.dumps(word))
    run.ws.send("{")
    run.ws.send(b"\r")
    assert run.end() == 0 and run.said[OUT] == b"0 0\r\n\r\n11 33\r\n"


@pytest.mark.parametrize("wish", [{"command": None}, {"command": 5}, {"tty": "true"}, {"tty": 1}, {}])
def test_a_wish_that_is_wrong_is_none(server, wish):
    run = Attached(server, **wish)
    run.ws.send(b"test -t 0 || echo no terminal")
    run.say(type="eof")
    assert run.end() == 0 and run.said == {OUT: b"no terminal\n", ERR: b""}


@pytest.mark.parametrize("first", ["", "x", "[]", "5", "null", "{"])
def test_the_first_message_is_an_object(server, first):
    with connect(f"ws{server.url[4:]}/v1/bash/ws") as ws:
        ws.send(first)
        with pytest.raises(ConnectionClosed) as closed:
            ws.recv(timeout=SETTLE_SECONDS)
        assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1003, "the first message is a JSON object")


@pytest.mark.parametrize("tty", [False, True])
def test_who_leaves_ends_the_command(server, tty):
    run = Attached(server, command="trap '' HUP INT TERM; echo $$; while :; do sleep 0.1; done", tty=tty)
    run.until(b"\n")
    pid = int(run.said[OUT])
    run.ws.socket.shutdown(socket.SHUT_RDWR)
    assert gone(pid)


def test_more_input_than_was_taken_ends_it(server):
    run = Attached(server, command="sleep 986")
    with pytest.raises(ConnectionClosed):
        for _ in range(40):
            run.ws.send(b"x" * 65536)
        while True:
            run.step()
    assert run.taken < 1 << 20


def test_a_command_that_does_not_read_can_be_interrupted(server):
    run = Attached(server, command="echo $$; exec sleep 986")
    run.until(b"\n")
    assert eventually(lambda: comm(run.said[OUT]) == "sleep")  # a shell may lose an interrupt that it has not waited for
    for _ in range(16):
        run.ws.send(b"x" * 65536)
    run.say(type="signal", signal="SIGINT")
    assert run.end() == 130


def test_the_server_may_stop(start_server):
    server = start_server()
    run = Attached(server, command="echo $$; exec sleep 986")
    run.until(b"\n")
    server.stop()
    assert gone(int(run.said[OUT]))
