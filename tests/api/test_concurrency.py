"""Many clients at once, of every kind; also under ThreadSanitizer."""

import json
import random
import socket
import threading
import time

import pytest

from harness import SETTLE_SECONDS, chunked, connect, eventually, request, sanitizer

pytestmark = pytest.mark.concurrency

JSON = {"Content-Type": "application/json"}
SHARE = 3 if sanitizer() == "thread" else 1  # how much less is done where everything is slow


def together(count, work, *args):
    """Runs work(number, *args) in threads that start at the same moment; raises what went wrong first."""
    problems, gate = [], threading.Barrier(count, timeout=SETTLE_SECONDS)

    def one(number):
        try:
            gate.wait()
            work(number, *args)
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]


# --- what a client may do, each with its check -------------------------------------------------


def ask_place(peer, tag):
    assert peer.ask(request(f"/place/{tag}")).json()["data"]["id"] == tag


def ask_echo(peer, tag):
    body = json.dumps({"text": tag, "free": [tag] * 50}).encode()
    assert peer.ask(request("/echo", "POST", JSON, body)).json()["data"]["free"] == [tag] * 50


def ask_chunked(peer, tag):
    body = json.dumps({"text": tag}).encode()
    data = request("/echo", "POST", {**JSON, "Transfer-Encoding": "chunked"}, chunked(body[:3], body[3:]))
    assert peer.ask(data).json()["data"]["text"] == tag


def ask_items(peer, tag):
    assert peer.ask(request("/items?count=300&size=1000")).json()["data"] == ["x" * 1000] * 300


def ask_events(peer, tag):
    assert peer.ask(request("/events?count=5&ms=1")).body.count(b"event: tick") == 5


def ask_wait(peer, tag):
    assert peer.ask(request("/wait?ms=5")).json()["data"] == "timeout"


def ask_wrong(peer, tag):
    assert peer.ask(request(f"/nothing/{tag}")).status == 404
    assert peer.ask(request("/place/x?limit=0")).status == 422
    assert peer.ask(request("/fail?code=1006")).status == 409


def ask_upload(peer, tag):
    content = tag.encode() * 1000
    form = (b'--x\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n' + content + b"\r\n--x--\r\n")
    data = peer.ask(request("/upload", "POST", {"Content-Type": "multipart/form-data; boundary=x"}, form)).json()["data"]
    assert data["size"] == len(content) and data["sum"] == sum(content)


def ask_document(peer, tag):
    assert peer.ask(request("/openapi.json")).json()["openapi"] == "3.1.0"
    assert b"aio_connections" in peer.ask(request("/metrics")).body


def ask_pipelined(peer, tag):
    peer.send(b"".join(request(f"/place/{tag}{i}") for i in range(10)))
    assert [peer.answer().json()["data"]["id"] for i in range(10)] == [f"{tag}{i}" for i in range(10)]


WORK = [ask_place, ask_echo, ask_chunked, ask_items, ask_events, ask_wait, ask_wrong, ask_upload, ask_document, ask_pipelined]


