"""The tools of the browser, as the official Python client calls them, on real pages."""

import asyncio
import base64
import http.server
import json
import os
import re
import threading

import jsonschema
import mcp
import pytest

import desktop
from desktop import BROWSER_NEEDED, pixels, tabs, tester  # noqa: F401
from harness import ANSWER_SECONDS, clean_environment, eventually
from mcp_peer import Peer, failed
from mcp_stdio import Stdio

pytestmark = [BROWSER_NEEDED, pytest.mark.timeout(180)]


# --- pages ---------------------------------------------------------------------------------------

PAGES = {
    "/": "<title>Shop</title><h1>Shop</h1><p>Everything for sale.</p><a href=/about>About us</a><button>Buy</button>",
    "/about": "<title>About</title><h1>About us</h1><p>Since 1999.</p><a href=/>Home</a>",
    "/form": """<title>Form</title><form action=/about><input id=name placeholder='Your name'>
        <input id=agree type=checkbox aria-label='I agree'><select id=size aria-label=Size><option value=s>Small<option value=l>Large
        </select><input id=file type=file multiple><button id=go type=button onclick="document.title = 'sent'">Send</button></form>
        <div id=spot tabindex=0 onmouseenter="document.title = 'hovered'" style="width: 90px; height: 40px; background: red">Spot</div>""",
    "/long": "<title>Long</title><div style='height: 9000px'>top</div><p id=end>the end</p>",
    "/story": "<title>Story</title><main><h1>A story</h1>" + "".join(
        f"<p>Paragraph {n} of a story that is long enough to be read in parts, with some <b>bold</b> words.</p>"
        for n in range(1000)) + "</main>",
    "/busy": "<title>Busy</title><script>console.log('hello', 42); console.error('a fault'); fetch('/about')</script>",
    "/ask": "<title>Ask</title><button id=ask onclick=\"document.title = prompt('Your name?', 'nobody')\">Ask</button>",
}


