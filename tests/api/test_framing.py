"""Messages whose ends two programs could see in different places are refused, and nothing that was
smuggled behind them is answered.

Each case ends with a whole request for /place/smuggled: the bytes that a laxer reader in front of the
server took for a body, or the other way round.
"""

import pytest

from harness import request

SMUGGLED = b"GET /place/smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
BODY = b'{"text":"hello"}'  # 16 bytes


def post(headers, body=BODY, line=b"POST /echo HTTP/1.1", host=b"Host: localhost\r\n"):
    return line + b"\r\n" + host + b"Content-Type: application/json\r\n" + headers + b"\r\n" + body


def get(head):
    return b"GET /place/x HTTP/1.1\r\n" + head + b"\r\n"


CHUNKED = b"Transfer-Encoding: chunked\r\n"

LENGTHS = {
    "two equal lengths": post(b"Content-Length: 16\r\nContent-Length: 16\r\n"),
    "two different lengths": post(b"Content-Length: 16\r\nContent-Length: 0\r\n"),
    "different lengths, the other way": post(b"Content-Length: 0\r\nContent-Length: 16\r\n"),
    "a list of equal lengths": post(b"Content-Length: 16, 16\r\n"),
    "a list of lengths": post(b"Content-Length: 16, 0\r\n"),
    "negative length": post(b"Content-Length: -16\r\n"),
    "plus sign": post(b"Content-Length: +16\r\n"),
    "hexadecimal length": post(b"Content-Length: 0x10\r\n"),
    "length with a fraction": post(b"Content-Length: 16.0\r\n"),
    "length with a space": post(b"Content-Length: 1 6\r\n"),
    "length with an underscore": post(b"Content-Length: 1_6\r\n"),
    "length of nothing": post(b"Content-Length:\r\n"),
    "length that is no number": post(b"Content-Length: ten\r\n"),
    "length beyond 64 bits": post(b"Content-Length: 18446744073709551632\r\n"),
    "length of 2^64": post(b"Content-Length: 18446744073709551616\r\n"),
    "length of 2^64 - 1": post(b"Content-Length: 18446744073709551615\r\n"),
    "length of 2^63": post(b"Content-Length: 9223372036854775808\r\n"),
    "length in full-width digits": post("Content-Length: \uff11\uff16\r\n".encode()),
}

CODINGS = {
    "length and chunked": post(b"Content-Length: 16\r\n" + CHUNKED, b"0\r\n\r\n"),
    "chunked and length": post(CHUNKED + b"Content-Length: 5\r\n", b"0\r\n\r\n"),
    "CONNECT with chunks": post(CHUNKED, b"0\r\n\r\n", b"CONNECT localhost:80 HTTP/1.1"),
    "chunked twice": post(CHUNKED + CHUNKED, b"0\r\n\r\n"),
    "chunked, chunked": post(b"Transfer-Encoding: chunked, chunked\r\n", b"0\r\n\r\n"),
    "gzip": post(b"Transfer-Encoding: gzip\r\n"),
    "gzip, chunked": post(b"Transfer-Encoding: gzip, chunked\r\n", b"0\r\n\r\n"),
    "chunked, gzip": post(b"Transfer-Encoding: chunked, gzip\r\n", b"0\r\n\r\n"),
    "identity": post(b"Transfer-Encoding: identity\r\nContent-Length: 16\r\n"),
    "chunked, identity": post(b"Transfer-Encoding: chunked, identity\r\n", b"0\r\n\r\n"),
    "xchunked": post(b"Transfer-Encoding: xchunked\r\n", b"0\r\n\r\n"),
    "chunkedx": post(b"Transfer-Encoding: chunkedx\r\n", b"0\r\n\r\n"),
    "quoted": post(b'Transfer-Encoding: "chunked"\r\n', b"0\r\n\r\n"),
    "with a parameter": post(b"Transfer-Encoding: chunked;q=1\r\n", b"0\r\n\r\n"),
    "with a vertical tab": post(b"Transfer-Encoding: \x0bchunked\r\n", b"0\r\n\r\n"),
    "empty": post(b"Transfer-Encoding:\r\nContent-Length: 16\r\n"),
    "empty and chunked": post(b"Transfer-Encoding:\r\n" + CHUNKED, b"0\r\n\r\n"),
    "two headers, gzip and chunked": post(b"Transfer-Encoding: gzip\r\n" + CHUNKED, b"0\r\n\r\n"),
    "in HTTP/1.0": post(CHUNKED, b"0\r\n\r\n", line=b"POST /echo HTTP/1.0"),
    "on a new line": post(b"Transfer-Encoding:\r\n chunked\r\n", b"0\r\n\r\n"),
}

