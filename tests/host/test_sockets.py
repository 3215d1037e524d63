"""The sockets that a box's own processes hold: none belongs to the machine's network, of which it would tell."""

import contextlib
import ctypes
import fcntl
import os
import socket
import stat
import struct

from harness import eventually
from hosts import to

SIOCGIFCONF, SIOCGIFHWADDR, SIOCGSKNS = 0x8912, 0x8927, 0x894C
PIDFD_OPEN, PIDFD_GETFD = 434, 438
libc = ctypes.CDLL(None, use_errno=True)


def taken(pid, number):
    """A duplicate of another process's descriptor; None if it has just been closed."""
    pidfd = libc.syscall(PIDFD_OPEN, pid, 0)
    try:
        fd = libc.syscall(PIDFD_GETFD, pidfd, number, 0)
    finally:
        os.close(pidfd)
    return None if fd < 0 else socket.socket(fileno=fd)


def processes(box):
    """The box's first process, its server and its cradle: those that the host gave something."""
    def family(pid):
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [pid, *(one for child in file.read().split() for one in family(int(child)))]

    return family(box.first_process())


def sockets(pid):
    for number in map(int, os.listdir(f"/proc/{pid}/fd")):
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(os.stat(f"/proc/{pid}/fd/{number}").st_mode) and (sock := taken(pid, number)):
                with sock:
                    yield number, sock


def network(sock):
    """The inode of the network namespace that it belongs to."""
    fd = fcntl.ioctl(sock, SIOCGSKNS)
    try:
        return os.fstat(fd).st_ino
    finally:
        os.close(fd)


def interfaces(sock):
    """What it tells of them: how many have an address, and which of the machine's have a hardware address."""
    room = ctypes.create_string_buffer(4096)
    told = fcntl.ioctl(sock, SIOCGIFCONF, struct.pack("iP", len(room), ctypes.addressof(room)))
    hardware = []
    for _, name in socket.if_nameindex():
        with contextlib.suppress(OSError):
            hardware.append((name, fcntl.ioctl(sock, SIOCGIFHWADDR, struct.pack("40s", name.encode()))[18:24]))
    return struct.unpack_from("i", told)[0], [name for name, address in hardware if name != "lo"]


def check(host, box):
    """With connections to its server open, whose other ends it holds."""
    machine = os.stat("/proc/self/ns/net").st_ino
    with host.connect() as one, host.connect() as other:
        assert [peer.ask(to(box, "/v1/sandbox")).status for peer in (one, other)] == [200, 200]
        pids = processes(box)
        held = [(pid, number, network(sock), interfaces(sock)) for pid in pids for number, sock in sockets(pid)]
        assert len(pids) == 3 and len(held) >= 3, held  # the listener and both connections at least
        assert [row for row in held if row[2] == machine] == []
    outside = [row for row in held if row[2] != os.stat(f"/proc/{pids[0]}/ns/net").st_ino]
    assert len(outside) >= 3 and {(count, *names) for *_, (count, names) in outside} == {(0,)}, held


def test_no_socket_of_a_box_belongs_to_the_machines_network(host):
    box = host.create()
    check(host, box)
    box.call("POST", "/pause")
    box.call("POST", "/resume")
    check(host, box)
    box.delete()


def test_nor_of_one_that_a_request_started_again(host):
    """What the gateway's threads start runs where the machine's network is: a box that is to have one gets it."""
    box = host.create(auto_resume=True, network={"mode": "full"} if full(host) else {"mode": "none"})
    os.kill(box.first_process(), 9)
    assert eventually(lambda: box.state == "stopped")
    assert box.run("echo again") == "again\n"
    check(host, box)
    if full(host):
        assert "eth0" in box.run("cat /proc/net/dev")
    box.delete()


def full(host):
    answer = host.client.post("/v1/sandboxes", headers=host.auth, json={"network": {"mode": "full"}})
    if answer.status_code != 200:
        return False
    host.api("DELETE", f"/v1/sandboxes/{answer.json()['data']['id']}")
    return True


def test_nor_without_the_kernels_help(start_host):
    """Where descriptors cannot be refused, a thread of the box reads its sockets: see ward.c."""
    host = start_host(env={"AIO_NO_PASSRIGHTS": "1"})
    check(host, host.create())


def test_nor_of_one_that_a_new_host_took_back(start_host):
    host = start_host()
    box = host.create()
    host.kill()
    host.start()
    check(host, box)
