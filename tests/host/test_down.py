"""`aio down` where the host itself is gone already."""

from hosts import Box


def names(host):
    """The boxes that have control groups."""
    return {group.rsplit("-", 1)[1] for group in host.holdings()["cgroups"]}


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
