"""Clicking on elements of a page and pointing at them: what is waited for, what is in the way, and what a click leads to."""

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

import desktop
from acting import PAGE, done, failed, page, quickly, reply, site  # noqa: F401
from desktop import BROWSER_NEEDED, tabs, tester  # noqa: F401
from harness import eventually
from sites import Page

pytestmark = BROWSER_NEEDED
LOG = "<script>var log = []; const note = (e) => log.push(e.type + ' ' + (e.target.id || e.target.localName) + ' ' + e.isTrusted)</script>"


@pytest.fixture(scope="module")
def server(tester, start_shared):  # noqa: F811
    server = start_shared(**desktop.browser_options(tester))
    desktop.warm_browser(server)
    return server


# --- what is clicked ---------------------------------------------------------------------------


def test_a_click_is_real_input(server, page):  # noqa: F811
    page.show(LOG + "<button id=b>Go</button><script>for (const t of ['pointerdown', 'mousedown', 'pointerup', 'mouseup', 'click'])"
                    "b.addEventListener(t, note)</script>")
    data = done(server, "click", selector="#b")
    assert data["element"] == '<button id="b">'
    box = page.evaluate("b.getBoundingClientRect().toJSON()")
    assert abs(data["x"] - box["x"] - box["width"] / 2) < 1 and abs(data["y"] - box["y"] - box["height"] / 2) < 1
    assert page.evaluate("log") == [f"{what} b true" for what in ("pointerdown", "mousedown", "pointerup", "mouseup", "click")]


@pytest.mark.parametrize("selector", ["text=Go on", "role=button[name='go on']", "//button", "button >> nth=0", '"Go on"', "div button:visible"])
def test_by_any_selector(server, page, selector):  # noqa: F811
    page.show("<div><button onclick='document.title = this.textContent'>Go on</button></div>")
    done(server, "click", selector=selector)
    page.becomes("document.title", "Go on")


def test_buttons_and_counts(server, page):  # noqa: F811
    page.show(LOG + "<button id=b>Go</button><script>for (const t of ['click', 'dblclick', 'auxclick', 'contextmenu'])"
                    "b.addEventListener(t, (e) => { e.preventDefault(); log.push(t + e.button + e.detail) })</script>")
    done(server, "click", selector="#b", click_count=2)
    assert page.evaluate("log.splice(0)") == ["click01", "click02", "dblclick02"]
    done(server, "click", selector="#b", button="right")
    assert sorted(page.evaluate("log.splice(0)")) == ["auxclick21", "contextmenu20"]
    done(server, "click", selector="#b", button="middle")
    assert page.evaluate("log.splice(0)") == ["auxclick11"]


def test_by_coordinates(server, page):  # noqa: F811
    page.show("<body style='margin:0' onclick='document.title = event.clientX + \" \" + event.clientY'><p style='height:600px'>x")
    assert done(server, "click", x=123, y=45) == {"x": 123, "y": 45}
    page.becomes("document.title", "123 45")
    for x, y in ((-1, 5), (5, -1), (1e9, 5), (5, 1e9)):
        assert "outside of the page's viewport" in failed(server, "click", x=x, y=y)


def test_hovering(server, page):  # noqa: F811
    page.show("<style>#menu { display: none } #top:hover #menu { display: block }</style>"
              "<div id=top style='width:100px'>Top<button id=menu onclick='document.title = 1'>Item</button></div>"
              "<p id=far style='margin-top:200px'>Far")
    assert done(server, "hover", selector="#top")["element"] == '<div id="top">'
    assert page.evaluate("getComputedStyle(menu).display") == "block"
    done(server, "click", selector="#menu")
    page.becomes("document.title", "1")
    box = page.evaluate("far.getBoundingClientRect().toJSON()")
    done(server, "hover", x=box["x"] + 5, y=box["y"] + 5)
    page.becomes("getComputedStyle(menu).display", "none")


def test_within_shadow_roots(server, page):  # noqa: F811
    page.show("<x-a></x-a><script>const one = document.querySelector('x-a').attachShadow({mode: 'open'});"
              "one.innerHTML = '<x-b></x-b>'; const two = one.firstChild.attachShadow({mode: 'open'});"
              "two.innerHTML = '<button>Deep <b>inside</b></button>';"
              "two.firstChild.onclick = () => document.title = 'deep'</script>")
    assert done(server, "click", selector="x-a button")["element"] == "<button>"
    page.becomes("document.title", "deep")


