"""How a host starts: quickly, and it says what takes long."""

import fcntl
import os
import socket
import subprocess

import pytest

from harness import START_SECONDS, clean_environment, eventually, program
from hosts import folder


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as one:
        return one.getsockname()[1]


@pytest.fixture
def state():
    """A directory that is not there yet."""
    place = folder()
    yield place / "state"
    subprocess.Popen(["rm", "-rf", str(place)], start_new_session=True)


@pytest.fixture
def begin(tmp_path, state):
    """Starts a host on it, and returns the file of what it says."""
    started = []

    def begin():
        log = tmp_path / "log"
        with open(log, "w") as file:
            started.append(subprocess.Popen([program("aio"), "up", "--listen", f"127.0.0.1:{free_port()}", "--state", state],
                                            env=clean_environment(tmp_path), stdout=file, stderr=file, stdin=subprocess.DEVNULL))
        return log

    yield begin
    for host in started:
        host.send_signal(2)
        host.wait(60)


def test_it_says_what_it_waits_for(begin, state):
    state.mkdir(mode=0o711)
    # Whoever makes the template has to wait for this.
    lock = os.open(state / ".machine", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    log = begin()
    assert eventually(lambda: "aio up: making the template of this machine" in log.read_text())
    assert "is ready" not in log.read_text()
    os.close(lock)
    assert eventually(lambda: "is ready" in log.read_text(), START_SECONDS), log.read_text()
    assert log.read_text().count("making the template") == 1
    made = next(state.glob("machine-*"))
    assert (made / "root/etc/passwd").exists() and (made / "layers").exists() and not (state / ".machine.new").exists()


def test_what_a_maker_that_was_killed_has_left_is_made_again(begin, state):
    (state / ".machine.new" / "root" / "etc").mkdir(parents=True)
    state.chmod(0o711)
    (state / ".machine.new" / "root" / "etc" / "half").write_text("made")
    log = begin()
    assert eventually(lambda: "is ready" in log.read_text(), START_SECONDS), log.read_text()
    made = next(state.glob("machine-*"))
    assert (made / "root/etc/passwd").exists() and not (made / "root/etc/half").exists()
