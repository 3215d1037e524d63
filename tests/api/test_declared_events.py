"""Events are what the document says, and the manual has them and the messages of WebSockets."""

import commands
import jsonschema
import pytest

from harness import Events

pytestmark = pytest.mark.server(warm=commands.warm)


@pytest.fixture(scope="module")
def document(server):
    return server.get("/openapi.json").json()


@pytest.fixture(autouse=True)
def no_sessions(server):
    yield
    commands.close_all(server)
    server.request("DELETE", "/v1/shell/sessions")


@pytest.mark.parametrize("path, body, names", [
    ("/v1/bash/exec", {"command": "echo a; echo b >&2; exit 3"}, {"start", "stdout", "stderr", "exit"}),
    ("/v1/shell/exec", {"command": "echo a"}, {"start", "output", "exit"}),
    ("/v1/code/execute", {"language": "python", "code": "print(1)\n1/0"}, {"start", "stdout", "stderr", "error", "end"}),
    ("/v1/code/execute", {"language": "javascript", "code": "console.log(1); 1 + 1"}, {"start", "stdout", "result", "end"}),
    ("/v1/nodejs/execute", {"code": "console.log(1); console.error(2)"}, {"stdout", "stderr", "end"}),
])
def test_events_are_as_declared(server, document, path, body, names):
    declared = document["paths"][path]["post"]["responses"]["200"]["content"]["text/event-stream"]["x-events"]
    seen = set()
    with Events(server, path, **body) as events:
        for name, data in events:
            seen.add(name)
            schema = {**declared[name]["schema"], "components": document["components"]}
            jsonschema.Draft202012Validator(schema).validate(data)
            stated = document["components"]["schemas"][schema["$ref"].split("/")[-1]]
            assert set(data) <= set(stated["properties"]), (name, data)
    assert seen == names <= set(declared)


def test_every_route_with_events_declares_them(document):
    """By name, or as the items of its list."""
    for path, methods in document["paths"].items():
        for method in methods.values():
            content = method["responses"]["200"]["content"]
            if "text/event-stream" in content:
                data = content.get("application/json", {}).get("schema", {}).get("properties", {}).get("data", {})
                items = [one for one in data.get("anyOf", [data]) if "items" in one]
                assert "x-events" in content["text/event-stream"] or items, path


def test_the_manual_has_events_and_messages(server):
    manual = server.get("/llms.txt").text
    terminal = manual[manual.index("GET /v1/shell/ws"):].split("\n\n")[0]
    assert "restore_output: " in terminal and "Messages to the server:" in terminal and "resize: " in terminal
    attach = manual[manual.index("GET /v1/bash/ws"):].split("\n\n")[0]
    assert "exit_code: integer" in attach and "signal: string" in attach
    journal = manual[manual.index("GET /v1/sandbox/events"):].split("\n\n")[0]
    assert "when type is command_ended: A command ended." in journal and "exit_code: integer" in journal
    assert "stderr_offset: integer" in manual[manual.index("POST /v1/bash/exec"):].split("stream of events:")[1][:1000]