# Within a body: by the time it is read, the head was in order.
CHUNKS = {
    "no size": b"\r\n" + BODY + b"\r\n0\r\n\r\n",
    "size that is no number": b"xyz\r\n" + BODY + b"\r\n0\r\n\r\n",
    "negative size": b"-10\r\n" + BODY + b"\r\n0\r\n\r\n",
    "plus sign": b"+10\r\n" + BODY + b"\r\n0\r\n\r\n",
    "0x": b"0x10\r\n" + BODY + b"\r\n0\r\n\r\n",
    "space before": b" 10\r\n" + BODY + b"\r\n0\r\n\r\n",
    "space after": b"10 \r\n" + BODY + b"\r\n0\r\n\r\n",
    "size beyond 64 bits": b"10000000000000010\r\n" + BODY + b"\r\n0\r\n\r\n",
    "bare LF after the size": b"10\n" + BODY + b"\r\n0\r\n\r\n",
    "bare CR after the size": b"10\r" + BODY + b"\r\n0\r\n\r\n",
    "bare LF after the data": b"10\r\n" + BODY + b"\n0\r\n\r\n",
    "nothing after the data": b"10\r\n" + BODY + b"0\r\n\r\n",
    "size too small": b"f\r\n" + BODY + b"\r\n0\r\n\r\n",
    "bare LF in an extension": b"10;a\nb\r\n" + BODY + b"\r\n0\r\n\r\n",
    "bare CR in an extension": b"10;a\rb\r\n" + BODY + b"\r\n0\r\n\r\n",
    "bare LF after the last chunk": b"10\r\n" + BODY + b"\r\n0\n\r\n",
    "bare LFs at the end": b"10\r\n" + BODY + b"\r\n0\n\n",
    "bare LF after the trailers": b"10\r\n" + BODY + b"\r\n0\r\n\n",
    "bare LF in the trailers": b"10\r\n" + BODY + b"\r\n0\r\nX: y\n\r\n",
    "bare CR in the trailers": b"10\r\n" + BODY + b"\r\n0\r\nX: y\rZ: z\r\n\r\n",
    "folded trailer": b"10\r\n" + BODY + b"\r\n0\r\nX: y\r\n z\r\n\r\n",
    "trailer without a colon": b"10\r\n" + BODY + b"\r\n0\r\nX\r\n\r\n",
    "space in a trailer's name": b"10\r\n" + BODY + b"\r\n0\r\nX : y\r\n\r\n",
    "NUL in a trailer": b"10\r\n" + BODY + b"\r\n0\r\nX: \x00\r\n\r\n",
}

