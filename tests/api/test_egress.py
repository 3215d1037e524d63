"""The way out of a box: `aio egress` in a network of the test's own. What it reaches are servers that
the test starts, at the name localhost."""

import contextlib
import json
import os
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import threading

import pytest

from harness import ANSWER_SECONDS, STOP_SECONDS, eventually, program

if os.geteuid() != 0 or not shutil.which("ip") or not (shutil.which("nft") or os.path.exists("/usr/sbin/nft")):
    pytest.skip("NOT TESTED: the way out of a box needs root, ip and nft", allow_module_level=True)

OWN = "198.18.0.1"
LOOPBACK = ("--nets", "127.0.0.0/8")


class Net:
    """A network namespace, with a process in it."""

    def __init__(self):
        self.process = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo; exec sleep 1000"], stdout=subprocess.PIPE)
        self.process.stdout.readline()
        self.path = f"/proc/{self.process.pid}/ns/net"

    def inside(self, fn):
        """Calls fn with the calling thread of this process in the network."""
        result = []

        def run():
            fd = os.open(self.path, os.O_RDONLY)
            os.setns(fd, os.CLONE_NEWNET) if hasattr(os, "setns") else setns(fd)
            os.close(fd)
            try:
                result.append(fn())
            except Exception as error:
                result.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
        if isinstance(result[0], Exception):
            raise result[0]
        return result[0]

    def connect(self, address, port):
        return self.inside(lambda: socket.create_connection((address, port), timeout=ANSWER_SECONDS))


def setns(fd):
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(fd, 0x40000000) != 0:
        raise OSError(ctypes.get_errno(), "setns")


class Way:
    """aio egress in a network."""

    def __init__(self, folder, *args):
        self.net = Net()
        self.events_file = folder / "events"
        self.counters = folder / "counters"
        self.process = subprocess.Popen(
            [program("aio"), "egress", "--netns", self.net.path, "--pid", str(self.net.process.pid), "--events", self.events_file,
             "--counters", self.counters, *args],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
        line = self.process.stdout.readline()
        assert line == b"ready\n", self.process.stderr.read()

    def events(self):
        return [json.loads(line) for line in self.events_file.read_text().split("\n")[:-1]]

    def denied(self, text):
        return eventually(lambda: any(text in event["reason"] for event in self.events()))

    def ask(self, name, kind=1, tcp=False, id=0x4242):
        """What DNS answers: its code, and the addresses."""
        query = struct.pack(">HHHHHH", id, 0x0100, 1, 0, 0, 0)
        query += b"".join(bytes([len(part)]) + part.encode() for part in name.split(".")) + b"\0" + struct.pack(">HH", kind, 1)

        def talk():
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM) as sock:
                sock.settimeout(ANSWER_SECONDS)
                sock.connect((OWN, 53))
                sock.sendall((struct.pack(">H", len(query)) if tcp else b"") + query)
                if not tcp:
                    return sock.recv(2000)
                with sock.makefile("rb") as file:
                    return file.read(*struct.unpack(">H", file.read(2)))

        answer = self.net.inside(talk)
        assert struct.unpack(">H", answer[:2]) == (id,) and answer[2] & 0x80
        count = struct.unpack(">H", answer[6:8])[0]
        assert len(answer) == len(query) + 16 * count
        return answer[3] & 15, [socket.inet_ntoa(answer[len(query) + 12 :]) for _ in range(count)]

    def address(self, name):
        code, (address,) = self.ask(name)
        assert code == 0
        return address

    def stop(self):
        self.net.process.kill()
        self.net.process.wait()
        assert self.process.wait(STOP_SECONDS) == 0, "it ends with its box"
        errors = self.process.stderr.read()
        assert not errors, errors


@pytest.fixture
def way(tmp_path):
    with contextlib.ExitStack() as stack:

        def start(*args):
            made = Way(tmp_path, *args)
            stack.callback(made.stop)
            return made

        yield start


@pytest.fixture
def serve():
    """Starts servers on loopback: each connection is given to a function."""
    with contextlib.ExitStack() as stack:

        def start(talk):
            server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

            def loop():
                with contextlib.suppress(OSError):
                    while True:
                        client, _ = server.accept()
                        threading.Thread(target=one, args=(client,), daemon=True).start()

            def one(client):
                with client, contextlib.suppress(OSError):
                    talk(client)

            threading.Thread(target=loop, daemon=True).start()
            return server.getsockname()[1]

        yield start


def http(client):
    """An HTTP server that answers each request with its Host."""
    data = b""
    while more := client.recv(65536):
        data += more
        while b"\r\n\r\n" in data:
            head, data = data.split(b"\r\n\r\n", 1)
            host = [line for line in head.split(b"\r\n") if line.lower().startswith(b"host:")][0]
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(host), host))


def request(host, method="GET"):
    return f"{method} / HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()


