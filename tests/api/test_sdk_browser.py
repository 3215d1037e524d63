"""Every method of the browser's and the display's namespaces of the official Python SDK, on real pages. What a method did
is seen in the page, in the site's log or in a file, and not only in its answer."""

import inspect
import json
import os
import struct
import subprocess

import httpx
import pytest
from agent_sandbox import Sandbox
from agent_sandbox.core.api_error import ApiError
from agent_sandbox.types import Resolution, RestartRequest, RouteResponseModel

import desktop
from desktop import BROWSER_NEEDED, pixels, tester  # noqa: F401
from harness import ANSWER_SECONDS, eventually
from pages import page, site  # noqa: F401
from videos import probe

pytestmark = [BROWSER_NEEDED, pytest.mark.timeout(180)]

FORM = """
<h1>Order form</h1><p>Apples and pears, three for the price of two.</p>
<input id=name placeholder=Name><input id=agree type=checkbox><input id=news type=checkbox checked>
<select id=size><option value=s>Small<option value=m>Medium<option value=l>Large</select>
<input id=file type=file multiple>
<button id=go onclick="document.title = 'sent'">Send</button>
<a id=away href=/other>Another page</a>
<div id=spot onmouseenter="document.title = 'hovered'" style="width: 80px; height: 40px; background: red"></div>
<div style="height: 4000px"></div><p id=end>The end</p>
<script>console.log('ready'); console.error('a fault'); localStorage.basket ??= 'empty'; document.cookie ||= 'kind=page'</script>
"""


@pytest.fixture(scope="module")
def server(tester, start_shared):  # noqa: F811
    server = start_shared(**desktop.browser_options(tester))
    desktop.warm_browser(server)
    desktop.warm(server)
    return server


@pytest.fixture(scope="module")
def sdk(server):
    # Without connections that are kept: what the server holds is compared after each test.
    transport = httpx.HTTPTransport(limits=httpx.Limits(max_keepalive_connections=0))
    with httpx.Client(timeout=ANSWER_SECONDS, transport=transport) as client:
        yield Sandbox(base_url=server.url, httpx_client=client)


@pytest.fixture(scope="module", autouse=True)
def pages(site):  # noqa: F811
    site.pages |= {"/form": page("Form", FORM), "/other": page("Other", "<h1>Elsewhere</h1>"),
                   "/api": (200, {"content-type": "text/plain"}, b"from the site")}


@pytest.fixture(autouse=True)
def tidy(server):
    yield
    for _ in desktop.tabs(server):
        server.request("DELETE", "/v1/browser/tabs/0")
    server.at_rest()


class Here:
    """What a test of a method works with."""

    def __init__(self, server, sdk, site, tester):  # noqa: F811
        self.server, self.sdk, self.site, self.user = server, sdk, site, tester

    def show(self, path="/form"):
        answer = self.sdk.browser_page.navigate(url=self.site.url + path)
        assert answer.success, answer.message
        return answer

    def value(self, expression):
        answer = self.sdk.browser_page.evaluate(expression=expression)
        assert answer.success, answer.message
        return answer.data

    def file(self, name):
        """A path that the sandbox's user may write."""
        return f"/home/{self.user}/{name}"


@pytest.fixture
def here(server, sdk, site, tester):  # noqa: F811
    return Here(server, sdk, site, tester)


def done(answer):
    assert answer.success, answer.message
    return answer.data


def png_size(file):
    assert file.startswith(b"\x89PNG\r\n\x1a\n")
    return struct.unpack(">II", file[16:24])


# --- browser -------------------------------------------------------------------------------------


def browser_get_info(here):
    data = done(here.sdk.browser.get_info())
    assert "Chrome/" in data.user_agent and data.cdp_url.startswith("ws://")
    assert (data.viewport.width, data.viewport.height) == (1280, 1024)


def browser_screenshot(here):
    assert png_size(b"".join(here.sdk.browser.screenshot())) == (1280, 1024)


def browser_execute_action(here):
    from agent_sandbox.browser.types import action as actions

    here.show()
    here.value("void name.focus, document.querySelector('#name').focus()")
    top = here.value("[outerHeight - innerHeight, ...['x', 'y'].map((k) => document.querySelector('#go').getBoundingClientRect()[k])]")
    answer = here.sdk.browser.execute_action(request=actions.Action_Click(x=top[1] + 10, y=top[0] + top[2] + 10))
    assert (answer.success, answer.status, answer.action_performed) == (True, "success", "CLICK")
    assert eventually(lambda: here.value("document.title") == "sent")
    here.sdk.browser.execute_action(request=actions.Action_Wait(duration=0.05))