def test_what_is_below_the_fold_is_scrolled_to(server, page):  # noqa: F811
    page.show("<div style='height:300px; overflow:auto'><div style='height:5000px'></div><button id=in onclick='document.title = 1'>In</button>"
              "</div><div style='height:5000px'></div><button id=b onclick='document.title = 2'>Go</button>")
    done(server, "click", selector="#in")
    page.becomes("document.title", "1")
    done(server, "click", selector="#b")
    page.becomes("document.title", "2")
    assert page.evaluate("scrollY") > 1000


def test_below_a_header_that_stays(server, page):  # noqa: F811
    page.show("<div style='position:fixed; top:0; left:0; right:0; height:150px; background:red'>Header</div><div style='height:3000px'></div>"
              "<button id=b onclick='document.title = 1'>Go</button><div style='height:3000px'></div><script>scrollTo(0, 2950)</script>")
    done(server, "click", selector="#b")
    page.becomes("document.title", "1")


def test_lines_that_wrap(server, page):  # noqa: F811
    """The middle of what surrounds such a link is not on it."""
    page.show("<p style='width:300px; font-size:20px'>" + "word " * 9 + "<a id=a href='#x' onclick='document.title = 1'>first second</a>" + " word" * 9)
    done(server, "click", selector="#a")
    page.becomes("document.title", "1")


# --- what is waited for ------------------------------------------------------------------------


@pytest.mark.parametrize("html, later", [
    ("<main></main>", "document.querySelector('main').innerHTML = '<button id=b onclick=\"document.title = 1\">Go</button>'"),
    ("<button id=b style='display:none' onclick='document.title = 1'>Go</button>", "b.style.display = 'block'"),
    ("<button id=b style='visibility:hidden' onclick='document.title = 1'>Go</button>", "b.style.visibility = ''"),
    ("<button id=b disabled onclick='document.title = 1'>Go</button>", "b.disabled = false"),
    ("<fieldset disabled id=f><button id=b onclick='document.title = 1'>Go</button></fieldset>", "f.disabled = false"),
    ("<button id=b aria-disabled=true onclick='document.title = 1'>Go</button>", "b.ariaDisabled = null"),
    ("<button id=b onclick='document.title = 1'>Go</button><div id=o style='position:fixed; inset:0'></div>", "o.remove()"),
])
def test_waiting_until_it_can_be_clicked(server, page, html, later):  # noqa: F811
    page.show(html)
    page.later(later, 500)
    done(server, "click", selector="#b")
    page.becomes("document.title", "1")


def test_a_moving_element(server, page):  # noqa: F811
    page.show("<style>@keyframes m { from { left: 0 } to { left: 400px } } #b { position: absolute; animation: m 1s linear forwards }</style>"
              "<button id=b onclick='document.title = b.getBoundingClientRect().x'>Go</button>")
    done(server, "click", selector="#b")
    page.becomes("document.title", "400")


def test_an_element_that_is_replaced_again_and_again(server, page):  # noqa: F811
    page.show("<main></main><script>let n = 0; const t = setInterval(() => { document.querySelector('main').innerHTML ="
              " '<button id=b onclick=\"document.title = 1\">Go</button>'; if (++n > 20) clearInterval(t) }, 20)</script>")
    done(server, "click", selector="#b")
    page.becomes("document.title", "1")


