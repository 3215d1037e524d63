"""The OpenAPI document: it is valid, it is the same everywhere, and the server does what it says."""

import json
import subprocess
from collections import Counter

import jsonschema
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from openapi_spec_validator import OpenAPIV31SpecValidator
from schemathesis.checks import not_a_server_error
from schemathesis.errors import FailureGroup
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from harness import clean_environment, program

METHODS = {"get", "put", "post", "delete", "options", "head", "patch", "trace"}
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]

# Operations that any input may be thrown at: what runs commands or writes files is tested elsewhere.
SAFE_TAGS = {"sandbox", "auth", "document", "metrics"}
# Of the fixture: made to fail, to wait or to send without end.
UNSAFE_PATHS = {"/fail", "/items", "/events", "/wait", "/stubborn", "/place/special"}


def unique(pairs):
    """An object whose keys all differ; json.loads() would keep the last of two."""
    twice = [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]
    assert not twice, f"{twice} twice"
    return dict(pairs)


def document_of(server):
    return json.loads(server.get("/openapi.json").content, object_pairs_hook=unique)


@pytest.fixture(scope="module")
def document(server):
    return document_of(server)


@pytest.fixture(scope="module")
def fixture_document(fixture_server):
    return document_of(fixture_server)


@pytest.fixture(scope="module", params=["server", "fixture_server"])
def documented(request):
    """A server and its document, of each kind."""
    server = request.getfixturevalue(request.param)
    return server, document_of(server)


def operations(document):
    """(method, path, operation) of all."""
    return [
        (method, path, operation)
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if method in METHODS
    ]