def browser_set_config(here):
    try:
        done(here.sdk.browser.set_config(resolution=Resolution(width=1024, height=768)))
        assert png_size(b"".join(here.sdk.browser.screenshot())) == (1024, 768)
        with pytest.raises(ApiError) as caught:
            here.sdk.browser.set_config(resolution=Resolution(width=1, height=2))
        assert caught.value.status_code == 422
    finally:
        done(here.sdk.browser.set_config(resolution=Resolution(width=1280, height=1024)))


def browser_restart(here):
    before = done(here.sdk.browser.get_info()).cdp_url
    done(here.sdk.browser.restart(request=RestartRequest(mode="soft")))
    assert done(here.sdk.browser.get_info()).cdp_url == before
    done(here.sdk.browser.restart())
    assert done(here.sdk.browser.get_info()).cdp_url != before
    here.server.at_rest()
    here.server.baseline = here.server.possessions()


def browser_get_proxy_pac(here):
    here.sdk.browser.get_proxy_pac()


# --- tabs ----------------------------------------------------------------------------------------


def browser_tabs_list(here):
    (only,) = done(here.sdk.browser_tabs.list())
    assert only["index"] == 0 and only["active"]


def browser_tabs_create(here):
    assert done(here.sdk.browser_tabs.create(url=here.site.url + "/other"))["index"] == 1
    assert eventually(lambda: here.value("document.title") == "Other")
    assert done(here.sdk.browser_tabs.create())["url"] == "about:blank"


def browser_tabs_activate(here):
    here.show()
    done(here.sdk.browser_tabs.create(url=here.site.url + "/other"))
    done(here.sdk.browser_tabs.activate(0))
    assert here.value("document.title") == "Form"
    assert not here.sdk.browser_tabs.activate(9).success


def browser_tabs_close(here):
    here.show()
    done(here.sdk.browser_tabs.create())
    done(here.sdk.browser_tabs.close(1))
    assert here.value("document.title") == "Form"
    assert not here.sdk.browser_tabs.close(9).success


# --- the page: where it is -----------------------------------------------------------------------


def browser_page_navigate(here):
    data = here.show().data
    assert data["url"] == here.site.url + "/form" and data["title"] == "Form"
    for moment in ("domcontentloaded", "networkidle", "commit"):
        done(here.sdk.browser_page.navigate(url=here.site.url + "/other", wait_until=moment, timeout=60))
    assert not here.sdk.browser_page.navigate(url="http://127.0.0.1:1/").success


def browser_page_back(here):
    here.show()
    here.show("/other")
    done(here.sdk.browser_page.back())
    assert here.value("document.title") == "Form"


def browser_page_forward(here):
    browser_page_back(here)
    done(here.sdk.browser_page.forward())
    assert here.value("document.title") == "Other"


def browser_page_reload(here):
    here.show()
    here.value("document.title = 'changed'")
    done(here.sdk.browser_page.reload())
    assert here.value("document.title") == "Form"


# --- the page: what it holds ---------------------------------------------------------------------


def browser_page_get_html(here):
    here.show()
    assert "<h1>Order form</h1>" in done(here.sdk.browser_page.get_html())
    outer = done(here.sdk.browser_page.get_html(outer=True))
    assert "<html" in outer.lower()


def browser_page_get_text(here):
    here.show()
    text = done(here.sdk.browser_page.get_text())
    assert "Apples and pears" in text and "<" not in text and "console.log" not in text


def browser_page_get_markdown(here):
    here.show()
    data = done(here.sdk.browser_page.get_markdown())
    assert "Apples and pears" in json.dumps(data)


def browser_page_get_elements(here):
    here.show()
    found = done(here.sdk.browser_page.get_elements())
    tags = [element["tag"] for element in found]
    assert {"input", "select", "button", "a"} <= set(tags)
    indexes = [element["index"] for element in found]
    assert len(set(indexes)) == len(indexes)
    assert [element["index"] for element in done(here.sdk.browser_page.get_elements())] == indexes


def browser_page_evaluate(here):
    here.show()
    assert here.value("[1, 'a', null, {b: document.title}]") == [1, "a", None, {"b": "Form"}]
    assert here.value("new Promise((done) => setTimeout(() => done(42), 10))") == 42
    broken = here.sdk.browser_page.evaluate(expression="nothing.there")
    assert not broken.success and "nothing is not defined" in broken.message


