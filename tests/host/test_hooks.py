"""Shutdown hooks of boxes: they run when their host ends a box in order."""

import array
import contextlib
import os
import signal
import socket
import struct
import threading
import time

import pytest

from hosts import FakeServer

HOOKS = "/v1/sandbox/hooks"


@pytest.fixture
def out(host):
    """A directory that boxes write to and the test reads."""
    path = host.roots / f"out{time.monotonic_ns()}"
    path.mkdir()
    os.chown(path, 1000, 1000)
    return path


def mounted(out):
    return [{"source": str(out), "target": "/out", "writable": True}]


def register(box, command, **more):
    answer = box.request("POST", HOOKS, json={"name": "one", "command": command, **more})
    assert answer.status_code == 200, answer.text


def test_a_box_that_is_deleted_runs_its_hooks_as_its_user(host, out):
    box = host.create(mounts=mounted(out), env={"SANDBOX_SHUTDOWN_HOOKS": "id -un > /out/env"})
    register(box, "curl -sf localhost:8080/health > /out/api; pwd >> /out/api")
    box.delete()
    assert (out / "env").read_text() == "gem\n" and (out / "api").read_text() == "OK/home/gem\n"


def test_a_paused_box_runs_them_too(host, out):
    box = host.create(mounts=mounted(out))
    register(box, "touch /out/ran")
    box.call("POST", "/pause")
    box.delete()
    assert (out / "ran").exists()


def test_a_hook_that_never_ends_is_cut_off(host, out):
    box = host.create(mounts=mounted(out))
    register(box, "touch /out/began; trap '' TERM; sleep 1000", timeout=1000)
    began = time.monotonic()
    box.delete()
    assert time.monotonic() - began < 40 and (out / "began").exists()
    assert box.id not in host.ids()


@pytest.mark.parametrize("how", ["silent", "endless"])
def test_a_box_that_lies_is_deleted_in_time(host, how):
    """Its server was replaced by one that says nothing, or never ends its answer."""
    box = host.create()

    def serve(_, conn):
        while how == "endless":
            conn.sendall(b"x" * 100000)
        conn.recv(1 << 20)
        while conn.recv(1):
            pass

    with FakeServer(box, serve):
        began = time.monotonic()
        box.delete()
        assert time.monotonic() - began < 40


@pytest.mark.parametrize("env", [{}, {"AIO_NO_PASSRIGHTS": "1"}], ids=["refused", "kept apart"])
def test_a_descriptor_that_lingers_does_not_hold_up_the_host(start_host, env):
    """Whoever receives it closes it, which takes as long as its owner wants."""
    host = start_host(env=env)
    box, lingers = host.create(), 90
    with socket.create_server(("127.0.0.1", 0)) as sink:
        sink.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)

        def serve(_, conn):
            conn.recv(1 << 20)
            bomb = socket.create_connection(sink.getsockname())
            bomb.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, lingers))
            bomb.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while bomb.send(b"x" * 65536):
                    pass
            with contextlib.suppress(OSError):  # the kernel may refuse the descriptor
                conn.sendmsg([b"HTTP/1.1 200 OK\r\n"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [bomb.fileno()]))])
            sent.set()
            bomb.close()  # which lingers here if the kernel refused it there
            conn.recv(1)

        sent = threading.Event()
        with FakeServer(box, serve):
            began = time.monotonic()
            box.delete()
            took = time.monotonic() - began
            sink.close()  # which ends the lingering
        assert sent.is_set() and took < lingers / 2


def test_hooks_of_the_start_run_in_a_box_as_its_user(host, out):
    box = host.create(mounts=mounted(out), env={"RUN_HOOK_INIT": "id -un > /out/init", "RUN_HOOK_PRE_SERVICES": "exit 3",
                                                "RUN_HOOK_POST_READY": "curl -sf localhost:8080/health > /out/ready"})
    assert box.run("cat /out/init") == "gem\n"
    assert box.run("until [ -s /out/ready ]; do sleep 0.05; done; cat /out/ready") == "OK"
    events = box.request("GET", "/v1/sandbox/events?type=hook_ended").json()["data"]
    assert [event["data"]["status"] for event in events] == ["completed", "failed", "completed"]
    box.delete()


def test_a_host_that_goes_down_with_its_boxes_has_them_run_their_hooks(start_host, tmp_path):
    os.chown(tmp_path, 1000, 1000)
    host = start_host(["--mount-roots", tmp_path])
    for name in ("one", "two", "sleeps"):
        box = host.create(name=name, mounts=mounted(tmp_path))
        register(box, f"echo ran >> /out/{name}")
    box.call("POST", "/pause")
    host.stop(signal.SIGINT)
    assert [(tmp_path / name).read_text() for name in ("one", "two", "sleeps")] == ["ran\n"] * 3
