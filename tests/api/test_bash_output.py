"""The output of commands on pipes: read in part, waited for, followed, and how much of it is kept."""

import json
import os
import resource
import select
import subprocess
import time

import pytest

from commands import ask, begun, close, ended, no_sessions, read, refused, run, start, warm  # noqa: F401
from harness import LEAN, Events, eventually, request
from processes import ROOT_ONLY, alive, patiently, text_of

MIB = 1 << 20
EURO = "\u20ac"  # three bytes in UTF-8
BAD = "\ufffd"
pytestmark = pytest.mark.server(env=LEAN, warm=warm)


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
    ids = {name: command[name] for name in ("session_id", "command_id")}
    at = {"offset": 0, "stderr_offset": 0}
    for line, out, err, status in (("x", "x\n", "", "running"), ("y", "", "y\n", "running"),
                                   ("z", "", "", "completed")):
        with server.begin("/v1/bash/output", **ids, wait=True, wait_timeout=55, **at) as waiting:
            assert server.at_rest() and not select.select([waiting.sock], [], [], 0)[0], "it waits"
            ask(server, "write", session_id=command["session_id"], input=line + "\n")
            data = waiting.answer().json()["data"]
        assert (data["stdout"], data["stderr"], data["command"]["status"]) == (out, err, status)
        at = {name: data[name] for name in at}
    assert data["command"]["exit_code"] == 5


def test_wait_ends_with_its_time(server):
    command = run(server, "sleep 100", async_mode=True)
    start = time.monotonic()
    data = read(server, command, wait=True, wait_timeout=0.3)
    assert 0.25 < time.monotonic() - start < 60
    assert data["stdout"] == "" and data["command"]["status"] == "running"


def test_wait_answers_at_once_when_there_is_something(server):
    command = begun(server, "echo a; sleep 100", "a\n")
    done = run(server, "true")
    start = time.monotonic()
    assert read(server, command, wait=True, wait_timeout=50)["stdout"] == "a\n"
    assert read(server, done, wait=True, wait_timeout=50)["stdout"] == ""
    assert time.monotonic() - start < 45


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


@pytest.mark.serial
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
        answer = server.post("/v1/code/execute", json={
            "language": "bash", "code": "head -c 5000000 /dev/zero | tr '\\0' x"}).json()
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


def test_command_that_closes_its_own_stdout(server, tmp_path):
    command = (f"echo a; exec >&- 2>&-; echo $$ >{tmp_path}/shut; "
               f"until [ -e {tmp_path}/go ]; do sleep 0.02; done; exit 7")
    with server.begin("/v1/bash/exec", command=command) as running:
        assert text_of(tmp_path / "shut") and server.at_rest()
        (tmp_path / "go").touch()
        data = running.answer().json()["data"]
    assert (data["status"], data["exit_code"], data["stdout"]) == ("completed", 7, "a\n")


def test_child_that_keeps_the_pipe_open(server, tmp_path):
    """The command is completed when its shell is; what its child prints later is kept as well."""
    command = f"(until [ -e {tmp_path}/go ]; do sleep 0.02; done; echo late) & echo early; exit 6"
    data = run(server, command)  # which would never answer if it waited for the child
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

    expected = [("start", "running"), ("stdout", None), ("exit", "running")]
    assert patiently(names, lambda names: names == expected) == expected


def test_events_of_a_hard_timeout(server):
    with Events(server, "/v1/bash/exec", command="echo a; sleep 100; true", hard_timeout=0.2) as events:
        last = list(events)[-1]
    assert last[0] == "exit" and last[1]["status"] == "timed_out"


def test_listener_who_leaves_leaves_the_command_running(server):
    with Events(server, "/v1/bash/exec", command="echo a; read x; echo b") as events:
        command = events.next()[1]
        assert events.next()[0] == "stdout"
        events.peer.reset()
    assert server.at_rest()
    ask(server, "write", session_id=command["session_id"], input="\n")
    assert ended(server, command)["stdout"] == "a\nb\n"
