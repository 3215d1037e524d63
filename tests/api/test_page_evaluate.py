"""JavaScript in the page: what comes back, what it throws, and what does not end."""

import time

import pytest

import desktop
from desktop import BROWSER_NEEDED, tabs, tester  # noqa: F401
from harness import Calls
from pages import page, site  # noqa: F401

pytestmark = BROWSER_NEEDED
PAGE = Calls("/v1/browser/page")


@pytest.fixture(scope="module")
def server(tester, start_shared):  # noqa: F811
    server = start_shared(**desktop.browser_options(tester))
    desktop.warm_browser(server)
    return server


@pytest.fixture(autouse=True)
def one_page(server, site):  # noqa: F811
    assert PAGE.reply(server, "navigate", url=site.url + "/hello")["success"]
    yield
    while PAGE.reply(server, "dialog", action="dismiss")["success"]:
        pass
    server.at_rest()


def evaluate(server, expression, **more):
    answer = PAGE.reply(server, "evaluate", expression=expression, **more)
    assert answer["success"], answer
    return answer["data"]


def thrown(server, expression, **more):
    answer = PAGE.reply(server, "evaluate", expression=expression, **more)
    assert not answer["success"] and answer["data"] is None, answer
    return answer["message"]


VALUES = [
    ("1 + 1", 2), ("document.title", "Hello"), ("document.title;", "Hello"), ("0.5", 0.5), ("true", True), ("null", None),
    ("undefined", None), ("NaN", None), ("-1 / 0", None), ("-0", 0), ("10n", 10), ("2n ** 70n", str(2**70)), ("Symbol()", None),
    ("{a: 1, b: [1, {c: null}]}", {"a": 1, "b": [1, {"c": None}]}), ("[undefined, () => 1, NaN]", [None, None, None]),
    ("let a = 1; a + 1", 2), ("const a = 3; a", 3), ("for (var i = 0; i < 3; i++) i", 2), ("1 // a comment", 1), ("// only a comment", None),
    ("() => 7", 7), ("function () { return this === globalThis }", True), ("async () => { await null; return [1] }", [1]),
    ("function named() { return 5 }", 5), ("return 5", 5), ("const a = 8; return a", 8), ("await Promise.resolve(4)", 4),
    ("Promise.resolve({x: 1})", {"x": 1}), ("new Promise((done) => setTimeout(() => done('late'), 50))", "late"),
    ("() => () => 1", None), ("new Date(0)", "1970-01-01T00:00:00.000Z"), ("new Date(NaN)", None), ("/a+/g", "/a+/g"),
    ("new URL('http://a/b')", "http://a/b"), ("new Map([[1, 2]])", {}), ("new Uint8Array([1, 255])", [1, 255]),
    ("document", "ref: <Document>"), ("window", "ref: <Window>"), ("document.body", "ref: <Node>"),
    ("[document.querySelector('h1')]", ["ref: <Node>"]), ("[new Date(0), 5n]", ["1970-01-01T00:00:00.000Z", 5]),
    ("let o = {}; o.o = o; o", {"o": "[Circular]"}), ("let o = {}; [o, o]", [{}, {}]), ("({get a() { throw 1 }, b: 2})", {"a": None, "b": 2}),
    ("({toJSON: () => 5})", {"toJSON": None}), ("new (class { toJSON() { return {n: 5} } })()", {"n": 5}),
    ("'日本 \\u{1f600}'", "日本 😀"), ("'a\\u0000b'", "a\0b"), ("'\\ud800'", "�"), ("['\\ud800']", ["�"]), ("Object.create(null)", {}),
]


@pytest.mark.parametrize("expression, value", VALUES)
def test_values(server, expression, value):
    assert evaluate(server, expression) == value


def test_the_older_name(server):
    assert PAGE.ask(server, "evaluate", script="6 * 7") == 42


def test_it_is_the_page_s_own_world(server):
    evaluate(server, "globalThis.kept = 41; 0")
    assert evaluate(server, "kept + 1") == 42
    evaluate(server, "const x = 1; x")
    assert evaluate(server, "const x = 2; x") == 2  # names do not outlive it
    assert evaluate(server, "typeof x") == "undefined"