def test_names(way):
    it = way("--allow", "localhost,*.example.org")
    address = it.address("localhost")
    assert address.startswith("198.18.") and it.address("LocalHost") == address
    assert it.address("a.example.org") != address
    assert it.ask("localhost", tcp=True) == (0, [address])
    assert it.ask("localhost", kind=28) == (0, []) and it.ask("localhost", kind=65) == (0, [])
    assert it.ask("example.org") == (3, []) and it.ask("evil.test") == (3, [])
    assert eventually(lambda: len(it.events()) == 2)
    assert [(event["host"], event["reason"]) for event in it.events()] == [
        (name, "not in the allow list") for name in ("example.org", "evil.test")]


def test_malformed_queries(way):
    it = way("--allow", "localhost")

    def shoot():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            for data in (b"", b"x", b"\0" * 12, b"\xff" * 600, os.urandom(300)):
                sock.sendto(data, (OWN, 53))
        with socket.create_connection((OWN, 53)) as sock:
            sock.sendall(b"\xff\xff" + b"x" * 100)

    for _ in range(20):
        with contextlib.suppress(OSError):
            it.net.inside(shoot)
    assert it.ask("localhost")[0] == 0


def test_http(way, serve):
    it = way("--allow", "localhost", *LOOPBACK)
    port = serve(http)
    with it.net.connect(it.address("localhost"), port) as sock:
        for _ in range(3):
            sock.sendall(request(f"localhost:{port}"))
            assert sock.recv(1000).endswith(f"\r\n\r\nHost: localhost:{port}".encode())
    sent = 3 * len(request(f"localhost:{port}"))
    assert eventually(lambda: struct.unpack("QQ", it.counters.read_bytes()) == (3 * (39 + len(f"Host: localhost:{port}")), sent))
    assert it.events() == []


@pytest.mark.parametrize("first", [b"", request("localhost")], ids=["first", "second"])
@pytest.mark.parametrize("bad", [request("evil.test"), b"GET / HTTP/1.1\r\n\r\n", b"GET http://evil.test/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
                                 request("localhost", "CONNECT"), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"EVIL nonsense\r\n"])  # fmt: skip
def test_requests_for_others(way, serve, first, bad):
    """Each request of a connection is looked at, and nothing of a wrong one arrives."""
    it = way("--allow", "localhost", *LOOPBACK)
    seen = []

    def talk(client):
        while data := client.recv(65536):
            seen.append(data)
            client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    with it.net.connect(it.address("localhost"), serve(talk)) as sock:
        if first:
            sock.sendall(first)
            assert sock.recv(1000)
        sock.sendall(bad)
        with contextlib.suppress(ConnectionResetError):
            assert sock.recv(1000) == b""
    assert it.denied("another host")
    assert b"".join(seen) == first


def test_upgrade(way, serve):
    """After an upgrade that the server agreed to, anything passes; without its word, nothing."""
    it = way("--allow", "localhost", *LOOPBACK)
    ask = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"

    def talk(client, status):
        client.recv(65536)
        client.sendall(b"HTTP/1.1 %s\r\nContent-Length: 0\r\n\r\n" % status)
        client.sendall(client.recv(65536))

    with it.net.connect(it.address("localhost"), serve(lambda client: talk(client, b"101 Switching Protocols"))) as sock:
        sock.sendall(ask)
        assert sock.recv(1000).startswith(b"HTTP/1.1 101")
        sock.sendall(request("evil.test"))
        assert sock.recv(1000) == request("evil.test")
    with it.net.connect(it.address("localhost"), serve(lambda client: talk(client, b"200 OK"))) as sock:
        sock.sendall(ask)
        assert sock.recv(1000).startswith(b"HTTP/1.1 200")
        sock.sendall(request("evil.test"))
        with contextlib.suppress(ConnectionResetError):
            assert sock.recv(1000) == b""
    assert it.denied("another host")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout",
                    folder / "key", "-out", folder / "cert"], check=True, capture_output=True)  # fmt: skip
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert", folder / "key")
    return context


def test_tls(way, serve, certificate):
    it = way("--allow", "localhost", *LOOPBACK)

    def talk(client):
        with certificate.wrap_socket(client, server_side=True) as secure:
            secure.sendall(secure.recv(1000)[::-1])

    port = serve(talk)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for name, fine in (("localhost", True), ("evil.test", False), (None, False)):
        with it.net.connect(it.address("localhost"), port) as sock:
            if not fine:
                with pytest.raises((ssl.SSLError, OSError)):
                    context.wrap_socket(sock, server_hostname=name)
                continue
            with context.wrap_socket(sock, server_hostname=name) as secure:
                secure.sendall(b"abc")
                assert secure.recv(10) == b"cba"
    assert it.denied("another name") and it.denied("without the name")


def test_other_protocols(way, serve):
    """A server that speaks first, and a client that speaks neither TLS nor HTTP."""
    it = way("--allow", "localhost", *LOOPBACK)

    def banner(client):
        client.sendall(b"220 hello\r\n")
        client.sendall(b"got " + client.recv(100))

    with it.net.connect(it.address("localhost"), serve(banner)) as sock:
        assert sock.recv(100) == b"220 hello\r\n"
        sock.sendall(b"EHLO box\r\n")
        assert sock.recv(100) == b"got EHLO box\r\n"
    with it.net.connect(it.address("localhost"), serve(lambda client: client.sendall(client.recv(100)))) as sock:
        sock.sendall(b"\0\1binary")
        assert sock.recv(100) == b"\0\1binary"