class Site(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        page = PAGES.get(self.path.partition("?")[0])
        file = self.path == "/report.csv"
        body = b"a,b\n1,2\n" if file else ("<!doctype html><meta charset=utf-8>" + (page or "nothing here")).encode()
        self.send_response(200 if page or file else 404)
        self.send_header("content-type", "text/csv" if file else "text/html")
        if file:
            self.send_header("content-disposition", "attachment; filename=report.csv")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def site():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()


# --- the client ----------------------------------------------------------------------------------


class Tools:
    """The official client, a connection for each call."""

    def __init__(self, url, path="/mcp"):
        self.url = url + path

    def with_client(self, use):
        async def run():
            async with mcp.Client(self.url) as client:
                return await use(client)

        return asyncio.run(run())

    def listed(self):
        return {tool.name: tool for tool in self.with_client(lambda client: client.list_tools()).tools}

    def result(self, tool, /, **arguments):
        return self.with_client(lambda client: client.call_tool(tool, arguments, read_timeout_seconds=ANSWER_SECONDS))

    def call(self, tool, /, **arguments):
        """The result, which must not be an error."""
        result = self.result(tool, **arguments)
        assert not result.is_error, result
        return result

    def text(self, tool, /, **arguments):
        return "\n".join(item.text for item in self.call(tool, **arguments).content if item.type == "text")

    def error(self, tool, /, **arguments):
        result = self.result(tool, **arguments)
        assert result.is_error, result
        return result.content[0].text

    def picture(self, tool, /, **arguments):
        """What it says of its picture, the MIME type and the file."""
        said, picture = self.call(tool, **arguments).content
        assert (said.type, picture.type) == ("text", "image")
        return said.text, picture.mime_type, base64.b64decode(picture.data, validate=True)


@pytest.fixture(scope="module")
def server(tester, start_shared):  # noqa: F811
    server = start_shared(**desktop.browser_options(tester))
    desktop.warm_browser(server)
    desktop.warm(server)
    Peer(server).ask("tools/list")
    return server


@pytest.fixture
def tools(server):
    return Tools(server.url)


@pytest.fixture(autouse=True)
def one_blank_tab(server):
    yield
    for _ in tabs(server):
        server.request("DELETE", "/v1/browser/tabs/0")
    server.at_rest()


def urls(server):
    return [tab["url"] for tab in tabs(server)]


# --- the lists -----------------------------------------------------------------------------------

# Of behaviour §13: what the hub lists, and what the browser's own server does.
HUB = """get_info navigate evaluate form_input_fill element_click element_hover element_select press_key scroll new_tab
    switch_tab close_tab tab_list get_clickable_elements get_text get_markdown read_links get_download_list go_back
    go_forward""".split()
SERVER = """navigate go_back go_forward form_input_fill get_markdown get_text read_links new_tab tab_list switch_tab close_tab
    evaluate get_download_list screenshot click select hover get_clickable_elements scroll close press_key
    vision_screen_capture vision_screen_click""".split()
GUI = ["gui_screenshot", "gui_execute_action"]


def test_documented_names_are_listed(tools, server):
    listed = tools.listed()
    assert {f"sandbox_browser_{name}" for name in HUB + GUI} <= set(listed)
    assert not [name for name in listed if name.startswith("browser_")]
    own = Tools(server.url, "/mcp?search=browser").listed()
    assert {f"browser_{name}" for name in SERVER} | {"browser_get_info", "browser_gui_screenshot"} <= set(own)
    assert all(name.startswith("browser_") for name in own)


def test_the_browser_is_a_server(server):
    answer = server.get("/v1/mcp/servers").json()
    assert "browser" in answer["data"]
    listed = server.get("/v1/mcp/browser/tools").json()["data"]["tools"]
    assert {f"browser_{name}" for name in SERVER} <= {tool["name"] for tool in listed}
    done = server.post("/v1/mcp/browser/tools/browser_tab_list", {}).json()["data"]
    assert not done["isError"] and done["structuredContent"]["tabList"][0]["active"]
    done = server.post("/v1/mcp/sandbox/tools/sandbox_browser_tab_list", {}).json()["data"]
    assert not done["isError"]


def test_every_tool_is_well_described(tools):
    for name, tool in tools.listed().items():
        assert len(tool.description) > 60, name
        jsonschema.Draft202012Validator.check_schema(tool.input_schema)
        for field, schema in tool.input_schema.get("properties", {}).items():
            assert schema.get("description"), (name, field)


def test_structured_results_are_what_their_schemas_say(tools, server, site):
    listed = tools.listed()
    tools.call("sandbox_browser_new_tab", url=site)
    for name in ("get_info", "tab_list", "get_download_list"):
        result = tools.call(f"sandbox_browser_{name}")
        jsonschema.validate(result.structured_content, listed[f"sandbox_browser_{name}"].output_schema)
        assert json.loads(result.content[0].text) == result.structured_content


def test_the_instructions_mention_it(server):
    assert "sandbox_browser_navigate" in Peer(server).initialize()["instructions"]


# --- tabs ----------------------------------------------------------------------------------------


def test_tabs(tools, server, site):
    assert tools.text("sandbox_browser_new_tab", url=f"{site}/about").startswith(f"Opened new tab with URL: {site}/about")
    assert eventually(lambda: [tab["title"] for tab in tabs(server)] == ["about:blank", "About"])
    listed = tools.call("browser_tab_list").structured_content["tabList"]
    assert listed[1] == {"index": 1, "active": True, "title": "About", "url": f"{site}/about"}
    assert tools.text("browser_switch_tab", index=0).startswith("Switched to tab 0")
    assert [tab["active"] for tab in tabs(server)] == [True, False]
    assert tools.text("browser_close_tab") == "Closed current tab [0]"
    assert urls(server) == [f"{site}/about"]
    tools.call("sandbox_browser_new_tab")
    assert tools.text("sandbox_browser_close_tab", index=0) == "Closed tab [0]"
    assert urls(server) == ["about:blank"]
    assert "no tab 7" in tools.error("browser_switch_tab", index=7)
    assert "no tab 7" in tools.error("browser_close_tab", index=7)
    assert "index" in tools.error("browser_switch_tab")


def test_closing_all(tools, server, site):
    tools.call("browser_new_tab", url=site)
    tools.call("browser_new_tab", url=f"{site}/about")
    tools.text("browser_close")
    assert urls(server) == ["about:blank"]


def test_downloads(tools, server, site):
    tools.call("browser_new_tab", url=f"{site}/report.csv")
    got = eventually(lambda: [item for item in tools.call("browser_get_download_list").structured_content["list"]
                              if item["state"] == "completed"])
    assert got[0]["url"] == f"{site}/report.csv" and got[0]["progress"] == 1
    assert got[0]["suggestedFilename"].startswith("report") and got[0]["resourceUri"] == f"file://{got[0]['path']}"
    read = tools.call("sandbox_file_operations", action="read", path=got[0]["path"])
    assert read.structured_content["content"] == "a,b\n1,2\n"


# --- going to pages ------------------------------------------------------------------------------


def test_navigate(tools, site):
    text = tools.text("sandbox_browser_navigate", url=site)
    assert text.startswith(f"Navigated to {site}/\nTitle: Shop")
    assert re.search(r"^\[\d+\]<a>About us</a>", text, re.M) and re.search(r"^\[\d+\]<button>Buy</button>", text, re.M)
    assert "HTTP status: 404" in tools.text("browser_navigate", url=f"{site}/nowhere", wait_until="domcontentloaded")
    assert tools.text("navigate", url=site.removeprefix("http://")).startswith(f"Navigated to {site}/")
    assert "download" in tools.text("navigate", url=f"{site}/report.csv")
    assert "127.0.0.1:1" in tools.error("browser_navigate", url="http://127.0.0.1:1/")
    assert "url" in tools.error("browser_navigate")


def test_a_file_of_the_sandbox(tools, server):
    tools.call("sandbox_file_operations", action="write", path="page.html", content="<title>Own</title><p>made here</p>")
    path = f"{tools.call('sandbox_get_context').structured_content['workspace']}/page.html"
    for url in (f"file://{path}", path):
        assert "Title: Own" in tools.text("sandbox_browser_navigate", url=url)
    assert "made here" in tools.text("sandbox_browser_get_text")


def test_history(tools, site):
    tools.call("sandbox_browser_navigate", url=site)
    tools.call("sandbox_browser_navigate", url=f"{site}/about")
    assert tools.text("sandbox_browser_go_back").startswith(f"Navigated back to {site}/\nTitle: Shop")
    assert tools.text("browser_go_forward").startswith(f"Navigated forward to {site}/about")
    tools.call("browser_evaluate", script="document.title = 'changed'")
    assert "Title: About" in tools.text("browser_reload")


# --- reading -------------------------------------------------------------------------------------


def test_reading(tools, site):
    tools.call("browser_navigate", url=f"{site}/about")
    assert "Since 1999." in tools.text("sandbox_browser_get_text")
    assert "# About us" in tools.text("browser_get_markdown")
    assert "<h1>About us</h1>" in tools.text("sandbox_browser_get_html")
    assert "Since 1999." in tools.text("browser_extract")
    assert tools.text("browser_extract", selector="h1, p") == "About us\nSince 1999."
    assert tools.text("sandbox_browser_extract", selector="p", format="html") == "<p>Since 1999.</p>"
    assert "no element" in tools.error("browser_extract", selector="article")
    assert "selector" in tools.error("browser_extract", selector="a[")
    assert tools.call("browser_read_links").structured_content == {"links": [{"text": "Home", "href": f"{site}/"}]}


def test_long_pages_come_in_parts(tools, site):
    tools.call("browser_navigate", url=f"{site}/story")
    whole, offset = "", 0
    while True:
        first, *rest = tools.call("sandbox_browser_get_markdown", offset=offset).content
        assert len(first.text) <= 30000
        whole += first.text
        if not rest:
            break
        offset = int(re.search(r"offset (\d+)", rest[0].text)[1])
    assert offset and [f"Paragraph {n} " in whole for n in (0, 500, 999)] == [True] * 3
    assert len(tools.call("browser_get_text", max_length=100).content[0].text) == 100


def test_find_text(tools, site):
    tools.call("browser_navigate", url=f"{site}/about")
    assert "1999" in tools.text("sandbox_browser_find_text", keyword="Since")


def test_wait(tools, site):
    tools.call("browser_navigate", url=site)
    tools.call("browser_evaluate", script="setTimeout(() => document.body.append('all sold out'), 300); 1")
    tools.call("sandbox_browser_wait", text="sold out")
    tools.call("browser_wait", selector="button", state="visible")
    tools.call("browser_wait", expression="document.title == 'Shop'")
    tools.call("browser_wait_for", time=0.05)
    tools.call("browser_wait", type="network_idle")
    tools.call("browser_wait", url="**/")
    assert tools.error("browser_wait", selector="#never", timeout=0.3)
    assert "type" in tools.error("browser_wait", type="soon")


def test_snapshot(tools, site):
    tools.call("browser_navigate", url=site)
    tree = tools.text("sandbox_browser_snapshot")
    assert tree.startswith(f"Shop\n{site}/") and 'button "Buy" [ref=' in tree and 'link "About us"' in tree
    ref = re.search(r'link "About us" \[ref=(\w+)\]', tree)[1]
    tools.call("browser_click", selector=f"aria-ref={ref}")
    assert eventually(lambda: title(tools) == "About")


def test_the_console(tools, site):
    tools.call("browser_navigate", url=f"{site}/busy")
    assert eventually(lambda: "[error] a fault" in tools.text("sandbox_browser_console_messages"))
    text = tools.text("browser_console_messages", limit=1, clear=True)
    assert "left out" in text and f"({site}/busy:1)" in text
    assert "empty" in tools.text("browser_console_messages")


def test_requests(tools, site):
    tools.call("browser_navigate", url=f"{site}/busy", wait_until="networkidle")
    lines = tools.text("sandbox_browser_network_requests").splitlines()
    assert any(line.startswith(f"GET 200 {site}/busy (document, ") for line in lines), lines
    assert len(tools.text("browser_network_requests", filter="**/about").splitlines()) == 1


def test_a_page_as_pdf(tools, site):
    tools.call("browser_navigate", url=site)
    said = tools.text("sandbox_browser_pdf_save", path="shop.pdf")
    path = re.search(r"to (/\S+/shop.pdf) ", said)[1]
    with open(path, "rb") as file:
        assert file.read(5) == b"%PDF-"


def test_a_dialog(tools, site):
    tools.call("browser_navigate", url=f"{site}/ask")
    tools.call("browser_evaluate", script="setTimeout(() => document.querySelector('#ask').click()), 1")
    assert eventually(lambda: "Your name?" in tools.result("browser_get_text").content[0].text)
    said = tools.text("sandbox_browser_handle_dialog", accept=True, text="Ann")
    assert said.startswith("Accepted the prompt 'Your name?'")
    assert eventually(lambda: title(tools) == "Ann")
    assert "dialog" in tools.error("browser_handle_dialog")


# --- JavaScript ----------------------------------------------------------------------------------


@pytest.mark.parametrize("script, value", [
    ("1 + 1", 2), ("document.title", "Shop"), ("() => { const a = [1, 2]; return a }", [1, 2]), ("let x = 4; x * 2", 8),
    ("new Promise((done) => setTimeout(() => done({ok: true}), 5))", {"ok": True}), ("null", None)])
def test_evaluate(tools, site, script, value):
    tools.call("browser_navigate", url=site)
    for name in ("script", "expression"):
        text = tools.text("sandbox_browser_evaluate", **{name: script})
        assert text.startswith("Execution result:\n") and json.loads(text.partition("\n")[2]) == value


def test_evaluate_that_fails_or_returns_too_much(tools, site):
    tools.call("browser_navigate", url=site)
    assert "nothing is not defined" in tools.error("browser_evaluate", script="nothing.there")
    text = tools.text("browser_evaluate", script="'x'.repeat(100000)")
    assert len(text) < 31000 and "more characters" in text


# --- acting --------------------------------------------------------------------------------------


def title(tools):
    return json.loads(tools.text("browser_evaluate", script="document.title").partition("\n")[2])


def value(tools, selector):
    return json.loads(tools.text("browser_evaluate", script=f"document.querySelector('{selector}').value").partition("\n")[2])


def index_of(tools, caption):
    lines = tools.text("sandbox_browser_get_clickable_elements")
    return int(re.search(rf"^\[(\d+)\].*{caption}", lines, re.M)[1])


def test_the_elements_of_a_form(tools, site):
    tools.call("browser_navigate", url=f"{site}/form")
    lines = tools.text("browser_get_clickable_elements").splitlines()
    assert all(re.match(r"\[\d+\]<(\w+)>.*</\1>", line) for line in lines), lines
    assert any("<select>Size</select>" in line and "options: Small, Large" in line for line in lines), lines
    assert any('placeholder="Your name"' in line for line in lines), lines
    tools.call("browser_navigate", url="about:blank")
    assert "nothing" in tools.text("browser_get_clickable_elements")


def test_click(tools, site):
    for how in ("index", "selector", "point"):
        tools.call("browser_navigate", url=f"{site}/form")
        if how == "index":
            said = tools.text("sandbox_browser_element_click", index=index_of(tools, "Send"))
            assert said.startswith("Clicked ") and "button" in said
        elif how == "selector":
            tools.call("browser_click", selector="#go")
        else:
            x, y = json.loads(tools.text("browser_evaluate", script="(() => { const r = document.querySelector('#go')"
                                         ".getBoundingClientRect(); return [r.x + 5, r.y + 5] })()").partition("\n")[2])
            tools.call("browser_click", x=x, y=y)
        assert title(tools) == "sent", how
    assert "selector" in tools.error("browser_click")
    assert "9999" in tools.error("browser_click", index=9999)


def test_a_click_that_leads_elsewhere(tools, server, site):
    tools.call("browser_navigate", url=site)
    tools.call("sandbox_browser_element_click", selector="text=About us")
    assert eventually(lambda: urls(server) == [f"{site}/about"])


def test_fill_type_and_keys(tools, site):
    tools.call("browser_navigate", url=f"{site}/form")
    assert tools.text("sandbox_browser_form_input_fill", selector="#name", value="Ann").startswith("Successfully filled")
    assert value(tools, "#name") == "Ann"
    tools.call("browser_form_input_fill", index=index_of(tools, "Your name"), value="Bob \u00e9\U0001f34e", clear=True)
    assert value(tools, "#name") == "Bob \u00e9\U0001f34e"
    tools.call("browser_type", selector="#name", text="Cy")
    tools.call("browser_type", text="rus")
    assert value(tools, "#name") == "Cyrus"
    tools.call("sandbox_browser_press_key", key="Backspace")
    assert value(tools, "#name") == "Cyru"
    tools.call("browser_press_key", key="Control+A")
    tools.call("browser_press_key", key="Delete")
    assert value(tools, "#name") == ""
    assert "NoKey" in tools.error("browser_press_key", key="NoKey")
    tools.call("browser_type", selector="#name", text="Di", submit=True)
    assert eventually(lambda: title(tools) == "About")


@pytest.mark.parametrize("chosen", ["l", "Large"])
def test_select(tools, site, chosen):
    tools.call("browser_navigate", url=f"{site}/form")
    tools.call("sandbox_browser_element_select", selector="#size", value=chosen)
    assert value(tools, "#size") == "l"
    tools.call("browser_select", index=index_of(tools, "Size"), value="s")
    assert value(tools, "#size") == "s"
    assert "Huge" in tools.error("browser_select", selector="#size", value="Huge")


def test_hover(tools, site):
    tools.call("browser_navigate", url=f"{site}/form")
    tools.call("sandbox_browser_element_hover", selector="#spot")
    assert title(tools) == "hovered"
    tools.call("browser_navigate", url=f"{site}/form")
    tools.call("browser_click", selector="#go")
    tools.call("browser_hover", index=index_of(tools, "Spot"))
    assert title(tools) == "hovered"


def test_a_form_at_once(tools, site):
    tools.call("browser_navigate", url=f"{site}/form")
    tools.call("sandbox_browser_fill_form", items=[{"selector": "#name", "value": "Eve"}, {"selector": "#agree", "value": True}])
    assert value(tools, "#name") == "Eve"


def test_upload(tools, site):
    tools.call("sandbox_file_operations", action="write", path="up.txt", content="sent up")
    tools.call("browser_navigate", url=f"{site}/form")
    tools.call("sandbox_browser_upload_file", selector="#file", files=["up.txt"])
    got = tools.text("browser_evaluate", script="document.querySelector('#file').files[0].text()")
    assert "sent up" in got
    assert "nowhere.txt" in tools.error("browser_upload_file", selector="#file", files=["nowhere.txt"])


def test_scroll(tools, site):
    tools.call("browser_navigate", url=f"{site}/long")

    def at():
        return json.loads(tools.text("browser_evaluate", script="scrollY").partition("\n")[2])

    assert "2500" in tools.text("sandbox_browser_scroll", amount=2500)
    assert eventually(lambda: at() > 2000)
    tools.call("browser_scroll", y=-1000)
    assert eventually(lambda: 1000 < at() < 2000)
    tools.call("browser_scroll")
    assert eventually(lambda: at() > 8000)


# --- pictures of the page ------------------------------------------------------------------------


def size_of(server, file):
    return pixels(server, file)[:2]


def test_a_picture_of_the_page(tools, server, site):
    tools.call("browser_navigate", url=f"{site}/form")
    view = tuple(json.loads(tools.text("browser_evaluate", script="[innerWidth, innerHeight]").partition("\n")[2]))
    said, kind, file = tools.picture("sandbox_browser_screenshot", name="first")
    assert "first" in said and kind == "image/png" and size_of(server, file) == view
    assert f"{view[0]}x{view[1]}" in said
    _, kind, file = tools.picture("browser_screenshot", selector="#spot", format="jpeg")
    assert kind == "image/jpeg" and size_of(server, file) == (90, 40)
    assert size_of(server, tools.picture("browser_screenshot", width=100, height=50)[2]) == (100, 50)
    assert size_of(server, tools.picture("browser_vision_screen_capture")[2]) == view
    assert "#nothing" in tools.error("browser_screenshot", selector="#nothing")
    assert pixels(server, tools.picture("browser_screenshot", format="png")[2]) \
        != pixels(server, tools.picture("browser_screenshot", format="png", highlight=True)[2])
    last = tools.text("browser_get_clickable_elements").strip().splitlines()[-1]
    assert size_of(server, tools.picture("browser_screenshot", index=int(last[1:last.index("]")]))[2]) < view


def test_a_picture_of_a_whole_page_is_one_that_models_take(tools, server, site):
    tools.call("browser_navigate", url=f"{site}/long")
    said, _, file = tools.picture("sandbox_browser_screenshot", fullPage=True)
    width, height = size_of(server, file)
    assert width <= 8000 and 7000 < height <= 8000 and len(file) < 4 << 20, said
    assert "9" in said and "Multiply" in said


def test_vision_click(tools, site):
    tools.call("browser_navigate", url=f"{site}/form")
    x, y, width, height = json.loads(tools.text("browser_evaluate", script="(() => { const r = document.querySelector('#go')"
                                     ".getBoundingClientRect(); return [r.x + 9, r.y + 9, innerWidth, innerHeight] })()").partition("\n")[2])
    tools.call("browser_vision_screen_click", x=x / width * 1000, y=y / height * 1000, factors=[1000, 1000])
    assert title(tools) == "sent"
    tools.call("browser_navigate", url=f"{site}/form")
    tools.call("browser_vision_screen_click", x=x, y=y)
    assert title(tools) == "sent"
    assert "factors" in tools.error("browser_vision_screen_click", x=1, y=1, factors=[0, 0])


# --- the screen ----------------------------------------------------------------------------------


def test_a_picture_of_the_screen(tools, server):
    for arguments, mime, magic in (({}, "image/jpeg", b"\xff\xd8\xff"), ({"format": "png"}, "image/png", b"\x89PNG")):
        said, kind, file = tools.picture("sandbox_browser_gui_screenshot", **arguments)
        assert "1280x1024" in said and kind == mime and file.startswith(magic)
        assert pixels(server, file)[:2] == (1280, 1024)
    assert "quality" in tools.error("browser_gui_screenshot", quality=0)


def test_a_picture_of_a_large_screen_is_made_smaller(tools, server):
    said, _, file = tools.picture("sandbox_browser_gui_screenshot", max_size=640, format="png")
    assert "640x512" in said and "1280x1024" in said and "Multiply coordinates of the picture by 2" in said
    width, height, small = pixels(server, file)
    assert (width, height) == (640, 512)
    whole = pixels(server, tools.picture("sandbox_browser_gui_screenshot", format="png")[2])[2]
    for x, y in ((0, 0), (100, 20), (320, 300), (639, 511)):  # the blank page and the tabs do not move
        at = [whole[((2 * y + dy) * 1280 + 2 * x + dx) * 3:][:3] for dy in (0, 1) for dx in (0, 1)]
        mean = [round(sum(colors) / 4) for colors in zip(*at)]
        assert all(abs(a - b) <= 1 for a, b in zip(mean, small[(y * 640 + x) * 3:][:3])), (x, y)
    answer = server.get("/v1/browser/screenshot?max_size=64&format=jpeg")
    assert [answer.headers[f"x-{what}"] for what in ("image-width", "image-height", "screen-width", "screen-height")] == ["64", "51", "1280", "1024"]
    assert server.get("/v1/browser/screenshot?max_size=0").status_code == 422


def test_mouse_and_keyboard(tools, server, site):
    """A person's way: into the address bar, type, press Enter; and again if a tab that just opened took the focus."""
    def go():
        did = tools.call("browser_gui_execute_action", action={"action_type": "HOTKEY", "keys": ["ctrl", "l"]})
        assert did.structured_content == {"status": "success", "action_performed": "HOTKEY"}
        tools.call("browser_gui_execute_action", action={"action_type": "TYPING", "text": f"{site}/about"})
        tools.call("sandbox_browser_execute_action", action_type="PRESS", key="Return")
        return eventually(lambda: urls(server) == [f"{site}/about"], seconds=5)

    assert eventually(go)
    tools.call("sandbox_browser_execute_action", action={"action_type": "WAIT", "duration": 0.1})
    assert "duration" in tools.error("browser_execute_action", action={"action_type": "WAIT"})
    assert "action_type" in tools.error("browser_execute_action")
    assert "1280" in tools.error("browser_execute_action", action={"action_type": "CLICK", "x": 5000, "y": 1})


# --- where there is none -------------------------------------------------------------------------


def test_without_a_browser_there_are_no_such_tools(tester, start_server):  # noqa: F811
    server = start_server(**desktop.options(tester))
    peer = Peer(server)
    assert not [tool["name"] for tool in peer.ask("tools/list")["tools"] if "browser" in tool["name"]]
    assert Peer(server, "/mcp?search=browser").ask("tools/list")["tools"] == []
    assert "DISABLE_BROWSER" in failed(peer.call("browser_tab_list"))
    info = {one["name"]: one for one in server.get("/v1/mcp/servers").json()["servers"]}
    assert info["browser"]["status"] == "unavailable" and "DISABLE_BROWSER" in info["browser"]["reason"]
    with peer:
        assert "sandbox_browser" not in peer.initialize()["instructions"]


# --- on standard input and output ----------------------------------------------------------------


def test_a_program_on_standard_input(tester, tmp_path, site):  # noqa: F811
    """`aio mcp`, as desktop clients start it: the browser starts with the first call and ends with the program."""
    profile = f"/home/{tester}/of-a-program"
    env = clean_environment(tmp_path, {"AIO_STATE": str(tmp_path / "no-host"), "AIO_BROWSER_PROFILE": profile,
                                       **desktop.environment(tester)})
    stdio = Stdio(tmp_path, "--no-box", "--user", tester, env=env)
    try:
        assert "sandbox_browser_navigate" in stdio.initialize()["instructions"]
        assert "sandbox_browser_navigate" in [tool["name"] for tool in stdio.ask("tools/list")["result"]["tools"]]
        assert "Title: About" in stdio.call("sandbox_browser_navigate", url=f"{site}/about")["content"][0]["text"]
        picture = stdio.call("sandbox_browser_gui_screenshot", format="png")["content"][1]
        assert base64.b64decode(picture["data"]).startswith(b"\x89PNG") and picture["mimeType"] == "image/png"
        children = stdio.children()
        assert stdio.end() == (0, b"")
        assert eventually(lambda: not [pid for pid in children if os.path.exists(f"/proc/{pid}")])
    finally:
        stdio.proc.kill()
        stdio.proc.wait()