@pytest.mark.parametrize("html, words", [
    ("", "no element matches '#b'"),
    ("<button id=b style='display:none'>Go</button>", '<button id="b"> is not visible'),
    ("<button id=b style='opacity:1; width:0; height:0; padding:0; border:0'></button>", "is not visible"),
    ("<button id=b disabled>Go</button>", '<button id="b"> is disabled'),
    ("<button id=b>Go</button><div class=overlay style='position:fixed; inset:0'></div>", '<div class="overlay"> is in the way'),
    ("<button id=b>Go</button><div id=modal style='position:fixed; inset:0'><p style='height:100%'>Wait</p></div>",
     '<p> of <div id="modal"> is in the way'),
    ("<button id=b style='pointer-events:none'>Go</button>", "is in the way"),
    ("<style>@keyframes m { from { left: 0 } to { left: 900px } } #b { position: absolute; animation: m 3s linear infinite }</style><button id=b>Go</button>",
     "is moving"),
    ("<button id=b style='position:fixed; left:-500px'>Go</button>", "outside of the viewport"),
])
def test_what_is_said_when_it_cannot_be_clicked(server, page, html, words):  # noqa: F811
    page.show(html + "<p>x")
    if "animation" in html:
        page.becomes("b.getBoundingClientRect().x > 30", True)
        # On a machine that paints nothing for a moment it stands still.
        message = eventually(lambda: (answer := reply(server, "click", selector="#b", timeout=0.7)) and not answer["success"] and answer["message"])
    else:
        message = failed(server, "click", selector="#b", timeout=0.7)
    assert words in message, message
    assert page.evaluate("1 + 1") == 2


def test_an_overlay_that_comes_with_the_pointer(server, page):  # noqa: F811
    page.show("<button id=b onclick='document.title = \"clicked\"' style='width:200px; height:100px'>Go</button>"
              "<div id=o class=cover onclick='document.title = \"cover\"' style='position:fixed; inset:0; display:none'></div>"
              "<script>b.onmousemove = () => o.style.display = 'block'</script>")
    assert '<div id="o" class="cover"> is in the way' in failed(server, "click", selector="#b", timeout=1)
    assert page.evaluate("document.title") != "clicked"


@pytest.mark.parametrize("body", [{}, {"x": 5}, {"y": 5}, {"selector": ""}, {"selector": "b", "button": "fourth"}, {"selector": "b", "click_count": 0},
                                  {"selector": 7}, {"index": -1}, {"index": "x"}, {"selector": "b", "timeout": -1}, {"x": "a", "y": 1}])
def test_what_is_refused(server, body):
    assert PAGE.refused(server, "click", **body)[0] == 422
    if "button" not in body and "click_count" not in body:
        assert PAGE.refused(server, "hover", **body)[0] == 422


def test_a_bad_selector(server, page):  # noqa: F811
    page.show("<p>x")
    with quickly():
        assert "invalid selector 'div['" in failed(server, "click", selector="div[")


# --- what a click leads to ---------------------------------------------------------------------


def test_a_link(server, page, site):  # noqa: F811
    """The document that it leads to is there when the call returns."""
    site.pages["/slow"] = lambda handler: eventually(lambda: False, 0.5) or "<title>Slow</title><p id=there>There"
    page.show("<a href='/slow'>Go</a>")
    done(server, "click", selector="text=Go")
    assert tabs(server)[0]["url"] == site.url("/slow")
    done(server, "click", selector="#there")


def test_a_link_to_what_never_comes(server, page, site):  # noqa: F811
    stop = []
    site.pages["/never"] = lambda handler: eventually(lambda: stop, 60) and '<p>Came'
    try:
        page.show("<a href='/never'>Go</a><button onclick='document.title = 1'>Other</button>")
        with quickly(40):
            done(server, "click", selector="text=Go")
            assert "does not answer" in failed(server, "click", selector="text=Other", timeout=1)
    finally:
        stop.append(1)
    done(server, "click", selector="text=Came")


def test_a_form_that_is_sent(server, page, site):  # noqa: F811
    page.show("<form method=post action=/sent><input name=a value=b><button>Send</button></form>")
    done(server, "click", selector="text=Send")
    assert site.posts[-1][0] == "/sent" and site.posts[-1][1] == b"a=b"
    assert eventually(lambda: tabs(server)[0]["title"] == "posted")


def test_a_popup(server, page, site):  # noqa: F811
    other = site.url(site.put("<title>Popup</title>"))
    page.show(f"<a target=_blank href='{other}'>One</a> <button onclick='window.open(\"{other}\")'>Two</button>")
    answer = reply(server, "click", selector="text=Two")
    assert answer["success"] and "Tab opened" in answer["hint"]
    assert eventually(lambda: [tab["url"] for tab in tabs(server)][1:] == [other])
    server.request("PUT", "/v1/browser/tabs/0/activate")
    assert "Tab opened" in reply(server, "click", selector="text=One")["hint"]
    assert eventually(lambda: [tab["url"] for tab in tabs(server)][1:] == [other, other])


