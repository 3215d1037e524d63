"""A proxy of a test's own that others pass requests on to, and what it was asked.

    with UpstreamProxy(credentials="me:secret", leads_to=site.port) as upstream:
        upstream.address       127.0.0.1:PORT
        upstream.asked         [(method, target, credentials or None)]

Requests for http:// are answered by itself: "NAME METHOD TARGET", and their body; a CONNECT leads to that port of
127.0.0.1, whatever was asked for."""

import base64
import http.server
import socket
import threading


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def parse(self):
        """What it was asked; None: it has refused that."""
        proxy, sent = self.server.proxy, self.headers.get("proxy-authorization", "")
        shown = base64.b64decode(sent.removeprefix("Basic ")).decode() or None
        length = int(self.headers.get("content-length", 0))
        body = self.rfile.read(length)
        proxy.asked.append((self.command, self.path, shown))
        proxy.heads.append(self.headers)
        if proxy.credentials and shown != proxy.credentials:
            self.say(407, b"who are you?", ("Proxy-Authenticate", 'Basic realm="x"'))
            return None
        return body

    def say(self, status, body, *headers):
        self.send_response(status)
        for name, value in (*headers, ("Content-Length", str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def answer(self):
        body = self.parse()
        if body is not None:
            title = f"{self.server.proxy.name} {self.command} {self.path}"
            self.say(200, f"<title>{title}</title>{title}\n".encode() + body, ("Content-Type", "text/html"))

    do_GET = do_POST = do_HEAD = do_PUT = do_DELETE = answer

    def do_CONNECT(self):
        if self.parse() is None:
            return
        proxy = self.server.proxy
        if not proxy.leads_to:
            self.say(503, b"")
            return
        with socket.create_connection(("127.0.0.1", proxy.leads_to)) as far:
            self.connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            back = threading.Thread(target=pass_on, args=(far, self.connection), daemon=True)
            back.start()
            pass_on(self.connection, far)
            back.join()
        self.close_connection = True

    def log_message(self, *_):
        pass


def pass_on(a, b):
    try:
        while data := a.recv(65536):
            b.sendall(data)
        b.shutdown(socket.SHUT_WR)
    except OSError:
        pass


class UpstreamProxy:
    def __init__(self, name="upstream", credentials=None, leads_to=None):
        self.name, self.credentials, self.leads_to = name, credentials, leads_to
        self.asked, self.heads = [], []

    def __enter__(self):
        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.proxy = self
        self.address = "127.0.0.1:%d" % self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
