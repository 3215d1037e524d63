"""What the manual and the explorer say of the host's API."""

import re


def section(manual, route):
    """The lines about one route."""
    return re.search(rf"^{re.escape(route)}\n(.*?)(?=^$|\Z)", manual, re.M | re.S).group(1)


def resolved(document, schema):
    """A schema, or the one that it refers to: itself, as a list's items, or beside null."""
    for one in [schema, schema.get("items", {}), *schema.get("anyOf", ())]:
        if "$ref" in one:
            return document["components"]["schemas"][one["$ref"].rpartition("/")[2]]
        if one is not schema and "items" in one:
            return resolved(document, one)
    return schema


def test_nested_fields_are_spelled_out(host):
    text = section(host.client.get("/llms.txt").text, "POST /v1/sandboxes")
    for name, fields in {"limits": ["memory", "cpus", "pids", "disk", "io_weight"], "network": ["mode", "allow"],
                         "mounts": ["source", "target", "writable"]}.items():
        below = re.search(rf"^    {name}: .*\n((?:      .*\n)+)", text, re.M)
        assert below, text
        assert re.findall(r"^      (\w+): ", below.group(1), re.M) == fields


def test_every_nested_field_of_every_request_is_in_the_manual(host):
    document, manual = host.client.get("/openapi.json").json(), host.client.get("/llms.txt").text
    seen = 0
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            content = operation.get("requestBody", {}).get("content", {}).get("application/json")
            fields = resolved(document, content["schema"]).get("properties", {}) if content else {}
            for name, field in fields.items():
                for below in resolved(document, field).get("properties", ()):
                    seen += 1
                    assert f"      {below}: " in section(manual, f"{method.upper()} {path}"), (path, name, below)
    assert seen >= 7


def test_the_introduction_advertises_only_what_is_there(host):
    document = host.client.get("/openapi.json").json()
    paths, about = " ".join(document["paths"]), document["info"]["description"].lower()
    for word, path in {"browser": "/v1/browser", "editor": "/code-server", "vs code": "/code-server",
                       "desktop": "/v1/display", "vnc": "/vnc"}.items():
        assert word not in about or path in paths, word
    for word in ("shell", "files", "code", "mcp"):
        assert word in about


def test_nested_fields_of_answers_are_spelled_out(host, box):
    wanted = {("GET /v1/sandboxes/{id}", "limits"): ["memory", "cpus", "pids", "disk", "io_weight"],
              ("GET /v1/sandboxes/{id}", "network"): ["mode", "allow"],
              ("POST /v1/code/execute", "outputs"): ["output_type", "name", "text", "data", "metadata", "execution_count",
                                                     "ename", "evalue", "traceback"],
              ("POST /api/v1/contexts/{context_id}/execute", "results"): ["output_type"]}
    manuals = [host.client.get("/llms.txt").text, box.request("GET", "/llms.txt").text]
    for (route, name), fields in wanted.items():
        text = section(next(manual for manual in manuals if f"\n{route}\n" in manual), route).partition("  Answer")[2]
        below = re.search(rf"^( +){name}: (object|list of object)\b.*\n((?:\1  .*\n)+)", text, re.M)
        assert below, (route, name, text)
        found = re.findall(rf"^{below.group(1)}  (\w+): ", below.group(3), re.M)
        assert found[:len(fields)] == fields, (route, name, found)
