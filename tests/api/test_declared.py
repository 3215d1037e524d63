"""Declared requests, checked as FastAPI checks them: the same models, built here with pydantic,
judge the same inputs, and what is refused must be refused in the same words."""

import asyncio
import json
from enum import Enum
from typing import Annotated, Any, Literal, Union
from urllib.parse import unquote

import httpx
import pytest
from fastapi import FastAPI, Header, Path, Query
from pydantic import AfterValidator, AliasChoices, BaseModel, Field
from pydantic_core import PydanticCustomError

from harness import request

# --- what tests/fixture/main.c declares --------------------------------------------------------


def no_nul(text):
    """A C string ends at NUL, so ours refuse it; a TEXT field takes it."""
    if "\0" in text:
        raise PydanticCustomError("string_nul", "Input should not contain NUL")
    return text


def absolute(text):
    if text and not text.startswith("/"):
        raise PydanticCustomError("path_not_absolute", "Path should be absolute")
    return text


Str = Annotated[str, AfterValidator(no_nul)]
Number = Annotated[float, Field(allow_inf_nan=False)]


class Colour(str, Enum):
    red = "red"
    green = "green"
    blue = "blue"


class Inner(BaseModel):
    name: Annotated[str, Field(max_length=10), AfterValidator(no_nul)]
    size: int = Field(7, ge=1, le=100)


class AllTypes(BaseModel):
    text: Annotated[str, Field(min_length=1, max_length=20), AfterValidator(no_nul)] = Field(
        validation_alias=AliasChoices("text", "string", "txt")
    )
    path: Annotated[Str, AfterValidator(absolute)] | None = None
    quiet: Str | None = None
    colour: Colour = Colour.green
    bytes: str | None = None
    integer: int = Field(5, ge=-10, le=10)
    optional_integer: int | None = None
    number: Number | None = Field(None, gt=0)
    flag: bool = True
    maybe: bool | None = None
    free: Any = None
    one: Inner | None = None
    strings: list[Str] = Field([], max_length=5)
    integers: list[int] = []
    numbers: list[Number] = []
    flags: list[bool] = []
    inners: list[Inner] = []
    map: dict[str, Str] = {}


class Move(BaseModel):
    action_type: Literal["MOVE"]
    x: int
    y: int


class Type(BaseModel):
    action_type: Literal["TYPE"]
    text: Str


app = FastAPI()


@app.post("/echo")
def echo(request: AllTypes):
    return {"data": request}


@app.post("/action")
def action(request: Annotated[Union[Move, Type], Field(discriminator="action_type")]):
    return {"data": request}


@app.get("/place/{id}")
def place(
    id: Annotated[str, Path(max_length=30), AfterValidator(no_nul)],
    q: Str | None = None,
    limit: Annotated[int, Query(ge=1, le=50)] = 10,
    deep: bool = False,
    tags: Annotated[list[Str], Query()] = [],
    x_thing: Annotated[Str | None, Header()] = None,
):
    return {"data": {"id": id, "q": q, "limit": limit, "deep": deep, "tags": tags, "x-thing": x_thing}}


# --- asking both -------------------------------------------------------------------------------


def reference(method, target, **more):
    async def ask():
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://reference") as client:
            return await client.request(method, target, **more)

    return asyncio.run(ask())


def verdict(answer):
    """What counts of an answer: the value, or each problem's type, place and message."""
    if answer.status_code == 500:
        return 500, None
    body = answer.json()
    if answer.status_code == 422:
        return 422, [(p["type"], p["loc"], p["msg"]) for p in body["detail"]]
    return answer.status_code, body.get("data")


def compare(server, method, target, **more):
    ours, theirs = server.request(method, target, **more), reference(method, target, **more)
    assert verdict(ours) == verdict(theirs)
    if ours.status_code == 422:
        for a, b in zip(ours.json()["detail"], theirs.json()["detail"]):
            assert a["input"] == b["input"], a


def as_json(body):
    """Text as it is, anything else as JSON."""
    text = body if isinstance(body, (str, bytes)) else json.dumps(body)
    return {"content": text, "headers": {"Content-Type": "application/json"}}


def both(server, body, target="/echo"):
    """The verdicts on a body: ours and theirs."""
    return (
        verdict(server.request("POST", target, **as_json(body))),
        verdict(reference("POST", target, **as_json(body))),
    )


