"""Requests that a server refuses with 422: one for each field of each operation that it documents."""

import json

NONSENSE = [[{"no": "such value"}], {"no": ["such", "value"]}]


def is_refusal(answer):
    """Whether the body of a 422 has the one shape that there is: FastAPI's."""
    body = answer.json()
    return set(body) == {"detail"} and bool(body["detail"]) and all(
        isinstance(one["loc"], list) and one["loc"] and one["loc"][0] in ("body", "query", "path", "header")
        and isinstance(one["msg"], str) and one["msg"] and isinstance(one["type"], str) for one in body["detail"])


def problem(answer):
    """What an answer says is wrong, in whichever of the shapes of an error."""
    body = answer if isinstance(answer, dict) else answer.json()
    detail = body.get("detail")
    return body["message"] if "message" in body else detail[0]["msg"] if isinstance(detail, list) else detail


def _resolved(document, schema):
    name = schema.get("$ref", "").rpartition("/")[2]
    return document["components"]["schemas"][name] if name else schema


def _plausible(field):
    kinds = {"integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}
    return field.get("default", (field.get("enum") or [kinds.get(field.get("type"), "x")])[0])


def _wrong(field):
    """Values that a field does not take: of another type, and beyond each of its limits."""
    for limit in [field, *field.get("anyOf", ())]:
        yield from (limit[name] - 1 for name in ("minimum", "exclusiveMinimum") if name in limit)
        yield from (limit[name] + 1 for name in ("maximum",) if name in limit)
        yield from ("x" * (limit[name] + 1) for name in ("maxLength",) if limit.get(name, 1 << 20) < 1 << 20)
    yield from NONSENSE


def of_document(document):
    """(method, path, query, body) of requests of which none is right."""
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            target = path.replace("{", "").replace("}", "")
            for parameter in operation.get("parameters", ()):
                if parameter["in"] == "query":
                    for value in _wrong(parameter["schema"]):
                        text = value if isinstance(value, str) else json.dumps(value)
                        yield method, target, {parameter["name"]: text}, None
            content = operation.get("requestBody", {}).get("content", {})
            if "application/json" not in content:
                continue
            schema = _resolved(document, content["application/json"]["schema"])
            fields = schema.get("properties", {})
            right = {name: _plausible(fields[name]) for name in schema.get("required", ())}
            for name, field in fields.items():
                yield from ((method, target, {}, {**right, name: value}) for value in _wrong(field))
            for name in right:
                yield method, target, {}, {key: value for key, value in right.items() if key != name}
            yield from ((method, target, {}, body) for body in ([], "x", 5))
