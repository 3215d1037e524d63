"""How boxes and their host end: what is reported, what is left, and how soon."""

import contextlib
import os
import signal
import sqlite3
import threading
import time
from pathlib import Path

import httpx

from harness import ANSWER_SECONDS, STOP_SECONDS, eventually

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
