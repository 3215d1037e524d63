"""Reading files: whole, by lines, huge ones, special ones, and what cannot be read."""

import base64
import hashlib
import json
import os
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from agent_sandbox import Sandbox

from files import ERROR_FIELDS, ask, bad, good, refused
from harness import LEAN, eventually

pytestmark = pytest.mark.server(env=LEAN)
MIB = 1 << 20


@pytest.fixture
def write(tmp_path):
    def write(content, name="file.txt"):
        path = os.path.join(os.fsencode(tmp_path), name if isinstance(name, bytes) else os.fsencode(name))
        with open(path, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        return os.fsdecode(path)

    return write


# --- content -----------------------------------------------------------------------------------


@pytest.mark.parametrize("content, lines", [
    ("", 0), ("a", 1), ("a\n", 1), ("a\nb", 2), ("\n", 1), ("\n\n", 2), ("a\r\nb\r\n", 2), ("a\0b\n", 1),
    ("\u20ac\U0001f600\n", 1), ("\ufeffmark\n", 1), ("quote \" back \\ tab \t \x01\x7f\u2028\n", 1),
])
def test_content_comes_as_it_is(server, write, content, lines):
    path = write(content)
    answer = ask(server, "read", file=path)
    assert answer == {
        "success": True, "message": "File read successfully", "hint": None,
        "data": {"content": content, "file": path, "line_count": lines},
    }


def python_slice(content, start, end):
    return "".join(content.splitlines(keepends=True)[start:end])


@pytest.mark.parametrize("tail", ["", "\n", "last without an end"])
@pytest.mark.parametrize("size", [5, 20000])  # in memory; too large for that
def test_lines_are_a_slice(server, write, size, tail):
    content = "".join(f"line {i} \u00e4\u20ac\n" for i in range(size)) + tail
    path = write(content)
    for start, end in [(None, None), (0, 0), (0, 1), (1, 3), (2, None), (None, 2), (size - 1, size), (size, None),
                       (size - 1, size + 5), (size + 1, size + 9), (3, 3), (4, 2), (0, 10**12), (10**12, None)]:
        data = good(server, "read", file=path, start_line=start, end_line=end)
        want = python_slice(content, start, end)
        assert data["content"] == want, (start, end)
        assert data["line_count"] == len(want.splitlines()), (start, end)


def test_paging_ends_with_nothing(server, write):
    content = "\n".join(str(i) for i in range(1001))
    path, got, at = write(content), "", 0
    while part := good(server, "read", file=path, start_line=at, end_line=at + 100)["content"]:
        got += part
        at += 100
    assert got == content and at == 1100


def test_characters_at_the_edges_of_pieces(server, write):
    """However the file is cut into pieces on its way, no character is."""
    for shift in range(4):
        content = "x" * shift + "\U0001f600" * 70000
        assert good(server, "read", file=write(content))["content"] == content


@pytest.mark.parametrize("size", [1000, 300000])
def test_what_is_not_utf8_is_refused(server, write, size):
    line = b"x" * 99 + b"\n"
    content = line * (size // 100) + b"caf\xe9\n" + line
    path = write(content)
    data = bad(server, "read", file=path)
    assert (data["error_type"], data["exception_type"], data["errno"]) == ("decode_error", "UnicodeDecodeError", None)
    assert f"position {size // 100 * 100 + 3}" in data["message"] and "0xe9" in data["message"]
    # Only what is asked for has to be text.
    at = size // 100
    assert good(server, "read", file=path, start_line=0, end_line=at)["line_count"] == at
    assert good(server, "read", file=path, start_line=at + 1)["content"] == line.decode()
    assert refused(server, "read", file=path, start_line=at, end_line=at + 1)[0] == "decode_error"
    assert refused(server, "read", file=write(b"cut \xe2\x82"))[0] == "decode_error"


def test_a_huge_file_in_little_memory(server, tmp_path):
    """The last lines of 1 GiB, of which most is a hole."""
    path = tmp_path / "huge"
    with open(path, "wb") as file:
        file.write(b"first\n")
        file.truncate(1 << 30)
        file.seek(0, os.SEEK_END)
        file.write(b"\nlast but one\nlast\n")
    before = server.reset_peak()
    assert good(server, "read", file=str(path), start_line=0, end_line=1)["content"] == "first\n"
    assert good(server, "read", file=str(path), start_line=2)["content"] == "last but one\nlast\n"
    assert server.memory("VmHWM") - before < 8 * MIB


def test_a_large_answer_in_little_memory(server, write):
    content = ("0123456789abcdef" * 4 + "\n") * (64 * MIB // 65)
    path = write(content)
    before = server.reset_peak()
    with server.client.stream("POST", "/v1/file/read", json={"file": path}, timeout=100) as answer:
        got = b"".join(answer.iter_raw())
    assert hashlib.sha256(json.loads(got)["data"]["content"].encode()).digest() == \
        hashlib.sha256(content.encode()).digest()
    assert server.memory("VmHWM") - before < 8 * MIB


def test_who_leaves_stops_the_search(server, tmp_path):
    """Nobody counts the lines of 2 TiB for someone who is gone."""
    path = tmp_path / "endless"
    with open(path, "wb") as file:
        file.truncate(2 << 40)
    with server.begin("/v1/file/read", file=str(path), start_line=5) as peer:
        assert eventually(lambda: str(path) in server._links())
        peer.reset()  # a half-closed connection still waits for its answer
    assert eventually(lambda: str(path) not in server._links())


# --- names -------------------------------------------------------------------------------------

NAMES = [b"with space", b"new\nline", b"\xff\xfe not utf-8", b"n" * 255, "\u00e9\u20ac".encode(), b"-rf", b"a'b\"c\\d",
         b"$(id)", b"tab\t", b"\x01\x7f", b"~", b"%41"]


@pytest.mark.parametrize("name", NAMES)
def test_any_name(server, write, name):
    path = os.fsencode(write("content of it", name))
    coded = base64.b64encode(path).decode()
    lossy = path.decode(errors="replace")
    assert good(server, "read", file=lossy, path_b64=coded)["content"] == "content of it"
    if lossy.encode() == path:
        assert good(server, "read", file=lossy) == {"content": "content of it", "file": lossy, "line_count": 1}
    else:
        assert refused(server, "read", file=lossy)[0] == "not_found"
        missing = base64.b64encode(path + b"x").decode()
        assert bad(server, "read", file="-", path_b64=missing)["path"] == lossy + "x"


def test_spellings_of_the_path(server):
    (server.home / "in the workspace").write_text("here")
    assert good(server, "read", path=str(server.home / "in the workspace"))["content"] == "here"
    for relative in ("in the workspace", "./in the workspace"):
        data = good(server, "read", file=relative)
        assert data["content"] == "here" and data["file"] == str(server.home / "in the workspace")


@pytest.mark.parametrize("body, kind", [
    ({"file": ""}, "invalid_path"),
    ({"file": "x", "path_b64": "%%%"}, "invalid_path"),
    ({"file": "x", "path_b64": base64.b64encode(b"/a\0b").decode()}, "invalid_path"),
    ({"file": "/" + "n" * 256}, "invalid_path"),
    ({"file": "/" + "n/" * 3000}, "invalid_path"),
])
def test_what_is_no_path(server, body, kind):
    assert refused(server, "read", **body)[0] == kind


@pytest.mark.parametrize("body", [
    {}, {"file": None}, {"file": 7}, {"file": "a\0b"}, {"file": "/x", "start_line": -1}, {"file": "/x", "end_line": "x"},
    {"file": "/x", "sudo": "perhaps"}, {"file": "/x", "start_line": 1e300},
])
def test_what_is_no_request(server, body):
    answer = server.post("/v1/file/read", body)
    assert answer.status_code == 422 and answer.json()["detail"][0]["loc"][0] == "body"


def test_null_is_absent(server, write):
    body = {"file": write("a\nb\n"), "start_line": None, "end_line": None, "sudo": None, "path_b64": None}
    assert good(server, "read", **body)["content"] == "a\nb\n"


# --- what fails --------------------------------------------------------------------------------


def test_the_shape_of_a_failure(server, tmp_path):
    path = str(tmp_path / "missing")
    message = f"Failed to read file: [Errno 2] No such file or directory: '{path}'"
    assert ask(server, "read", file=path) == {
        "success": False, "message": message, "hint": None,
        "data": {
            "path": path, "operation": "read", "message": message, "error_type": "not_found", "retryable": False,
            "errno": 2, "errno_name": "ENOENT", "exception_type": "FileNotFoundError",
            "content": "", "file": path, "line_count": 0,  # what SDKs insist on
        },
    }


def test_what_the_file_system_says(server, tmp_path):
    (tmp_path / "file").write_text("x")
    os.symlink("loop", tmp_path / "loop")
    os.symlink("nowhere", tmp_path / "dangling")
    assert refused(server, "read", file=str(tmp_path)) == ("invalid_target", "EISDIR", "IsADirectoryError")
    assert refused(server, "read", file=f"{tmp_path}/file/x") == ("invalid_target", "ENOTDIR", "NotADirectoryError")
    assert refused(server, "read", file=f"{tmp_path}/loop") == ("invalid_path", "ELOOP", "OSError")
    assert refused(server, "read", file=f"{tmp_path}/dangling") == ("not_found", "ENOENT", "FileNotFoundError")


def test_special_files_never_block(server, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(tmp_path / "socket"))
        for path in (tmp_path / "fifo", tmp_path / "socket", "/dev/zero", "/dev/null", "/dev/tty", "/proc/self/fd/0",
                     "/dev/stdin"):
            data = bad(server, "read", file=str(path))
            assert data["error_type"] == "invalid_target" and data["errno"] is None, path
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(lambda _: refused(server, "read", file=str(tmp_path / "fifo"))[0], range(64))) == \
            {"invalid_target"}


def test_files_of_proc_are_read(server):
    """They say that they are empty, and are not."""
    assert os.path.getsize("/proc/cpuinfo") == 0
    status = good(server, "read", file="/proc/self/status")["content"]
    assert status.startswith("Name:\t") and status.endswith("\n") and f"Pid:\t{server.pid}\n" in status
    assert good(server, "read", file="/proc/version", start_line=0, end_line=1)["content"].startswith("Linux version")


def test_a_file_that_grows_and_shrinks_while_it_is_read(server, tmp_path):
    path, stop = tmp_path / "busy", threading.Event()
    path.write_bytes(b"x" * 200000)

    def disturb():
        while not stop.is_set():
            os.truncate(path, 10)
            os.truncate(path, 400000)

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        for _ in range(50):
            ask(server, "read", file=str(path))  # is JSON, whatever it holds
    finally:
        stop.set()
        thread.join()


# --- the SDK -----------------------------------------------------------------------------------


def test_the_sdk_reads(server, write):
    box = Sandbox(base_url=server.url, httpx_client=server.client)
    path = write("a\nb\nc\n")
    assert box.file.read_file(file=path, start_line=1, end_line=2).data.content == "b\n"
    failure = box.file.read_file(file=path + "x")
    assert failure.success is False and "No such file" in failure.message
    assert failure.data.error_type == "not_found" and failure.data.errno == 2 and failure.data.content == ""


@pytest.mark.concurrency
def test_many_readers(server, write):
    paths = [write(f"{i} " * 5000 * i, f"file{i}") for i in range(16)]
    with ThreadPoolExecutor(16) as pool:
        got = list(pool.map(lambda i: good(server, "read", file=paths[i % 16])["content"], range(160)))
    assert got == [f"{i % 16} " * 5000 * (i % 16) for i in range(160)]


def test_error_fields_are_documented(server):
    document = server.get("/v1/openapi.json").json()
    assert set(document["components"]["schemas"]["FileOperationError"]["properties"]) == ERROR_FIELDS
    data = document["paths"]["/v1/file/read"]["post"]["responses"]["200"]["content"]["application/json"]["schema"][
        "properties"]["data"]
    assert {"$ref": "#/components/schemas/FileOperationError"} in data["anyOf"]
    assert [tag["name"] for tag in document["tags"]].count("file") == 1
