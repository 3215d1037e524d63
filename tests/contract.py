"""The contract of the browser and the display, as rows: what tests/api/test_browser_contract.py walks.

A row is one thing that a client can rely on:

    POST /v1/browser/page/navigate            the operation
    … wait_until                              a field of its request, with inner fields as response.status
    … wait_until=load                         one of the values that it may have
    … wait_until~load                         what it is when it is absent
    … >data.status                            a field of its response, or >header"""

import ast
import functools
import json
import re
from pathlib import Path

import pytest

from harness import ROOT

FOLDER = ROOT.parent / "shared/contract"
NEEDED = pytest.mark.skipif(not FOLDER.exists(), reason="NOT TESTED: the contract is not part of this repository: no ../shared/contract")
PARTS = ("/v1/browser", "/v1/display")


@functools.cache
def document():
    return json.loads((FOLDER / "openapi.json").read_text()) if FOLDER.exists() else {"paths": {}}


def plain(schema, of=None):
    """A schema without its reference and without null."""
    while "$ref" in schema:
        schema = (of or document())["components"]["schemas"][schema["$ref"].split("/")[-1]]
    for variant in schema.get("anyOf", []):
        if variant.get("type") != "null":
            return {**{key: schema[key] for key in ("default",) if key in schema}, **plain(variant, of)}
    return schema


def inside(schema, prefix, of=None):
    """(name, schema) of the fields of an object, and of those in them."""
    for name, field in plain(schema, of).get("properties", {}).items():
        yield prefix + name, plain(field, of)
        yield from inside(field, f"{prefix}{name}.", of)


def operations(of=None):
    """(name, operation) of all of the browser and the display."""
    for path, methods in sorted((of or document())["paths"].items()):
        if path.startswith(PARTS):
            for method, operation in methods.items():
                yield f"{method.upper()} {path}", operation


def bodies(operation):
    return [plain(content["schema"]) for content in operation.get("requestBody", {}).get("content", {}).values()]


def fields(operation):
    """(name, schema, required) of what it takes. A body that is one of several has their tags as names: CLICK, CLICK.x."""
    for one in operation.get("parameters", []):
        yield one["name"], plain(one["schema"]), one["required"]
    for body in bodies(operation):
        for variant in map(plain, body.get("oneOf", [body])):
            tag = next((field["const"] for field in variant["properties"].values() if "const" in field), None)
            if tag:
                yield tag, {}, False
            needed = variant.get("required", [])
            for name, schema in inside(variant, f"{tag}." if tag else ""):
                if "const" not in schema:
                    yield name, schema, name.split(".", 1)[-1] in needed if tag else name in needed


def results(operation):
    """What its response has: headers, and the fields that are its own."""
    response = operation["responses"]["200"]
    yield from (f">{name}" for name in response.get("headers", {}))
    for content in response.get("content", {}).values():
        for name, schema in inside(content.get("schema", {}), ">"):
            if name not in (">success", ">message", ">data", ">hint"):
                yield name
                yield from (f"{name}={value}" for value in schema.get("enum", []))


def rows(operation):
    yield ""
    for name, schema, _ in fields(operation):
        yield name
        yield from (f"{name}={value}" for value in schema.get("enum", []))
        if "default" in schema:
            yield f"{name}~{json.dumps(schema['default']).strip(chr(34))}"
    yield from results(operation)


# --- tables of behaviour.md ----------------------------------------------------------------------


@functools.cache
def sections():
    """The tables of each section: {"10": [["info", "`cdp_url` begins …"], …]}, heads and rulers left out."""
    found, number = {}, None
    for line in (FOLDER / "behaviour.md").read_text().splitlines() if FOLDER.exists() else []:
        if heading := re.match(r"## (\d+)\.", line):
            number, above = heading.group(1), None
        elif line.startswith("|---"):
            found[number].remove(above)
        elif line.startswith("|"):
            above = [cell.strip() for cell in line.strip("|").split("|")]
            found.setdefault(number, []).append(above)
        elif line.startswith("## "):
            number = None
    return found


# --- tests that the rows name --------------------------------------------------------------------


@functools.cache
def source(file):
    """{name: text} of what a test file has on its top level, decorators and all."""
    text = (ROOT / file).read_text()
    lines, found = text.splitlines(), {}
    for node in ast.parse(text).body:
        first = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
        target = node.targets[0] if isinstance(node, ast.Assign) else node
        if name := getattr(target, "name", getattr(target, "id", None)):
            found[name] = "\n".join(lines[first - 1:node.end_lineno])
    return found


def test_text(name):
    """The text of a test and of what it uses of its file; None where there is no such test. "page_click.test_x" is in
    tests/api/test_page_click.py, "host/browser.test_x" in tests/host/test_browser.py."""
    module, _, test = name.rpartition(".")
    folder, _, module = module.rpartition("/")
    file = Path("tests") / (folder or "api") / f"test_{module}.py"
    if not (ROOT / file).exists() or test not in source(file):
        return None
    known, texts, new = source(file), {}, {test}
    while new:
        one = new.pop()
        texts[one] = known[one]
        new |= {word for word in re.findall(r"\w+", texts[one]) if word in known} - set(texts)
    return "\n".join(texts.values())


test_text.__test__ = False
