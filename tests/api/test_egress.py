"""The way out of a box: `aio egress` in a network of the test's own. What it reaches are servers that
the test starts, at the name localhost."""

import contextlib
import json
import os
import queue
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import threading

import pytest

from harness import ANSWER_SECONDS, STOP_SECONDS, eventually, program
from processes import gone

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
    """aio egress in a network. What it reaches is in the test's own, or in another one."""

    def __init__(self, folder, *args, outside=None):
        self.net = Net()
        self.events_file = folder / "events"
        self.counters = folder / "counters"
        there = ["nsenter", f"--net={outside.path}", "--"] if outside else []
        self.process = subprocess.Popen(
            [*there, program("aio"), "egress", "--netns", self.net.path, "--pid", str(self.net.process.pid), "--events",
             self.events_file, "--counters", self.counters, *args],
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

        def start(*args, outside=None):
            made = Way(tmp_path, *args, outside=outside)
            stack.callback(made.stop)
            return made

        yield start


@pytest.fixture
def serve():
    """Starts servers on loopback: each connection is given to a function."""
    with contextlib.ExitStack() as stack:

        def start(talk, port=0, net=None):
            listen = lambda: socket.create_server(("127.0.0.1", port))
            server = stack.enter_context(net.inside(listen) if net else listen())

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


@pytest.fixture
def outside():
    """A network whose ports are all free."""
    net = Net()
    subprocess.run(["nsenter", f"--net={net.path}", "ip", "link", "set", "lo", "up"], check=True)
    yield net
    net.process.kill()
    net.process.wait()


class Record:
    """A server that answers nothing, and what it was sent."""

    def __init__(self):
        self.seen = queue.Queue()

    def __call__(self, client, data=b""):
        try:
            while more := client.recv(65536):
                data += more
        finally:
            self.seen.put(data)

    def all(self):
        """Of one connection, once it has ended."""
        return self.seen.get(timeout=ANSWER_SECONDS)


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


UPGRADE = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
AGREED = b"HTTP/1.1 101 Switching Protocols\r\n\r\n"


def test_upgrade(way, serve):
    """After an upgrade that the server agreed to, anything passes; without its word, nothing."""
    it = way("--allow", "localhost", *LOOPBACK)
    ask = UPGRADE

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


def converse(it, serve, *steps):
    """Says and answers in turns, an answer in pieces that arrive each alone; what the server got in the end."""
    record, taken = Record(), threading.Semaphore(0)
    says, answers = steps[::2], steps[1::2]

    def talk(client):
        data = b""
        for i, answer in enumerate(answers):
            while len(data) < len(b"".join(says[: i + 1])) and (more := client.recv(65536)):
                data += more
            for piece in answer:
                client.sendall(piece)
                taken.acquire(timeout=ANSWER_SECONDS)
        record(client, data)

    with it.net.connect(it.address("localhost"), serve(talk)) as sock:
        for i, said in enumerate(says):
            sock.sendall(said)
            for piece in answers[i] if i < len(answers) else []:
                assert sock.recv(len(piece), socket.MSG_WAITALL) == piece
                taken.release()
        end(sock)
        return record.all()


OK = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
NOT_AGREED = [
    # a piece of an earlier answer, or of this one, that looks like consent
    [request("localhost") + UPGRADE, [OK % len(AGREED), AGREED]],
    [request("localhost"), [OK % len(AGREED)], UPGRADE, [AGREED]],
    [UPGRADE, [OK % len(AGREED), AGREED]],
    [UPGRADE, [b"HTTP/1.1 1", b"00 Continue\r\n\r\n"]],
    # consent to what is HTTP or TLS again, with names that nobody would look at
    [UPGRADE.replace(b"websocket", b"h2c"), [AGREED]],
    [UPGRADE.replace(b"websocket", b"TLS/1.0, HTTP/1.1"), [AGREED]],
    [UPGRADE.replace(b"websocket", b"websocket, h2c"), [AGREED]],
    [UPGRADE.replace(b"websocket", b"websocket\r\nUpgrade: h2c"), [AGREED]],
    [UPGRADE.replace(b"Connection: Upgrade\r\n", b""), [AGREED]],
]


@pytest.mark.parametrize("bad", [request("evil.test"), PREFACE], ids=["http", "http2"])
def test_upgrade_that_was_not_agreed_to(way, serve, bad):
    """Only the server's first words, to a first request for a WebSocket, end the looking at requests."""
    it = way("--allow", "localhost", *LOOPBACK)
    for steps in NOT_AGREED:
        assert converse(it, serve, *steps, bad) == b"".join(steps[::2]), steps
    assert it.denied("another host")


def test_upgrade_with_more_after_it(way, serve):
    """In one piece with the request that asks, and before any answer."""
    it, record = way("--allow", "localhost", *LOOPBACK), Record()
    assert arrives(it, UPGRADE + request("evil.test"), record, serve(record)) == b""
    assert it.denied("another host")


def test_upgrade_in_pieces(way, serve):
    it = way("--allow", "localhost", *LOOPBACK)
    bad = request("evil.test")
    assert converse(it, serve, UPGRADE, [AGREED[i : i + 1] for i in range(14)] + [AGREED[14:]], bad) == UPGRADE + bad


def test_a_connection_goes_on_after_a_refused_upgrade(way, serve):
    """As Java's client does, which asks for HTTP/2 each time."""
    it = way("--allow", "localhost", *LOOPBACK)
    ask, answer = UPGRADE.replace(b"websocket", b"h2c"), [OK % 0]
    assert converse(it, serve, ask, answer, ask, answer, request("localhost"), answer) == ask * 2 + request("localhost")
    assert it.events() == []


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


def hello(name, version=b"\3\1"):
    """A ClientHello in a record of that version."""
    names = b"\0" + struct.pack(">H", len(name)) + name.encode()
    names = struct.pack(">H", len(names)) + names
    extensions = struct.pack(">HH", 0, len(names)) + names
    body = b"\3\3" + bytes(32) + b"\0" + b"\0\2\x13\1" + b"\1\0" + struct.pack(">H", len(extensions)) + extensions
    body = b"\1\0" + struct.pack(">H", len(body)) + body
    return b"\x16" + version + struct.pack(">H", len(body)) + body


def in_two(data, version):
    """The same hello in two records, the second of that version."""
    return data[:3] + b"\0\x0a" + data[5:15] + b"\x16" + version + struct.pack(">H", len(data) - 15) + data[15:]


SSL2 = b"\x80\x2e\1\0\2" + bytes(64)


def end(sock):
    """It says no more; it may have been ended already."""
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_WR)


