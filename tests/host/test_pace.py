"""Who is slow but goes on is not cut."""

import threading
import time

import pytest
from hosts import FakeServer, Host, answer, folder, to

SECONDS = 3  # a client, a box or a body may stand still
BODY = bytes(range(256)) * (1 << 15)  # more than all buffers between a box and a client that reads nothing
SWITCH = {"Connection": "Upgrade", "Upgrade": "x"}
SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"


@pytest.fixture(scope="module")
def impatient():
    host = Host(folder(), ["--body-timeout", SECONDS, "--send-timeout", SECONDS])
    yield host
    host.end()


@pytest.fixture(scope="module")
def box(impatient):
    box = impatient.create()
    yield box
    box.delete()


def for_long(step, pause=0.25):
    """Does it again and again, for longer than anything may stand still."""
    until = time.monotonic() + 2.5 * SECONDS
    while time.monotonic() < until:
        step()
        time.sleep(pause)  # the pace is what is tested


def test_a_client_that_reads_slowly_gets_its_whole_answer(impatient, box):
    def serve(fake, conn):
        fake.read_head(conn)
        conn.sendall(answer(BODY))
        conn.recv(1)

    with FakeServer(box, serve), impatient.connect(receive_buffer=1 << 16) as peer:
        peer.send(to(box))
        for_long(lambda: peer.data.extend(peer.sock.recv(1 << 14)))
        got = peer.answer()
        assert got.complete and got.body == BODY


def test_a_body_that_comes_slowly_is_taken(impatient, box):
    def serve(fake, conn):
        count = int(fake.read_head(conn).lower().partition("content-length: ")[2].split("\r\n")[0])
        while count:
            count -= len(conn.recv(count))
        conn.sendall(answer(b"whole"))
        conn.recv(1)

    with FakeServer(box, serve), impatient.connect() as peer:
        left = 1 << 16
        peer.send(to(box, method="POST", headers={"Content-Length": left}))

        def send_some():
            nonlocal left
            peer.send(b"x" * 1024)
            left -= 1024

        for_long(send_some)
        got = peer.ask(b"x" * left, "POST")
        assert (got.status, got.body) == (200, b"whole")


def test_a_tunnel_waits_for_who_reads_nothing(impatient, box):
    """As one does who looks at a page of output."""
    cut = threading.Event()

    def serve(fake, conn):
        fake.read_head(conn)
        try:
            conn.sendall(SWITCHED + BODY)
        except OSError:
            cut.set()
        conn.recv(1)

    with FakeServer(box, serve), impatient.connect(receive_buffer=1 << 16) as peer:
        peer.send(to(box, headers=SWITCH))
        assert not cut.wait(2.5 * SECONDS)
        assert peer.head().status == 101 and peer.take(len(BODY)) == BODY