def nodes(value):
    """Every object in a document."""
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from nodes(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from nodes(inner)


# --- the document ------------------------------------------------------------------------------


def test_it_is_the_same_everywhere(server):
    texts = [server.get(path) for path in ("/openapi.json", "/v1/openapi.json")]
    assert all(text.headers["content-type"] == "application/json" for text in texts)
    printed = subprocess.run(
        [program("aio"), "openapi"], capture_output=True, check=True, env=clean_environment(server.home)
    )
    assert texts[0].content == texts[1].content == printed.stdout.removesuffix(b"\n")


def test_it_is_valid(documented):
    _, document = documented
    assert document["openapi"].startswith("3.1.")
    problems = list(OpenAPIV31SpecValidator(document).iter_errors())
    assert not problems, problems[0]


def test_every_operation_says_what_it_is(documented):
    _, document = documented
    tags = [tag["name"] for tag in document["tags"]]
    assert len(tags) == len(set(tags))
    for method, path, operation in operations(document):
        where = f"{method} {path}"
        assert operation["summary"].strip(), where
        assert len(operation["tags"]) == 1 and operation["tags"][0] in tags, where
        assert "200" in operation["responses"], where
        assert all(answer["description"] for answer in operation["responses"].values()), where
        if "requestBody" in operation or operation["parameters"]:
            assert "422" in operation["responses"], where
        assert all(parameter["schema"] for parameter in operation["parameters"] if parameter["in"] == "path"), where
    ids = Counter(operation["operationId"] for _, _, operation in operations(document))
    assert max(ids.values()) == 1, ids.most_common(3)


def test_path_parameters_are_the_path_s(documented):
    _, document = documented
    for method, path, operation in operations(document):
        declared = {p["name"] for p in operation["parameters"] if p["in"] == "path"}
        assert declared == {part[1:-1] for part in path.split("/") if part.startswith("{")}, f"{method} {path}"
        names = Counter((p["in"], p["name"]) for p in operation["parameters"])
        assert not names or max(names.values()) == 1, f"{method} {path}"


def test_references_resolve_and_components_are_used(documented):
    _, document = documented
    used = set()
    for node in nodes(document):
        if isinstance(reference := node.get("$ref"), str):
            target = document
            for part in reference.removeprefix("#/").split("/"):
                target = target[part]
            used.add(reference)
    schemas = document["components"]["schemas"]
    assert {f"#/components/schemas/{name}" for name in schemas} == used
    assert len({name.lower() for name in schemas}) == len(schemas)
    for name, schema in schemas.items():
        assert schema["title"] == name


def test_variants_name_their_tag(documented):
    """The property that tells them apart is one of each, with the value that stands for it."""
    _, document = documented
    schemas, unions = document["components"]["schemas"], 0
    for union in (schema for schema in schemas.values() if "discriminator" in schema):
        unions += 1
        for tag, reference in union["discriminator"]["mapping"].items():
            name = schemas[reference.rsplit("/", 1)[1]]["properties"][union["discriminator"]["propertyName"]]
            assert name.get("const") == tag or tag in name.get("enum", []), (tag, name)
    assert unions


def test_defaults_obey_their_own_schema(documented):
    _, document = documented
    for node in nodes(document):
        if "default" in node and "type" in node:
            jsonschema.Draft202012Validator(node).validate(node["default"])


# --- the server --------------------------------------------------------------------------------


def test_every_operation_is_there(documented):
    server, document = documented
    for method, path, operation in operations(document):
        for parameter in operation["parameters"]:
            if parameter["in"] == "path":
                path = path.replace("{%s}" % parameter["name"], "none")
        # A body that no operation takes, where one is taken: nothing is to happen.
        more = {"json": []} if "requestBody" in operation else {}
        with server.client.stream(method.upper(), path, **more) as answer:
            assert answer.status_code != 405, f"{method} {path}"
            if answer.status_code == 404:
                answer.read()
                assert answer.json() != {"detail": "Not Found"}, f"{method} {path}"
    # Asking for the browser has started the desktop, which stays.
    server.at_rest()
    server.baseline = server.possessions()


def test_what_is_not_in_it_is_not_there(server, document):
    paths = set(document["paths"])
    for path in ("/v1", "/v1/none", "/nothing", "/v1/sandbox/none"):
        assert path not in paths and server.get(path).status_code == 404
    for path in sorted(paths):
        if "{" not in path:
            answer = server.request("TRACE", path)
            assert answer.status_code == 405
            allowed = {name.strip().lower() for name in answer.headers["allow"].split(",")}
            assert set(document["paths"][path]) <= allowed


def test_public_operations_need_no_credentials(start_server):
    server = start_server(env={"SANDBOX_API_KEY": "secret"})
    headers = {"X-AIO-API-Key": "secret"}
    document = server.get("/openapi.json", headers=headers).json()
    for method, path, operation in operations(document):
        path = path.replace("{", "").replace("}", "")
        with server.client.stream(method.upper(), path, json=[]) as answer:
            answer.read()
            if operation.get("security") == []:
                # /auth tells about credentials, and has none here.
                assert answer.status_code != 401 or path == "/auth", f"{method} {path}"
            else:
                assert answer.status_code == 401 and "401" in operation["responses"], f"{method} {path}"


def examine(server, document, wanted, examples):
    """Throws generated requests at the operations and looks at what comes back."""
    schema = schemathesis.openapi.from_dict(document)
    count = 0
    for result in schema.get_all_operations():
        operation = result.ok()
        if not wanted(operation):
            continue
        count += 1
        for mode in (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE):
            examine_operation(server, operation, mode, examples)
    return count


def examine_operation(server, operation, mode, examples):
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def check(case):
        case.call_and_validate(base_url=server.url, checks=CHECKS, timeout=60)

    try:
        check()
    except Unsatisfiable:
        # Where anything is good, nothing can be wrong.
        assert mode is schemathesis.GenerationMode.NEGATIVE


def test_schemathesis_finds_nothing(server, document):
    assert examine(server, document, lambda o: o.definition.raw["tags"][0] in SAFE_TAGS, 20) >= 8


def test_schemathesis_finds_nothing_in_the_fixture(fixture_server, fixture_document):
    def wanted(operation):
        return operation.definition.raw["tags"] == ["fixture"] and operation.path not in UNSAFE_PATHS

    assert examine(fixture_server, fixture_document, wanted, 25) >= 5


def test_schemathesis_would_find_something(server, document):
    """The judge itself: a document that lies is noticed."""
    lie = json.loads(json.dumps(document))
    lie["paths"]["/health"]["get"]["responses"]["200"]["content"] = {"application/json": {}}
    with pytest.raises(FailureGroup):
        examine(server, lie, lambda o: o.path == "/health", 1)
