"""Files in and out, as they are and of any size."""

import base64
import ctypes
import hashlib
import io
import os
import random
import re
import shutil
import stat
import struct
import threading
from urllib.parse import quote

import pytest
from agent_sandbox import Sandbox

from files import ERROR_FIELDS, names, small_disk
from harness import LEAN, eventually, request
from processes import ROOT_ONLY, together

pytestmark = pytest.mark.server(env=LEAN)
MIB = 1 << 20
BYTES = bytes(range(256)) * 40


def upload(server, content, name="name.bin", **fields):
    file = (name, content, "application/octet-stream")
    answer = server.request("POST", "/v1/file/upload", files={"file": file}, data=fields, timeout=100)
    assert answer.status_code == 200, answer.text[:1000]
    return answer.json()


def target(path, **more):
    return "/v1/file/download?path=" + quote(os.fspath(path)) + "".join(f"&{k}={quote(v)}" for k, v in more.items())


def download(server, path, headers=(), method="GET", **more):
    return server.request(method, target(path, **more), headers=dict(headers))


# --- upload ------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [b"", b"x", BYTES, b"--boundary\r\n" * 100, random.Random(1).randbytes(3 * MIB)])
def test_upload(server, tmp_path, content):
    path = tmp_path / "a/b/file"
    for _ in range(2):  # a new one, and over it
        assert upload(server, content, path=str(path)) == {
            "success": True, "message": "File uploaded successfully", "hint": None,
            "data": {"file_path": str(path), "file_size": len(content), "success": True},
        }
        assert path.read_bytes() == content and names(path.parent) == ["file"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_where_an_upload_goes(server, tmp_path):
    assert upload(server, b"1")["data"]["file_path"] == str(server.home / "name.bin")
    assert (server.home / "name.bin").read_bytes() == b"1"
    assert upload(server, b"2", path="")["data"]["file_path"] == str(server.home / "name.bin")
    assert upload(server, b"3", path="sub/x")["data"]["file_path"] == str(server.home / "sub/x")
    assert upload(server, b"4", path=str(tmp_path))["data"]["file_path"] == f"{tmp_path}/name.bin"
    assert upload(server, b"5", path=f"{tmp_path}/new/")["data"]["file_path"] == f"{tmp_path}/new/name.bin"
    coded = base64.b64encode(os.fsencode(tmp_path) + b"/\xff\n").decode()
    assert upload(server, b"6", path_b64=coded)["success"]
    assert os.listdir(os.fsencode(tmp_path) + b"/") != [] and open(os.fsencode(tmp_path) + b"/\xff\n", "rb").read() == b"6"


@pytest.mark.parametrize("name, base", [
    ("../../../etc/passwd", "passwd"), ("/etc/shadow", "shadow"), ("C:\\dir\\file.txt", "file.txt"), ("..", "upload"),
    (".", "upload"), ("dir/", "upload"), ("sp ace \u00e9.txt", "sp ace \u00e9.txt"),
])
def test_a_client_s_name_is_only_a_name(server, tmp_path, name, base):
    assert upload(server, b"x", name, path=f"{tmp_path}/")["data"]["file_path"] == f"{tmp_path}/{base}"
    assert names(tmp_path) == [base]


def test_an_upload_keeps_what_the_file_was(server, tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o750)
    os.symlink("file", tmp_path / "link")
    upload(server, b"new", path=str(tmp_path / "link"))
    assert path.read_text() == "new" and stat.S_IMODE(path.stat().st_mode) == 0o750 and (tmp_path / "link").is_symlink()
    os.link(path, tmp_path / "other")
    upload(server, b"newer and longer", path=str(path))
    assert (tmp_path / "other").read_text() == "newer and longer"
    upload(server, b"short", path=str(path))
    assert (tmp_path / "other").read_text() == "short"


def test_an_upload_to_another_disk(server):
    """It cannot be moved there."""
    if os.stat("/dev/shm").st_dev == os.stat(server.home).st_dev:
        pytest.skip("NOT TESTED: there is only one file system")
    folder = f"/dev/shm/aio-test-{os.getpid()}"
    content = random.Random(2).randbytes(5 * MIB)
    try:
        for _ in range(2):
            upload(server, content, path=f"{folder}/file")
            assert open(f"{folder}/file", "rb").read() == content and names(folder) == ["file"]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_an_upload_that_fails(server, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "file").touch()
    for path, kind in [("fifo", "invalid_target"), ("file/x", "invalid_target"), ("n" * 256, "invalid_path")]:
        answer = upload(server, b"x", path=f"{tmp_path}/{path}")
        data = answer["data"]
        assert answer["success"] is False and data.keys() >= ERROR_FIELDS
        assert (data["error_type"], data["operation"], data["success"], data["file_size"]) == (kind, "upload", False, 0)
    assert names(tmp_path) == ["fifo", "file"]


def test_what_is_no_upload(server):
    answer = server.request("POST", "/v1/file/upload", files={"other": b"x"})
    assert answer.status_code == 422 and answer.json()["detail"][0]["loc"] == ["body", "file"]
    assert server.post("/v1/file/upload", {"file": "x"}).status_code == 415
    head = {"Content-Type": "multipart/form-data; boundary=b"}
    body = b'--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\nhalf'
    assert server.request("POST", "/v1/file/upload", headers=head, content=body).status_code == 400
    assert not (server.home / "f").exists()


def test_a_client_that_stops_in_the_middle_leaves_nothing(server, tmp_path):
    before = server.possessions()
    body = (b'--b\r\nContent-Disposition: form-data; name="path"\r\n\r\n' + os.fsencode(tmp_path) + b"/file\r\n"
            b'--b\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n' + b"x" * MIB)
    head = {"Content-Type": "multipart/form-data; boundary=b", "Content-Length": 10 * MIB}
    with server.connect() as peer:
        peer.send(request("/v1/file/upload", "POST", head, body))
        assert server.at_rest(), "it waits for more"
        peer.reset()
    server.check_leaks(before)
    assert names(tmp_path) == []


def test_an_upload_that_is_too_large(start_server, tmp_path):
    server = start_server(["--max-upload", "1M"])
    answer = server.request("POST", "/v1/file/upload", files={"file": b"x" * (MIB + 1)}, data={"path": f"{tmp_path}/x"})
    assert answer.status_code == 413 and names(tmp_path) == []


@ROOT_ONLY
def test_a_full_disk(start_server, tmp_path):
    """Of the server, while it receives; and of the place, once it has."""
    disk = tmp_path / "disk"
    disk.mkdir()
    with small_disk(disk, "3m"):
        (disk / "file").write_bytes(b"old")
        full = start_server(env={**LEAN, "WORKSPACE": str(disk)})
        other = start_server(env=LEAN)
        for server in (full, other):
            data = upload(server, b"x" * 5 * MIB, path=str(disk / "file"))["data"]
            assert (data["error_type"], data["errno_name"]) == ("no_space_left", "ENOSPC")
            assert names(disk) == ["file"] and (disk / "file").read_bytes() == b"old"
            assert upload(server, b"y" * MIB, path=str(disk / "fits"))["success"]
            (disk / "fits").unlink()
        for server in (full, other):  # before the disk can be unmounted
            server.stop()


@pytest.mark.concurrency
def test_uploads_at_once(server, tmp_path):
    contents = [bytes([i]) * (MIB // 2 + i) for i in range(16)]
    together(16, lambda i: upload(server, contents[i], path=str(tmp_path / "one")))
    assert (tmp_path / "one").read_bytes() in contents and names(tmp_path) == ["one"]
    together(16, lambda i: upload(server, contents[i], path=str(tmp_path / f"{i}")))
    assert [(tmp_path / f"{i}").read_bytes() for i in range(16)] == contents


class Pattern(io.RawIOBase):
    """Bytes that are made as they are read."""

    def __init__(self, size):
        self.left, self.hash = size, hashlib.blake2b()
        self.block = random.Random(3).randbytes(MIB + 1)

    def read(self, size=-1):
        data = self.block[:min(self.left, MIB if size < 0 else min(size, MIB))]
        self.left -= len(data)
        self.hash.update(data)
        return data


@pytest.mark.timeout(300)
def test_a_gibibyte_there_and_back(server, tmp_path):
    """With the same hash, and in little memory."""
    size, path = 1 << 30, tmp_path / "large"
    source = Pattern(size)
    boundary = b"b" * 40
    head = (b"--" + boundary + b'\r\nContent-Disposition: form-data; name="path"\r\n\r\n' + os.fsencode(path) + b"\r\n--" +
            boundary + b'\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n')
    tail = b"\r\n--" + boundary + b"--\r\n"

    def body():
        yield head
        while piece := source.read():
            yield piece
        yield tail

    before = server.reset_peak()
    answer = server.request("POST", "/v1/file/upload", content=body(), timeout=280,
                            headers={"Content-Type": "multipart/form-data; boundary=" + boundary.decode(),
                                     "Content-Length": str(len(head) + size + len(tail))})
    assert answer.json()["data"] == {"file_path": str(path), "file_size": size, "success": True}
    hash = hashlib.blake2b()
    with server.client.stream("GET", target(path), timeout=100) as answer:
        assert answer.headers["content-length"] == str(size)
        for piece in answer.iter_raw(MIB):
            hash.update(piece)
    path.unlink()
    assert hash.digest() == source.hash.digest()
    assert server.memory("VmHWM") - before < 8 * MIB


# --- download ----------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "the file.bin"
    path.write_bytes(BYTES)
    return path


def test_download(server, file):
    answer = download(server, file)
    assert answer.status_code == 200 and answer.content == BYTES
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"] == \
        "attachment; filename=\"the file.bin\"; filename*=UTF-8''the%20file.bin"
    assert answer.headers["accept-ranges"] == "bytes" and answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["etag"].startswith('"')
    head = download(server, file, method="HEAD")
    assert head.content == b"" and head.headers["content-length"] == str(len(BYTES))
    for policy in ("ignore", "abort"):
        assert download(server, file, change_policy=policy).content == BYTES


@pytest.mark.parametrize("policy", ["ignore", "abort"])
def test_ranges(server, file, policy):
    size = len(BYTES)
    for range, first, last in [("bytes=0-0", 0, 0), ("bytes=10-19", 10, 19), ("bytes=-5", size - 5, size - 1),
                               ("bytes=100-", 100, size - 1), (f"bytes=0-{size * 2}", 0, size - 1)]:
        answer = download(server, file, {"Range": range}, change_policy=policy)
        assert answer.status_code == 206 and answer.content == BYTES[first:last + 1]
        assert answer.headers["content-range"] == f"bytes {first}-{last}/{size}"
    answer = download(server, file, {"Range": f"bytes={size}-"}, change_policy=policy)
    assert answer.status_code == 416 and answer.headers["content-range"] == f"bytes */{size}"
    tag = download(server, file).headers["etag"]
    assert download(server, file, {"If-None-Match": tag}, change_policy=policy).status_code == 304
    answer = download(server, file, {"Range": "bytes=0-3", "If-Range": tag}, change_policy=policy)
    assert answer.status_code == 206 and answer.content == BYTES[:4]
    answer = download(server, file, {"Range": "bytes=0-3,5-6", "If-Range": tag}, change_policy=policy)
    assert answer.status_code == 200 and answer.content == BYTES  # several parts are not offered


def test_a_part_of_another_file(server, file):
    """A download that is taken up again, of a file that is not the same any more."""
    tag = download(server, file).headers["etag"]
    file.write_bytes(b"other" * 1000)
    headers = {"Range": "bytes=100-", "If-Range": tag}
    assert download(server, file, headers).content == b"other" * 1000
    assert download(server, file, headers, change_policy="abort").status_code == 409


@pytest.mark.parametrize("name", [b"\xff\xfe", b"new\nline", b"quote\"", "\u20ac".encode(), b"n" * 255])
def test_any_name(server, tmp_path, name):
    path = os.fsencode(tmp_path) + b"/" + name
    with open(path, "wb") as file:
        file.write(b"content")
    answer = download(server, "-", path_b64=base64.b64encode(path).decode())
    assert answer.content == b"content"
    assert answer.headers["content-disposition"].endswith("filename*=UTF-8''" + quote(name, safe=""))


def test_what_cannot_be_downloaded(server, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for path, status in [("no", 404), ("", 400), ("fifo", 400)]:
        answer = download(server, tmp_path / path)
        assert answer.status_code == status and answer.json()["success"] is False and answer.json()["message"]
    assert download(server, "/dev/zero").status_code == 400
    assert server.get("/v1/file/download").status_code == 422
    assert server.get(target(tmp_path, change_policy="perhaps")).status_code == 422


def test_empty_files_and_those_of_proc(server, tmp_path):
    (tmp_path / "empty").touch()
    for policy in ("ignore", "abort"):
        answer = download(server, tmp_path / "empty", change_policy=policy)
        assert answer.status_code == 200 and answer.content == b""
        assert download(server, "/proc/version", change_policy=policy).content.startswith(b"Linux version")


class Gate:
    """Lets somebody open a file only after something was done to it."""

    def __init__(self, path, action):
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd = libc.fanotify_init(0x4 | 0x1, os.O_RDONLY)  # FAN_CLASS_CONTENT, FAN_CLOEXEC
        if self.fd < 0 or libc.fanotify_mark(self.fd, 1, ctypes.c_uint64(0x10000), -100, os.fsencode(path)) < 0:
            pytest.skip(f"NOT TESTED: no fanotify here: {os.strerror(ctypes.get_errno())}")
        self.thread = threading.Thread(target=self.run, args=(action,))
        self.thread.start()

    def run(self, action):
        event = os.read(self.fd, 4096)
        opened = struct.unpack_from("=IBBHQii", event)[5]
        try:
            action()
        finally:
            os.write(self.fd, struct.pack("=iI", opened, 1))  # FAN_ALLOW
            os.close(opened)

    def close(self):
        self.thread.join()
        os.close(self.fd)


@ROOT_ONLY
@pytest.mark.parametrize("policy, status", [("abort", 409), ("ignore", 200)])
def test_changed_before_the_first_byte(server, file, policy, status):
    gate = Gate(file, lambda: os.truncate(file, 100))
    try:
        answer = download(server, file, change_policy=policy)
    finally:
        gate.close()
    assert answer.status_code == status
    if status == 409:
        assert answer.json()["success"] is False and "changed" in answer.json()["message"]
    else:
        assert answer.content == BYTES[:100]


def replace(path):
    """As an editor does."""
    other = path.with_name("other")
    other.write_bytes(b"")
    os.truncate(other, path.stat().st_size)
    os.rename(other, path)


CHANGES = {
    "written": lambda path: os.utime(path, (1, 1)),  # its clock may not have moved on
    "longer": lambda path: os.truncate(path, path.stat().st_size + 1),
    "replaced": replace,
    "removed": lambda path: path.unlink(),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("policy", ["abort", "ignore"])
def test_changed_while_it_is_sent(server, tmp_path, change, policy):
    size, path = 64 * MIB, tmp_path / "file"
    path.touch()
    os.truncate(path, size)
    with server.connect(receive_buffer=65536) as peer:
        peer.send(request(target(path, change_policy=policy)))
        answer = peer.head()
        assert answer.status == 200 and answer["content-length"] == str(size)
        CHANGES[change](path)
        peer.body_of(answer)
        assert answer.complete == (policy == "ignore")
        assert policy == "ignore" or (len(answer.body) < size and peer.ended())


def test_a_client_that_leaves_in_the_middle(server, tmp_path):
    path = tmp_path / "file"
    path.touch()
    os.truncate(path, 1 << 30)
    for policy in ("ignore", "abort"):
        with server.connect(receive_buffer=65536) as peer:
            peer.send(request(target(path, change_policy=policy)))
            assert peer.head().status == 200
            peer.reset()
        assert eventually(lambda: str(path) not in server._links())


def test_the_sdk_moves_files(server, tmp_path):
    box = Sandbox(base_url=server.url, httpx_client=server.client)
    path = str(tmp_path / "file")
    result = box.file.upload_file(file=("x.bin", BYTES), path=path)
    assert result.data.file_path == path and result.data.file_size == len(BYTES) and result.data.success
    assert b"".join(box.file.download_file(path=path)) == BYTES
    failure = box.file.upload_file(file=("x", b""), path=f"{path}/x")
    assert failure.success is False and failure.data.error_type == "invalid_target"
    with pytest.raises(Exception) as raised:
        b"".join(box.file.download_file(path=path + "x"))
    assert raised.value.status_code == 404


def test_the_document_says_what_a_download_is(server):
    operation = server.get("/v1/openapi.json").json()["paths"]["/v1/file/download"]["get"]
    assert "application/octet-stream" in operation["responses"]["200"]["content"]
    assert {p["name"]: p["required"] for p in operation["parameters"]} == \
        {"path": True, "change_policy": False, "path_b64": False}
    assert re.search("abort", str(operation))
