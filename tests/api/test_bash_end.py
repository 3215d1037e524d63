"""The end of a server with commands on pipes, and fork bombs."""

import contextlib
import os
import select
import signal
import time
from collections import Counter
from pathlib import Path

import httpx
import pytest

from commands import ask, calls, close, close_all, no_sessions, read, run, warm  # noqa: F401
from harness import ANSWER_SECONDS, eventually, request
from processes import alive, below, comm, gone, text_of

pytestmark = pytest.mark.server(warm=warm)


# --- the end of the server ---------------------------------------------------------------------


BUSY = ["sleep 1000", "trap '' TERM; while :; do sleep 1000; done", "cat", "yes >/dev/null",
        "setsid sh -c 'sleep 1000 &' >/dev/null 2>&1 & sleep 1000", "exec sleep 1000", "yes"]


def busy_server(start_server, *args):
    """With commands of all kinds: the server, and all the processes below it."""
    server = start_server(*args)
    for command in BUSY:
        run(server, command, async_mode=True)

    def stay():
        """All the processes, when only those are left that stay."""
        pids = below(server)
        names = Counter(map(comm, pids))
        return pids if names >= Counter(sleep=5, cat=1, yes=2) and not {"", "sh", "setsid"} & set(names) else None

    pids = eventually(stay)
    assert pids, Counter(map(comm, below(server)))
    return server, pids


def _text(path):
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


@pytest.mark.concurrency
def test_sigterm_ends_all_commands(start_server):
    server, pids = busy_server(start_server)
    assert len(pids) >= len(BUSY) and all(map(alive, pids))
    sid = ask(server, "sessions/create")["session_id"]
    assert eventually(lambda: server.possessions()["threads"] <= server.baseline["threads"]), "nobody is being served"
    before = server.tasks()  # the pump's never rests, with so much to read
    with server.begin("/v1/bash/exec", command="echo a >begun; sleep 1000", session_id=sid) as waiting:
        assert text_of(server.home / "begun")
        # The command may run before its session knows of it.
        assert eventually(lambda: calls.send(server, "output", session_id=sid).status_code == 200)
        with server.begin("/v1/bash/output", session_id=sid, wait=True, offset=1 << 40) as polling:
            assert eventually(lambda: len(server.tasks().keys() - before) == 2) and server.at_rest(before)
            server.signal()
            assert server.wait() == 0
            assert waiting.answer().json()["data"]["status"] == "running" and polling.answer().status == 200
    assert gone(*pids, seconds=0)


def test_stop_does_not_wait_for_input_to_be_read(start_server):
    server = start_server()
    sid = run(server, "sleep 1000", async_mode=True)["session_id"]
    with server.begin("/v1/bash/write", session_id=sid, input="x" * 1_000_000) as writing:
        assert server.at_rest()
        server.signal()
        assert server.wait() == 0
        assert writing.answer().status in (409, 503)


def test_sigkill_leaves_nothing_behind(start_server):
    """The first stage ends what the server cannot."""
    server, pids = busy_server(start_server)
    if server.pid == server.proc.pid:
        pytest.fail("the server has no first stage")
    os.kill(server.pid, signal.SIGKILL)
    assert server.wait() == 128 + signal.SIGKILL
    assert gone(*pids)
    server.stop = lambda: None  # it did not end well, as it had to


# Its first thread has ended, so that it says that it is dead; another one has a child.
HEADLESS = """setsid python3 -c "
import ctypes, platform, subprocess, sys, threading, time
def go_on():
    child = subprocess.Popen(['sleep', '1000'])
    print(child.pid, file=open('child', 'w'), flush=True)
    time.sleep(1000)
threading.Thread(target=go_on).start()
ctypes.CDLL(None).syscall(93 if platform.machine() == 'aarch64' else 60, 0)
" >/dev/null 2>&1 & echo $! >parent; wait"""


