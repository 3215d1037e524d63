"""`aio down` where the host itself is gone already."""

import signal

import pytest

from harness import eventually
from hosts import Box


def names(host):
    """The boxes that have control groups."""
    return {group.rsplit("-", 1)[1] for group in host.holdings()["cgroups"]}


def end(host, number):
    """What `aio up` prints after a signal."""
    before = len(host.log)
    host.stop(number)
    return host.log[before:]


def test_a_host_that_ends_says_what_becomes_of_its_boxes(start_host):
    host = start_host()
    box, stopped = host.create(name="one"), host.create(name="asleep")
    stopped.kill()
    assert eventually(lambda: stopped.state == "stopped")
    said = end(host, signal.SIGTERM)
    assert "2 boxes run on without a host" in said and "'aio up' takes them back" in said
    assert names(host) == {"default", "one"}
    host.start()
    said = end(host, signal.SIGINT)
    assert "ending 2 boxes; their files stay" in said and "aio resume" in said and not names(host)
    host.start()
    assert host.default().state == "running" and box.state == "stopped"


def test_of_one_box_it_speaks_in_the_singular(start_host):
    host = start_host()
    said = end(host, signal.SIGTERM)
    assert "1 box runs on without a host; the next 'aio up' takes it back, 'aio down' ends it" in said
    host.start()
    assert "ending 1 box; its files stay" in end(host, signal.SIGINT)


@pytest.mark.parametrize("args, words", [((), "its boxes with it; their files stay"), (("--keep-boxes",), "its boxes run on")])
def test_down_says_what_becomes_of_boxes(start_host, args, words):
    host = start_host()
    done = host.cli("down", *args)
    assert words in done.stdout and done.stderr == ""
    assert names(host) == (set() if not args else {"default"})
    host.start()


def test_down_ends_the_boxes_of_a_host_that_was_killed(start_host):
    host = start_host()
    box = host.create(name="kept")
    box.run("echo kept >~/f")
    paused = host.create(name="paused")
    paused.call("POST", "/pause")
    host.kill()
    assert names(host) == {"default", "kept", "paused"}  # they go on without it
    kept = host.cli("down", "--keep-boxes", check=False)
    assert kept.returncode == 1 and "no host runs" in kept.stderr and len(names(host)) == 3
    assert "ended 3 boxes" in host.cli("down").stdout
    held = host.holdings()
    assert not held["cgroups"] and not held["sockets"] and not held["mounts"], held
    again = host.cli("down", check=False)
    assert again.returncode == 1 and "no host runs" in again.stderr
    host.start()
    assert Box(host, {"id": "paused", "token": None}).state == "stopped" and box.state == "stopped"
    box.call("POST", "/resume")
    assert box.run("cat ~/f") == "kept\n" and "stopped" in box.events()