@pytest.mark.parametrize("html", [
    "<a id=b href='tel:123'>call</a>", "<a id=b href='tel:123' target=_blank><b>call</b></a>", "<button id=b onclick='location = `tel:123`'>call</button>",
    "<button id=b onclick='frames[0].location = `tel:123`'>call</button><iframe src='{other}'></iframe>",
    "<form action='tel:123'><button id=b>call</button></form>"])
def test_what_leads_to_another_program(server, page, site, html):  # noqa: F811
    """Chromium would ask whether to open that, in a window over the page which takes all further input."""
    page.show(html.replace("{other}", site.url("/sent")) + "<button id=next onclick='document.title = `next`'>Next</button>")
    for _ in range(2):
        answer = reply(server, "click", selector="#b")
        assert answer["success"] and eventually(lambda: "tel:123" in (answer["hint"] or reply(server, "hover", selector="#next")["hint"] or "")), answer
    assert len(tabs(server)) == 1
    done(server, "click", selector="#next")
    page.becomes("document.title", "next")


def test_a_dialog(server, page):  # noqa: F811
    page.show("<button id=b onclick='document.title = confirm(\"Sure?\")'>Go</button>")
    with quickly():
        answer = reply(server, "click", selector="#b")
        assert answer["success"] and "Dialog opened (confirm): Sure?" in answer["hint"]
        message = failed(server, "click", selector="#b")
        assert "dialog" in message and "Sure?" in message
    page.tools.call("Page.handleJavaScriptDialog", accept=True)
    page.becomes("document.title", "true")
    assert done(server, "hover", selector="#b")


def test_a_download(server, page, site, tester):  # noqa: F811
    site.pages["/file"] = Page(headers={"content-type": "application/octet-stream"}, body=b"hello")
    page.show("<a href='/file' download='clicked.bin'>Get</a>")
    done(server, "click", selector="text=Get")
    path = f"/home/{tester}/Downloads/clicked.bin"
    assert eventually(lambda: os.path.exists(path) and open(path).read() == "hello")
    done(server, "click", selector="text=Get")


def test_a_click_that_closes_the_tab(server, page):  # noqa: F811
    page.evaluate("void open('about:blank?popup')")
    assert eventually(lambda: len(tabs(server)) == 2 and tabs(server)[1]["active"])
    with desktop.devtools(server) as popup:
        popup.evaluate("document.body.innerHTML = '<button onclick=\"window.close()\">Close</button>'")
        answer = reply(server, "click", selector="text=Close")
    assert answer["success"], answer
    assert eventually(lambda: len(tabs(server)) == 1)


def test_a_page_that_goes_away_while_it_is_waited_for(server, page, site):  # noqa: F811
    there = site.put("<button id=b onclick='document.title = 1'>Go</button>")
    page.show(f"<script>setTimeout(() => location = '{there}', 300)</script>")
    done(server, "click", selector="#b")
    page.becomes("document.title", "1")


def test_a_page_that_hangs(server, page):  # noqa: F811
    page.show("<button onclick='for (const end = Date.now() + 3000; Date.now() < end;);'>Hang</button><button id=b onclick='document.title = 1'>Go</button>")
    page.later("for (const end = Date.now() + 6000; Date.now() < end;);", 50)
    assert eventually(lambda: not reply(server, "click", selector="#b", timeout=0.5)["success"])
    done(server, "click", selector="#b")
    page.becomes("document.title", "1")


# --- frames ------------------------------------------------------------------------------------

FRAME = ("<body style='margin:0'><div style='height:{}px'></div><button id=inner onclick='document.title = \"in\"; parent.postMessage(\"clicked\", \"*\")'>"
         "Inner</button><div style='height:2000px'></div>")
OUTER = "<script>onmessage = (e) => document.title = e.data</script><div style='height:{}px'></div>{}<div style='height:3000px'></div>"


@pytest.mark.parametrize("style", ["border:7px solid; padding:9px", "transform:scale(.5); border:20px solid"])
@pytest.mark.parametrize("origin", ["url", "other"])
def test_in_a_frame(server, page, site, origin, style):  # noqa: F811
    """Scrolled to in the frame, and the frame in the page."""
    inner = getattr(site, origin)(site.put(FRAME.format(1500)))
    page.show(OUTER.format(2500, f"<iframe style='width:400px; height:200px; {style}' src='{inner}'></iframe>"))
    assert done(server, "click", selector="#inner")["element"] == '<button id="inner">'
    page.becomes("document.title", "clicked")


