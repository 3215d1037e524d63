"""How boxes and their host end: what is reported, what is left, and how soon."""

import contextlib
import os
import signal
import sqlite3
import threading
import time
from pathlib import Path

import httpx
import pytest

from harness import ANSWER_SECONDS, STOP_SECONDS, eventually, request
from hosts import UNIFIED, FakeServer, answer, to

CLAIMS = Path("/run/aiobox/uids")


def test_a_stopping_host_gives_all_requests_the_same_five_seconds(start_host):
    """A command that goes on, and a create that takes most of that time: one after the other they would take longer."""
    host = start_host()
    answers = {}

    def ask(name, path, **more):
        with contextlib.suppress(httpx.HTTPError):
            answers[name] = httpx.post(f"{host.url}{path}", timeout=ANSWER_SECONDS, trust_env=False, **more).status_code

    threads = [threading.Thread(target=ask, args=("exec", "/v1/bash/exec"), kwargs={"json": {"command": "sleep 1000"}}),
               threading.Thread(target=ask, args=("create", "/v1/sandboxes"),
                                kwargs={"json": {"name": "late"}, "headers": host.auth})]
    threads[0].start()
    assert eventually(lambda: host.default().count("^sleep 1000") == 1)
    with contextlib.closing(sqlite3.connect(host.state / "store.db", isolation_level=None,
                                            check_same_thread=False)) as store:
        store.execute("BEGIN IMMEDIATE")  # until this ends, nothing is acknowledged
        threads[1].start()
        assert eventually(lambda: (host.state / "boxes/late/socket").exists())
        threading.Timer(4, store.execute, ["COMMIT"]).start()
        began = time.monotonic()
        host.proc.send_signal(signal.SIGTERM)
        assert host.proc.wait(STOP_SECONDS) == 0
        took = time.monotonic() - began
        for thread in threads:
            thread.join()
    assert answers == {"create": 200} and 4.9 < took < 7.5
    host.start()
    assert set(host.ids()) == {"default", "late"}


def test_an_answer_of_a_box_that_is_relayed_is_finished(start_host):
    host, ready, go_on = start_host(), threading.Event(), threading.Event()

    def serve(fake, conn):
        if fake.read_head(conn):
            conn.sendall(answer(b"abcd")[:-2])
            ready.set()
            go_on.wait(ANSWER_SECONDS)
            conn.sendall(b"cd")

    box = host.create()
    with FakeServer(box, serve), host.connect() as peer, host.connect() as idle:
        assert idle.ask(request()).status == 200
        peer.send(to(box))
        assert ready.wait(ANSWER_SECONDS) and peer.head().status == 200
        host.proc.send_signal(signal.SIGTERM)
        assert idle.ended()  # the host is stopping
        go_on.set()
        assert peer.take(4) == b"abcd" and peer.ended()
        assert host.proc.wait(STOP_SECONDS) == 0


def claims(host):
    """The ranges of user ids that a host has, by number."""
    found = set()
    for path in CLAIMS.iterdir():
        with contextlib.suppress(OSError):  # another host's may go meanwhile
            if os.readlink(path) == os.path.realpath(host.state):
                found.add(int(path.name))
    return found


def test_a_deleted_box_gives_its_user_ids_back(host):
    before, boxes = claims(host), [host.create() for _ in range(3)]
    ranges = {host.stored()[box.id]["uid_base"] // 65536 for box in boxes}
    assert claims(host) == before | ranges and len(ranges) == 3
    boxes[1].delete()
    left = {host.stored()[box.id]["uid_base"] // 65536 for box in boxes if box is not boxes[1]}
    assert claims(host) == before | left
    for box in (boxes[0], boxes[2]):
        box.delete()
    assert claims(host) == before
    refused = host.client.post("/v1/sandboxes", headers=host.auth, json={"template": "there-is-none"})
    assert refused.status_code == 404 and claims(host) == before


def processes(host, box, title):
    """The pids of a box's own processes, which have this title."""
    group = UNIFIED / "aiobox" / f"{host.seed()}-{box.id}"
    found = []
    for sub in ("server", "run"):
        for pid in (group / sub / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"aio\0" + title):
                    found.append(int(pid))
    return found


def last_exit(box):
    return [event["data"] for event in box.call("GET", "/events") if event["type"] == "exited"][-1]


def test_how_a_box_ended_is_told_by_code_or_signal(host):
    box = host.create()
    server, = processes(host, box, b"serve\0")
    os.kill(server, signal.SIGKILL)
    assert eventually(lambda: box.state == "stopped")
    assert last_exit(box) == {"signal": 9}
    assert box.call("POST", "/resume")["state"] == "running" and box.run("echo up") == "up\n"
    server, = processes(host, box, b"serve\0")
    os.kill(server, signal.SIGTERM)  # it ends by itself
    assert eventually(lambda: box.state == "stopped")
    assert last_exit(box) == {"exit_code": 0}
    box.call("POST", "/resume")
    box.kill()  # and so is its init, which can say nothing
    assert eventually(lambda: box.state == "stopped")
    assert last_exit(box) == {}


@pytest.mark.parametrize("paused", [False, True])
def test_a_box_that_has_just_died_is_resumed(host, paused):
    """Between the end of its server and the host's noticing it."""
    box = host.create()
    for _ in range(20):
        if paused:
            assert box.call("POST", "/pause")["state"] == "paused"
        server, = processes(host, box, b"serve\0")
        os.kill(server, signal.SIGKILL)
        assert box.call("POST", "/resume")["state"] == "running"
        assert box.run("echo up") == "up\n"
        assert box.state == "running"
    events = box.events()
    assert events.count("exited") == 20 and events.count("started") == 21


def test_a_box_whose_server_only_waits_is_running(host):
    """One that does not answer has not ended."""
    box = host.create()
    server, = processes(host, box, b"serve\0")
    os.kill(server, signal.SIGSTOP)
    try:
        assert box.call("POST", "/resume")["state"] == "running"
    finally:
        os.kill(server, signal.SIGCONT)
    assert box.run("echo up") == "up\n" and "exited" not in box.events()


def layers_of(host, box, name):
    """What a template lies over that is made of the box now."""
    box.call("POST", "/snapshot", json={"name": name})
    return (host.state / "templates" / name / "layers").read_text()


def test_what_init_writes_does_not_decide_what_a_snapshot_is_of(host, tmp_path):
    """It holds a file for the exit status, which is taken for nothing else. The release before had one for the path of
    the template too, and its boxes are taken back."""
    box = host.create()
    (tmp_path / "root").mkdir()
    with open(f"/proc/{box.first_process()}/fd/3", "r+") as file:  # as its init could
        file.write(f"{tmp_path}\n9\n")
    layers = layers_of(host, box, "hostile")
    assert "/usr" in layers
    box.kill()
    assert eventually(lambda: box.state == "stopped") and last_exit(box) == {}  # a status is a number
    box.call("POST", "/resume")
    before = host.state / "boxes" / box.id
    (before / "note").write_text(f"{(before / 'base').read_text()}\n11\n")
    (before / "base").unlink()
    (before / "exit").unlink()
    box.kill()
    assert eventually(lambda: box.state == "stopped") and last_exit(box) == {"signal": 11}
    assert layers_of(host, box, "before") == layers
    box.call("POST", "/resume")
    assert (before / "base").exists() and (before / "exit").read_text() == ""
    for name in ("hostile", "before"):
        host.api("DELETE", f"/v1/templates/{name}")
