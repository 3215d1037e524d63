"""Requests and answers as HTTP/1.1 wants them, and errors in the shape that clients expect."""

import json
import re

import pytest

from harness import chunked, request
from refusals import is_refusal, problem

JSON = {"Content-Type": "application/json"}
ECHO = b'{"text":"hello"}'


def echo(**more):
    return request("/echo", "POST", {**JSON, **more}, ECHO)


# --- connections -------------------------------------------------------------------------------


def test_connection_is_kept(fixture_server):
    with fixture_server.connect() as peer:
        ids = set()
        for i in range(20):
            answer = peer.ask(request(f"/place/{i}"))
            assert answer.status == 200 and answer.json()["data"]["id"] == str(i)
            assert answer["connection"] is None
            ids.add(answer["x-request-id"])
        assert len(ids) == 20


def test_close_is_honoured(fixture_server):
    with fixture_server.connect() as peer:
        answer = peer.ask(request(headers={"Connection": "close"}))
        assert answer.status == 200 and answer["connection"] == "close"
        assert peer.ended()


def test_pipelined_requests_are_answered_in_order(fixture_server):
    wanted = [
        (request("/place/first"), "first"),
        (request("/echo", "POST", JSON, b'{"text":"second"}'), "second"),
        (request("/echo", "POST", {**JSON, "Transfer-Encoding": "chunked"},
                 chunked(b'{"text"', b':"third"}')), "third"),
        (request("/wait?ms=50"), "timeout"),
        (request("/place/fifth"), "fifth"),
    ]
    with fixture_server.connect() as peer:
        peer.send(b"".join(data for data, _ in wanted))
        for _, word in wanted:
            answer = peer.answer()
            assert answer.status == 200 and word in answer.body.decode()


def test_many_pipelined_requests(fixture_server):
    with fixture_server.connect() as peer:
        peer.send(b"".join(request(f"/place/{i}") for i in range(500)))
        assert [peer.answer().json()["data"]["id"] for _ in range(500)] == [str(i) for i in range(500)]


def test_pipelined_requests_after_close_are_not_answered(fixture_server):
    with fixture_server.connect() as peer:
        peer.send(request(headers={"Connection": "close"}) + request("/place/x"))
        assert peer.answer().status == 200
        assert peer.ended()


@pytest.mark.parametrize("data", [request("/place/slow"), echo(),
                                  request("/echo", "POST", {**JSON, "Transfer-Encoding": "chunked"},
                                          chunked(ECHO[:5], ECHO[5:]))])
def test_byte_by_byte(fixture_server, data):
    with fixture_server.connect() as peer:
        for byte in data:
            peer.send(bytes([byte]))
        assert peer.answer().status == 200
        assert peer.ask(request()).status == 200


def test_half_closed_client_gets_its_answer(fixture_server):
    with fixture_server.connect() as peer:
        peer.send(request("/wait?ms=200"))
        peer.half_close()
        assert peer.answer().json()["data"] == "timeout"
        assert peer.ended()


def test_half_closed_client_gets_all_its_answers(fixture_server):
    with fixture_server.connect() as peer:
        peer.send(request("/place/a") + echo() + request("/items?count=1000&size=1000"))
        peer.half_close()
        assert peer.answer().json()["data"]["id"] == "a"
        assert peer.answer().json()["data"]["text"] == "hello"
        assert len(peer.answer().json()["data"]) == 1000
        assert peer.ended()


def test_client_that_says_nothing(fixture_server):
    with fixture_server.connect() as peer:
        peer.half_close()
        assert peer.ended()


@pytest.mark.parametrize("cut", [1, 30, len(echo()) - 1])
def test_client_that_leaves_in_the_middle(fixture_server, cut):
    with fixture_server.connect() as peer:
        peer.send(echo()[:cut])
        peer.half_close()
        assert peer.ended()