def headless(server, **more):
    """The process, once it is headless, and its child."""
    run(server, HEADLESS, async_mode=True, **more)
    child = text_of(server.home / "child")
    pid = next(line for line in Path(f"/proc/{int(child)}/status").read_text().splitlines() if line.startswith("PPid:")).split()[1]
    assert eventually(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z") and alive(pid)
    return int(pid), int(child)


def test_a_process_without_its_first_thread_ends_with_its_session(start_server):
    server = start_server()
    sid = ask(server, "sessions/create")["session_id"]
    pids = headless(server, session_id=sid)
    close(server, sid)
    assert gone(*pids)


def test_a_process_without_its_first_thread_ends_with_the_server(start_server):
    server = start_server()
    pids = headless(server)
    os.kill(server.pid, signal.SIGKILL)
    assert server.wait() == 128 + signal.SIGKILL
    assert gone(*pids)
    server.stop = lambda: None


def test_end_of_the_first_stage_is_the_end_of_the_server(start_server):
    server, pids = busy_server(start_server)
    if server.pid == server.proc.pid:
        pytest.fail("the server has no first stage")
    os.kill(server.proc.pid, signal.SIGKILL)
    assert server.wait() == -signal.SIGKILL
    assert gone(server.pid, *pids)
    server.check_reports()
    server.stop = lambda: None


def test_no_zombies(server):
    """Neither the children nor those that lost their parents."""
    sid = run(server, "for i in 1 2 3 4 5; do (sleep 0.1 &) ; sh -c 'exit 3' & done; wait")["session_id"]
    assert eventually(lambda: server.children() == []), [_text(Path(f"/proc/{pid}/stat")) for pid in server.children()]
    close(server, sid)
    assert server.children() == []


# --- a fork bomb -------------------------------------------------------------------------------


@pytest.fixture
def pids_limit():
    """Puts processes, and all that they start, under a limit of their number; skips where that cannot
    be had, for without it a bomb would take the machine."""
    made = []

    def limit(pids, count):
        for root in (Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup")):
            group = root / f"aio-test-{os.getpid()}-{time.monotonic_ns()}"
            try:
                group.mkdir()
                made.append(group)
                with open(group / "pids.max", "r+") as file:  # the kernel's file, not one of our making
                    file.write(str(count))
                for pid in pids:
                    with open(group / "cgroup.procs", "r+") as file:
                        file.write(str(pid))
            except OSError:
                continue
            members = (group / "cgroup.procs").read_text().split()
            if (group / "pids.max").read_text() == f"{count}\n" and set(map(str, pids)) <= set(members):
                return group
        pytest.skip("NOT TESTED: no cgroup with a pids controller can be written here")

    yield limit
    for group in made:
        eventually(lambda: _removed(group), pause=0.1)


def _removed(group):
    """Kills the processes of a group, and removes it once they are gone."""
    for pid in _text(group / "cgroup.procs").split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    with contextlib.suppress(OSError):
        group.rmdir()
    return not group.exists()


def test_first_command_where_nothing_more_can_be_started(pids_limit, start_server):
    """It needs a process, and the pump a thread. What cannot be had once may be had the next time."""
    server = start_server()
    group = pids_limit([server.proc.pid, server.pid], 100)
    threads = server.baseline["threads"]
    for more in range(4):
        assert eventually(lambda: server.possessions()["threads"] == threads)
        (group / "pids.max").write_text(str(int((group / "pids.current").read_text()) + more))
        code = server.post("/v1/bash/exec", {"command": "true", "timeout": 5}).status_code
        assert code in (200, 429, 503), more
    (group / "pids.max").write_text("100")
    data = run(server, "echo fine")
    assert (data["status"], data["stdout"]) == ("completed", "fine\n")
    close_all(server)


def test_connections_where_no_thread_can_be_started(pids_limit, start_server):
    """Someone new is refused. Who was served before may be the one that ends what takes all threads, and waits for one."""
    server = start_server(program="fixture")
    group = pids_limit([server.proc.pid, server.pid], 100)
    with contextlib.ExitStack() as stack:
        old, waiting = stack.enter_context(server.connect()), []
        assert old.ask(request()).status == 200 and server.settle()
        while len(server._list("task")) > server.threads():  # some are idle
            waiting.append(stack.enter_context(server.connect()))
            waiting[-1].send(request("/wait?ms=100000"))
            assert eventually(lambda: server.log.count("wait begins") == len(waiting))
        (group / "pids.max").write_text((group / "pids.current").read_text())
        with server.connect() as new:
            assert new.answer().status == 503 and new.ended()
        old.send(request("/place/x"))
        assert not select.select([old.sock], [], [], 1)[0]
        waiting[0].reset()
        assert old.answer().status == 200
        (group / "pids.max").write_text("100")


def test_who_waits_for_a_thread_is_served_in_turn(pids_limit, start_server):
    """In the order in which they asked."""
    server = start_server(program="fixture")
    group = pids_limit([server.proc.pid, server.pid], 100)
    with contextlib.ExitStack() as stack:
        old, busy = [stack.enter_context(server.connect()) for _ in range(3)], []
        assert [peer.ask(request()).status for peer in old] == [200] * 3 and server.settle()
        while len(server._list("task")) > server.threads():  # some are idle
            busy.append(stack.enter_context(server.connect()))
            busy[-1].send(request("/wait?ms=100000"))
            assert eventually(lambda: server.log.count("wait begins") == len(busy))
        (group / "pids.max").write_text((group / "pids.current").read_text())
        for number, peer in enumerate(old):
            peer.send(request(f"/place/{number}"))
            assert not select.select([peer.sock], [], [], 0.7)[0]
        busy[0].reset()
        served = []
        while len(served) < len(old):  # the one thread serves each for a moment
            ready, _, _ = select.select([peer.sock for peer in old], [], [], ANSWER_SECONDS)
            served += [peer.answer().json()["data"]["id"] for peer in old if peer.sock in ready]
        assert served == ["0", "1", "2"]
        (group / "pids.max").write_text("100")
        for peer in busy[1:]:
            peer.reset()


# It stops by itself when there is a file named "stop", and after some generations.
BOMB = "f() { [ -e stop ] || [ $1 -gt 11 ] || { f $(($1 + 1)) | f $(($1 + 1)) & }; }; f 0; sleep 1000"


@pytest.fixture
def bomb(pids_limit, start_server):
    """A server with a bomb in it: the server, the bomb's session, how many processes there are, and a
    connection from before: under the limit, the server may find no thread for a new one."""
    server = start_server()
    line = httpx.Client(base_url=server.url, timeout=ANSWER_SECONDS)
    assert line.get("/health").status_code == 200
    sid = ask(server, "sessions/create")["session_id"]
    other = run(server, "sleep 1000", async_mode=True)
    assert eventually(lambda: [comm(pid) for pid in server.children()] == ["sleep"])
    group = pids_limit([server.proc.pid, server.pid, *server.children()], 150)

    def count():
        return int((group / "pids.current").read_text())

    run(server, BOMB, session_id=sid, async_mode=True)
    assert eventually(lambda: count() >= 140)
    yield server, sid, other, count, line
    line.close()
    (server.home / "stop").touch()


@pytest.mark.serial
def test_fork_bomb_is_ended_with_its_session(bomb):
    server, sid, other, count, line = bomb
    codes = {server.post("/v1/bash/exec", {"command": "true"}).status_code for _ in range(20)}
    assert codes <= {200, 429, 503}, "the limit is not taken for a fault of ours"
    start = time.monotonic()
    assert line.post(f"/v1/bash/sessions/{sid}/close").status_code == 200
    line.close()
    assert eventually(lambda: count() < 30), count()
    assert time.monotonic() - start < 90
    assert read(server, other)["command"]["status"] == "running"
    close_all(server)
    server.take_baseline()


@pytest.mark.serial
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_fork_bomb_ends_with_the_server(bomb, number):
    server, _, _, count, _ = bomb
    os.kill(server.pid, number)
    server.wait()
    assert eventually(lambda: count() == 0), count()
    server.stop = lambda: None