HOST = b"Host: localhost\r\n"
LINES = {
    "bare LF after the request line": b"GET /place/x HTTP/1.1\n" + HOST + b"\r\n",
    "bare LF after a header": get(b"Host: localhost\n"),
    "bare LFs everywhere": b"GET /place/x HTTP/1.1\nHost: localhost\n\n",
    "bare LF at the end": b"GET /place/x HTTP/1.1\r\nHost: localhost\r\n\n",
    "bare LF in a value": get(HOST + b"X: a\nContent-Length: 50\r\n"),
    "bare CR after the request line": b"GET /place/x HTTP/1.1\r" + HOST + b"\r\n",
    "bare CR in a value": get(HOST + b"X: a\rb\r\n"),
    "bare CR after a header": get(HOST + b"X: a\rContent-Length: 50\r\n"),
    "two CRs": get(HOST + b"X: a\r\r\n"),
    "CR at the end": b"GET /place/x HTTP/1.1\r\nHost: localhost\r\n\r\r\n",
    "folded line": get(HOST + b"X: a\r\n b\r\n"),
    "line folded with a tab": get(HOST + b"X: a\r\n\tb\r\n"),
    "first header folded": b"GET /place/x HTTP/1.1\r\n Host: localhost\r\n\r\n",
    "blank folded line": get(HOST + b"X: a\r\n \r\n"),
    "space in a name": get(HOST + b"X Y: a\r\n"),
    "space before the colon": get(HOST + b"X : a\r\n"),
    "tab before the colon": get(HOST + b"X\t: a\r\n"),
    "space before the colon of a length": post(b"Content-Length : 16\r\n"),
    "space before the colon of a coding": post(b"Transfer-Encoding : chunked\r\n", b"0\r\n\r\n"),
    "no colon": get(HOST + b"X\r\n"),
    "no name": get(HOST + b": a\r\n"),
    "NUL in a name": get(HOST + b"X\x00: a\r\n"),
    "NUL in a value": get(HOST + b"X: a\x00b\r\n"),
    "control character in a value": get(HOST + b"X: a\x01b\r\n"),
    "DEL in a value": get(HOST + b"X: a\x7fb\r\n"),
    "quote in a name": get(HOST + b'"X": a\r\n'),
    "parenthesis in a name": get(HOST + b"X(Y): a\r\n"),
    "8-bit in a name": get(HOST + b"X\xe9: a\r\n"),
    "NUL in the target": b"GET /place/\x00 HTTP/1.1\r\n" + HOST + b"\r\n",
    "control character in the target": b"GET /place/\x07 HTTP/1.1\r\n" + HOST + b"\r\n",
    "tab in the request line": b"GET\t/place/x\tHTTP/1.1\r\n" + HOST + b"\r\n",
    "space in the target": b"GET /place/x y HTTP/1.1\r\n" + HOST + b"\r\n",
    "two spaces in the request line": b"GET /place/x  HTTP/1.1\r\n" + HOST + b"\r\n",
    "space at the end of the request line": b"GET /place/x HTTP/1.1 \r\n" + HOST + b"\r\n",
    "space before the method": b" GET /place/x HTTP/1.1\r\n" + HOST + b"\r\n",
    "lower-case version": b"GET /place/x http/1.1\r\n" + HOST + b"\r\n",
    "version with a leading zero": b"GET /place/x HTTP/01.1\r\n" + HOST + b"\r\n",
    "version without a minor": b"GET /place/x HTTP/1\r\n" + HOST + b"\r\n",
    "version with two digits": b"GET /place/x HTTP/1.10\r\n" + HOST + b"\r\n",
    "other protocol": b"GET /place/x ICE/1.0\r\n" + HOST + b"\r\n",
    "unknown method": b"NONSENSE /place/x HTTP/1.1\r\n" + HOST + b"\r\n",
    "lower-case method": b"get /place/x HTTP/1.1\r\n" + HOST + b"\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(64)) + b"\r\n\r\n",
    "nonsense": b"\x00\xff\xfe" * 30 + b"\r\n\r\n",
    "an answer": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "missing Host": b"GET /place/x HTTP/1.1\r\n\r\n",
    "two Hosts": get(HOST + HOST),
    "two different Hosts": get(HOST + b"Host: elsewhere\r\n"),
    "two Hosts in HTTP/1.0": b"GET /place/x HTTP/1.0\r\n" + HOST + HOST + b"\r\n",
}

VERSIONS = {
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "no version": b"GET /place/x\r\n" + HOST + b"\r\n",
    "HTTP/2.0": b"GET /place/x HTTP/2.0\r\n" + HOST + b"\r\n",
    "HTTP/0.9": b"GET /place/x HTTP/0.9\r\n" + HOST + b"\r\n",
    "HTTP/1.2": b"GET /place/x HTTP/1.2\r\n" + HOST + b"\r\n",
    "HTTP/3.0": b"GET /place/x HTTP/3.0\r\n" + HOST + b"\r\n",
}

CASES = {**{f"length: {k}": v for k, v in LENGTHS.items()},
         **{f"coding: {k}": v for k, v in CODINGS.items()},
         **{f"chunk: {k}": post(CHUNKED, v) for k, v in CHUNKS.items()},
         **{f"line: {k}": v for k, v in LINES.items()}}


