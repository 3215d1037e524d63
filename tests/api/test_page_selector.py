"""Selectors of the page library: what they find, in which order, and what is said of those that are wrong."""

import json
from pathlib import Path

import pytest

import desktop
from desktop import BROWSER_NEEDED, devtools, tester  # noqa: F401

pytestmark = BROWSER_NEEDED
SHARE = Path(__file__).parents[2] / "share/browser"
PARTS = ("base", "dom", "aria", "selector")

PAGE = """
<html><head><title>Selectors</title></head><body>
<div id=one class="box first"><span id=a>Apple</span> <span id=b>apple pie</span><p id=p>It's <b id=bold>bold</b> text</p></div>
<div id=two class=box><input id=name placeholder="Your name" title="Name it"><input id=go type=submit value="Go on">
  <button id=save aria-pressed=true>  Save
    all </button><button id=gone style="display:none">Save</button><img id=pic alt="A cat" src="data:,"></div>
<ul id=list><li id=l1>one</li><li id=l2 class=on>two</li><li id=l3>three</li></ul>
<h2 id=h>Heading <small id=small>two</small></h2>
<label id=lab>Full name <input id=full data-testid=full-name></label>
<label for=agree id=lab2>I agree</label><input type=checkbox id=agree checked>
<select id=sel aria-label=Colour><option id=red>Red<option id=blue>Blue</select>
<a id=link href="#x">Go <i id=it>there</i></a><a id=nolink>Not a link</a>
<div id=hidden style="visibility:hidden">Unseen</div><div id=empty></div>
<div id=host class=box><em id=slotted slot=s>Light</em></div>
<script>
  const root = host.attachShadow({mode: 'open'});
  root.innerHTML = '<section id=inner class=card><button id=deep>Deep button</button><slot name=s></slot><div id=host2></div></section>';
  root.getElementById('host2').attachShadow({mode: 'open'}).innerHTML = '<p id=deeper class=card>Deeper text</p>';
  // Nothing of this is to be seen by us.
  Element.prototype.matches = Element.prototype.getBoundingClientRect = document.querySelectorAll = () => { throw 'page'; };
  Array.prototype.map = Array.prototype.filter = () => { throw 'page'; };
</script></body></html>
"""


@pytest.fixture(scope="module")
def server(tester, start_shared):  # noqa: F811
    server = start_shared(**desktop.browser_options(tester))
    desktop.warm_browser(server)
    return server


class Library:
    """The page library in a world of its own, as the product has it."""

    def __init__(self, page):
        self.page = page
        page.call("Page.enable")
        frame = page.call("Page.getFrameTree")["frameTree"]["frame"]["id"]
        page.call("Page.setDocumentContent", frameId=frame, html=PAGE)
        self.world = page.call("Page.createIsolatedWorld", frameId=frame, worldName="test")["executionContextId"]
        text = "".join((SHARE / f"{part}.js").read_text() for part in PARTS)
        self.run(f"(() => {{ 'use strict'; const library = {{}};\n{text}\nlibrary.query = query; globalThis.library = library }})()")

    def run(self, expression):
        answer = self.page.call("Runtime.evaluate", expression=expression, contextId=self.world, returnByValue=True,
                                awaitPromise=True)
        if "exceptionDetails" in answer:
            return answer["exceptionDetails"]["exception"]["description"].splitlines()[0]
        return answer["result"].get("value")

    def find(self, selector):
        return self.run(f"library.query({json.dumps(selector)}).map((element) => element.id)")

    def await_selector(self, **args):
        return self.run(f"library.await_selector({json.dumps(args)})")


@pytest.fixture(scope="module")
def library(server):
    with devtools(server) as page:
        yield Library(page)


@pytest.mark.parametrize("selector, ids", [
    ("#one", "one"),
    ("div.box", "one two host"),
    ("css=div.box", "one two host"),
    ("ul > li:nth-child(2)", "l2"),
    ("li + li", "l2 l3"),
    ("li ~ li", "l2 l3"),
    ("li.on, #a", "a l2"),
    (".card", "inner deeper"),
    ("#host .card", "inner deeper"),
    ("#host > .card", "inner"),
    ("section > #host2 > p", "deeper"),
    ("#host em", "slotted"),
    ("div.box >> .card", "inner deeper"),
    ("li:not(.on)", "l1 l3"),
    ("[id='deep']", "deep"),
    ("li:nth-match(li, 2)", "l2"),
    (":nth-match(button, 3)", "deep"),
    ("text=apple", "a b"),
    ("text=Apple pie", "b"),
    ('text="Apple"', "a"),
    ('"Apple"', "a"),
    ("'apple pie'", "b"),
    ("text=/^apple P/i", "b"),
    ("text=It's bold", "p"),
    ("text=save all", "save"),
    ("text=go on", "go"),
    ("text=Deeper", "deeper"),
    ("text=nothing like this", ""),
    ("button:has-text('SAVE')", "save gone"),
    ("button:has-text(\"save\"):visible", "save"),
    ("div:has-text('Deeper text')", "host host2"),
    (":text('pie')", "b"),
    (":text-is('Apple')", "a"),
    (":text-matches('^hea', 'i')", "h"),
    ("div:has(> ul, > span)", "one"),
    ("div:has(:text('pie'))", "one"),
    ("div:has(.card)", "host host2"),
    ("li:has(+ .on)", "l1"),
    ("li:is(:has-text('one'), .on)", "l1 l2"),
    ("li:not(:has-text('t'))", "l1"),
    ("//li[2]", "l2"),
    ("xpath=//ul/li", "l1 l2 l3"),
    ("(//li)[last()]", "l3"),
    ("#list >> //li[@class='on']", "l2"),
    ("#l2 >> xpath=..", "list"),
    ("#l2 >> ..", "list"),
    ("li >> nth=0", "l1"),
    ("li >> nth=-1", "l3"),
    ("li >> nth=3", ""),
    ("li >> nth=-4", ""),
    ("#list >> li >> nth=1", "l2"),
    ("button >> visible=true", "save deep"),
    ("button >> visible=false", "gone"),
    ("#list >> > li.on", "l2"),
    ("ul >> :scope > li:has-text('three')", "l3"),
    ("div >> has=.card >> nth=0", "host"),
    ("div >> has-text=pie", "one"),
    ("role=button", "go save deep"),
    ("role=button[name='save']", "save"),
    ("role=button[name=/^deep/i]", "deep"),
    ("role=button[name=\"save all\" s]", ""),
    ("role=button[name=\"Save all\"s]", "save"),
    ("role=button[pressed]", "save"),
    ("role=button[pressed=false]", "go deep"),
    ("role=button[include-hidden]", "go save gone deep"),
    ("role=heading[level=2]", "h"),
    ("role=heading[level=3]", ""),
    ("role=checkbox[checked]", "agree"),
    ("role=checkbox[name='i agree']", "agree"),
    ("role=textbox", "name full"),
    ("role=textbox[name='Your name']", ""),
    ("role=textbox[name='Name it']", "name"),
    ("role=textbox[name='full name']", "full"),
    ("role=combobox[name=colour]", "sel"),
    ("role=link", "link"),
    ("role=link[name='go there']", "link"),
    ("role=img[name='a cat']", "pic"),
    ("id=full", "full"),
    ("data-testid=full-name", "full"),
    ("label=full", "full"),
    ("label='I agree'", "agree"),
    ("placeholder=your", "name"),
    ("title='Name it'", "name"),
    ("alt=cat", "pic"),
    ("#one >> text=apple >> nth=1", "b"),
    ("\n #one \n", "one"),
])
def test_what_a_selector_finds(library, selector, ids):
    assert " ".join(library.find(selector)) == ids


