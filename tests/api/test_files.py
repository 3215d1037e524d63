"""Files on their way out (static ones, downloads, ranges, tags) and in (uploads)."""

import os
from urllib.parse import quote

import pytest

from harness import request

CONTENT = bytes(range(256)) * 8  # 2048 bytes


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A product's home with some pages, and things beside them that are nobody's business."""
    home = tmp_path_factory.mktemp("product") / "home"
    files = {
        "web/page.html": b"<!doctype html><p>page",
        "web/app.js": b"export {};",
        "web/style.css": b"p {}",
        "web/picture.svg": b"<svg/>",
        "web/data.bin": CONTENT,
        "web/empty.txt": b"",
        "web/sub/deep.txt": b"deep",
        "web/with space.txt": b"space",
        "web/\u00e9.txt": b"accent",
        "web/50%25.txt": b"percent",
        "web/.hidden": b"hidden",
        "node_modules/swagger-ui-dist/swagger-ui.css": b"swagger {}",
        "node_modules/other/secret.js": b"TOP-SECRET",
        "secret.txt": b"TOP-SECRET",
        "webby/secret.txt": b"TOP-SECRET",
        "../secret.txt": b"TOP-SECRET",
    }
    for name, content in files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(content)
    os.mkfifo(home / "web/pipe")
    return home


@pytest.fixture(scope="module")
def site(start_shared, home):
    return start_shared(env={"AIO_HOME": str(home)})


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "file.bin"
    path.write_bytes(CONTENT)
    return path


@pytest.fixture
def download(fixture_server, file):
    def download(headers=(), path=file, method="GET"):
        return fixture_server.request(method, f"/download?path={quote(str(path))}", headers=dict(headers))

    return download


# --- static files ------------------------------------------------------------------------------


@pytest.mark.parametrize("target, type, content", [
    ("/static/web/page.html", "text/html; charset=utf-8", b"<!doctype html><p>page"),
    ("/static/web/app.js", "text/javascript; charset=utf-8", b"export {};"),
    ("/static/web/style.css", "text/css; charset=utf-8", b"p {}"),
    ("/static/web/picture.svg", "image/svg+xml", b"<svg/>"),
    ("/static/web/data.bin", "application/octet-stream", CONTENT),
    ("/static/web/empty.txt", "text/plain; charset=utf-8", b""),
    ("/static/web/sub/deep.txt", "text/plain; charset=utf-8", b"deep"),
    ("/static/web/with%20space.txt", "text/plain; charset=utf-8", b"space"),
    ("/static/web/%C3%A9.txt", "text/plain; charset=utf-8", b"accent"),
    ("/static/swagger-ui/swagger-ui.css", "text/css; charset=utf-8", b"swagger {}"),
])
def test_static_file(site, target, type, content):
    answer = site.get(target)
    assert answer.status_code == 200 and answer.content == content
    assert answer.headers["content-type"] == type
    assert answer.headers["cache-control"] == "no-cache" and answer.headers["etag"]


def test_pages_are_fenced_in(site):
    policy = site.get("/static/web/page.html").headers["content-security-policy"]
    assert "default-src 'self'" in policy and "unsafe-eval" not in policy
    scripts = next(p for p in policy.split(";") if p.strip().startswith("script-src"))
    assert "'unsafe-inline'" not in scripts


TRAVERSALS = [
    "/static/../secret.txt", "/static/web/../secret.txt", "/static/web/../../secret.txt",
    "/static/web/../../../../../../../../etc/passwd", "/static/web/./../secret.txt",
    "/static/web/sub/../../secret.txt", "/static/web/sub/..", "/static/..", "/static/.", "/..", "/../secret.txt",
    "/static/web/%2e%2e/secret.txt", "/static/web/%2e%2e%2fsecret.txt", "/static/web/..%2fsecret.txt",
    "/static/web/%2E%2E%2Fsecret.txt", "/static/web/.%2e/secret.txt", "/static/web/%2e./secret.txt",
    "/static/web/%252e%252e/secret.txt", "/static/web/%252e%252e%252fsecret.txt", "/static/web/..%252fsecret.txt",
    "/static/web/%25252e%25252e/secret.txt", "/static/web/..%5csecret.txt", "/static/web/..\\secret.txt",
    "/static/web/%5c..%5csecret.txt", "/static/web/%c0%ae%c0%ae/secret.txt", "/static/web/%e0%80%ae%e0%80%ae/secret.txt",
    "/static/web/%uff0e%uff0e/secret.txt", "/static/web/..%c0%afsecret.txt", "/static/web/..;/secret.txt",
    "/static/web/..%00/secret.txt", "/static/web/page.html%00.txt", "/static/web/page.html%0a", "/static/web/....//secret.txt",
    "/static/web//etc/passwd", "/static//etc/passwd", "/static/%2fetc%2fpasswd", "/static/web/%2fetc/passwd",
    "/static/web/%2f%2e%2e%2fsecret.txt", "/static%2f..%2fsecret.txt", "/static/web%2f..%2f..%2fsecret.txt",
    "/static/swagger-ui/../other/secret.js", "/static/swagger-ui/%2e%2e/other/secret.js",
    "/static/swagger-ui/..%2fother%2fsecret.js", "/static/webby/secret.txt", "/static/secret.txt", "/static/node_modules/other/secret.js",
    "http://localhost/static/web/../secret.txt", "/static/web/sub/../../../secret.txt?x=/static/web/page.html",
    "/static/web/~root", "/static/web/file:///etc/passwd",
]


@pytest.mark.parametrize("target", TRAVERSALS)
def test_nothing_beside_the_pages_is_served(site, target):
    """By hand: a client library would clean the path."""
    with site.connect() as peer:
        answer = peer.ask(request(target))
        assert answer.status in (400, 404), answer
        assert b"TOP-SECRET" not in answer.body and b"root:" not in answer.body
        assert str(site.home).encode() not in answer.body, "nor are the machine's paths"


@pytest.mark.parametrize("target", [
    "/static", "/static/", "/static/web", "/static/web/", "/static/web/sub", "/static/web/sub/",
    "/static/web/missing.txt", "/static/web/page.html/", "/static/web/page.html/x", "/static/web/pipe",
    "/static/web//page.html", "/static/web/" + "x" * 300, "/static/web/" + "x/" * 2000, "/static/swagger-ui/",
])
def test_directories_and_what_is_missing(site, target):
    with site.connect() as peer:
        assert peer.ask(request(target)).status in (400, 404)
        assert peer.ask(request()).status == 200


def test_home_page_leads_somewhere(site):
    answer = site.get("/")
    assert answer.status_code == 307 and answer.headers["location"] == "/v1/docs"


# --- ranges ------------------------------------------------------------------------------------


@pytest.mark.parametrize("text, first, last", [
    ("bytes=0-0", 0, 0),
    ("bytes=0-9", 0, 9),
    ("bytes=1-1000", 1, 1000),
    ("bytes=2000-", 2000, 2047),
    ("bytes=0-", 0, 2047),
    ("bytes=-1", 2047, 2047),
    ("bytes=-100", 1948, 2047),
    ("bytes=-5000", 0, 2047),
    ("bytes=2000-5000", 2000, 2047),
    ("bytes=2047-2047", 2047, 2047),
    ("bytes=0-99999999999999999999999", 0, 2047),
])
def test_range(download, text, first, last):
    answer = download({"Range": text})
    assert answer.status_code == 206
    assert answer.headers["content-range"] == f"bytes {first}-{last}/2048"
    assert answer.headers["content-length"] == str(last - first + 1)
    assert answer.content == CONTENT[first : last + 1]


@pytest.mark.parametrize("text", ["bytes=2048-", "bytes=5000-6000", "bytes=-0", "bytes=99999999999999999999-"])
def test_range_beyond_the_file(download, text):
    answer = download({"Range": text})
    assert answer.status_code == 416 and answer.headers["content-range"] == "bytes */2048"


@pytest.mark.parametrize("text", ["bytes=0-1,5-6", "bytes=9-1", "bytes=a-b", "bytes=", "bytes=-", "bytes=1-x",
                                  "bytes=--5", "bytes=-+5", "bytes= 0-1", "bytes=0x0-0x5", "items=0-1", "nonsense", "bytes"])
def test_range_that_is_ignored(download, text):
    """Several ranges, and what is none: the whole file is always a correct answer."""
    answer = download({"Range": text})
    assert answer.status_code == 200 and answer.content == CONTENT
    assert "content-range" not in answer.headers and answer.headers["accept-ranges"] == "bytes"


def test_range_of_an_empty_file(download, tmp_path):
    empty = tmp_path / "empty"
    empty.touch()
    assert download(path=empty).content == b""
    assert download({"Range": "bytes=0-0"}, empty).status_code == 416
    assert download({"Range": "bytes=-5"}, empty).status_code == 416


def test_if_range(download, file):
    tag = download().headers["etag"]
    assert download({"Range": "bytes=0-4", "If-Range": tag}).status_code == 206
    assert download({"Range": "bytes=0-4", "If-Range": '"other"'}).status_code == 200
    assert download({"Range": "bytes=0-4", "If-Range": "W/" + tag}).status_code == 200, "weak tags do not do"
    file.write_bytes(CONTENT + b"more")
    answer = download({"Range": "bytes=0-4", "If-Range": tag})
    assert answer.status_code == 200 and answer.content == CONTENT + b"more"


def test_head_of_a_range(download):
    answer = download({"Range": "bytes=0-4"}, method="HEAD")
    assert answer.status_code in (200, 206) and answer.content == b""


def test_range_of_a_static_file(site):
    answer = site.get("/static/web/data.bin", headers={"Range": "bytes=256-511"})
    assert answer.status_code == 206 and answer.content == CONTENT[256:512]


# --- tags --------------------------------------------------------------------------------------


def test_tag(download, file):
    tag = download().headers["etag"]
    assert tag.startswith('"') and tag.endswith('"') and tag == download().headers["etag"]
    for list in (tag, f'"other", {tag}', "W/" + tag, "*"):
        answer = download({"If-None-Match": list})
        assert answer.status_code == 304 and answer.content == b"" and answer.headers["etag"] == tag
        assert "content-length" not in answer.headers or answer.headers["content-length"] == "2048"
    for list in ('"other"', "", tag[:-2] + '"', tag.strip('"')):
        assert download({"If-None-Match": list}).status_code == 200
    os.utime(file, (1, 1))
    answer = download({"If-None-Match": tag})
    assert answer.status_code == 200 and answer.headers["etag"] != tag


def test_tag_tells_files_apart(download, tmp_path):
    tags = set()
    for i in range(3):
        path = tmp_path / f"file{i}"
        path.write_bytes(CONTENT)
        os.utime(path, (1, 1))
        tags.add(download(path=path).headers["etag"])
    assert len(tags) == 3


def test_connection_lives_on_after_304(fixture_server, file):
    with fixture_server.connect() as peer:
        target = f"/download?path={file}"
        tag = peer.ask(request(target))["etag"]
        for _ in range(3):
            assert peer.ask(request(target, headers={"If-None-Match": tag})).status == 304
            assert peer.ask(request(target, headers={"Range": "bytes=9999-"})).status == 416
            assert peer.ask(request(target, headers={"Range": "bytes=0-2"})).body == CONTENT[:3]


# --- downloads ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["plain.txt", "with space", 'quo"te', "back\\slash", "new\nline", "\u00e9\u20ac.txt",
                                  "semi;colon", "100%", "x" * 255])
def test_name_of_a_download(download, tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"x")
    answer = download(path=path)
    assert answer.status_code == 200 and answer.content == b"x"
    shown = answer.headers["content-disposition"]
    assert shown.startswith("attachment; filename=\"")
    assert f"filename*=UTF-8''{quote(name, safe='')}" in shown
    assert shown.isprintable() and shown.count('"') == 2


def test_download_of_what_is_no_file(download, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert download(path=tmp_path).status_code == 400
    assert download(path=tmp_path / "pipe").status_code == 400
    assert download(path=tmp_path / "missing").status_code == 404
    assert download(path="/dev/zero").status_code == 400


# --- uploads -----------------------------------------------------------------------------------


def form(*parts, end=b"--x--\r\n"):
    return b"".join(b"--x\r\n" + head + b"\r\n\r\n" + body + b"\r\n" for head, body in parts) + end


FILE = b'Content-Disposition: form-data; name="file"; filename="f.txt"'


def send(server, body, boundary="x"):
    return server.post("/upload", content=body,
                       headers={"Content-Type": f"multipart/form-data; boundary={boundary}"})


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 65536, 65537, 1 << 20])
def test_upload(fixture_server, size):
    content = (CONTENT * (size // 2048 + 1))[:size]
    answer = fixture_server.post("/upload", files={"file": ("a b.bin", content, "image/x")},
                                 data={"path": "/some/where", "number": "42"})
    assert answer.status_code == 200
    assert answer.json()["data"] == {"name": "a b.bin", "type": "image/x", "path": "/some/where", "size": size,
                                     "sum": sum(content), "number": 42}


def test_fields_may_come_in_any_order(fixture_server):
    path = b'Content-Disposition: form-data; name="path"'
    for parts in ([(FILE, b"x"), (path, b"/p")], [(path, b"/p"), (FILE, b"x")]):
        data = send(fixture_server, form(*parts)).json()["data"]
        assert data["path"] == "/p" and data["size"] == 1


def test_content_that_looks_like_a_boundary(fixture_server):
    content = b"\r\n--\r\n--y\r\n-x\r\n--\r\n\r--x\n--x--\r"
    data = send(fixture_server, form((FILE, content))).json()["data"]
    assert data["size"] == len(content) and data["sum"] == sum(content)


def test_upload_byte_by_byte(fixture_server):
    body = form((FILE, b"hello\r\n--"))
    with fixture_server.connect() as peer:
        head = request("/upload", "POST", {"Content-Type": "multipart/form-data; boundary=x", "Content-Length": len(body)})
        for byte in head + body:
            peer.send(bytes([byte]))
        assert peer.answer().json()["data"]["size"] == 9


@pytest.mark.parametrize("body, status", [
    (form((b'Content-Disposition: form-data; name="path"', b"/p")), 422),
    (form((FILE, b"x"), (b'Content-Disposition: form-data; name="number"', b"-1")), 422),
    (form((FILE, b"x"), (b'Content-Disposition: form-data; name="number"', b"many")), 422),
    (form((FILE, b"x"), (b'Content-Disposition: form-data; name="path"', b"\xff")), None),
    (form((FILE, b"x"), end=b""), 400),
    (form((FILE, b"x"), end=b"--x"), 400),
    (form((FILE, b"x"), end=b"--y--\r\n"), 400),
    (form((b"Content-Type: text/plain", b"x")), 400),
    (form((b"nonsense", b"x")), 400),
    (b"", 400),
    (b"nonsense", 400),
])
def test_bad_upload(fixture_server, body, status):
    answer = send(fixture_server, body)
    assert answer.status_code == (status or answer.status_code) and answer.status_code in (200, 400, 422)


def test_missing_file_is_told_like_a_missing_field(fixture_server):
    answer = send(fixture_server, form((b'Content-Disposition: form-data; name="path"', b"/p")))
    (problem,) = answer.json()["detail"]
    assert (problem["type"], problem["loc"], problem["msg"]) == ("missing", ["body", "file"], "Field required")


@pytest.mark.parametrize("type", ["multipart/form-data", "multipart/form-data; boundary=", "application/json",
                                  "multipart/mixed; boundary=x", "multipart/form-data; boundary=" + "x" * 71])
def test_upload_of_another_type(fixture_server, type):
    answer = fixture_server.post("/upload", content=form((FILE, b"x")), headers={"Content-Type": type})
    assert answer.status_code in (400, 415)


def test_upload_leaves_no_file_behind(fixture_server):
    assert fixture_server.post("/upload", files={"file": ("f", CONTENT)}).status_code == 200
    with fixture_server.connect() as peer:  # and one that is broken off
        peer.send(request("/upload", "POST", {"Content-Type": "multipart/form-data; boundary=x",
                                              "Content-Length": 1000000}, form((FILE, CONTENT), end=b"")))
        assert fixture_server.at_rest(), "it waits for more"
    assert fixture_server.settle()
    assert os.listdir(fixture_server.home) == []


def test_upload_when_the_workspace_takes_no_temporary_files(start_server):
    server = start_server(["--workspace", "/proc"], program="fixture")
    assert server.post("/upload", files={"file": ("f", CONTENT)}).json()["data"]["size"] == len(CONTENT)