def test_empty_lines_before_a_request(fixture_server):
    with fixture_server.connect() as peer:
        assert peer.ask(b"\r\n" + request(), "GET").status == 200
        assert peer.ask(b"\r\n" + request(), "GET").status == 200


# --- HTTP/1.0 ----------------------------------------------------------------------------------


def test_http_1_0(fixture_server):
    with fixture_server.connect() as peer:
        answer = peer.ask(request(version="1.0", host=None))
        assert answer.status == 200 and answer.body == b"OK" and answer["connection"] == "close"
        assert peer.ended()


def test_http_1_0_keeps_on_request(fixture_server):
    with fixture_server.connect() as peer:
        for _ in range(3):
            answer = peer.ask(request(version="1.0", headers={"Connection": "keep-alive"}))
            assert answer.status == 200 and answer["connection"].lower() == "keep-alive"


def test_http_1_0_gets_a_stream_without_chunks(fixture_server):
    with fixture_server.connect() as peer:
        answer = peer.ask(request("/items?count=1000&size=1000", version="1.0",
                                  headers={"Connection": "keep-alive"}))
        assert answer["transfer-encoding"] is None and answer["content-length"] is None
        assert answer["connection"] == "close"
        assert answer.json()["data"] == ["x" * 1000] * 1000


# --- bodies ------------------------------------------------------------------------------------


def in_chunks(body, size):
    return [body[i : i + size] for i in range(0, len(body), size)]


@pytest.mark.parametrize("size", [1, 2, 7, 1000, 4095, 4096, 4097, 65535, 65536, 65537, 1 << 20])
def test_chunked_body(fixture_server, size):
    text = "".join(chr(33 + i % 90) for i in range(20000 if size < 10 else 300000))
    body = json.dumps({"text": "t", "free": text}).encode()
    with fixture_server.connect() as peer:
        for _ in range(2):
            answer = peer.ask(request("/echo", "POST", {**JSON, "Transfer-Encoding": "chunked"},
                                      chunked(*in_chunks(body, size))))
            assert answer.status == 200 and answer.json()["data"]["free"] == text


def test_chunks_split_anywhere(fixture_server):
    data = request("/echo", "POST", {**JSON, "Transfer-Encoding": "chunked"},
                   chunked(ECHO[:4], ECHO[4:], end=b"0\r\nX-Sum: 5\r\n\r\n"))
    for at in range(data.index(b"\r\n\r\n"), len(data)):
        with fixture_server.connect() as peer:
            peer.send(data[:at])
            peer.send(data[at:] + request("/place/next"))
            assert peer.answer().json()["data"]["text"] == "hello"
            assert peer.answer().json()["data"]["id"] == "next"


@pytest.mark.parametrize("body", [
    chunked(ECHO, end=b"0\r\nX-Trailer: a\r\nX-Other: b\r\n\r\n"),
    chunked(ECHO, end=b"0\r\nContent-Length: 900\r\nHost: elsewhere\r\n\r\n"),
    b"10;name=value\r\n" + ECHO + b"\r\n0;last\r\n\r\n",
    b'10;name="quoted; text"\r\n' + ECHO + b"\r\n0\r\n\r\n",
    b"0000010\r\n" + ECHO + b"\r\n000\r\n\r\n",
    b"4\r\n" + ECHO[:4] + b"\r\nC\r\n" + ECHO[4:] + b"\r\n0\r\n\r\n",
    b"4\r\n" + ECHO[:4] + b"\r\nc\r\n" + ECHO[4:] + b"\r\n0\r\n\r\n",
])
def test_chunk_extensions_and_trailers(fixture_server, body):
    with fixture_server.connect() as peer:
        peer.send(request("/echo", "POST", {**JSON, "Transfer-Encoding": "chunked"}, body))
        assert peer.answer().json()["data"]["text"] == "hello"
        assert peer.ask(request("/place/next")).json()["data"]["id"] == "next"