def test_many_clients_of_every_kind(fixture_server):
    def client(number):
        order = random.Random(number)
        with fixture_server.connect(timeout=60) as peer:
            for i in range(20 // SHARE):
                order.choice(WORK)(peer, f"{number}-{i}-")

    together(64, client)


def test_storm_of_connections(fixture_server):
    """2,000 of them, opened and left in every way there is."""

    def client(number):
        order = random.Random(number)
        for _ in range(100 // SHARE):
            with fixture_server.connect(timeout=60) as peer:
                way = order.randrange(5)
                if way == 0:
                    assert peer.ask(request(headers={"Connection": "close"})).status == 200
                elif way == 1:
                    peer.send(request()[: order.randrange(1, 30)])
                elif way == 2:
                    peer.send(request("/items?count=100&size=10000"))
                    peer.reset()
                elif way == 3:
                    peer.reset()

    together(20, client)
    assert eventually(lambda: fixture_server.possessions()["threads"] <= fixture_server.baseline["threads"])


def test_many_idle_connections(fixture_server):
    """A thousand that say nothing cost little and hold up nobody."""
    peers = []
    before = fixture_server.memory()
    try:
        for _ in range(1000):
            peers.append(fixture_server.connect())
        assert eventually(lambda: fixture_server.possessions()["descriptors"] >= 1000)
        start = time.monotonic()
        assert fixture_server.get("/place/x").status_code == 200
        assert time.monotonic() - start < 30
        if not sanitizer():
            assert fixture_server.memory() - before < 40 << 20
        for peer in peers[::50]:
            assert peer.ask(request()).status == 200
    finally:
        for peer in peers:
            peer.sock.close()


def test_slow_clients_beside_fast_ones(fixture_server):
    """Ten that trickle, ten that do not read: the others do not notice."""
    over = threading.Event()
    slow = []

    def trickle():
        with fixture_server.connect() as peer:
            for byte in request("/place/" + "x" * 400):  # for longer than anyone else may take
                peer.send(bytes([byte]))
                if over.wait(0.05):
                    break

    for _ in range(10):
        slow.append(threading.Thread(target=trickle))
        slow[-1].start()
    deaf = [fixture_server.connect() for _ in range(10)]
    try:
        for peer in deaf:
            peer.send(request("/items?count=1000&size=100000"))
        worst = [0.0] * 8

        def client(number):
            with fixture_server.connect() as peer:
                for i in range(50 // SHARE):
                    start = time.monotonic()
                    ask_place(peer, f"{number}-{i}")
                    worst[number] = max(worst[number], time.monotonic() - start)

        together(8, client)
        assert max(worst) < 20, worst
    finally:
        over.set()
        for thread in slow:
            thread.join()
        for peer in deaf:
            peer.sock.close()


def test_waiters_do_not_wait_for_each_other(fixture_server):
    def client(number):
        with fixture_server.connect() as peer:
            assert peer.ask(request("/stubborn?ms=1000")).status == 200

    start = time.monotonic()
    together(50, client)
    assert time.monotonic() - start < 40, "one after the other it would be 50 s"


def test_websockets_beside_requests(fixture_server):
    def client(number):
        if number % 2:
            with connect(f"ws://{fixture_server.host}:{fixture_server.port}/ws/echo", compression=None) as ws:
                for i in range(30 // SHARE):
                    ws.send(f"{number}-{i}")
                    assert ws.recv(timeout=30) == f"{number}-{i}"
        else:
            with fixture_server.connect(timeout=60) as peer:
                for i in range(30 // SHARE):
                    ask_echo(peer, f"{number}-{i}")

    together(20, client)


def test_keys_are_checked_at_once(start_server):
    """The checks share one context of keys, and tickets one counter."""
    server = start_server(env={"SANDBOX_API_KEY": "key"}, program="fixture")
    tickets, lock = set(), threading.Lock()

    def client(number):
        with server.connect(timeout=60) as peer:
            for _ in range(20):
                assert peer.ask(request("/place/x")).status == 401
                one = peer.ask(request("/tickets", "POST", {"X-AIO-API-Key": "key"})).json()["ticket"]
                assert peer.ask(request(f"/place/x?ticket={one}")).status == 200
                with lock:
                    tickets.add(one)

    together(10, client)
    assert len(tickets) == 200


def test_counters_add_up(start_server):
    server = start_server(program="fixture")

    def client(number):
        with server.connect(timeout=60) as peer:
            for i in range(50):
                ask_place(peer, f"{number}-{i}")

    together(10, client)

    def counted(line):  # a request is counted after its answer
        return eventually(lambda: f"{line} 500\n" in server.get("/metrics").text)

    assert counted('aio_requests_total{method="GET",route="/place/{id}",status="2xx"}')
    assert counted('aio_request_seconds_count{method="GET",route="/place/{id}"}')


def test_lines_of_the_log_do_not_mix(start_server):
    server = start_server(["--log-format", "json"], program="fixture")

    def client(number):
        with server.connect(timeout=60) as peer:
            for i in range(50):
                ask_place(peer, f"{number}-{i}")

    together(10, client)
    assert eventually(lambda: server.log.count("/place/") >= 500 and server.log.endswith("\n"))
    ids = [json.loads(line)["id"] for line in server.log.splitlines()]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("moment", [0.02, 0.3])
def test_stop_under_load(start_server, moment):
    """Whatever is under way ends well or is cut; nothing hangs, nothing crashes."""
    server = start_server(program="fixture")
    over = threading.Event()

    def client(number):
        order = random.Random(number)
        while not over.is_set():
            try:
                with server.connect(timeout=20) as peer:
                    for i in range(20):
                        order.choice(WORK)(peer, f"{number}-{i}")
            except (OSError, EOFError, AssertionError, ValueError, KeyError):
                pass  # the server went away in the middle

    threads = [threading.Thread(target=client, args=(n,)) for n in range(16)]
    for thread in threads:
        thread.start()
    time.sleep(moment)  # the stimulus: early, or when all is under way
    server.signal()
    try:
        assert server.wait(40) == 0
    finally:
        over.set()
        for thread in threads:
            thread.join()


def test_answers_are_whole_when_the_server_stops(start_server):
    """A request that was taken is answered to its end, or not at all."""
    server = start_server(program="fixture")
    answers, over = [], threading.Event()

    def client(number):
        try:
            while not over.is_set():
                with server.connect() as peer:
                    answers.append(peer.ask(request("/items?count=50&size=10000", headers={"Connection": "close"})))
        except (OSError, EOFError):
            pass

    threads = [threading.Thread(target=client, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    try:
        assert eventually(lambda: len(answers) > 2 * len(threads))
        server.signal()
        assert server.wait() == 0
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert all(answer.complete for answer in answers)


def test_parallel_uploads(fixture_server):
    def client(number):
        with fixture_server.connect(timeout=60) as peer:
            for i in range(5):
                ask_upload(peer, f"{number}-{i}-" * 100)

    together(16, client)


def test_reset_in_the_backlog(fixture_server):
    """Connections that are gone before they are accepted."""
    for _ in range(200):
        sock = socket.create_connection((fixture_server.host, fixture_server.port))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        sock.close()
    assert fixture_server.get("/health").status_code == 200
