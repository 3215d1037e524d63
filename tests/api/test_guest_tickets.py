"""What is left of a credential in the address of a program's page is good for programs' pages alone."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

KEY = "the-key"
HTML = "text/html,application/xhtml+xml,*/*;q=0.8"
OPENED = {"Accept": HTML, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Sec-Fetch-Site": "none"}
FRAMED = {**OPENED, "Sec-Fetch-Dest": "iframe", "Sec-Fetch-Site": "same-origin"}
FORM = {**OPENED, "Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture(scope="module")
def server(start_shared):
    return start_shared(env={"SANDBOX_API_KEY": KEY})


@pytest.fixture(scope="module")
def program():
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"hi")

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        thread = threading.Thread(target=listener.serve_forever, daemon=True)
        thread.start()
        yield listener.server_port
        listener.shutdown()
        thread.join(10)


def led(got):
    """Where a browser goes on, as a path, and the ticket in it."""
    assert got.status_code == 303 and "set-cookie" not in got.headers and got.headers["cache-control"] == "no-store"
    there = urlsplit(got.headers["location"])
    (ticket,) = parse_qs(there.query)["ticket"]
    return f"{there.path}?{there.query}", ticket


def ticket_of(server):
    return server.post("/tickets", headers={"X-AIO-API-Key": KEY}).json()["ticket"]


PLACES = {
    "below": ("/proxy/{port}/a", {}), "whole": ("/absproxy/{port}/a", {}), "root": ("/proxy/{port}", {}),
    "name": ("/a", {"Host": "{port}-localhost:8080"}),
}


@pytest.mark.parametrize("way", ["key", "ticket", "form"])
@pytest.mark.parametrize("place", PLACES)
def test_what_a_programs_page_sees_opens_nothing_else(server, program, place, way):
    """The attack: the page reads its address, and opens one of ours with the ticket in it, in a frame or by its own
    server, to be given a cookie for twelve hours."""
    path, name = PLACES[place]
    path, name = path.format(port=program), {key: value.format(port=program) for key, value in name.items()}
    if way == "form":
        came = server.post(f"/.aio/sign-in?to={path}", content=f"api_key={KEY}", headers={**FORM, **name})
        came = led(came)[0]
    else:
        came = f"{path}?" + (f"api_key={KEY}" if way == "key" else f"ticket={ticket_of(server)}")
    seen, ticket = led(server.get(came, headers={**OPENED, **name}))
    assert ticket not in came
    page = server.get(seen, headers={**OPENED, **name})
    assert (page.status_code, page.text) == (200, "hi"), "it is let in, and led no further"
    for how in (OPENED, FRAMED, {"Accept": HTML}, {}):
        for target in ("/v1/docs", "/terminal", "/v1/sandbox", "/static/web/docs/docs.js", "/nowhere"):
            got = server.get(f"{target}?ticket={ticket}", headers=how)
            assert got.status_code == 401 and "set-cookie" not in got.headers, (target, how)
    check = server.get("/auth", headers={"X-Original-URI": f"/?ticket={ticket}"})
    assert check.status_code == 401 and "for the pages of programs only" in check.text
    assert server.post(f"/tickets?ticket={ticket}").status_code == 401
    assert server.get(f"/proxy/{program}/more?ticket={ticket}").text == "hi", "what the page is made of"


def test_programs_are_not_led_elsewhere(server, program):
    ticket = ticket_of(server)
    for how in ({}, {"Sec-Fetch-Mode": "cors", "Sec-Fetch-Site": "same-origin"}):
        assert server.get(f"/proxy/{program}/?ticket={ticket}", headers=how).text == "hi"


def test_a_page_that_asks_for_a_key_is_kept_nowhere(server):
    page = server.get("/v1/docs", headers=OPENED)
    assert page.status_code == 401 and page.headers["cache-control"] == "no-store"
    for key in (KEY, "wrong"):
        got = server.post("/.aio/sign-in?to=/v1/docs", content=f"api_key={key}", headers=FORM)
        assert got.status_code == 303 and got.headers["cache-control"] == "no-store"
    home = server.get(f"/?ticket={ticket_of(server)}")
    assert home.status_code == 307 and home.headers["cache-control"] == "no-store"
