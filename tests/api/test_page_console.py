"""What pages write to their console: what is kept of it, and saved."""

import json
import os

import pytest

import desktop
from desktop import BROWSER_NEEDED, tester  # noqa: F401
from harness import Calls, eventually
from pages import site  # noqa: F401

pytestmark = BROWSER_NEEDED
PAGE = Calls("/v1/browser/page")


@pytest.fixture(scope="module")
def server(tester, start_shared):  # noqa: F811
    server = start_shared(**desktop.browser_options(tester))
    desktop.warm_browser(server)
    return server


@pytest.fixture(autouse=True)
def empty(server, site):  # noqa: F811
    assert PAGE.reply(server, "navigate", url=site.url + "/hello", wait_until="networkidle")["success"]
    console(server, "?clear=true")
    yield
    server.at_rest()


def console(server, query=""):
    answer = server.get(f"/v1/browser/page/console{query}").json()
    assert answer["success"], answer
    return answer["data"]


def run(server, script):
    assert PAGE.reply(server, "evaluate", expression=f"{script}; 0")["success"]


def texts(server):
    return [entry["text"] for entry in console(server)]


@pytest.mark.parametrize("call, kind, level", [
    ("log", "log", "log"), ("info", "info", "info"), ("warn", "warning", "warning"), ("error", "error", "error"), ("debug", "debug", "debug"),
    ("dir", "dir", "log"), ("trace", "trace", "log")])
def test_levels(server, call, kind, level):
    run(server, f"console.{call}('said', 5)")
    assert eventually(lambda: console(server))
    entry = console(server)[0]
    assert (entry["type"], entry["level"], entry["source"]) == (kind, level, "console")
    assert entry["text"] == "said 5" and entry["stack"] is None
    assert entry["timestamp"].startswith("20") and entry["timestamp"].endswith("Z")


@pytest.mark.parametrize("values, text", [
    ("'日本', '😀'", "日本 😀"), ("1.5, -0, NaN, 10n, true, null, undefined", "1.5 -0 NaN 10n true null undefined"),
    ("{a: 1, b: 'x', c: {d: 2}}", '{a: 1, b: "x", c: Object}'), ("[1, 'two', null]", '[1, "two", null]'), ("new Map([[1, 2]])", "Map(1)"),
    ("Symbol('s')", "Symbol(s)"), ("new (class Thing { x = 1 })()", "Thing {x: 1}"), ("[]", "[]"), ("''", "")])
def test_values(server, values, text):
    run(server, f"console.log({values})")
    assert eventually(lambda: texts(server) == [text]), texts(server)


def test_where(server, site):  # noqa: F811
    site.pages["/where"] = (200, {"content-type": "text/html"}, b"<script>\nconsole.log('here')</script>")
    PAGE.ask(server, "navigate", url=site.url + "/where")
    entry = next(entry for entry in console(server) if entry["text"] == "here")
    assert entry["location"] == {"url": site.url + "/where", "lineNumber": 1, "columnNumber": 8}


def test_what_nobody_caught(server):
    run(server, "setTimeout(function late() { throw new TypeError('oops') }, 0)")
    run(server, "Promise.reject(new RangeError('later'))")
    run(server, "setTimeout(() => { throw 'text' }, 0)")
    assert eventually(lambda: {"TypeError: oops", "RangeError: later"} <= set(texts(server)) and len(texts(server)) == 3), texts(server)
    entry = next(entry for entry in console(server) if entry["text"] == "TypeError: oops")
    assert (entry["type"], entry["level"], entry["source"]) == ("exception", "error", "exception")
    assert entry["stack"].startswith("    at late (")
    assert any(entry["text"].endswith("text") and entry["type"] == "exception" for entry in console(server))


def test_what_the_browser_says(server, site):  # noqa: F811
    run(server, "fetch('/absent')")
    assert eventually(lambda: [entry for entry in console(server) if entry["source"] == "network" and "404" in entry["text"]])
    entry = console(server)[-1]
    assert entry["level"] == "error" and entry["location"]["url"] == site.url + "/absent"


def test_it_is_kept_over_pages_and_cleared(server, site):  # noqa: F811
    run(server, "console.log('one')")
    PAGE.ask(server, "navigate", url=site.url + "/broken")
    run(server, "console.log('two')")
    assert eventually(lambda: [text for text in texts(server) if text in ("one", "two")] == ["one", "two"])
    assert "two" in [entry["text"] for entry in console(server, "?clear=true")]
    assert console(server) == []


def test_tabs_have_their_own(server):
    run(server, "console.log('first')")
    server.post("/v1/browser/tabs", {})
    run(server, "console.log('second')")
    assert eventually(lambda: texts(server) == ["second"])
    server.request("DELETE", "/v1/browser/tabs/1")
    assert eventually(lambda: texts(server) == ["first"])


def test_it_is_bounded(server):
    run(server, "for (let i = 0; i < 3000; i++) console.log('n' + i)")
    assert eventually(lambda: texts(server)[-1:] == ["n2999"])
    assert texts(server) == [f"n{i}" for i in range(2000, 3000)]
    run(server, "console.log('ä'.repeat(1000000), 'more')")
    assert eventually(lambda: console(server)[-1]["text"].startswith("ää"))
    assert 9990 <= len(console(server)[-1]["text"].encode()) <= 10000
    run(server, "for (let i = 0; i < 1000; i++) console.log('x'.repeat(9000))")
    run(server, "console.log('end')")
    assert eventually(lambda: texts(server)[-1] == "end")
    assert sum(map(len, texts(server))) < 1 << 20 and len(texts(server)) > 50


def test_export(server, tester):  # noqa: F811
    run(server, "console.log('saved'), console.warn('too')")
    assert eventually(lambda: len(console(server)) == 2)
    path = f"/home/{tester}/made/console.json"
    assert PAGE.ask(server, "console/export", save_path=path) == {"path": path, "count": 2}
    with open(path) as file:
        assert json.load(file) == console(server)
    assert PAGE.ask(server, "console/export", save_path="rest.json", clear=True) == {"path": f"/home/{tester}/rest.json", "count": 2}
    assert console(server) == [] and os.path.exists(f"/home/{tester}/rest.json")


def test_an_export_that_fails_clears_nothing(server):
    run(server, "console.log('kept')")
    assert eventually(lambda: texts(server) == ["kept"])
    for path in ("/proc/console.json", "/root/console.json", "/"):
        answer = PAGE.reply(server, "console/export", save_path=path, clear=True)
        assert not answer["success"] and answer["message"]
    assert texts(server) == ["kept"]
    assert PAGE.refused(server, "console/export")[0] == 422
    assert PAGE.refused(server, "console/export", save_path="")[0] == 422
