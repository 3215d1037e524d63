"""What the host cannot read of its store it does not take for boxes that are no more."""

import contextlib
import sqlite3

import pytest
from hosts import Host, folder


@pytest.fixture
def mortal():
    host = Host(folder())
    yield host
    host.end()


def replace(host, name, doc):
    """Writes what the store says about a box; what it said before."""
    with contextlib.closing(sqlite3.connect(host.state / "store.db")) as store:
        before, = store.execute("SELECT doc FROM box WHERE id = ?", (name,)).fetchone()
        store.execute("UPDATE box SET doc = ? WHERE id = ?", (doc, name))
        store.commit()
    return before


def test_a_damaged_row_ends_the_start(mortal):
    host, box = mortal, mortal.create()
    box.run("echo kept >~/file")
    host.kill()
    before = replace(host, box.id, "{")
    for damaged in ("{", "[]", '{"state":"running"}', before.replace("running", "jogging")):
        replace(host, box.id, damaged)
        with pytest.raises(AssertionError, match="no start: [^0]"):
            host.start()
        assert f"the sandbox '{box.id}' is damaged" in host.log.splitlines()[-1]
        assert (host.state / "boxes" / box.id).is_dir()
    replace(host, box.id, before)
    host.start()
    assert box.run("cat ~/file") == "kept\n"
