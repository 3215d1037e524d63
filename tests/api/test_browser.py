"""The browser as a whole: what it says of itself, its tabs, restarts, its proxy; and what happens when parts of it are
killed, stopped or in the way."""

import contextlib
import http.server
import json
import os
import re
import signal
import socket
import threading
import time
from pathlib import Path

import pytest

import desktop
from desktop import BROWSER_NEEDED, browser_processes, devtools, tabs, tester  # noqa: F401
from harness import ANSWER_SECONDS, START_SECONDS, Calls, eventually

pytestmark = BROWSER_NEEDED
BROWSER = Calls("/v1/browser")
PAGE = "data:text/html,<title>%s</title><p>%s"


@pytest.fixture(scope="module")
def server(tester, start_shared):  # noqa: F811
    server = start_shared(**desktop.browser_options(tester))
    desktop.warm_browser(server)
    return server


@pytest.fixture(autouse=True)
def one_blank_tab(server):
    """A test begins with one blank tab, and what others have opened goes."""
    yield
    for _ in tabs(server):
        server.request("DELETE", "/v1/browser/tabs/0")
    assert [tab["url"] for tab in tabs(server)] == ["about:blank"]
    server.at_rest()


def info(server):
    response = server.get("/v1/browser/info", timeout=START_SECONDS)
    assert response.status_code == 200, response.text
    return response.json()["data"]


def open_tab(server, url=None):
    return BROWSER.ask(server, "tabs", **({"url": url} if url else {}))


def restart(server, **body):
    return BROWSER.reply(server, "restart", **body)


# --- what it says ------------------------------------------------------------------------------


def test_info(server):
    info(server)
    assert eventually(lambda: info(server)["page_viewport"])  # null while the first page has not begun
    data = info(server)
    assert "Chrome/" in data["user_agent"]
    assert re.fullmatch(rf"ws://{server.host}:{server.port}/devtools/browser/[0-9a-f-]{{36}}", data["cdp_url"])
    assert data["vnc_url"].startswith(f"{server.url}/vnc/index.html")
    assert data["viewport"] == {"width": 1280, "height": 1024}
    assert data["page_viewport"]["width"] == 1280 and 500 < data["page_viewport"]["height"] < 1024


def test_the_page_has_the_size_of_the_window_at_once(server, tester, start_server):  # noqa: F811
    """As soon as it has begun, and right after the screen was resized."""
    try:
        info(server)
        assert eventually(lambda: info(server)["page_viewport"])
        for width, height in ((800, 600), (1920, 1080), (1024, 768), (1280, 1024)) * 2:
            assert server.post("/v1/browser/config", {"resolution": f"{width}x{height}"}).json()["success"]
            data = info(server)
            assert data["viewport"] == {"width": width, "height": height}
            assert data["page_viewport"]["width"] == width and height - 200 < data["page_viewport"]["height"] < height, data
    finally:
        server.post("/v1/browser/config", {"resolution": "1280x1024"})
    other = start_server(**desktop.browser_options(tester, "--browser-profile", f"/home/{tester}/size"))
    assert "page_viewport" in other.get("/v1/browser/info", timeout=START_SECONDS).json()["data"]
    first = eventually(lambda: info(other)["page_viewport"])
    assert first["width"] == 1280 and first == info(other)["page_viewport"]
    other.at_rest()
    other.baseline = other.possessions()


def test_proxy_pac_without_a_proxy(server):
    response = server.get("/v1/browser/proxy.pac")
    assert response.headers["content-type"] == "application/x-ns-proxy-autoconfig"
    assert 'return "DIRECT"' in response.text


# --- tabs --------------------------------------------------------------------------------------


def test_tabs_are_opened_listed_activated_and_closed(server):
    first = tabs(server)[0]
    assert first["index"] == 0 and first["active"]
    second = open_tab(server, PAGE % ("Two", "two"))
    assert second["index"] == 1 and second["active"]
    assert eventually(lambda: [tab["title"] for tab in tabs(server)] == ["about:blank", "Two"])
    assert [tab["active"] for tab in tabs(server)] == [False, True]
    activated = server.request("PUT", "/v1/browser/tabs/0/activate").json()["data"]
    assert activated["id"] == first["id"] and [tab["active"] for tab in tabs(server)] == [True, False]
    assert server.request("DELETE", "/v1/browser/tabs/0").json()["success"]
    assert [(tab["index"], tab["id"], tab["active"]) for tab in tabs(server)] == [(0, second["id"], True)]