def test_what_is_thrown_has_its_stack(server):
    why = thrown(server, "function inner() { throw new TypeError('bad') }\ninner()")
    assert why.startswith("TypeError: bad\n    at inner (") and why.count("\n    at ") == 2
    assert thrown(server, "Promise.reject(new RangeError('later'))").startswith("RangeError: later\n    at ")
    assert thrown(server, "() => { throw 'text' }") == "text"
    assert thrown(server, "throw 5") == "5"
    assert thrown(server, "nothing.there").startswith("ReferenceError: nothing is not defined")
    assert thrown(server, "JSON.parse('{')").startswith("SyntaxError:")


@pytest.mark.parametrize("expression", ["1 +", "(", "let let = 1", "'"])
def test_what_is_not_javascript(server, expression):
    assert thrown(server, expression).startswith("SyntaxError: ")


def test_a_thing_that_runs_once_runs_once(server):
    """Also where it throws what looks as if it had not run."""
    evaluate(server, "globalThis.count = 0; 0")
    thrown(server, "count++, JSON.parse('{')")
    thrown(server, "(() => { count++; throw new SyntaxError('mine') })()")
    thrown(server, "await Promise.reject(new SyntaxError('mine')), count++")
    assert evaluate(server, "count") == 2


def test_a_strict_content_policy(server, site):  # noqa: F811
    site.pages["/strict"] = page("Strict", "x", content_security_policy="default-src 'none'; script-src 'none'")
    PAGE.ask(server, "navigate", url=site.url + "/strict")
    assert evaluate(server, "() => ({title: document.title})") == {"title": "Strict"}
    assert evaluate(server, "const a = 1; a") == 1


# --- what is hostile, or does not end ----------------------------------------------------------


def test_scripts_without_end(server):
    began = time.monotonic()
    assert "in time" in thrown(server, "while (true);", timeout=1)
    assert "in time" in thrown(server, "new Promise(() => {})", timeout=1)
    assert time.monotonic() - began < 20
    assert evaluate(server, "document.title") == "Hello"


def test_waiting_in_vain_ends_nothing_else(server):
    """The page's own scripts go on."""
    evaluate(server, "globalThis.ticks = 0; setInterval(() => ticks++, 10); 0")
    thrown(server, "new Promise(() => {})", timeout=0.5)
    ticks = evaluate(server, "ticks")
    assert evaluate(server, f"new Promise((done) => setInterval(() => ticks > {ticks} && done(true), 10))")


def test_results_that_are_too_large(server):
    assert "too large" in thrown(server, "['x'.repeat(40000000)]")
    assert "too large" in thrown(server, "new Array(2000000).fill(0)")
    assert "deep" in thrown(server, "let a = []; for (let i = 0; i < 1000; i++) a = [a]; a")
    assert "too large" in thrown(server, "let a = [0]; for (let i = 0; i < 40; i++) a = [a, a]; a")  # 2**40 leaves
    assert evaluate(server, "'x'.repeat(1000000).length") == 1000000


def test_a_page_that_lies(server):
    """What it has in the place of the built-ins breaks nothing but its own results."""
    evaluate(server, "Array.isArray = () => { throw 1 }; JSON.stringify = () => '{{{'; Object.keys = () => ['a']; 0")
    PAGE.reply(server, "evaluate", expression="[1, 2]")
    assert evaluate(server, "5") == 5
    assert tabs(server)[0]["title"] == "Hello"


def test_a_document_that_goes_away(server, site):  # noqa: F811
    why = thrown(server, "setTimeout(() => location.reload(), 0); new Promise(() => {})")
    assert "went away" in why
    assert evaluate(server, "document.title") == "Hello"


def test_a_dialog(server):
    answer = PAGE.reply(server, "evaluate", expression="confirm('Sure?')")
    assert not answer["success"] and "Sure?" in answer["message"] and "Sure?" in answer["hint"]
    assert "Sure?" in thrown(server, "1")


@pytest.mark.parametrize("body", [{}, {"expression": None}, {"expression": 5}, {"expression": "1", "timeout": -1}])
def test_bad_requests(server, body):
    assert PAGE.refused(server, "evaluate", **body)[0] == 422