NOT_STRINGS = [1, 1.5, True, None, [], {}]
NUMBERS = [
    *[0, 1, -1, 7, 1.0, -1.0, 1.5, 1e3, 2**53 + 1, 2**62, True, False, [], {}, [1], 1e30, -1e30],
    *["", " ", "1", "0", "00", "-0", "007", " 1 ", "\t1\n", "+1", "-1", "- 1", "+-1", "1.0", "1.000", "1."],
    *[".0", ".5", "5.", "1.5", "1e1", "1E+2", "1e", "e1", "0x1", "0b1", "1_0", "1__0", "_1", "1_", "1_0.5"],
    *["1,5", "1 0", "abc", "1abc", "٣", "½", "1\0", "\0001", "nan", "NaN", "inf", "-inf", "Infinity", "infinity"],
    *["1e999", "-1e999", "true", "None", "1e-400", "9223372036854775807", "--1", "1.0.0", "1.0e0", "1-1"],
]
BOOLEANS = [
    *[True, False, 0, 1, 2, -1, 0.0, 1.0, 0.5, 2.0, [], {}, "", " ", "true", "TRUE", "True", "tRuE", "t", "T"],
    *["f", "false", "yes", "Y", "no", "N", "on", "ON", "off", "oFF", "1", "0", "2", "1.0", " true ", "true\0"],
    *["enabled", "none"],
]

ECHO = [
    {},
    {"text": "x"},
    {"text": "x", "unknown": 1},
    *[{"text": text} for text in [*NOT_STRINGS, "", "a" * 20, "a" * 21, "é" * 20, "é" * 21, "😀" * 20, "a\0b"]],
    {"string": "x"},
    {"txt": "x"},
    {"txt": "x", "string": "y", "text": "z"},
    {"txt": "x", "string": "y"},
    *[{"text": "x", "path": path} for path in ["/", "/a b", "", "a", "./a", "~", "/\0", "a\0", *NOT_STRINGS]],
    *[{"text": "x", "quiet": text} for text in ["", "é", "\0", 1]],
    *[{"text": "x", "colour": c} for c in ["red", "blue", "RED", "", "pink", "red\0", 1, [], {}, True]],
    *[{"text": "x", "bytes": text} for text in ["", "a\0b", "\0", "é€😀", *NOT_STRINGS]],
    *[{"text": "x", "optional_integer": value} for value in [None, *NUMBERS]],
    *[{"text": "x", "integer": value} for value in [-11, -10, 10, 11, "11", 11.0, 10.0, "-11", 1e30, *NUMBERS]],
    *[{"text": "x", "number": value} for value in [None, 1e308, 5e-324, *NUMBERS]],
    *[{"text": "x", "flag": value} for value in BOOLEANS],
    *[{"text": "x", "maybe": value} for value in [None, *BOOLEANS]],
    *[{"text": "x", "free": value} for value in [None, 1, 1.0, 1.5, "a\0", [], {}, [None, {"a": [1e3, "é"]}], True]],
    *[{"text": "x", "one": value} for value in [None, {}, {"name": "n"}, {"name": "n", "size": "5"}, 1, [], "x"]],
    {"text": "x", "one": {"name": "n" * 11, "size": 0}},
    {"text": "x", "one": {"size": 101}},
    {"text": "x", "one": {"name": None, "size": []}},
    *[{"text": "x", "strings": value} for value in [[], ["a"] * 5, ["a"] * 6, [1, "a", None], "a", {}, 1]],
    {"text": "x", "strings": [1] * 7},
    {"text": "x", "integers": [1, "2", 2.0, True, 1.5, None, "x"]},
    {"text": "x", "numbers": [1, "2", 2.5, True, None, "nan", "x"]},
    {"text": "x", "flags": [1, "yes", True, 2, None, 0.5]},
    {"text": "x", "inners": [{"name": "a"}, {"size": 1}, 3, None, {"name": "b", "size": 3}]},
    {"text": "x", "inners": [{"name": "a"}, {"name": "b", "size": "3"}]},
    {"text": "x", "inners": {}},
    *[{"text": "x", "map": value} for value in [{}, {"a": "b", "": ""}, {"a": 1, "b": None, "c": "\0"}, [], "x", 1]],
    {"text": 1, "integer": "x", "flag": 7, "one": {}, "strings": [1], "map": {"a": 1}},
    *["", "[]", "null", "1", '"x"', "true", " \n\t[1]"],
    '{"text":"x","text":"y"}',
    '{"text":"\\u0041\\ud83d\\ude00\\"\\\\\\/\\b"}',
]
ACTION = [
    {"action_type": "MOVE", "x": 1, "y": "2"},
    {"action_type": "TYPE", "text": "t", "x": 1},
    {"action_type": "TYPE"},
    {"action_type": "MOVE", "x": "a"},
    {"action_type": "MOVE", "x": None, "y": 1.5},
    {"action_type": "NO"},
    {"action_type": "move"},
    {"action_type": ""},
    {"action_type": 1},
    {"action_type": 1.5},
    {},
    {"x": 1},
    *["", "[]", "null", "1"],
]