def check_refused(got, statuses):
    head, _, body = got.partition(b"\r\n\r\n")
    status = int(head.split()[1])
    assert head.startswith(b"HTTP/1.1 ") and status in statuses, head
    assert b"\r\nConnection: close" in head
    assert b'{"detail":' in body
    assert got.count(b"HTTP/1.1 ") == 1, "one answer, and no more"
    assert b"smuggled" not in body


@pytest.mark.parametrize("case", CASES)
def test_refused(fixture_server, case):
    check_refused(fixture_server.raw(CASES[case] + SMUGGLED), {400})


@pytest.mark.parametrize("case", CASES)
def test_refused_after_a_good_request(fixture_server, case):
    """What was learned from one request is not used for the next."""
    got = fixture_server.raw(request("/place/good") + CASES[case] + SMUGGLED)
    head, _, rest = got.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    check_refused(rest[rest.index(b"HTTP/1.1 ") :], {400})


@pytest.mark.parametrize("case", VERSIONS)
def test_version_is_refused(fixture_server, case):
    check_refused(fixture_server.raw(VERSIONS[case] + SMUGGLED), {400, 505})


@pytest.mark.parametrize("case", [c for c in CASES if "chunk: " in c or "LF" in c or "length: " in c])
def test_refused_in_pieces(fixture_server, case):
    """The same when the bytes come one by one: the parser's state is what is tested."""
    with fixture_server.connect() as peer:
        data = CASES[case] + SMUGGLED
        for at in range(len(data)):
            try:
                peer.send(data[at : at + 1])
            except (BrokenPipeError, ConnectionResetError):
                break
        check_refused(peer.rest(), {400})


@pytest.mark.parametrize("size", [b"ffffffffffffffff", b"8000000000000000", b"7fffffffffffffff"])
def test_largest_chunk_swallows_what_follows(fixture_server, size):
    got = fixture_server.raw(post(CHUNKED, size + b"\r\n" + BODY + b"\r\n0\r\n\r\n") + SMUGGLED, half_close=True)
    assert got == b"" or got.startswith(b"HTTP/1.1 400 ")


def test_refusal_reaches_a_client_that_is_still_sending(fixture_server):
    with fixture_server.connect() as peer:
        peer.send(LINES["two Hosts"])
        try:
            for _ in range(100):
                peer.send(b"x" * 65536)
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert peer.head().status == 400


@pytest.mark.parametrize("value", [b"localhost", b"  localhost  ", b"\tlocalhost\t"])
def test_white_space_around_a_value_is_fine(fixture_server, value):
    with fixture_server.connect() as peer:
        assert peer.ask(b"GET /place/x HTTP/1.1\r\nHost:" + value + b"\r\nX:\r\nY: \r\n\r\n").status == 200


def test_eight_bit_value_is_fine(fixture_server):
    with fixture_server.connect() as peer:
        assert peer.ask(get(HOST + "X-Other: \u00e9\u20ac\r\n".encode())).status == 200


def test_length_with_leading_zeros(fixture_server):
    """One number however it is written, so nothing is ambiguous."""
    with fixture_server.connect() as peer:
        assert peer.ask(post(b"Content-Length: 000016\r\n")).status == 200
        assert peer.ask(SMUGGLED.replace(b"smuggled", b"next")).json()["data"]["id"] == "next"


def test_get_with_a_body_keeps_its_frame(fixture_server):
    body = SMUGGLED
    with fixture_server.connect() as peer:
        peer.send(request("/place/outer", body=body) + request("/place/next"))
        assert [peer.answer().json()["data"]["id"] for _ in range(2)] == ["outer", "next"]


def test_upgrade_that_is_not_taken_keeps_its_frame(fixture_server):
    """A request that offers an upgrade is still a request with a body."""
    headers = {"Upgrade": "h2c", "Connection": "Upgrade, HTTP2-Settings", "HTTP2-Settings": "AAMAAABk",
               "Content-Type": "application/json"}
    with fixture_server.connect() as peer:
        peer.send(request("/echo", "POST", headers, BODY) + request("/place/next"))
        assert peer.answer().json()["data"]["text"] == "hello"
        assert peer.answer().json()["data"]["id"] == "next"


def test_connect_does_not_open_a_tunnel(fixture_server):
    got = fixture_server.raw(b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n" + SMUGGLED, half_close=True)
    assert got.split()[1] in (b"400", b"405", b"501")
