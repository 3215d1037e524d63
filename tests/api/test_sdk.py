"""The official Python SDK, all of it: what its methods can send is what the server understands."""

import contextlib
import inspect
import json
import re
import threading
import typing

import httpx
import pytest
from agent_sandbox import Sandbox

from harness import ANSWER_SECONDS, LEAN

pytestmark = pytest.mark.server(env=LEAN)
SAMPLES = {str: "sample", int: 7, float: 1.5, bool: True, typing.Any: "sample"}


def methods():
    """"file.watch_poll", and so on for every method of the SDK."""
    sdk = Sandbox(base_url="http://sandbox")
    for part in (name for name, value in inspect.getmembers(Sandbox) if isinstance(value, property)):
        for name, _ in inspect.getmembers(getattr(sdk, part), inspect.ismethod):
            if not name.startswith("_"):
                yield f"{part}.{name}"


def sample(kind):
    """A value of a parameter's type."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind in SAMPLES:
        return SAMPLES[kind]
    if "IO" in str(kind):
        return b"sample"
    if origin is typing.Literal:
        return inner[0]
    if origin is typing.Union:
        return sample(inner[0])
    if origin is dict:
        return {"sample": sample(inner[1])}
    if origin:
        return [sample(inner[0])]
    return kind(**{name: sample(field.annotation) for name, field in kind.model_fields.items()})


def request_of(method):
    """The request that a method makes with all of its parameters given."""
    made = []

    def answer(request):
        request.read()
        made.append(request)
        return httpx.Response(500, json={})

    client = httpx.Client(transport=httpx.MockTransport(answer))
    part, name = method.split(".")
    call = getattr(getattr(Sandbox(base_url="http://sandbox", httpx_client=client), part), name)
    kinds = {name: kind for name, kind in typing.get_type_hints(call).items()
             if name not in ("return", "request_options")}
    with contextlib.suppress(Exception):  # the 500; a method that cannot be called makes no request
        for _ in call(**{name: sample(kind) for name, kind in kinds.items()}):
            pass
    assert len(made) == 1, f"{method} made {len(made)} requests"
    return made[0]


def sent_by(request):
    """(place, name) of every field of a request."""
    found = {("query", name) for name in request.url.params}
    kind = request.headers.get("content-type", "")
    if kind.startswith("application/json") and request.content:
        found |= {("body", name) for name in json.loads(request.content)}
    elif kind.startswith("multipart/"):
        found |= {("body", name) for name in re.findall(r'form-data; name="(\w+)"', request.content.decode())}
    return found


def operation_of(document, request):
    """What a document says of a request, or None."""
    found = [path for path in document["paths"]
             if re.fullmatch(re.sub(r"{\w+}", "[^/]+", path), request.url.path)
             and request.method.lower() in document["paths"][path]]
    best = min(found, key=lambda path: path.count("{"), default=None)
    return document["paths"][best][request.method.lower()] if best else None


def resolved(document, schema):
    name = schema.get("$ref", "").rpartition("/")[2]
    return document["components"]["schemas"][name] if name else schema


def declared_by(document, operation):
    """(place, name) of every field that an operation documents; ("body", None) for one that takes any."""
    found = {(parameter["in"], parameter["name"]) for parameter in operation.get("parameters", ())}
    for content in operation.get("requestBody", {}).get("content", {}).values():
        schema = resolved(document, content["schema"])
        for variant in [schema, *(resolved(document, one) for one in schema.get("anyOf", ()))]:
            found |= {("body", name) for name in variant.get("properties", ())}
            if variant.get("type") == "object" and "properties" not in variant:
                found.add(("body", None))
    return found


def is_understood(server, request, field):
    """Whether a field is one of those that are accepted without being documented: then nonsense is refused."""
    _, name = field
    answer = server.request(request.method, request.url.path, json={name: [{"no": "such value"}]})
    problems = answer.json()["detail"] if answer.status_code == 422 else []
    return any(problem["type"] != "missing" for problem in problems)


@pytest.fixture(scope="module")
def document(server):
    return server.get("/openapi.json").json()


REQUESTS = {method: request_of(method) for method in methods()}


@pytest.mark.parametrize("method", REQUESTS)
def test_every_field_that_the_sdk_sends_is_understood(server, document, method):
    request = REQUESTS[method]
    operation = operation_of(document, request)
    assert operation, f"{request.method} {request.url.path} is missing"
    declared = declared_by(document, operation)
    unknown = {field for field in sent_by(request) - declared
               if (field[0], None) not in declared and not is_understood(server, request, field)}
    assert not unknown, f"{request.method} {request.url.path} does not know {sorted(unknown)}"


@pytest.fixture
def files(server):
    with httpx.Client(timeout=ANSWER_SECONDS) as client:
        yield Sandbox(base_url=server.url, httpx_client=client).file


def test_polling_gets_each_event_once_and_waits_for_the_next(files, tmp_path):
    watcher = files.watch_create(path=str(tmp_path), debounce=50)["watcher_id"]
    seen, cursor = [], 0
    for name in ("one", "two", "three"):
        # Made while the poll waits: a poll that does not wait would get nothing, or the event before it again.
        maker = threading.Timer(0.3, (tmp_path / name).mkdir)
        maker.start()
        page = files.watch_poll(watcher, since=cursor, timeout=50)
        maker.join()
        seen += [event["relative_path"] for event in page["events"]]
        cursor = page["cursor"]
    files.watch_stop(watcher)
    assert seen == ["one", "two", "three"]