@pytest.mark.parametrize("body", ECHO, ids=lambda body: repr(body)[:60])
def test_echo(fixture_server, body):
    compare(fixture_server, "POST", "/echo", **as_json(body))


@pytest.mark.parametrize("body", ACTION, ids=lambda body: repr(body)[:60])
def test_union(fixture_server, body):
    compare(fixture_server, "POST", "/action", **as_json(body))


PLACES = [
    "/place/x",
    "/place/a%20b%2B",
    "/place/%C3%A9+%2B",
    "/place/" + "x" * 30,
    "/place/" + "x" * 31,
    "/place/" + "%C3%A9" * 30,
    "/place/" + "%C3%A9" * 31,
    "/place/x?q=a&limit=5&deep=true&tags=a&tags=b",
    "/place/x?q=a+b%20c%2B&q=last",
    "/place/x?q=",
    "/place/x?q",
    "/place/x?q=%C3%A9",
    "/place/x?q=%FFa%C3",
    "/place/x?q=%zz%4",
    "/place/x?q=a;b",
    "/place/x?q=a=b",
    "/place/x?q=%00",
    "/place/x?&&q=1&",
    "/place/x?unknown=1",
    "/place/x?tags=",
    "/place/x?tags=a",
    "/place/x?tags=a,b",
    "/place/x?tags=%00&tags=b",
    "/place/x?deep=",
    "/place/x?deep=maybe",
    *[f"/place/x?limit={n}" for n in ["0", "1", "50", "51", "", "abc", "1.0", "1.5", "+7", "%207%20", "1e1", "7&limit=8"]],
    "/place/" + "x" * 31 + "?limit=0&deep=x&tags=a",
]


@pytest.mark.parametrize("target", PLACES, ids=lambda target: target[:60])
def test_places(fixture_server, target):
    assert verdict(raw_get(fixture_server, target)) == verdict(asyncio.run(asgi_get(target)))


def raw_get(server, target):
    """With the target as it is: httpx would encode it."""
    with server.connect() as peer:
        answer = peer.ask(request(target, headers={"X-Thing": "a b", "Connection": "close"}))
    return httpx.Response(answer.status, content=answer.body)


async def asgi_get(target):
    """The same of the reference, as a server of Python's hands it over."""
    path, _, query = target.encode().partition(b"?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": unquote(path.decode()),
        "raw_path": path,
        "query_string": query,
        "root_path": "",
        "headers": [(b"x-thing", b"a b")],
        "server": ("reference", 80),
        "client": ("client", 1),
    }
    sent = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        sent.append(message)

    await app(scope, receive, send)
    return httpx.Response(sent[0]["status"], content=b"".join(m.get("body", b"") for m in sent[1:]))


# --- where we differ, and why ------------------------------------------------------------------


@pytest.mark.parametrize("field", ["colour", "integer", "flag", "strings", "integers", "inners", "map"])
def test_null_is_absent(fixture_server, field):
    """The contract: SDKs send an explicit None as null, also for fields that have a default."""
    ours, theirs = both(fixture_server, {"text": "x", field: None})
    assert ours == both(fixture_server, {"text": "x"})[0]
    assert theirs[0] == 422