@pytest.mark.parametrize("selector, words", [
    ("", "empty"),
    ("  ", "empty"),
    ("div[", "missing ]"),
    ("div[a='x]", "missing '"),
    ("div:has-text('x'", "missing )"),
    ("div >", "missing"),
    ("div,", "missing"),
    (", div", "missing"),
    ("div > > p", "unexpected '>'"),
    ("div >>", "empty"),
    (">> div", "empty"),
    ("div!", "not CSS"),
    ("div:nope(1)", "not CSS"),
    ("div::before(", "missing )"),
    ("//li[", "missing ]"),
    ("//li[@]", "not an XPath"),
    ("xpath=count(//li)", "not an XPath"),
    ("text=/(/", "Invalid regular expression"),
    ("nth=1", "nothing before it"),
    ("li >> nth=x", "whole number"),
    ("li >> nth=", "whole number"),
    ("li >> visible=maybe", "true or false"),
    ("react=Button", "unknown engine 'react='"),
    ("role=", "name of a role"),
    ("role=button[nope=1]", "unknown attribute 'nope'"),
    ("role=button name", "unexpected"),
    (":has-text()", "wants a text"),
    ("li:nth-match(li)", "wants a selector and a number"),
    ("a" * 10001, "exceeds 10000"),
    ("(" * 5000, "missing )"),
])
def test_what_is_said_of_a_bad_selector(library, selector, words):
    message = library.find(selector)
    assert isinstance(message, str) and "invalid selector" in message and words in message, message


def test_many_elements(library):
    """With ten times as many as a large page has; the page stays as it is."""
    library.run("document.body.append(Object.assign(document.createElement('main'),"
                "  {innerHTML: Array.from({length: 100000}, (_, i) => `<div>${i}</div>`).join('')}))")
    try:
        for selector in ("main div:has-text('99999')", "text=99999", "main > div:text-is('99999')", "//main/div[100000]", "main > div >> nth=99999",
                         "body main div:nth-child(100000)", "main > div:visible >> nth=-1"):
            assert len(library.find(selector)) == 1, selector
    finally:
        library.run("document.querySelector('main').remove()")


def test_waiting_until_it_is_attached(library):
    library.run("setTimeout(() => document.body.append(Object.assign(document.createElement('div'), {id: 'late', className: 'x'})), 100)")
    assert library.await_selector(selector="#late", state="attached") == '<div id="late" class="x">'
    message = library.await_selector(selector="#late", state="visible", timeout_ms=50)
    assert message == "Error: the element <div id=\"late\" class=\"x\"> of '#late' is not visible after 50 ms"
    library.run("setTimeout(() => document.querySelector('#late').textContent = 'Now', 100)")
    assert library.await_selector(selector="#late") == '<div id="late" class="x">'
    library.run("setTimeout(() => document.querySelector('#late').style.visibility = 'hidden', 100)")
    assert library.await_selector(selector="#late", state="hidden") == '<div id="late" class="x">'
    library.run("setTimeout(() => document.querySelector('#late').remove(), 100)")
    assert library.await_selector(selector="#late", state="detached") is None
    assert library.await_selector(selector="#late", state="hidden") is None


def test_waiting_within_a_shadow_root(library):
    library.run("setTimeout(() => library.query('#inner')[0].append(Object.assign(document.createElement('div'), {id: 'shadowy',"
                " textContent: 'x'})), 100)")
    assert library.await_selector(selector="#host #shadowy") == '<div id="shadowy">'


def test_waiting_in_vain(library):
    assert library.await_selector(selector="#never", timeout_ms=20) == "Error: no element matches '#never' after 20 ms"
    assert "invalid selector" in library.await_selector(selector="#never[", timeout_ms=20000)
    assert "invalid state 'there'" in library.await_selector(selector="#never", state="there", timeout_ms=20)