def arrives(it, sent, record, port):
    """What a server gets of what a box sends, all at once."""
    with it.net.connect(it.address("localhost"), port) as sock:
        sock.sendall(sent)
        end(sock)
        return record.all()


def test_tls_that_only_some_servers_take(way, serve):
    """Go takes a first record of nearly any version, and reads the name in it."""
    it, record = way("--allow", "localhost", *LOOPBACK), Record()
    port = serve(record)
    for sent in (hello("localhost", b"\2\1"), hello("evil.test", b"\2\1"), hello("evil.test", b"\4\1"), hello("evil.test", b"\0\0"),
                 in_two(hello("evil.test"), b"\4\1"), b"\x16\x02", SSL2):  # fmt: skip
        assert arrives(it, sent, record, port) == b"", sent
    assert it.denied("version") and len(it.events()) == 1
    assert arrives(it, in_two(hello("evil.test"), b"\3\1"), record, port) == b"" and it.denied("another name")
    fine = in_two(hello("localhost"), b"\3\3")
    assert arrives(it, fine, record, port) == fine


WEB = {
    443: (["only TLS", "another name", "version"], [hello("localhost")],
          [hello("evil.test"), b"\0\1binary", request("localhost"), b"SSH-2.0-x\r\n", SSL2]),
    80: (["only HTTP", "another host"], [request("localhost"), request("localhost:80")],
         [hello("localhost"), b"\0\1binary", b"SSH-2.0-x\r\n", request("localhost:81"), request("evil.test")]),
}  # fmt: skip


@pytest.mark.parametrize("port", WEB)
def test_ports_of_the_web(way, serve, outside, port):
    """On 443 only TLS for the name passes, on 80 only HTTP."""
    it, record = way("--allow", "localhost", *LOOPBACK, outside=outside), Record()
    reasons, fine, bad = WEB[port]
    serve(record, port, outside)
    for sent in fine:
        assert arrives(it, sent, record, port) == sent
    for sent in bad:
        assert arrives(it, sent, record, port) == b"", sent
    assert all(it.denied(reason) for reason in reasons)


@pytest.mark.parametrize("port", WEB)
def test_a_server_of_the_web_that_speaks_first(way, serve, outside, port):
    it, record = way("--allow", "localhost", *LOOPBACK, outside=outside), Record()
    serve(lambda client: (client.sendall(b"220 hello\r\n"), record(client)), port, outside)
    with it.net.connect(it.address("localhost"), port) as sock:
        assert sock.recv(100) == b"220 hello\r\n"
        sock.sendall(b"EHLO box\r\n")
        assert record.all() == b""
    assert it.denied(WEB[port][0][0])


def test_port_of_a_host(way, serve):
    it, record = way("--allow", "localhost", *LOOPBACK), Record()
    port = serve(record)
    for host in ("localhost", f"localhost:{port}", f"LocalHost.:{port}"):
        assert arrives(it, request(host), record, port) == request(host)
    for suffix in (":evil", ":", f":{port}x", f":0{port}", ":80", ":99999999999", f":{port}:{port}", f"]:{port}", f" :{port}"):
        assert arrives(it, request("localhost" + suffix), record, port) == b"", suffix
    assert it.denied("another host")