def test_in_a_frame_of_a_frame(server, page, site):  # noqa: F811
    """Of two origins in turn."""
    inner = site.url(site.put(FRAME.format(50)))
    middle = site.other(site.put("<script>onmessage = (e) => parent.postMessage(e.data, '*')</script><div style='height:900px'></div>"
                                 f"<iframe src='{inner}' style='height:150px'></iframe>"))
    page.show(OUTER.format(100, f"<iframe style='width:400px; height:300px' src='{middle}'></iframe>"))
    done(server, "click", selector="#inner")
    page.becomes("document.title", "clicked")


def test_a_covered_frame(server, page, site):  # noqa: F811
    inner = site.other(site.put(FRAME.format(0)))
    page.show(f"<iframe id=f src='{inner}'></iframe><div class=overlay style='position:fixed; inset:0'></div>")
    message = failed(server, "click", selector="#inner", timeout=2)
    assert '<div class="overlay"> is in the way' in message


def test_the_main_frame_comes_first(server, page, site):  # noqa: F811
    inner = site.other(site.put("<button id=b onclick='parent.postMessage(\"inner\", \"*\")'>Go</button>"))
    page.show(OUTER.format(10, f"<iframe src='{inner}'></iframe><button id=b onclick='document.title = \"outer\"'>Go</button>"))
    done(server, "click", selector="#b")
    page.becomes("document.title", "outer")


def test_a_frame_that_comes_later(server, page, site):  # noqa: F811
    inner = site.other(site.put(FRAME.format(0)))
    page.show(OUTER.format(0, ""))
    page.later(f"document.body.append(Object.assign(document.createElement('iframe'), {{src: '{inner}'}}))", 500)
    done(server, "click", selector="#inner")
    page.becomes("document.title", "clicked")


@pytest.mark.parametrize("origin", ["url", "other"])
def test_a_frame_that_keeps_the_pointer_to_itself(server, page, site, origin):  # noqa: F811
    """Whether the pointer has come there cannot be seen then. It is waited for a while, and clicked all the same."""
    inner = getattr(site, origin)(site.put("<script>for (const name of ['pointermove', 'mousemove'])"
                                           "  addEventListener(name, (event) => event.stopImmediatePropagation(), true)</script>" + FRAME.format(100)))
    page.show(OUTER.format(0, f"<iframe style='width:400px; height:200px' src='{inner}'></iframe>"))
    for _ in range(2):
        page.evaluate("document.title = ''")
        done(server, "click", selector="#inner")
        page.becomes("document.title", "clicked")


# --- hostile pages -----------------------------------------------------------------------------


def test_a_page_that_has_changed_everything(server, page):  # noqa: F811
    page.show("<button id=b>Go</button><script>b.onclick = () => document.title = 'clicked';"
              "for (const c of [Element, HTMLElement, Node, Document, Window, EventTarget, Array, Object, Map, Set, Promise, MutationObserver, JSON])"
              "  for (const n of Object.getOwnPropertyNames(c.prototype ?? c)) { const o = c.prototype ?? c; const d = Object.getOwnPropertyDescriptor(o, n);"
              "    if (typeof d?.value === 'function' && n !== 'constructor' && d.configurable) o[n] = () => { throw new Error('mine') } }"
              "document.querySelectorAll = document.elementFromPoint = window.getComputedStyle = window.requestAnimationFrame = () => { throw 1 }</script>")
    done(server, "click", selector="text=Go")
    assert eventually(lambda: tabs(server)[0]["title"] == "clicked")


def test_two_callers_on_the_same_page(server, page):  # noqa: F811
    page.show("<button id=a onclick='a.textContent++'>0</button><button id=b onclick='b.textContent++'>0</button>")
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda i: reply(server, "click", selector=("#a", "#b")[i % 2]), range(20)))
    assert all(answer["success"] for answer in answers), answers
    assert page.evaluate("Number(a.textContent) + Number(b.textContent)") == 20
