"""/v1/util/convert_to_markdown: every kind of URI, every kind of document, and what can go wrong."""

import base64
import gzip
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

import papers
from harness import ANSWER_SECONDS, Calls, eventually
from processes import ROOT_ONLY, below, tester, together  # noqa: F401

CONVERT = Calls("/v1/util/convert_to_markdown")
HTML = "<html><head><title>T</title></head><body><h1>Héllo</h1><p>A <b>bold</b> <a href='/x'>link</a></p></body></html>"


class Site(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    stop = threading.Event()  # ends what goes on for ever

    def log_message(self, *_):
        pass

    def reply(self, body, kind="text/html; charset=utf-8", status=200, **headers):
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": len(body), **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(body)

    def go_on(self, data, pause):
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.end_headers()
        self.close_connection = True
        try:
            while not self.stop.wait(pause):
                self.wfile.write(data)
        except OSError:
            self.server.left.set()

    def do_GET(self):
        path = self.path.partition("?")[0]
        self.server.asked.append((self.path, dict(self.headers)))
        if path == "/page":
            self.reply(HTML.encode())
        elif path == "/latin":
            self.reply("<p>naïve café</p>".encode("latin-1"), "text/html; charset=iso-8859-1")
        elif path == "/zipped":
            self.reply(gzip.compress(HTML.encode()), Content_Encoding="gzip")
        elif path == "/report":
            self.reply(papers.pdf(["Report page"]), "application/pdf")
        elif path == "/unnamed":
            self.reply(papers.pdf(["Sniffed page"]), "application/octet-stream")
        elif path.startswith("/hops/"):
            left = int(path.rpartition("/")[2])
            self.reply(b"", status=302, Location=f"/hops/{left - 1}" if left else "/page")
        elif path == "/loop":
            self.reply(b"", status=301, Location="/loop")
        elif path == "/to-file":
            self.reply(b"", status=302, Location="file:///etc/passwd")
        elif path == "/endless":
            self.go_on(b"x" * 65536, 0)
        elif path == "/slow":
            self.go_on(b"x", 0.1)
        elif path == "/bomb":
            self.reply(self.server.bomb, "text/plain", Content_Encoding="gzip")
        elif path == "/short":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"only this")
            self.close_connection = True
        else:
            self.reply(b"nothing here", status=404)


