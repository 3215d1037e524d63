"""Requests that wait for a box to come back."""

import contextlib
import os
import sqlite3
import threading

from harness import eventually


def test_a_box_that_is_long_in_coming_back_is_asked_once(host):
    """Here for a store that is locked. The gateway asks twice a second; each time would be a thread that waits."""
    box = host.create(auto_resume=True)
    box.call("POST", "/pause")
    threads = lambda: len(os.listdir(f"/proc/{host.pid}/task"))
    asks = threading.Thread(target=box.run, args=("true",))
    with contextlib.closing(sqlite3.connect(host.state / "store.db", isolation_level=None)) as store:
        store.execute("BEGIN IMMEDIATE")
        before = threads()
        asks.start()
        assert not eventually(lambda: threads() > before + 4, 5)
        store.execute("COMMIT")
    asks.join()
    assert box.run("echo back") == "back\n"