def test_closing_the_last_tab_leaves_a_blank_one(server):
    old = open_tab(server, PAGE % ("Old", "old"))
    server.request("DELETE", "/v1/browser/tabs/0")
    assert [tab["id"] for tab in tabs(server)] == [old["id"]]
    server.request("DELETE", "/v1/browser/tabs/0")
    assert [(tab["url"], tab["active"]) for tab in tabs(server)] == [("about:blank", True)]


@pytest.mark.parametrize("method, what", [("DELETE", ""), ("PUT", "/activate")])
def test_a_tab_that_is_not_there(server, method, what):
    for index in (7, -1):
        answer = server.request(method, f"/v1/browser/tabs/{index}{what}")
        assert answer.status_code == 200 and not answer.json()["success"]
        assert f"no tab {index}" in answer.json()["message"]
    assert server.request(method, f"/v1/browser/tabs/x{what}").status_code == 422


def test_the_last_two_tabs_are_closed_at_once(server):
    """One of the callers closes the last one, which leaves a blank tab in its place."""
    before = info(server)["cdp_url"]
    for _ in range(5):
        open_tab(server, PAGE % ("Two", "two"))
        peers = [server.connect() for _ in range(2)]
        for index, peer in enumerate(peers):
            peer.send(f"DELETE /v1/browser/tabs/{index} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert [peer.answer("DELETE").status for peer in peers] == [200, 200]
        while len(tabs(server)) > 1:  # the second index may have been none any more
            assert server.request("DELETE", "/v1/browser/tabs/0").status_code == 200
    assert info(server)["cdp_url"] == before


def test_a_tab_for_a_download_closes_again(server):
    """It may have, before anybody looked for it."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), File) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        for _ in range(20):
            answer = BROWSER.reply(server, "tabs", url=f"http://127.0.0.1:{site.server_address[1]}/file")
            assert answer["success"] and (answer["data"] or "download" in answer["message"]), answer
        assert eventually(lambda: len(tabs(server)) == 1)
        site.shutdown()


class File(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("content-disposition", "attachment; filename=a.bin")
        self.send_header("content-length", "3")
        self.end_headers()
        self.wfile.write(b"abc")

    def log_message(self, *_):
        pass


def test_a_tab_is_closed_before_its_page_has_come(server):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Shop) as shop:
        threading.Thread(target=shop.serve_forever, daemon=True).start()
        for i in range(12):
            opened = [open_tab(server, f"http://127.0.0.1:{shop.server_address[1]}/{i}/{n}") for n in range(2)]
            for tab in reversed(opened):
                began = time.monotonic()
                assert server.request("DELETE", f"/v1/browser/tabs/{tab['index']}").json()["success"]
                assert time.monotonic() - began < 30
            assert len(tabs(server)) == 1
        shop.shutdown()


def test_a_popup_is_a_tab_and_the_active_one(server):
    with devtools(server) as page:
        page.evaluate("void open('about:blank?popup')")
    assert eventually(lambda: [tab["url"] for tab in tabs(server)] == ["about:blank", "about:blank?popup"])
    assert tabs(server)[1]["active"]


def test_a_page_may_close_itself(server):
    with devtools(server) as page:
        page.evaluate("void open('about:blank?popup').close()")
    assert eventually(lambda: len(tabs(server)) == 1)


# --- the screen --------------------------------------------------------------------------------


def test_the_first_screenshot_shows_the_browser(tester, start_server):  # noqa: F811
    """Painted, although nothing has started it before, and not the empty desktop or window."""
    server = start_server(**desktop.browser_options(tester, "--browser-profile", f"/home/{tester}/shown",
                                                    HOMEPAGE="data:text/html,<body style='background:rgb(18,171,159)'>"))
    response = server.get("/v1/browser/screenshot", timeout=START_SECONDS)
    assert response.status_code == 200, response.text
    width, height, rgb = desktop.pixels(server, response.content)
    assert len({rgb[i:i + 3] for i in range(0, width * 80 * 3, 3)}) > 10  # the tabs and the address
    assert eventually(lambda: b"\x12\xab\x9f" * 1000 in desktop.pixels(server, server.get("/v1/browser/screenshot").content)[2])
    server.at_rest()
    server.baseline = server.possessions()


def test_the_first_click_is_on_the_browser(tester, start_server):  # noqa: F811
    server = start_server(**desktop.browser_options(tester, "--browser-profile", f"/home/{tester}/clicked",
                                                    HOMEPAGE="data:text/html,<body onclick='document.title=7'>"))
    BROWSER.ask(server, "actions", action_type="CLICK", x=640, y=700)
    assert eventually(lambda: tabs(server)[0]["title"] == "7" or BROWSER.ask(server, "actions", action_type="CLICK") and False)
    server.at_rest()
    server.baseline = server.possessions()


# --- what pages do -----------------------------------------------------------------------------


def test_a_tab_in_the_background_goes_on_as_if_it_were_looked_at(server):
    open_tab(server)
    background = next(tab for tab in tabs(server) if not tab["active"])
    with devtools(server, background) as page:
        assert eventually(lambda: page.look("document.hasFocus()"))
        assert page.evaluate("document.visibilityState") == "visible"


@pytest.mark.parametrize("time", range(3))
def test_the_first_page_after_a_start(tester, start_server, time):  # noqa: F811
    """A tab of a browser that has just begun does not crash on the way to it."""
    server = start_server(**desktop.browser_options(tester, "--browser-profile", f"/home/{tester}/first-{time}"))
    answer = Calls("/v1/browser/page").reply(server, "navigate", url="file:///")
    assert answer["success"] and answer["data"]["title"] == "Index of /" and answer["hint"] is None, answer
    server.stop()


def test_a_dialog_does_not_hold_up_the_browser(server):
    """What needs the page fails at once; the rest goes on."""
    with devtools(server) as page:
        page.call("Page.enable")
        page.send("Runtime.evaluate", expression="confirm('Really?')", userGesture=True)
        assert page.event("Page.javascriptDialogOpening")["params"]["message"] == "Really?"
        assert info(server)["page_viewport"] is None
        assert len(tabs(server)) == 1
        page.call("Page.handleJavaScriptDialog", accept=True)
        page.event("Page.javascriptDialogClosed")
    assert eventually(lambda: info(server)["page_viewport"])


def test_leaving_a_page_that_asks_is_accepted(server):
    with devtools(server) as page:
        page.evaluate("onbeforeunload = (event) => { event.preventDefault(); return 'Stay?' }")
    with devtools(server) as page:  # clients of others would be asked first
        page.send("Page.navigate", url=PAGE % ("Gone", "on"))
    assert eventually(lambda: tabs(server)[0]["title"] == "Gone")


def test_downloads_go_to_the_users_directory(server, tester):  # noqa: F811
    with devtools(server) as page:
        page.evaluate("{ const a = document.createElement('a'); a.download = 'hello.txt';"
                      "a.href = 'data:text/plain,hello'; a.click() }")
    path = f"/home/{tester}/Downloads/hello.txt"
    assert eventually(lambda: os.path.exists(path) and open(path).read() == "hello")


def test_passwords_are_not_offered_to_be_saved(tester, start_server):  # noqa: F811
    """In a window over the page; nor is a service of others asked whether they are known to have leaked."""
    server = start_server(**desktop.browser_options(tester, "--browser-profile", f"/home/{tester}/unsaved"))
    desktop.warm_browser(server)
    with devtools(server) as page:
        page.call("Page.enable")
        page.call("Page.navigate", url="chrome://settings")
        page.event("Page.loadEventFired")
        assert page.evaluate("""Promise.all(['credentials_enable_service', 'profile.password_manager_leak_detection',
            'credentials_enable_autosignin'].map((name) => new Promise((done) => chrome.settingsPrivate.getPref(name, (pref) => done(pref.value)))))
            """) == [False, False, False]
    server.at_rest()
    server.baseline = server.possessions()


# --- restart -----------------------------------------------------------------------------------


def test_a_hard_restart_starts_another_browser_with_the_same_profile(server):
    before, pid = info(server)["cdp_url"], browser_processes(server)["browser"]
    with_null = server.client.post("/v1/browser/restart", content=b"null", headers={"content-type": "application/json"},
                                   timeout=START_SECONDS)
    assert with_null.json()["success"], with_null.text
    assert info(server)["cdp_url"] != before and browser_processes(server)["browser"] != pid


def test_a_soft_restart_leaves_the_browser_running(server):
    before, pid = info(server)["cdp_url"], browser_processes(server)["browser"]
    ids = [open_tab(server)["id"], tabs(server)[0]["id"]]
    assert restart(server, mode="soft")["success"]
    assert info(server)["cdp_url"] == before and browser_processes(server)["browser"] == pid
    assert sorted(tab["id"] for tab in tabs(server)) == sorted(ids)


def test_restart_with_a_locale(server):
    assert restart(server, locale="de-DE")["success"]
    with devtools(server) as page:
        assert page.evaluate("navigator.language") == "de-DE"
    assert restart(server, locale="")["success"]
    with devtools(server) as page:
        assert page.evaluate("navigator.language") == "en-US"


def test_restart_without_file_pickers(server):
    """The picker would be a window on the desktop, in which nobody clicks."""
    assert restart(server, allow_file_selection_dialogs=False)["success"]
    with devtools(server) as page:
        canceled = page.evaluate("new Promise((done) => { const i = document.createElement('input'); i.type = 'file';"
                                 "i.oncancel = () => done('canceled'); i.click() })")
    assert canceled == "canceled"
    assert restart(server)["success"]


def test_what_restart_refuses(server):
    assert server.post("/v1/browser/restart", {"mode": "softly"}).status_code == 422
    lists = restart(server, url_blocklist=["example.com"])
    assert not lists["success"] and "box" in lists["message"]
    long = restart(server, url_blocklist=["x" * 2000] * 1000)
    assert not long["success"] and "url_blocklist" in long["message"], "it was left out, and nobody told"
    locale = restart(server, locale="de --no-sandbox")
    assert not locale["success"] and "locale" in locale["message"]


# --- faults ------------------------------------------------------------------------------------


def kill(server, kind):
    for pid in browser_processes(server)[kind]:
        with contextlib.suppress(ProcessLookupError):  # one may take another with it
            os.kill(pid, signal.SIGKILL)


def test_killed_in_mid_call(server):
    """A call in flight fails soon, and says why; the next one has another browser."""
    pids = [pid for pids in browser_processes(server).values() for pid in pids]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    answers = []
    caller = threading.Thread(target=lambda: answers.append(server.get("/v1/browser/tabs")))
    caller.start()
    peer = server.begin("/v1/browser/tabs", url="about:blank")
    server.at_rest()  # both wait for the browser
    assert not answers
    began = time.monotonic()
    kill(server, "browser")
    caller.join()
    took = time.monotonic() - began
    assert peer.answer("POST").status == 503
    assert answers[0].status_code == 503 and "browser has ended" in answers[0].json()["message"]
    assert took < 10  # 2 s on a quiet machine
    assert len(tabs(server)) == 1


def test_a_restart_does_not_wait_for_calls_to_a_browser_that_hangs(server):
    os.kill(browser_processes(server)["browser"][0], signal.SIGSTOP)
    peer = server.begin("/v1/browser/network/route", url_pattern="**/none", abort=True)
    server.at_rest()
    began = time.monotonic()
    assert restart(server)["success"]
    took = time.monotonic() - began
    assert peer.answer("POST").status == 503  # it has not lasted its 30 s: its browser has ended
    assert took < 25  # 8 s on a quiet machine
    assert len(tabs(server)) == 1


def test_a_page_that_crashes(server):
    """The tab stays, says so, and can be used again."""
    open_tab(server, PAGE % ("One", "one"))
    kill(server, "renderer")
    assert eventually(lambda: "crashed" in server.get("/v1/browser/page/text").json()["message"])
    assert info(server)["page_viewport"] is None
    with devtools(server) as page:
        page.call("Page.navigate", url=PAGE % ("Again", "again"))
    assert eventually(lambda: tabs(server)[1]["title"] == "Again" and info(server)["page_viewport"])


def test_a_gpu_process_that_is_killed(server):
    kill(server, "gpu-process")
    assert info(server)["page_viewport"]
    assert eventually(lambda: "gpu-process" in browser_processes(server))


def test_a_browser_that_can_start_no_processes_is_replaced(server):
    """A renderer that was made in advance may serve the first tab; or the new browser does."""
    before = info(server)["cdp_url"]
    kill(server, "zygote")
    for _ in range(5):
        if info(server)["cdp_url"] == before:
            server.post("/v1/browser/tabs", {"url": PAGE % ("One", "one")})
            eventually(lambda: info(server)["cdp_url"] != before, seconds=3)
    assert info(server)["cdp_url"] != before
    assert [tab["url"] for tab in tabs(server)] in (["about:blank"], ["about:blank", PAGE % ("One", "one")])
    assert eventually(lambda: info(server)["page_viewport"])


def test_paused_and_resumed(server):
    pids = [pid for pids in browser_processes(server).values() for pid in pids]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    peer = server.begin("/v1/browser/tabs", url=PAGE % ("Late", "late"))
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
    assert peer.answer("POST").status == 200
    assert eventually(lambda: tabs(server)[1]["title"] == "Late")


# --- what is in the way of a start -------------------------------------------------------------


def refused(server):
    """Why there is no browser; the display may have started."""
    response = server.get("/v1/browser/info", timeout=START_SECONDS)
    assert response.status_code == 503, response.text
    return response.json()["message"]


def held(server):
    """What a server holds that was refused a browser is its desktop."""
    server.at_rest()
    server.baseline = server.possessions()


def test_what_a_browser_left_that_was_killed(tester, start_server):  # noqa: F811
    """Its lock names another machine, as in a copy of a box."""
    profile = f"/home/{tester}/left"
    os.makedirs(profile)
    os.symlink("elsewhere-1", f"{profile}/SingletonLock")
    with open(f"{profile}/DevToolsActivePort", "w") as file:
        file.write("1\n/devtools/browser/x")
    os.system(f"chown -hR {tester}: {profile}")
    server = start_server(**desktop.browser_options(tester, "--browser-profile", profile))
    desktop.warm_browser(server)
    assert len(tabs(server)) == 1


def test_a_profile_that_is_not_writable(tester, start_server):  # noqa: F811
    profile = f"/home/{tester}/locked"
    os.makedirs(profile, 0o755)
    server = start_server(**desktop.browser_options(tester, "--browser-profile", profile))
    assert profile in (why := refused(server)) and "writable" in why
    held(server)


def test_a_profile_of_another_server(server, tester, start_server):  # noqa: F811
    assert len(tabs(server)) == 1
    second = start_server(**desktop.browser_options(tester))
    assert "AIO_BROWSER_PROFILE" in refused(second)
    held(second)
    assert len(tabs(server)) == 1


def test_a_port_that_is_taken(tester, start_server):  # noqa: F811
    options = desktop.browser_options(tester, "--browser-profile", f"/home/{tester}/other")
    with socket.create_server(("127.0.0.1", int(options["env"]["BROWSER_REMOTE_DEBUGGING_PORT"]))):
        server = start_server(**options)
        assert "BROWSER_REMOTE_DEBUGGING_PORT" in refused(server)
        held(server)


def test_its_sandbox_is_not_given_up(tester, start_server):  # noqa: F811
    options = desktop.browser_options(tester)
    options["env"]["BROWSER_EXTRA_ARGS"] = "--mute-audio -no-sandbox"
    server = start_server(**options)
    assert "--no-sandbox" in (why := refused(server)) and "sandbox" in why
    held(server)


def test_root_has_no_browser(tester, start_server):  # noqa: F811
    options = desktop.browser_options(tester)
    server = start_server(["--user", "root"], env={**options["env"], "HOME": "/root"})
    assert "--user" in refused(server)
    held(server)


class Shop(http.server.BaseHTTPRequestHandler):
    """Gives a cookie for the session, says which one it got, and counts orders."""

    def do_GET(self):
        self.answer(self.headers.get("cookie", "nothing"))

    def do_POST(self):
        self.server.orders += 1
        self.rfile.read(int(self.headers["content-length"]))
        self.answer("ordered")

    def answer(self, title):
        body = f"<title>{title}</title><form method=post><input name=what>".encode()
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(body)))
        if "cookie" not in self.headers:
            self.send_header("set-cookie", "basket=7")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def test_an_idle_browser_is_closed_and_comes_back_as_it_was(tester, start_server):  # noqa: F811
    """Its tabs, with cookies that end with the session; but nothing is ordered twice."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Shop) as shop:
        shop.orders = 0
        threading.Thread(target=shop.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{shop.server_address[1]}/"
        server = start_server(**desktop.browser_options(tester, "--browser-profile", f"/home/{tester}/idle", "--service-idle", "1"))
        desktop.warm_browser(server)
        with devtools(server, open_tab(server, url + "order")) as page:
            page.evaluate("document.readyState === 'complete' || new Promise((done) => onload = done)")
            page.evaluate("document.forms[0].submit()")
            assert eventually(lambda: "ordered" in [tab["title"] for tab in tabs(server)])
            open_tab(server, url + "basket")
            open_tab(server, url + "shelf")
            assert eventually(lambda: [tab["title"] for tab in tabs(server)].count("basket=7") == 2)
            assert server.client.put("/v1/browser/tabs/1/activate").status_code == 200
            before = [(tab["url"], tab["active"]) for tab in tabs(server)]
            assert not eventually(lambda: not browser_processes(server), seconds=2)  # its client is not cut off
        assert eventually(lambda: not browser_processes(server))
        assert eventually(lambda: before == [(tab["url"], tab["active"]) for tab in tabs(server)]), tabs(server)
        assert server.get("/v1/browser/page/text").json()["success"]
        for index in range(len(before)):
            server.client.put(f"/v1/browser/tabs/{index}/activate")
            assert eventually(lambda: server.get("/v1/browser/page/text").json()["success"])
        assert eventually(lambda: "basket=7" in [tab["title"] for tab in tabs(server)]), tabs(server)
        assert shop.orders == 1
        shop.shutdown()


# --- names ---------------------------------------------------------------------------------------


def test_names_by_https(tester, start_server):  # noqa: F811
    """Its server is asked: the first byte is that of TLS, which is as far as one comes without a certificate. What the browser knew
    before, of other things, it still knows."""
    with socket.create_server(("127.0.0.1", 0)) as names:
        names.settimeout(ANSWER_SECONDS)
        profile = Path(f"/home/{tester}/names")
        options = desktop.browser_options(tester, "--browser-profile", str(profile))
        server = start_server(**options)
        desktop.warm_browser(server)
        server.stop()
        before = json.loads((profile / "Local State").read_text())
        assert "dns_over_https" not in before
        template = f"https://127.0.0.1:{names.getsockname()[1]}/dns-query{{?dns}}"
        options["env"] |= {"DNS_OVER_HTTPS_TEMPLATES": template}
        server = start_server(**options)
        desktop.warm_browser(server)
        with names.accept()[0] as peer:
            peer.settimeout(ANSWER_SECONDS)
            assert peer.recv(1) == b"\x16"
        server.stop()
        after = json.loads((profile / "Local State").read_text())
        assert after["dns_over_https"] == {"mode": "automatic", "templates": template}
        kept = [state["user_experience_metrics"].get("low_entropy_source3") for state in (before, after)]  # made once, by chance
        assert kept[0] == kept[1]


# --- a proxy -----------------------------------------------------------------------------------


class Proxy(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.seen.append(self.path)
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.end_headers()
        self.wfile.write(f"<title>by proxy: {self.path}</title>".encode())

    def log_message(self, *_):
        pass


def test_a_proxy(tester, start_server):  # noqa: F811
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy) as proxy:
        proxy.seen = []
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        address = f"127.0.0.1:{proxy.server_address[1]}"
        options = desktop.browser_options(tester, "--browser-profile", f"/home/{tester}/by-proxy")
        options["env"] |= {"PROXY_SERVER": address, "PROXY_INCLUDE": "one.test,*.two.test", "PROXY_EXCLUDE": "no.two.test"}
        server = start_server(**options)
        desktop.warm_browser(server)
        pac = server.get("/v1/browser/proxy.pac").text
        assert f"PROXY {address}" in pac and '"one.test"' in pac
        for url in ("http://one.test/a", "http://deep.two.test/b", "http://no.two.test/c", "http://other.test/d"):
            open_tab(server, url)
        assert eventually(lambda: {"http://one.test/a", "http://deep.two.test/b"} <= set(proxy.seen))
        titles = eventually(lambda: [tab["title"] for tab in tabs(server)
                                     if tab["title"] == "by proxy: http://one.test/a"])
        assert titles and not [path for path in proxy.seen if "no.two" in path or "other" in path]
        proxy.shutdown()