@pytest.fixture(scope="module")
def site():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    server.daemon_threads, server.asked, server.left = True, [], threading.Event()
    server.bomb = gzip.compress(b"\0" * (64 << 20))  # beforehand: it takes its time
    threading.Thread(target=server.serve_forever, daemon=True).start()
    server.url = f"http://127.0.0.1:{server.server_port}"
    yield server
    Site.stop.set()
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def strict(start_shared):
    return start_shared(["--max-document", "2M", "--document-memory", "256M"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("papers")
    papers.office(folder)
    (folder / "three.pdf").write_bytes(papers.pdf(["First page", "Second page"]))
    (folder / "letter.docx").write_bytes(papers.docx(papers.paragraph("Dear reader")))
    (folder / "table.csv").write_text("name,size\nfish,3\n")
    (folder / "page.html").write_text(HTML)
    (folder / "plain.txt").write_text("Just some text.\n")
    (folder / "without extension").write_text("Text without a name for it")
    (folder / "book.ipynb").write_text(papers.notebook("# From a notebook"))
    (folder / "several.zip").write_bytes(papers.archive({"a/in.txt": b"zipped text", "b.html": HTML.encode()}))
    return folder


def ask(server, uri):
    return CONVERT.send(server, uri=uri)


def convert(server, uri):
    answer = ask(server, uri)
    assert answer.status_code == 200 and answer.json()["success"], answer.text
    assert answer.json()["message"] == "Operation successful"
    return answer.json()["data"]


def fails(server, uri, *words):
    """A failure that is told in the envelope."""
    answer = ask(server, uri)
    body = answer.json()
    assert (answer.status_code, body["success"], body["data"]) == (200, False, None), answer.text
    for word in words:
        assert word in body["message"], body["message"]


# --- kinds of documents ------------------------------------------------------------------------


@pytest.mark.parametrize("name, words", [
    ("three.pdf", ["First page", "Second page"]),
    ("letter.docx", ["Dear reader"]),
    ("book.xlsx", ["## Fruit", "| apple30 | 45", "## Tools & more"]),
    ("show.pptx", ["<!-- Slide number: 1 -->", "# Title 5", "Remember the milk"]),
    ("table.csv", ["| name | size |\n| --- | --- |\n| fish | 3 |"]),
    ("page.html", ["# Héllo", "A **bold** [link](/x)"]),
    ("plain.txt", ["Just some text."]),
    ("without extension", ["Text without a name for it"]),
    ("book.ipynb", ["# From a notebook"]),
    ("red.jpg", ["ImageSize: 321x123", "Format: JPEG", "ImageDescription: A red rectangle", "Artist: Somebody"]),
    ("red.png", ["ImageSize: 321x123", "Format: PNG"]),
    ("several.zip", ["zipped text", "# Héllo"]),
])
def test_kinds(server, folder, name, words):
    text = convert(server, f"file://{folder}/{name.replace(' ', '%20')}")
    for word in words:
        assert word in text, text


def test_what_is_no_document(server, tmp_path):
    (tmp_path / "noise.bin").write_bytes(bytes(range(256)) * 10)
    fails(server, f"file://{tmp_path}/noise.bin", "this kind of document cannot be converted")
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.4 and nothing")
    fails(server, f"file://{tmp_path}/broken.pdf", "cannot be read")
    (tmp_path / "broken.docx").write_bytes(b"PK\x03\x04 and nothing")
    fails(server, f"file://{tmp_path}/broken.docx", "not a readable archive")
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n and nothing")
    fails(server, f"file://{tmp_path}/broken.png", "cannot be read")


def test_an_empty_file_is_empty(server, tmp_path):
    (tmp_path / "empty.txt").write_bytes(b"")
    assert convert(server, f"file://{tmp_path}/empty.txt") == ""


def test_a_hostile_document(strict, tmp_path):
    (tmp_path / "laughs.docx").write_bytes(papers.docx(papers.paragraph("&a11;"), before=papers.LAUGHS))
    answer = ask(strict, f"file://{tmp_path}/laughs.docx")
    assert answer.status_code == 200 and len(answer.text) < 10000
    papers.write_bomb(tmp_path / "bomb.zip", "x.txt", 600 << 20)
    fails(strict, f"file://{tmp_path}/bomb.zip", "unpacks to more than")
    (tmp_path / "pixels.png").write_bytes(png_bomb())
    answer = ask(strict, f"file://{tmp_path}/pixels.png")
    assert answer.status_code == 200 and len(answer.text) < 10000


def png_bomb():
    """A picture of 60,000 times 60,000 pixels, as far as its head tells."""
    import struct
    import zlib

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 60000, 60000, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")


# --- file URIs ---------------------------------------------------------------------------------


def test_file_uris(server, folder):
    assert convert(server, f"file://localhost{folder}/plain.txt") == "Just some text.\n"
    assert convert(server, f"FILE:{folder}/plain.txt") == "Just some text.\n"
    assert convert(server, f"file://{folder}/%70lain.txt") == "Just some text.\n"


def test_a_name_that_is_not_utf8(server, tmp_path):
    (tmp_path / os.fsdecode(b"\xff\xfe.txt")).write_text("odd name")
    assert convert(server, f"file://{tmp_path}/%ff%fe.txt") == "odd name"


def test_files_that_cannot_be_read(server, tmp_path):
    fails(server, f"file://{tmp_path}/nothing.txt", "there is no file", "nothing.txt")
    fails(server, f"file://{tmp_path}", "not a regular file")
    os.mkfifo(tmp_path / "pipe")
    fails(server, f"file://{tmp_path}/pipe", "not a regular file")
    fails(server, "file:///dev/zero", "not a regular file")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    fails(server, f"file://{tmp_path}/loop", "cannot open")


@ROOT_ONLY
def test_files_are_read_with_the_users_rights(start_server, tester, tmp_path):  # noqa: F811
    server = start_server(["--user", tester])
    fails(server, "file:///etc/shadow", "may not be read")


def test_a_file_larger_than_allowed(strict, tmp_path):
    with open(tmp_path / "large.txt", "wb") as file:
        file.truncate(3 << 20)
    fails(strict, f"file://{tmp_path}/large.txt", "larger than 2 MiB")


# --- data URIs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("uri, text", [
    ("data:,hello%20world", "hello world"),
    ("data:text/html,<h1>Hi</h1>", "# Hi"),
    ("data:text/csv;charset=utf-8,a,b%0A1,2", "| a | b |\n| --- | --- |\n| 1 | 2 |"),
    ("DATA:text/plain;base64,aGVsbG8", "hello"),
    ("data:text/plain;charset=iso-8859-1;base64," + base64.b64encode("café".encode("latin-1")).decode(), "café"),
])
def test_data_uris(server, uri, text):
    assert convert(server, uri) == text


