"""A host that cannot start."""

import signal
import subprocess

from harness import START_SECONDS, clean_environment, program


def fail(host):
    """Starts it once more, with a directory where its own socket is to be."""
    place = host.state / "run" / "host.sock"
    place.unlink(missing_ok=True)
    (place / "in the way").mkdir(parents=True)
    failed = subprocess.run([program("aio"), "up", "--listen", "127.0.0.1:0", "--state", host.state],
                            capture_output=True, text=True, timeout=START_SECONDS, env=clean_environment(host.home, {}))
    assert failed.returncode == 1 and "no socket for the host's own server" in failed.stderr, failed
    (place / "in the way").rmdir()
    place.rmdir()


def test_a_host_that_cannot_start_leaves_no_box_that_it_started(start_host):
    host = start_host()
    default = host.default()
    default.run("echo kept >~/f")
    host.stop()
    assert not host.holdings()["cgroups"]
    fail(host)
    assert not host.holdings()["cgroups"]
    host.start()
    assert default.run("cat ~/f") == "kept\n"


def test_a_host_that_cannot_start_leaves_running_what_it_found_running(start_host):
    host = start_host()
    default = host.default()
    default.run("echo kept >/tmp/f")
    host.stop(signal.SIGTERM)
    fail(host)
    host.start()
    assert default.run("cat /tmp/f") == "kept\n"
