"""The browser when what it works with is hostile: pages, clients and processes that lie, flood, hang or die."""

import json
import os
import signal

import pytest

import desktop
from desktop import BROWSER_NEEDED, browser_processes, tabs, tester  # noqa: F401
from harness import ANSWER_SECONDS, START_SECONDS, Calls, connect, eventually, sanitizer

pytestmark = BROWSER_NEEDED
BROWSER = Calls("/v1/browser")
PAGE = Calls("/v1/browser/page")


@pytest.fixture(scope="module")
def server(tester, start_shared):  # noqa: F811
    server = start_shared(**desktop.browser_options(tester))
    desktop.warm_browser(server)
    return server


@pytest.fixture(autouse=True)
def one_tab(server):
    """Each test begins and ends with one new tab."""
    renew(server)
    yield
    renew(server)
    server.baseline = server.possessions()


def renew(server):
    BROWSER.reply(server, "tabs", url="about:blank")
    while len(tabs(server)) > 1:
        assert server.request("DELETE", "/v1/browser/tabs/0").status_code == 200


def signal_renderers(server, number):
    for pid in browser_processes(server).get("renderer", []):
        os.kill(pid, number)


def show(server, html):
    reply = PAGE.reply(server, "navigate", url="data:text/html," + html, timeout=20)
    assert reply["success"], reply
    return reply["data"]


def evaluate(server, expression, **more):
    return PAGE.ask(server, "evaluate", expression=expression, **more)


# --- processes ----------------------------------------------------------------------------------


def test_a_tab_whose_process_died_before_it_had_begun_can_be_used(server):
    """What its session was told to report died with it."""
    for number in range(2):
        signal_renderers(server, signal.SIGSTOP)
        BROWSER.ask(server, "tabs", url="about:blank")
        signal_renderers(server, signal.SIGKILL)
        assert eventually(lambda: "the page crashed" in PAGE.reply(server, "evaluate", expression="1", timeout=5)["message"])
        show(server, f"<title>{number}</title>")
        assert evaluate(server, "document.title") == str(number)


# --- pages --------------------------------------------------------------------------------------

# What our functions use of an element: a form has its fields in place of these.
MEMBERS = """assignedSlot attributes checkVisibility childNodes children closest contains firstChild getAttribute getBoundingClientRect
    getClientRects getRootNode hasAttribute href id innerText isConnected isContentEditable labels localName matches name nextElementSibling
    nextSibling nodeName nodeType ownerDocument parentElement parentNode previousElementSibling querySelector querySelectorAll readOnly
    required scrollIntoView scrollIntoViewIfNeeded shadowRoot tagName textContent type value""".split()


def test_a_form_whose_fields_hide_its_members(server):
    fields = "".join(f"<input name={name} size=1>" for name in MEMBERS)
    show(server, f"<form id=f tabindex=0>{fields}<button id=b type=button onclick='this.textContent=\"Gone\"'>Go</button></form>")
    elements = server.get("/v1/browser/page/elements").json()["data"]
    assert [one["tag"] for one in elements] == ["form"] + ["input"] * len(MEMBERS) + ["button"]
    assert elements[0]["name"] == "" and "required" not in elements[0] and elements[0]["text"] == "Go"
    assert 'button "Go"' in server.get("/v1/browser/page/snapshot").json()["data"]["snapshot"]
    for selector in ("#b", "text=Go", "role=button[name=Go]", "//button", "form >> button", "button:visible", "form:has-text('Go') button"):
        clicked = PAGE.reply(server, "click", selector=selector, timeout=20)
        assert clicked["success"] and clicked["data"]["element"] == '<button id="b" type="button">', (selector, clicked)
        assert evaluate(server, "b.textContent") == "Gone"
        evaluate(server, "b.textContent = 'Go'; 1")
    for what, more in (("fill", {"value": "v"}), ("hover", {}), ("scroll_to_element", {})):
        assert PAGE.reply(server, what, selector="[name=children]", timeout=20, **more)["success"]
    assert evaluate(server, "document.querySelector('[name=children]').value") == "v"


def test_attributes_of_any_length_do_not_fill_a_list(server):
    show(server, "")
    evaluate(server, """const long = 'x'.repeat(1e6);
        for (let i = 0; i < 20; i++) {
          const field = document.createElement('input');
          for (const name of ['placeholder', 'title', 'name', 'aria-label', 'class']) field.setAttribute(name, long);
          field.value = 'short'; // what is shown has to be laid out, which takes the browser long
          document.body.append(field);
        }
        const list = document.createElement('select');
        list.add(new Option('y'.repeat(1e5), long));
        document.body.append(list); 1""", timeout=60)
    response = server.get("/v1/browser/page/elements", timeout=60)
    assert len(response.json()["data"]) == 21 and len(response.content) < 100_000


def test_an_element_whose_name_is_too_long_to_be_told(server):
    """It is cut between two characters, wherever that is."""
    for more in range(3):
        tag, long = "x-" + "y" * (60 + more), "漢" * 60
        show(server, f"<meta charset=utf-8><{tag} name='{long}' class='{long}' aria-label='{long}' onclick='this.textContent = 1'>x</{tag}>")
        for what in ("hover", "click"):
            pointed = PAGE.reply(server, what, selector="[name]", timeout=20)
            assert pointed["success"] and pointed["data"]["element"].startswith(f'<{tag} name="漢'), pointed
            assert "\ufffd" not in pointed["data"]["element"]
        assert evaluate(server, "document.body.textContent") == "1"


@pytest.mark.skipif(sanitizer() is not None, reason="a sanitizer keeps what is freed")
def test_what_a_page_writes_to_its_console_takes_no_memory_for_good(server):
    show(server, "")
    evaluate(server, "console.log(1); 1")
    before = server.memory()
    server.reset_peak()
    evaluate(server, "for (let i = 0; i < 3; i++) console.log(...new Array(40000).fill(1).map((_, i) => ({a: i}))); 1", timeout=60)
    assert eventually(lambda: server.memory("VmHWM") > before + (64 << 20), START_SECONDS)  # it was as much
    assert eventually(lambda: server.memory() < before + (24 << 20), START_SECONDS), (before, server.memory())


# --- clients ------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", ["1e300", "1.5", "2147483648", "99999999999999999999", '"1"', "null", "true"])
def test_a_call_to_end_the_browser_that_is_not_one(server, number):
    """The browser refuses it: no other number is answered."""
    with connect(f"ws://{server.host}:{server.port}/cdp") as socket:
        socket.send(f'{{"id": {number}, "method": "Browser.close"}}')
        assert "integer 'id'" in json.loads(socket.recv(ANSWER_SECONDS))["error"]["message"]
        socket.send('{"id": 2.0, "method": "Browser.close"}')
        assert json.loads(socket.recv(ANSWER_SECONDS)) == {"id": 2, "result": {}}
    assert evaluate(server, "1") == 1