def test_a_large_data_uri(server):
    data = papers.pdf([f"Page {i}" for i in range(40)]) + b" " * 3_000_000
    text = convert(server, "data:application/pdf;base64," + base64.b64encode(data).decode())
    assert "Page 0" in text and "Page 39" in text


def test_a_data_uri_with_nul(server):
    assert ask(server, "data:text/plain,a\0b").status_code == 200


@pytest.mark.parametrize("uri, word", [
    ("ftp://example.com/x", "must begin with"),
    ("/etc/hostname", "must begin with"),
    ("", "must begin with"),
    ("javascript:alert(1)", "must begin with"),
    ("file://elsewhere/etc/hostname", "this machine"),
    ("data:text/plain", "comma"),
    ("data:text/plain;base64,A", "base64"),
    ("http://" + "x" * 20000, "longer"),
])
def test_uris_that_are_none(server, uri, word):
    answer = ask(server, uri)
    assert answer.status_code == 400 and word in answer.json()["message"], answer.text


def test_fields(server):
    answer = server.post("/v1/util/convert_to_markdown", {})
    assert answer.status_code == 422 and answer.json()["detail"][0]["loc"] == ["body", "uri"]
    assert server.post("/v1/util/convert_to_markdown", {"uri": 7}).status_code == 422


# --- http URIs ---------------------------------------------------------------------------------


def test_a_page(server, site):
    assert "# Héllo" in convert(server, site.url + "/page")
    assert convert(server, site.url + "/latin") == "naïve café"
    assert "# Héllo" in convert(server, site.url + "/zipped")
    assert "Report page" in convert(server, site.url + "/report")
    assert "Sniffed page" in convert(server, site.url + "/unnamed")
    assert "# Héllo" in convert(server, site.url + "/page?q=1#part")
    assert site.asked[-1][0] == "/page?q=1"


def test_redirects(server, site):
    assert "# Héllo" in convert(server, site.url + "/hops/4")
    fails(server, site.url + "/hops/5", "redirects more than 5 times")
    before = len(site.asked)
    fails(server, site.url + "/loop", "redirects more than 5 times")
    assert len(site.asked) - before == 6
    fails(server, site.url + "/to-file", "not http or https")


def test_what_cannot_be_fetched(server, site):
    fails(server, site.url + "/missing", "404")
    fails(server, "http://127.0.0.1:1/", "cannot fetch", "refused")
    fails(server, "http://[::1", "cannot fetch")
    fails(server, "http://nobody.invalid/", "cannot fetch")
    fails(server, site.url + "/short", "broke off")


def test_what_never_ends_is_cut_off(strict, start_server, site):
    fails(strict, site.url + "/endless", "larger than 2 MiB")
    assert site.left.wait(60)
    fails(strict, site.url + "/bomb", "larger than 2 MiB")
    site.left.clear()
    fails(start_server(["--document-timeout", "8"]), site.url + "/slow", "too long")
    assert site.left.wait(60)


# --- many --------------------------------------------------------------------------------------


@pytest.mark.concurrency
def test_twenty_at_once(server, folder):
    names = ["three.pdf", "book.xlsx", "page.html", "table.csv"]
    words = ["Second page", "apple30", "Héllo", "fish"]
    texts = together(20, lambda i: convert(server, f"file://{folder}/{names[i % 4]}"))
    assert all(words[i % 4] in text for i, text in enumerate(texts))
    assert eventually(lambda: below(server) == {server.document_worker()})


def test_callers_who_leave_while_they_wait(strict, folder, site):
    """More than fit at once, and all of them leave."""
    before = len(site.asked)
    peers = [strict.begin(CONVERT.base, uri=site.url + "/slow") for _ in range(12)]
    assert eventually(lambda: len(site.asked) - before == 4)
    for peer in peers:
        peer.reset()
    assert convert(strict, f"file://{folder}/plain.txt") == "Just some text.\n"
    assert eventually(lambda: below(strict) == {strict.document_worker()})


def test_the_official_sdk(server, folder):
    from agent_sandbox import Sandbox

    with httpx.Client(timeout=ANSWER_SECONDS) as client:
        util = Sandbox(base_url=server.url, httpx_client=client).util
        answer = util.convert_to_markdown(uri=f"file://{folder}/page.html")
    assert answer.success and "# Héllo" in answer.data