def browser_page_find_text(here):
    here.show()
    assert len(done(here.sdk.browser_page.find_text(keyword="pears"))) == 1
    assert done(here.sdk.browser_page.find_text(keyword="bananas")) == []


def browser_page_get_console(here):
    here.show()
    assert eventually(lambda: {"ready", "a fault"} <= said(here))
    done(here.sdk.browser_page.get_console(clear=True))
    assert not said(here)


def said(here):
    """The texts of the console."""
    found = done(here.sdk.browser_page.get_console())
    return {entry["text"] for entry in found}


def browser_page_export_console(here):
    here.show()
    assert eventually(lambda: "ready" in said(here))
    path = here.file("console.json")
    done(here.sdk.browser_page.export_console(save_path=path, clear=True))
    assert "a fault" in json.dumps(json.load(open(path)))
    assert not said(here)


def browser_page_screenshot(here):
    here.show()
    width, height = png_size(b"".join(here.sdk.browser_page.screenshot()))
    assert (width, height) == tuple(here.value("[innerWidth, innerHeight]"))
    full = b"".join(here.sdk.browser_page.screenshot(full_page=True, format="jpeg", quality=50))
    assert full.startswith(b"\xff\xd8\xff")
    assert pixels(here.server, full)[1] > 4000


# --- the page: acting ----------------------------------------------------------------------------


def browser_page_click(here):
    here.show()
    done(here.sdk.browser_page.click(selector="#go"))
    assert here.value("document.title") == "sent"
    here.show()
    (button,) = [element for element in done(here.sdk.browser_page.get_elements()) if element["tag"] == "button"]
    done(here.sdk.browser_page.click(index=button["index"], button="left", click_count=2))
    assert here.value("document.title") == "sent"
    here.show()
    x, y = here.value("(() => { const r = document.querySelector('#go').getBoundingClientRect();"
                      " return [r.x + r.width / 2, r.y + r.height / 2] })()")
    done(here.sdk.browser_page.click(x=x, y=y))
    assert here.value("document.title") == "sent"
    assert not here.sdk.browser_page.click().success if not raises_422(here.sdk.browser_page.click) else True


def raises_422(call, **arguments):
    """Whether a call is refused as malformed."""
    try:
        call(**arguments)
    except ApiError as error:
        assert error.status_code == 422
        return True
    return False


def browser_page_fill(here):
    here.show()
    done(here.sdk.browser_page.fill(selector="#name", text="Ann \u00e9 \U0001f34e"))
    assert here.value("document.querySelector('#name').value") == "Ann \u00e9 \U0001f34e"
    (field,) = [element for element in done(here.sdk.browser_page.get_elements()) if element.get("placeholder") == "Name"]
    done(here.sdk.browser_page.fill(index=field["index"], text="Bob"))
    assert here.value("document.querySelector('#name').value") == "Bob"


def browser_page_type_text(here):
    here.show()
    done(here.sdk.browser_page.click(selector="#name"))
    done(here.sdk.browser_page.type_text(text="ab", delay=1))
    done(here.sdk.browser_page.type_text(text="c"))
    assert here.value("document.querySelector('#name').value") == "abc"


def browser_page_press_key(here):
    browser_page_type_text(here)
    done(here.sdk.browser_page.press_key(key="Backspace"))
    assert here.value("document.querySelector('#name').value") == "ab"


def browser_page_hot_key(here):
    browser_page_type_text(here)
    done(here.sdk.browser_page.hot_key(keys=["Control", "a"]))
    done(here.sdk.browser_page.press_key(key="Delete"))
    assert here.value("document.querySelector('#name').value") == ""


def browser_page_hover(here):
    here.show()
    done(here.sdk.browser_page.hover(selector="#spot"))
    assert here.value("document.title") == "hovered"


def browser_page_select_option(here):
    here.show()
    for how, value in (({"value": "m"}, "m"), ({"label": "Large"}, "l"), ({"index": 0}, "s")):
        done(here.sdk.browser_page.select_option(selector="#size", **how))
        assert here.value("document.querySelector('#size').value") == value


def browser_page_check(here):
    here.show()
    for _ in range(2):
        done(here.sdk.browser_page.check(selector="#agree"))
        assert here.value("document.querySelector('#agree').checked") is True


def browser_page_uncheck(here):
    here.show()
    for _ in range(2):
        done(here.sdk.browser_page.uncheck(selector="#news"))
        assert here.value("document.querySelector('#news').checked") is False