def test_transfer_encoding_in_any_case(fixture_server):
    with fixture_server.connect() as peer:
        data = request("/echo", "POST", {**JSON, "TRANSFER-ENCODING": "Chunked"}, chunked(ECHO))
        assert peer.ask(data).json()["data"]["text"] == "hello"


def test_body_that_nobody_wants_is_skipped(fixture_server):
    with fixture_server.connect() as peer:
        for body in (b"x", b"x" * 100000):
            assert peer.ask(request("/place/a", "GET", body=body)).status == 200
            data = request("/nothing", "POST", {"Transfer-Encoding": "chunked"}, chunked(body))
            assert peer.ask(data).status == 404


def test_body_too_large_to_be_skipped_ends_the_connection(fixture_server):
    with fixture_server.connect() as peer:
        peer.send(request("/place/a", headers={"Content-Length": 1 << 30}))
        answer = peer.answer()
        assert answer.status == 200
        assert answer["connection"] == "close", "the client has to know"


@pytest.mark.parametrize("body", [b"", b"null", b"  \n"])
def test_absent_body(fixture_server, body):
    with fixture_server.connect() as peer:
        answer = peer.ask(request("/echo", "POST", JSON, body))
        assert answer.status == 422
        assert answer.json()["detail"][0]["loc"][0] == "body"


# --- Expect ------------------------------------------------------------------------------------

EXPECT = {**JSON, "Expect": "100-continue", "Content-Length": len(ECHO)}


def test_continue_is_said_when_the_body_is_wanted(fixture_server):
    with fixture_server.connect() as peer:
        for _ in range(3):
            peer.send(request("/echo", "POST", EXPECT))
            first = peer.head()
            assert first.status == 100 and first.headers == []
            answer = peer.ask(ECHO, "POST")
            assert answer.status == 200 and answer.json()["data"]["text"] == "hello"


def test_continue_for_chunks(fixture_server):
    with fixture_server.connect() as peer:
        peer.send(request("/echo", "POST", {**JSON, "Expect": "100-Continue", "Transfer-Encoding": "chunked"}))
        assert peer.head().status == 100
        assert peer.ask(chunked(ECHO), "POST").status == 200


def test_continue_is_not_said_to_http_1_0(fixture_server):
    with fixture_server.connect() as peer:
        peer.send(request("/echo", "POST", EXPECT, ECHO, version="1.0"))
        assert peer.head().status == 200


def test_body_that_does_not_wait_for_continue(fixture_server):
    with fixture_server.connect() as peer:
        peer.send(request("/echo", "POST", EXPECT, ECHO) + request("/place/next"))
        answers = [peer.answer(), peer.answer()]
        if answers[0].status == 100:
            answers = [answers[1], peer.answer()]
        assert [a.status for a in answers] == [200, 200]


@pytest.mark.parametrize("status, target, headers", [
    (404, "/nothing", {}),
    (405, "/health", {}),
    (415, "/echo", {"Content-Type": "text/plain"}),
    (413, "/echo", {"Content-Length": 1 << 40}),
    (413, "/upload", {"Content-Length": 1 << 50, "Content-Type": "multipart/form-data; boundary=x"}),
    (403, "/echo", {"Origin": "http://evil.example"}),
])
def test_continue_is_not_said_before_a_refusal(fixture_server, status, target, headers):
    with fixture_server.connect() as peer:
        peer.send(request(target, "POST", {**EXPECT, **headers}))
        answer = peer.answer()
        assert answer.status == status
        assert answer["connection"] == "close", "whether the body follows is not known"
        assert peer.ended()


def test_continue_is_not_said_without_credentials(start_server):
    guarded = start_server(env={"SANDBOX_API_KEY": "secret"}, program="fixture")
    with guarded.connect() as peer:
        peer.send(request("/echo", "POST", EXPECT))
        assert peer.answer().status == 401
        assert peer.ended()