def test_a_server_that_speaks_first_ends_no_check(way, serve):
    it, record = way("--allow", "localhost", *LOOPBACK), Record()
    for greeting in (b"220 hello\r\n", b"\0", AGREED):
        port = serve(lambda client: (client.sendall(greeting), record(client)))
        for bad in (hello("evil.test"), request("evil.test"), SSL2, UPGRADE.replace(b"localhost", b"evil.test"), PREFACE,
                    UPGRADE + request("evil.test")):  # fmt: skip
            with it.net.connect(it.address("localhost"), port) as sock:
                assert sock.recv(100) == greeting
                sock.sendall(bad)
                assert record.all() == b"", (greeting, bad)
    assert it.denied("another name") and it.denied("another host") and it.denied("version")


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


def sockets(pid):
    """The numbers of a process's sockets."""
    links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    return {link[8:-1] for link in links if link.startswith("socket:")}


def test_what_reads_a_box_s_bytes_is_not_in_the_machine_s_network(way, serve):
    """Were it taken over, it would reach the machine's loopback, where the default box needs no key."""
    it = way("--allow", "localhost", *LOOPBACK)
    with it.net.connect(it.address("localhost"), serve(http)) as sock:
        sock.sendall(request("localhost"))
        assert sock.recv(1000)
        nets = [os.readlink(path) for path in (f"/proc/{it.process.pid}/ns/net", "/proc/self/ns/net", it.net.path)]
        assert len(set(nets)) == 3
        lines = [line.split() for kind in ("tcp", "udp", "raw", "unix") for line in open(f"/proc/self/net/{kind}").readlines()[1:]]
        machine = {word for line in lines for word in line}
        assert not sockets(it.process.pid) & machine and len(sockets(it.process.pid)) > 3


def carrier(it):
    """The half that is in the machine's network."""
    (pid,) = open(f"/proc/{it.process.pid}/task/{it.process.pid}/children").read().split()
    assert eventually(lambda: b"\0carrier\0" in open(f"/proc/{pid}/cmdline", "rb").read())
    return int(pid)


def taken(it):
    """The relay's end of the socket by which it asks the carrier, as if it were ours."""
    import ctypes

    pidfd = os.pidfd_open(it.process.pid)
    for fd in map(int, os.listdir(f"/proc/{it.process.pid}/fd")):
        ours = ctypes.CDLL(None).syscall(438, pidfd, fd, 0)  # pidfd_getfd
        with contextlib.suppress(OSError):
            sock = socket.socket(fileno=ours)
            if (sock.family, sock.type) == (socket.AF_UNIX, socket.SOCK_SEQPACKET):
                os.close(pidfd)
                return sock
            sock.detach()
        os.close(ours)


def test_a_relay_that_was_taken_over_gets_no_more_than_names_of_the_list(way, serve):
    listed, other = serve(http), serve(http)
    it = way("--allow", f"localhost:{listed},*.invalid", *LOOPBACK)
    sock = taken(it)

    def ask(port, data):
        mine, its = socket.socketpair()
        mine.settimeout(ANSWER_SECONDS)
        socket.send_fds(sock, [struct.pack("I", port) + data], [its.fileno()])
        its.close()
        return mine

    for port, data in ((other, b"localhost"), (listed, b"127.0.0.1"), (listed, b"x" * 4096), (listed, b""), (0, b"\0" * 100), (0, b""),
                       (2**32 - 1, b"localhost"), (listed + 65536, b"localhost"), (80, b"evil.test")):  # fmt: skip
        with ask(port, data) as got:
            assert got.recv(1000)[:1] in (b"", b"\0"), (port, data)  # nothing, or that it is not connected
            assert got.recv(1000) == b""
    sock.send(struct.pack("I", listed) + b"localhost")  # without a stream to answer by
    with ask(listed, b"localhost") as got:
        assert got.recv(65)[:1] == b"\1"
        got.sendall(request("localhost"))
        assert got.recv(1000).startswith(b"HTTP/1.1 200")
    with it.net.connect(it.address("localhost"), listed) as client:
        client.sendall(request("localhost"))
        assert client.recv(1000).startswith(b"HTTP/1.1 200")
    sock.send(b"x")  # less than a question: it ends, and with it the other
    assert it.process.wait(STOP_SECONDS) == 0
    sock.close()


@pytest.mark.parametrize("way_to_end", [signal.SIGTERM, signal.SIGKILL])
def test_no_half_goes_on_without_the_other(way, way_to_end):
    it = way("--allow", "localhost")
    other = carrier(it)
    os.kill(other, way_to_end)
    assert it.process.wait(STOP_SECONDS) == 0
    it = way("--allow", "localhost")
    other = carrier(it)
    os.kill(it.net.process.pid, way_to_end)
    assert it.process.wait(STOP_SECONDS) == 0 and gone(other)


def test_it_has_no_rights(way):
    it = way("--allow", "localhost")

    def has_none(pid):
        status = dict(line.split(":\t") for line in open(f"/proc/{pid}/status").read().splitlines() if ":\t" in line)
        return (status["Uid"].split() == ["65534"] * 4 and int(status["CapEff"], 16) == 0
                and (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2"))

    assert has_none(it.process.pid)
    other = carrier(it)
    assert eventually(lambda: has_none(other))


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