def browser_page_upload_file(here):
    here.show()
    for name in ("one.txt", "two.txt"):
        here.sdk.file.write_file(file=here.file(name), content=name)
    done(here.sdk.browser_page.upload_file(selector="#file", files=[here.file("one.txt"), here.file("two.txt")]))
    assert here.value("Promise.all([...document.querySelector('#file').files].map((file) => file.text()))") == ["one.txt", "two.txt"]
    assert not here.sdk.browser_page.upload_file(selector="#file", files=["/nowhere"]).success


def browser_page_fill_form(here):
    here.show()
    done(here.sdk.browser_page.fill_form(items=[{"selector": "#name", "value": "Cy"}, {"selector": "#agree", "value": True},
                                                {"selector": "#size", "value": "l"}]))
    got = here.value("['#name', '#agree', '#size'].map((s) => document.querySelector(s))"
                     ".map((e) => e.type == 'checkbox' ? e.checked : e.value)")
    assert got == ["Cy", True, "l"]


def browser_page_scroll(here):
    here.show()
    done(here.sdk.browser_page.scroll(direction="down", amount=500))
    assert eventually(lambda: here.value("scrollY") == 500)
    done(here.sdk.browser_page.scroll(direction="up", amount=200))
    assert eventually(lambda: here.value("scrollY") == 300)


def browser_page_scroll_to(here):
    here.show()
    done(here.sdk.browser_page.scroll_to(x=0, y=1234))
    assert eventually(lambda: here.value("scrollY") == 1234)
    done(here.sdk.browser_page.scroll_to())
    assert eventually(lambda: here.value("scrollY") == 0)


def browser_page_scroll_to_element(here):
    here.show()
    done(here.sdk.browser_page.scroll_to_element(selector="#end"))
    assert here.value("document.querySelector('#end').getBoundingClientRect().bottom <= innerHeight")


def browser_page_wait(here):
    here.show()
    wait = here.sdk.browser_page.wait
    here.value("setTimeout(() => document.body.append(Object.assign(document.createElement('b'), {id: 'late'})), 200), 1")
    done(wait(type="selector", selector="#late", state="attached", timeout=60))
    done(wait(type="load"))
    done(wait(type="network_idle"))
    done(wait(type="timeout", timeout=0.05))
    here.value("setTimeout(() => { window.ready = true }, 100), 1")
    done(wait(type="function", expression="window.ready", polling=50))
    here.value("setTimeout(() => { location.href = '/other' }, 200), 1")
    done(wait(type="url", url="**/other"))
    assert not wait(type="selector", selector="#never", timeout=0.2).success


def browser_page_record(here):
    here.show()
    path = here.file("page.webm")
    done(here.sdk.browser_page.record(action="start", save_path=path, fps=5, quality=50))
    for action in ("pause", "resume", "status", "stop"):
        data = done(here.sdk.browser_page.record(action=action))
    assert data["status"] == "stopped" and os.path.getsize(path) == data["file_size_bytes"] > 100
    once = done(here.sdk.browser_page.record(save_path=path, duration=0.6))
    assert (once["save_path"], once["frames"], once["fps"]) == (path, 9, 15) and probe(path)["seconds"] == pytest.approx(0.6, abs=0.01)


# --- captcha -------------------------------------------------------------------------------------


def browser_captcha_detect(here):
    here.show()
    assert "true" not in json.dumps(done(here.sdk.browser_captcha.detect()))


def browser_captcha_wait(here):
    here.show()
    assert done(here.sdk.browser_captcha.wait(timeout=5, poll_interval=0.1)).resolved is True


# --- cookies, state ------------------------------------------------------------------------------


def names(here, **query):
    return {cookie["name"] for cookie in done(here.sdk.browser_cookies.get_cookies(**query))}


def browser_cookies_set_cookies(here):
    done(here.sdk.browser_cookies.set_cookies(cookies=[
        {"name": "mine", "value": "7", "url": here.site.url},
        {"name": "deep", "value": "8", "domain": "127.0.0.1", "path": "/", "httpOnly": True}]))
    here.show()
    assert "mine=7" in here.value("document.cookie") and "deep" not in here.value("document.cookie")


def browser_cookies_get_cookies(here):
    browser_cookies_set_cookies(here)
    assert {"mine", "deep"} <= names(here)
    assert {"mine", "deep"} <= names(here, urls=f"{here.site.url},http://other.test/")
    assert names(here, urls="http://other.test/") == set()


def browser_cookies_clear_cookies(here):
    browser_cookies_set_cookies(here)
    done(here.sdk.browser_cookies.clear_cookies())
    assert names(here) == set()