# --- methods -----------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["/health", "/place/x?q=y", "/openapi.json", "/items?count=5000&size=100",
                                    "/nothing", "/fail?code=1003", "/place/x?limit=99",
                                    "/download?path=/etc/passwd", "/download?path=/nowhere"])
def test_head_says_what_get_says(fixture_server, target):
    with fixture_server.connect() as peer:
        get, head = peer.ask(request(target)), peer.ask(request(target, "HEAD"))
        assert get.status == head.status
        differ = {"date", "x-request-id"}
        assert [h for h in get.headers if h[0].lower() not in differ] == \
               [h for h in head.headers if h[0].lower() not in differ]
        assert peer.ask(request("/place/next")).json()["data"]["id"] == "next"


def test_options_tells_the_methods(fixture_server):
    answer = fixture_server.request("OPTIONS", "/place/x")
    assert answer.status_code == 204
    assert set(re.split(", *", answer.headers["allow"])) == {"GET", "HEAD", "DELETE", "OPTIONS"}
    assert "content-length" not in answer.headers
    assert fixture_server.request("OPTIONS", "/nothing").status_code == 404


@pytest.mark.parametrize("method, target, allowed", [
    ("POST", "/health", {"GET", "HEAD", "OPTIONS"}),
    ("GET", "/echo", {"POST", "OPTIONS"}),
    ("PATCH", "/place/x", {"GET", "HEAD", "DELETE", "OPTIONS"}),
    ("PROPFIND", "/echo", {"POST", "OPTIONS"}),
])
def test_wrong_method(fixture_server, method, target, allowed):
    answer = fixture_server.request(method, target)
    assert answer.status_code == 405 and answer.json() == {"detail": "Method Not Allowed"}
    assert set(re.split(", *", answer.headers["allow"])) == allowed


@pytest.mark.parametrize("method", ["CONNECT", "TRACE"])
def test_unwanted_method(fixture_server, method):
    target = "localhost:80" if method == "CONNECT" else "/health"
    with fixture_server.connect() as peer:
        assert peer.ask(request(target, method)).status in (400, 405, 501)


# --- targets -----------------------------------------------------------------------------------


@pytest.mark.parametrize("target, value", [
    ("/place/a", "a"),
    ("/place/a%20b", "a b"),
    ("/place/a%2Fb", "a/b"),
    ("/place/%c3%A9", "\u00e9"),
    ("/place/%e2%82%ac", "\u20ac"),
    ("/place/a+b", "a+b"),
    ("/place/a;b=c", "a;b=c"),
    ("/place/%25", "%"),
    ("/place/%252e", "%2e"),
    ("/place/...", "..."),
    ("http://localhost/place/absolute", "absolute"),
    ("HTTP://LOCALHOST:80/place/absolute?q=1", "absolute"),
])
def test_target(fixture_server, target, value):
    with fixture_server.connect() as peer:
        assert peer.ask(request(target)).json()["data"]["id"] == value


@pytest.mark.parametrize("target", ["http://localhost", "http://localhost?q=1", "http://localhost/"])
def test_absolute_target_without_a_path(server, target):
    with server.connect() as peer:
        assert peer.ask(request(target)).status == 307


@pytest.mark.parametrize("target", [
    "/nothing", "/place", "/place/", "/place//", "/place/a/b", "/Place/a", "/health/", "//health",
    "/health%00", "/health%2f", "/place/%00", "/place/%zz", "/place/%", "/place/%f", "/place/%ff", "*",
])
def test_no_such_path(fixture_server, target):
    with fixture_server.connect() as peer:
        answer = peer.ask(request(target))
        assert answer.status in (400, 404)
        if answer.status == 404:
            assert answer.body == b'{"detail":"Not Found"}'


@pytest.mark.parametrize("target", ["health", "?q=1", "ftp://localhost/health", "localhost:80", "https://", "/place/x#y"])
def test_target_that_is_no_path(fixture_server, target):
    with fixture_server.connect() as peer:
        assert peer.ask(request(target)).status == 400


