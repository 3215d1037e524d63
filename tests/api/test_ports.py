"""Ports that programs of the sandbox open and close are events."""

import socket
import threading

import pytest

import commands
import kernels
from harness import Events, eventually

pytestmark = pytest.mark.server(warm=kernels.warm)

PATH = "/v1/sandbox/events"
OPEN = "exec python3 -uc 'import socket, sys; s = socket.create_server((sys.argv[1], 0), family=socket.AF_INET6 if \":\" in " \
       "sys.argv[1] else socket.AF_INET); print(s.getsockname()[1]); input()' "


@pytest.fixture(autouse=True)
def no_sessions(server):
    yield
    commands.close_all(server)
    assert eventually(lambda: not open_ports(server))


def events(server, query=""):
    return [(event["type"], event["data"]) for event in
            server.get(f"{PATH}?type=port_opened&type=port_closed{query}").json()["data"]]


class Stream(Events):
    """Ends with a reset: see test_events.py."""

    def __exit__(self, *_):
        self.peer.reset()


def open_ports(server):
    """Ports by what the events say."""
    found = {}
    for kind, data in events(server):
        key = data["port"], data["address"]
        if kind == "port_opened":
            assert key not in found
            found[key] = data
        else:
            assert found.pop(key) == data
    return found


def begin(server, address="127.0.0.1", more=""):
    """A command that listens, and its port."""
    data = commands.run(server, OPEN + address + more, async_mode=True)
    assert eventually(lambda: commands.read(server, data)["stdout"].endswith("\n")), commands.read(server, data)
    return data, int(commands.read(server, data)["stdout"])


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::1", "::"])
def test_a_port_is_opened_and_closed(server, address):
    data, port = begin(server, address)
    (found,) = open_ports(server).values()
    assert found.pop("pid") > 1 and found.pop("command").startswith("python3 -uc import socket")
    assert found == {"port": port, "address": address}
    assert open_ports(server)  # once
    commands.close(server, data["session_id"])
    assert eventually(lambda: not open_ports(server))
    assert events(server)[-1][0] == "port_closed"


def test_a_reader_is_told_while_nothing_else_happens(server):
    before = server.get(PATH).json()["data"][-1]["seq"]
    with Stream(server, f"{PATH}?type=port_opened&type=port_closed&follow=true&after={before}") as stream:
        data, port = begin(server)
        kind, _, event = stream.next()
        assert kind == "port_opened" and event["data"]["port"] == port
        commands.close(server, data["session_id"])
        kind, _, event = stream.next()
        assert kind == "port_closed" and event["data"]["port"] == port


def test_a_daemon_is_still_the_sandboxs(server):
    """Its parent has ended, and it has a session of its own."""
    data = commands.run(server, f"setsid bash -c '({OPEN.replace(chr(39), chr(39) + chr(92) + chr(39) + chr(39))} 127.0.0.1 < <(sleep 1000) > p &) ; true'; "
                                "until [ -s p ]; do sleep 0.05; done; cat p; rm p", timeout=60)
    port = int(data["stdout"])
    assert eventually(lambda: (port, "127.0.0.1") in open_ports(server))


def test_a_secret_in_a_command_line_is_masked(server):
    _, port = begin(server, more=" --api-key=hunter2hunter2")
    assert "hunter2" not in open_ports(server)[port, "127.0.0.1"]["command"]


def test_ports_of_others_are_not_the_sandboxs(server):
    """Neither those of programs that this server did not start, nor its own, nor its kernels'."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        kernels.execute(server, "1")
        _, port = begin(server)
        assert [key[0] for key in open_ports(server)] == [port] and other.getsockname()[1] != port
    kernels.close_all(server)


def test_a_port_that_two_sockets_share_is_one(server):
    code = ("import socket, sys; a = socket.create_server((\"127.0.0.1\", 0), reuse_port=True); "
            "b = socket.create_server(a.getsockname(), reuse_port=True); print(a.getsockname()[1]); input()")
    data = commands.run(server, f"exec python3 -uc '{code}'", async_mode=True)
    assert eventually(lambda: commands.read(server, data)["stdout"].endswith("\n"))
    assert len(open_ports(server)) == 1


def test_many_ports_do_not_drive_out_all_else(server):
    code = ("import socket; all = [socket.create_server((\"127.0.0.1\", 0)) for _ in range(400)]; print(\"all\"); input()")
    data = commands.run(server, f"exec python3 -uc '{code}'", async_mode=True)
    assert eventually(lambda: commands.read(server, data)["stdout"] == "all\n")
    assert len(open_ports(server)) == 256


def test_readers_at_once(server):
    _, port = begin(server)
    threads = [threading.Thread(target=events, args=(server,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [key[0] for key in open_ports(server)] == [port]