def test_half_close_and_a_lot(way, serve):
    it = way("--allow", "localhost", *LOOPBACK)

    def count(client):
        size = 0
        while data := client.recv(1 << 16):
            size += len(data)
        client.sendall(b"%d" % size)

    with it.net.connect(it.address("localhost"), serve(count)) as sock:
        sock.sendall(b"\0" * (20 << 20))
        sock.shutdown(socket.SHUT_WR)
        assert sock.recv(100) == b"%d" % (20 << 20)


def test_a_client_that_has_said_all_gets_all(way, serve):
    """Both sides have ended what they say, and the client is slow to take the last of it."""
    it = way("--allow", "localhost", *LOOPBACK)
    ended = threading.Semaphore(0)

    def answer(client):
        size = int(client.makefile("rb").read()[1:])
        client.sendall(b"x" * size)
        client.close()
        ended.release()

    port = serve(answer)
    for size in range(2 << 20, 5 << 20, 1 << 19):
        with it.net.connect(it.address("localhost"), port) as sock:
            sock.sendall(b"\0%d" % size)
            sock.shutdown(socket.SHUT_WR)
            ended.acquire(timeout=1)  # the stimulus: read only when it has ended, or waits for us
            got = 0
            while data := sock.recv(1 << 16):
                got += len(data)
            assert got == size


def test_closed_addresses(way, serve):
    """A name that leads to the machine itself, without the operator's word."""
    it = way("--allow", "localhost")
    port = serve(http)
    with it.net.connect(it.address("localhost"), port) as sock:
        assert sock.recv(100) == b""
    assert it.denied("not a public one")


def test_ports_and_addresses_that_were_not_allowed(way, serve):
    port = serve(http)
    it = way("--allow", f"localhost:{port}", *LOOPBACK)
    address = it.address("localhost")
    with it.net.connect(address, port) as sock:
        sock.sendall(request("localhost"))
        assert sock.recv(100)
    for where in ((address, serve(http)), ("198.18.77.7", 80)):
        with it.net.connect(*where) as sock:
            with contextlib.suppress(ConnectionResetError):
                assert sock.recv(100) == b""
    assert it.denied("this port") and it.denied("no name")
    with pytest.raises(ConnectionRefusedError):
        it.net.connect("192.0.2.77", 80)
    assert it.denied("an address, not a name")


def test_relay_called_by_its_own_port(way):
    it = way("--allow", "localhost", *LOOPBACK)
    listing = it.net.inside(lambda: open("/proc/thread-self/net/tcp").read())
    (port,) = [int(line.split()[1].split(":")[1], 16) for line in listing.splitlines()[1:] if line.split()[3] == "0A"]
    with it.net.connect("127.0.0.1", port) as sock:
        with contextlib.suppress(ConnectionResetError):
            assert sock.recv(100) == b""
    assert it.ask("localhost")[0] == 0


def test_many_at_once(way, serve):
    it = way("--allow", "localhost", *LOOPBACK)
    threads = f"/proc/{it.process.pid}/task"
    port, address = serve(http), it.address("localhost")
    socks = [it.net.connect(address, port) for _ in range(100)]
    for sock in socks:
        sock.sendall(request("localhost"))
    for sock in socks:
        assert sock.recv(1000).startswith(b"HTTP/1.1 200")
        sock.close()
    assert eventually(lambda: len(os.listdir(threads)) <= 3)  # what waits for calls, questions and refused packets


def test_it_has_no_rights(way):
    it = way("--allow", "localhost")
    status = dict(line.split(":\t") for line in open(f"/proc/{it.process.pid}/status").read().splitlines() if ":\t" in line)
    assert status["Uid"].split() == ["65534"] * 4 and int(status["CapEff"], 16) == 0 and status["NoNewPrivs"] == "1"


@pytest.mark.parametrize("args, text", [(["--allow", "a..b"], "a..b"), (["--nets", "1.2.3"], "1.2.3"), ([], "--netns"),
                                        (["--netns", "/nowhere"], "/nowhere"), (["x"], "'x'")])  # fmt: skip
def test_bad_usage(args, text):
    args = ["--pid", str(os.getpid()), *(["--netns", "/proc/self/ns/net"] if args and args[0] not in ("--netns", "x") else []), *args]
    done = subprocess.run([program("aio"), "egress", *args], capture_output=True, timeout=60)
    assert done.returncode == 2 and text in done.stderr.decode() and done.stderr.count(b"\n") == 1


def test_killed_box(way):
    it = way("--allow", "localhost")
    it.net.process.send_signal(signal.SIGKILL)
    assert it.process.wait(STOP_SECONDS) == 0
