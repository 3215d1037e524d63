"""alert(), confirm() and prompt(): they are seen, answered, and never wedge a page."""

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
def one_page(server, site):  # noqa: F811
    assert PAGE.reply(server, "navigate", url=site.url + "/hello")["success"]
    yield
    while PAGE.reply(server, "dialog", action="dismiss")["success"]:
        pass
    server.at_rest()


def dialog(server):
    answer = server.get("/v1/browser/page/dialog").json()
    assert answer["success"], answer
    return answer["data"]


def opened(server, script):
    """Runs what opens one; what it gives is the page's `given`."""
    assert PAGE.reply(server, "evaluate", expression=f"setTimeout(() => globalThis.given = {script}, 0); globalThis.given = 'nothing'")["success"]
    assert eventually(lambda: dialog(server))
    return dialog(server)


def given(server):
    return PAGE.ask(server, "evaluate", expression="given")


@pytest.mark.parametrize("script, body, result", [
    ("confirm('Sure?')", {"action": "accept"}, True), ("confirm('Sure?')", {"action": "dismiss"}, False), ("confirm('Sure?')", {}, True),
    ("prompt('Name?', 'Ann')", {}, "Ann"), ("prompt('Name?', 'Ann')", {"text": "Ümit 日本"}, "Ümit 日本"),
    ("prompt('Name?', 'Ann')", {"text": ""}, ""), ("prompt('Name?')", {"action": "dismiss", "text": "x"}, None), ("alert('Hi')", {}, None)])
def test_answers(server, site, script, body, result):  # noqa: F811
    shown = opened(server, script)
    kind = script.split("(")[0]
    assert shown["type"] == kind and shown["message"] == script.split("'")[1] and shown["url"] == site.url + "/hello"
    assert shown["default_text"] == ("Ann" if "Ann" in script else "") and 0 < shown["seconds_left"] <= 30
    assert PAGE.ask(server, "dialog", **body)["type"] == kind
    assert dialog(server) is None and given(server) == result


def test_none_is_open(server):
    assert dialog(server) is None
    answer = PAGE.reply(server, "dialog")
    assert not answer["success"] and "no dialog" in answer["message"]


def test_calls_fail_meanwhile_and_go_on_then(server):
    opened(server, "confirm('Really?')")
    answer = PAGE.reply(server, "evaluate", expression="1")
    assert not answer["success"] and "Really?" in answer["message"] and "/v1/browser/page/dialog" in answer["message"]
    PAGE.ask(server, "dialog", action="dismiss")
    assert given(server) is False


def test_one_after_the_other(server):
    opened(server, "[confirm('One'), confirm('Two')]")
    assert PAGE.ask(server, "dialog")["message"] == "One"
    assert eventually(lambda: dialog(server) and dialog(server)["message"] == "Two")
    PAGE.ask(server, "dialog", action="dismiss")
    assert given(server) == [True, False]


def test_many_in_a_row(server):
    """The next one may be there before anybody looks: each answer is one to its own."""
    opened(server, "Array.from({length: 20}, (_, i) => confirm(String(i)))")
    for i in range(20):
        assert eventually(lambda i=i: dialog(server) and dialog(server)["message"] == str(i))
        assert PAGE.ask(server, "dialog", action="accept" if i % 2 else "dismiss")["message"] == str(i)
    assert given(server) == [False, True] * 10


def test_what_a_prompt_suggests_is_cut_between_characters(server):
    opened(server, "prompt('Name?', 'a' + '日'.repeat(40000))")
    PAGE.ask(server, "dialog")
    assert given(server) == "a" + "日" * (65535 // 3)


def test_a_long_message_is_cut(server):
    assert len(opened(server, "alert('x'.repeat(1000000))")["message"]) <= 65536


@pytest.mark.parametrize("body", [{"action": "maybe"}, {"text": 5}, {"text": "x" * 70000}])
def test_bad_requests(server, body):
    assert PAGE.refused(server, "dialog", **body)[0] == 422