@pytest.mark.parametrize("value", [2**63, -(2**63), -(2**63) - 1, 10**30, str(2**63), "9" * 5000], ids=lambda v: str(v)[:30])
def test_integers_have_64_bits(fixture_server, value):
    """Theirs have none: an integer that does not fit is refused, in the words for a float that does not."""
    ours, _ = both(fixture_server, {"text": "x", "optional_integer": value})
    message = "Unable to parse input string as an integer, exceeded maximum size"
    assert ours == (422, [("int_parsing_size", ["body", "optional_integer"], message)])


@pytest.mark.parametrize(
    "body, at",
    [
        ("{", 1),
        ('{"text":}', 8),
        ("{} {}", 3),
        ('{"text":"x"', 11),
        ("nope", 0),
        ('{"text":"\n"}', 9),
        ("{'text':'x'}", 1),
        ('{"text":"x",}', 12),
    ],
)
def test_bad_json(fixture_server, body, at):
    """The message says what is wrong (theirs is in `ctx`), the place is where our parser stopped."""
    (status, (problem,)), theirs = both(fixture_server, body)
    assert (status, problem[0], problem[1][0]) == (422, "json_invalid", "body")
    assert at <= problem[1][1] <= len(body)
    assert problem[2].startswith("JSON decode error: ")
    assert theirs[1][0][:1] == ("json_invalid",) and theirs[1][0][2] == "JSON decode error"


@pytest.mark.parametrize("body", [b"\xff", b'{"text":"\xff"}', b'{"text":"\xed\xa0\x80"}'])
def test_bad_utf8(fixture_server, body):
    """A JSON body that is not UTF-8 is one that is not JSON; theirs is 400, or an encoded surrogate."""
    ours, theirs = both(fixture_server, body)
    assert (ours[0], ours[1][0][0]) == (422, "json_invalid")
    assert theirs[0] in (400, 500)


def test_what_python_cannot_answer(fixture_server):
    """Lone surrogates become U+FFFD, NaN is no JSON; theirs fails with 500 on both."""
    ours, theirs = both(fixture_server, '{"text":"a\\ud800b"}')
    assert (ours[0], ours[1]["text"], theirs[0]) == (200, "a\ufffdb", 500)
    ours, theirs = both(fixture_server, '{"text":NaN}')
    assert (ours[0], ours[1][0][0], theirs[0]) == (422, "json_invalid", 500)


def test_the_name_of_an_alias(fixture_server):
    """A problem is at the field's own name, however the caller spelled it."""
    assert both(fixture_server, {"txt": ""})[0][1][0][1] == ["body", "text"]


def test_tags_are_json(fixture_server):
    ours, theirs = both(fixture_server, {"action_type": None}, "/action")
    assert (ours[0], theirs[0]) == (422, 422)
    assert ours[1][0][2] == theirs[1][0][2].replace("'None'", "'null'")


def test_an_encoded_slash_is_part_of_a_segment(fixture_server):
    """Theirs decodes a path before it looks for the route, which then has one segment more."""
    answer = raw_get(fixture_server, "/place/a%2Fb")
    assert (answer.status_code, answer.json()["data"]["id"]) == (200, "a/b")


def test_long_inputs_are_not_echoed(fixture_server):
    """What is echoed is at most 1 KiB, and a list of problems has at most 100."""
    answer = fixture_server.post("/echo", {"text": "x" * 2000}).json()["detail"]
    assert answer[0]["input"] is None and answer[0]["type"] == "string_too_long"
    answer = fixture_server.post("/echo", {"text": "x", "integers": ["x"] * 1000}).json()["detail"]
    assert len(answer) == 100 and answer[99]["loc"] == ["body", "integers", 99]
    answer = fixture_server.post("/echo", {"text": "x", "map": {"k" * 100000: 1}})
    assert len(answer.content) < 2000 and answer.status_code == 422


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded", "application/jsonx", ""])
def test_json_must_say_so(fixture_server, kind):
    """A page of another origin can send these without asking first."""
    headers = {} if kind is None else {"Content-Type": kind}
    answer = fixture_server.request("POST", "/echo", content='{"text":"x"}', headers=headers)
    assert answer.status_code == 415, answer.text


@pytest.mark.parametrize("kind", ["application/json", "APPLICATION/JSON; charset=utf-8", "application/json;charset=UTF-8"])
def test_json_says_so(fixture_server, kind):
    answer = fixture_server.request("POST", "/echo", content='{"text":"x"}', headers={"Content-Type": kind})
    assert answer.status_code == 200, answer.text
