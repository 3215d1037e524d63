"""A site for the browser of a test, on loopback. In a test file:

    from pages import site  # noqa: F401

    site.url      where it is; site.pages[path] = (status, headers, body) adds to what it has
    site.hold     paths that answer, or end, only after site.release()
    site.seen     the requests so far, as (method, path)"""

import contextlib
import http.server
import threading

import pytest

HTML = {"content-type": "text/html; charset=utf-8", "cache-control": "no-store"}


def page(title, body="", status=200, **headers):
    text = f"<!doctype html><html><head><title>{title}</title></head><body>{body}</body></html>"
    return status, {**HTML, **{name.replace("_", "-"): value for name, value in headers.items()}}, text.encode()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        site, path = self.server.site, self.path.split("?")[0]
        if site.closed:  # a connection from before, that nothing had been asked on yet
            self.close_connection = True
            return
        gate = site.gate  # before it is seen: release() is for this one then
        site.seen.append((self.command, self.path))
        if path.startswith("/slow"):  # nothing comes before release()
            gate.wait()
        with contextlib.suppress(ConnectionError):
            self.answer(site, path, gate)

    do_POST = do_GET

    def answer(self, site, path, gate):
        status, headers, body = site.pages.get(path, page("Not found", "no such page", 404))
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(status)
        self.send_header("connection", "close")
        for name, value in headers.items():
            self.send_header(name, value)
        if path.startswith("/endless"):  # begins, and does not end before release()
            self.end_headers()
            self.wfile.write(body)
            self.wfile.flush()
            gate.wait()
            return
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Site:
    def __init__(self):
        self.gate, self.seen, self.closed = threading.Event(), [], False
        self.pages = {"/hello": page("Hello", "<h1>Hello</h1>"), "/slow": page("Slow", "at last"),
                      "/endless": page("Endless", "begun"), "/empty": (404, HTML, b""),
                      "/broken": page("Broken", "sorry", 500), "/nothing": (204, {}, b""),
                      "/moved": (302, {"location": "/moved-2"}, b""), "/moved-2": (301, {"location": "/hello"}, b""),
                      "/loop": (302, {"location": "/loop"}, b""),
                      "/file": (200, {"content-type": "application/octet-stream",
                                      "content-disposition": "attachment; filename=report.bin"}, b"x" * 1000)}
        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.site, self.http.daemon_threads = self, True
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def release(self):
        """Ends what is held, and holds what comes."""
        gate, self.gate = self.gate, threading.Event()
        gate.set()

    def close(self):
        self.closed = True
        self.release()
        self.http.shutdown()
        self.http.server_close()


@pytest.fixture(scope="module")
def site():
    site = Site()
    yield site
    site.close()