def test_query(fixture_server):
    data = fixture_server.get("/place/x?q=a%20b%26c+d&limit=7&deep=true&tags=1&tags=2&unknown=3").json()["data"]
    assert (data["q"], data["limit"], data["deep"], data["tags"]) == ("a b&c d", 7, True, ["1", "2"])


def test_headers_become_fields(fixture_server):
    with fixture_server.connect() as peer:
        answer = peer.ask(request("/place/x", headers={"X-THING": " \t some thing \t "}))
        assert answer.json()["data"]["x-thing"] == "some thing"


def test_plain_path_wins_over_a_pattern(fixture_server):
    assert fixture_server.get("/place/special").json()["data"] is None


# --- errors ------------------------------------------------------------------------------------


def test_unknown_path(server):
    answer = server.get("/v1/no/such/thing")
    assert answer.status_code == 404 and answer.content == b'{"detail":"Not Found"}'
    assert answer.headers["content-type"] == "application/json"


def test_every_answer_has_its_headers(fixture_server):
    for target in ("/health", "/place/x", "/nothing", "/place/x?limit=0", "/items?count=10000&size=1000"):
        answer = fixture_server.get(target)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert re.fullmatch(r"\w+, \d\d \w+ \d{4} \d\d:\d\d:\d\d GMT", answer.headers["date"])
        assert answer.headers["x-request-id"] and answer.headers["content-type"]


@pytest.mark.parametrize("type", [None, "text/plain", "application/x-www-form-urlencoded",
                                  "multipart/form-data; boundary=x", "application/jsonx", "json", ""])
def test_wrong_media_type(fixture_server, type):
    headers = {} if type is None else {"Content-Type": type}
    with fixture_server.connect() as peer:
        answer = peer.ask(request("/echo", "POST", headers, ECHO))
        assert answer.status == 415 and "application/json" in answer.json()["detail"]
        assert peer.ask(request()).status == 200


@pytest.mark.parametrize("type", ["application/json", "Application/JSON; charset=utf-8",
                                  "application/json;charset=UTF-8"])
def test_media_type(fixture_server, type):
    assert fixture_server.post("/echo", content=ECHO, headers={"Content-Type": type}).status_code == 200


@pytest.mark.parametrize("body", [b"{", b"{]", b'{"text":}', b'{"text":"a",}', b"nonsense", b"'a'", b"{text:1}",
                                  b'{"text":"\x01"}', b'{"text":"a"} x', b'{"text":01}', b'{"text":NaN}',
                                  b'{"text":"\xff"}', b'{"text":"\xc0\x80"}', b'{"text":"\xed\xa0\x80"}',
                                  b'{"text":"\\ud8"}', b'{"text":"\\x"}', b'\x00', b'{"te\x00xt":1}'])
def test_invalid_json(fixture_server, body):
    answer = fixture_server.post("/echo", content=body, headers=JSON)
    assert answer.status_code == 422
    (problem,) = answer.json()["detail"]
    assert problem["type"] == "json_invalid"
    assert problem["loc"][0] == "body" and isinstance(problem["loc"][1], int)
    assert 0 <= problem["loc"][1] <= len(body)
    assert "JSON" in problem["msg"]


def test_invalid_fields(fixture_server):
    answer = fixture_server.post("/echo", {"integer": 11, "one": {"size": "x"}, "colour": "pink"})
    assert answer.status_code == 422
    found = {tuple(p["loc"]): p for p in answer.json()["detail"]}
    assert set(found) == {("body", "text"), ("body", "integer"), ("body", "one", "name"),
                          ("body", "one", "size"), ("body", "colour")}
    assert found["body", "text"]["type"] == "missing"
    assert found["body", "text"]["msg"] == "Field required"
    assert found["body", "integer"] == {
        "type": "less_than_equal", "loc": ["body", "integer"], "input": 11,
        "msg": "Input should be less than or equal to 10",
    }
    assert found["body", "one", "size"]["type"] == "int_parsing"