def browser_state_save(here):
    here.show()
    here.value("localStorage.basket = 'full'; document.cookie = 'kept=1'")
    done(here.sdk.browser_state.save(path=here.file("state.json")))
    saved = open(here.file("state.json")).read()
    assert "basket" in saved and "kept" in saved


def browser_state_load(here):
    browser_state_save(here)
    done(here.sdk.browser_cookies.clear_cookies())
    here.value("localStorage.basket = 'stolen'")
    done(here.sdk.browser_state.load(path=here.file("state.json")))
    here.show()
    assert here.value("localStorage.basket") == "full" and "kept=1" in here.value("document.cookie")
    assert not here.sdk.browser_state.load(path="/nowhere.json").success


# --- network -------------------------------------------------------------------------------------


def browser_network_set_headers(here):
    try:
        done(here.sdk.browser_network.set_headers(headers={"x-extra": "yes"}))
        here.show("/other")
        request = [one for one in done(here.sdk.browser_network.get_requests(filter="/other"))][-1]
        assert "yes" in json.dumps(request["headers"])
    finally:
        done(here.sdk.browser_network.set_headers(headers={}))


def browser_network_set_scoped_headers(here):
    try:
        done(here.sdk.browser_network.set_scoped_headers(origin=here.site.url, headers={"x-scoped": "here"}))
        here.show("/other")
        request = [one for one in done(here.sdk.browser_network.get_requests(filter="/other"))][-1]
        assert "here" in json.dumps(request["headers"])
    finally:
        done(here.sdk.browser_network.set_scoped_headers(origin=here.site.url, headers={}))


FETCH = "fetch('/api').then((r) => r.text()).catch(() => 'cut off')"


def browser_network_add_route(here):
    here.show()
    try:
        done(here.sdk.browser_network.add_route(url_pattern="**/api", response=RouteResponseModel(status=200, body="mocked")))
        assert here.value(FETCH) == "mocked"
        done(here.sdk.browser_network.add_route(url_pattern="**/api", abort=True))
        assert here.value(FETCH) == "cut off"
    finally:
        here.sdk.browser_network.remove_route(url_pattern="**/api")


def browser_network_remove_route(here):
    browser_network_add_route(here)
    assert here.value(FETCH) == "from the site"


def browser_network_get_requests(here):
    here.show()
    here.value(FETCH)
    found = done(here.sdk.browser_network.get_requests())
    assert {here.site.url + path for path in ("/form", "/api")} <= {request["url"] for request in found}
    assert [request["url"] for request in done(here.sdk.browser_network.get_requests(filter="/api", limit=1))] == [here.site.url + "/api"]


def browser_network_export_har(here):
    here.show()
    path = here.file("log.har")
    done(here.sdk.browser_network.export_har(save_path=path))
    log = json.load(open(path))["log"]
    assert log["version"] == "1.2" and here.site.url + "/form" in [entry["request"]["url"] for entry in log["entries"]]


# --- the display ---------------------------------------------------------------------------------


def display_record(here):
    path = here.file("screen.mp4")
    started = done(here.sdk.display.record(action="start", save_path=path, fps=5, crf=30, max_duration=60, width=640, height=512))
    assert started.status == "recording"
    here.show()
    assert eventually(lambda: (done(here.sdk.display.record(action="status")).duration or 0) > 0.5)
    stopped = done(here.sdk.display.record(action="stop"))
    assert stopped.status == "stopped" and stopped.save_path == path and os.path.getsize(path) == stopped.file_size_bytes
    probe = subprocess.run(["ffprobe", "-v", "error", "-show_entries", "stream=codec_name,width,height", "-of", "csv=p=0", path],
                           capture_output=True, text=True, check=True).stdout
    assert probe.strip() == "h264,640,512"
    here.server.baseline = here.server.possessions()  # what is known of the last recording is kept


# --- all of them ---------------------------------------------------------------------------------


def methods():
    """"browser_page.click" and so on: what the SDK has in the namespaces of the browser and the display."""
    sdk = Sandbox(base_url="http://sandbox")
    for part in (name for name, value in inspect.getmembers(Sandbox) if isinstance(value, property)):
        if part.startswith("browser") or part == "display":
            for name, _ in inspect.getmembers(getattr(sdk, part), inspect.ismethod):
                if not name.startswith("_"):
                    yield f"{part}.{name}"


@pytest.mark.parametrize("method", methods())
def test_method(here, method):
    path = method.replace(".", "_")
    assert path in globals(), f"nothing drives {method}"
    globals()[path](here)
