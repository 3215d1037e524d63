"""A web site of a test's own, on loopback: pages by path, and what was asked of it.

    with Site({"/": "<title>Home</title>", "/old": Page(302, {"location": "/"})}) as site:
        site.url           http://127.0.0.1:PORT
        site.other         http://localhost:PORT, which for a browser is another site
        site.asked("/")    the requests for a path: method, path, headers (lower case), body

A page is text (HTML), bytes, a Page, or a function that is given the handler and answers by it."""

import contextlib
import http.server
import threading
from dataclasses import dataclass, field


@dataclass
class Page:
    status: int = 200
    headers: dict = field(default_factory=dict)
    body: bytes = b""


@dataclass
class Asked:
    method: str
    path: str
    headers: dict
    body: bytes


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        length = int(self.headers.get("content-length", 0))
        asked = Asked(self.command, self.path, {name.lower(): value for name, value in self.headers.items()},
                      self.rfile.read(length))
        self.server.log.append(asked)
        path = self.path.partition("?")[0]
        page = self.server.pages.get(path, Page(404, {}, b"not found"))
        if callable(page):
            page = page(self)
        if page is not None:
            self.send(page)

    do_GET = do_POST = do_PUT = do_DELETE = do_OPTIONS = do_HEAD = do_PATCH = answer

    def send(self, page):
        if isinstance(page, str | bytes):
            page = Page(body=page if isinstance(page, bytes) else page.encode())
        self.send_response(page.status)
        headers = {"content-type": "text/html; charset=utf-8", "content-length": str(len(page.body)), **page.headers}
        for name, value in headers.items():
            for one in value if isinstance(value, list) else [value]:
                self.send_header(name, one)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(page.body)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        pass  # browsers hang up as they like


class Site:
    def __init__(self, pages=None):
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.pages = {"/favicon.ico": Page(204), **(pages or {})}
        self.server.log = []
        self.port = self.server.server_address[1]
        self.url, self.other = f"http://127.0.0.1:{self.port}", f"http://localhost:{self.port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def pages(self):
        return self.server.pages

    def asked(self, path):
        return [asked for asked in self.server.log if asked.path.partition("?")[0] == path]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.server.shutdown()
        with contextlib.suppress(OSError):
            self.server.server_close()


def streaming(*pieces, gate=None):
    """A page whose pieces are sent one after the other; before the last one it waits for `gate`."""

    def answer(handler):
        handler.send_response(200)
        handler.send_header("content-type", "text/html")
        handler.send_header("content-length", str(sum(map(len, pieces))))
        handler.end_headers()
        for piece in pieces[:-1]:
            handler.wfile.write(piece)
            handler.wfile.flush()
        if gate:
            gate.wait(60)
        handler.wfile.write(pieces[-1])

    return answer