def test_invalid_query(fixture_server):
    (problem,) = fixture_server.get("/place/x?limit=many").json()["detail"]
    assert problem["loc"] == ["query", "limit"] and problem["input"] == "many"


def test_huge_invalid_input_is_not_sent_back(fixture_server):
    answer = fixture_server.post("/echo", {"text": "x" * (8 << 20)})
    assert answer.status_code == 422 and len(answer.content) < 1 << 20
    assert answer.json()["detail"][0]["type"] == "string_too_long"


def test_many_problems_are_told_in_bounded_space(fixture_server):
    answer = fixture_server.post("/echo", {"text": "t", "integers": ["x" * 500] * 50000})
    assert answer.status_code == 422 and len(answer.content) < 4 << 20
    assert answer.json()["detail"][0]["loc"] == ["body", "integers", 0]


# An errno too: a handler passes on what the system said.
CODES = {1000: 400, 1001: 401, 1002: 403, 1003: 404, 1005: 408, 1006: 409, 1007: 413, 1008: 415, 1010: 422,
         1012: 429, 1014: 500, 1015: 501, 1016: 503, 2: 404, 13: 403, 17: 409, 21: 400, 28: 507, 5: 500, 9999: 500}


@pytest.mark.parametrize("code", CODES)
def test_error_of_a_handler(fixture_server, code):
    answer = fixture_server.get(f"/fail?code={code}")
    assert answer.status_code == CODES[code]
    body = answer.json()
    assert is_refusal(answer) if answer.status_code == 422 else body["success"] is False and body["data"] is None
    assert problem(answer).startswith('it failed "so"')


def test_failure_in_the_middle_is_not_hidden(fixture_server):
    with fixture_server.connect() as peer:
        answer = peer.ask(request("/fail?code=1014&late=true"))
        assert answer.status == 200 and answer.body == b"event: first\ndata: x\n\n"
        assert not answer.complete
        assert peer.ended()


def test_large_numbers_and_odd_text_survive(fixture_server):
    body = (b'{"text":"t","free":{"big":123456789012345678901234567890,"small":-9223372036854775808,'
            b'"top":9223372036854775807,"over":9223372036854775808,"lone":"a\\ud800b\\udc00","pair":"\\ud83d\\ude00",'
            b'"nul":"a\\u0000b","real":0.1,"exp":1e300}}')
    data = fixture_server.post("/echo", content=body, headers=JSON).json()["data"]["free"]
    assert data["big"] == pytest.approx(123456789012345678901234567890, rel=1e-12)
    assert data["small"] == -(1 << 63) and data["top"] == (1 << 63) - 1
    assert data["over"] == pytest.approx(1 << 63, rel=1e-12)
    assert data["lone"] == "a\ufffdb\ufffd" and data["pair"] == "\U0001f600"
    assert data["nul"] == "a\0b" and data["real"] == 0.1 and data["exp"] == 1e300


def test_bom_and_white_space(fixture_server):
    assert fixture_server.post("/echo", content=b" \r\n\t" + ECHO + b"\n\n", headers=JSON).status_code == 200


def test_tagged_union(fixture_server):
    move = {"action_type": "MOVE", "x": 1, "y": 2}
    assert fixture_server.post("/action", move).json()["data"] == move
    assert fixture_server.post("/action", {"action_type": "FLY"}).status_code == 422
    assert fixture_server.post("/action", {"action_type": "TYPE", "x": 1}).status_code == 422


# --- other ways in -----------------------------------------------------------------------------


def test_small_receive_buffer(fixture_server):
    """A client with a tiny window gets the whole of a large answer."""
    with fixture_server.connect(receive_buffer=2048) as peer:
        answer = peer.ask(request("/items?count=300&size=10000"))
        assert answer.complete and answer.json()["data"] == ["x" * 10000] * 300
