"""Writing files: what is written, what a file stays, and what happens when it cannot be."""

import base64
import contextlib
import os
import random
import signal
import stat
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from agent_sandbox import Sandbox

from files import ask, bad, good, names, refused, small_disk, unmount
from harness import LEAN, Server, eventually
from processes import ROOT_ONLY, together

pytestmark = pytest.mark.server(env=LEAN)
MIB = 1 << 20


def put(server, path, content="new", **more):
    return good(server, "write", file=str(path), content=content, **more)


# --- content -----------------------------------------------------------------------------------


def test_the_answer(server, tmp_path):
    path = str(tmp_path / "file")
    assert ask(server, "write", file=path, content="h\u00e9llo\n") == {
        "success": True, "message": "File written successfully", "hint": None,
        "data": {"file": path, "bytes_written": 7},
    }
    assert (tmp_path / "file").read_bytes() == "h\u00e9llo\n".encode()
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("body, content", [
    ({"content": ""}, b""),
    ({"content": "a\0b\r\n\u2028"}, "a\0b\r\n\u2028".encode()),
    ({"content": "x", "leading_newline": True}, b"\nx"),
    ({"content": "x", "trailing_newline": True}, b"x\n"),
    ({"content": "", "leading_newline": True, "trailing_newline": True}, b"\n\n"),
    ({"content": "AP8=", "encoding": "base64", "leading_newline": True, "trailing_newline": True}, b"\0\xff"),
    ({"content": "A P\n8", "encoding": "base64"}, b"\0\xff"),
    ({"content": "", "encoding": "base64"}, b""),
    ({"content": "".join(map(chr, range(256))), "encoding": "raw", "trailing_newline": True}, bytes(range(256))),
    ({"content": "x", "encoding": None, "append": None, "sudo": None}, b"x"),
])
def test_encodings_and_newlines(server, tmp_path, body, content):
    path = tmp_path / "file"
    for _ in range(2):  # a new file, and one that is there
        assert put(server, path, **body)["bytes_written"] == len(content)
        assert path.read_bytes() == content


@pytest.mark.parametrize("body", [
    {"content": "\u0100", "encoding": "raw"}, {"content": "x\u20ac", "encoding": "raw"},
    {"content": "A", "encoding": "base64"}, {"content": "A\u20acBC", "encoding": "base64"},
    {"content": "AP8=!", "encoding": "base64"},
])
def test_content_that_is_not_what_it_says(server, tmp_path, body):
    path = tmp_path / "file"
    path.write_text("old")
    assert refused(server, "write", file=str(path), **body)[0] == "decode_error"
    assert path.read_text() == "old" and names(tmp_path) == ["file"]


@pytest.mark.parametrize("body", [
    {"file": "/x"}, {"content": "x"}, {"file": "/x", "content": None}, {"file": "/x", "content": 1},
    {"file": "/x", "content": "x", "encoding": "latin-1"}, {"file": "/x", "content": "x", "append": "maybe"},
])
def test_what_is_no_request(server, body):
    assert server.post("/v1/file/write", body).status_code == 422
    assert not os.path.exists("/x")


def test_append(server, tmp_path):
    path = tmp_path / "dir" / "log"
    assert put(server, path, "a\n", append=True)["bytes_written"] == 2  # makes it
    inode = path.stat().st_ino
    assert put(server, path, "b", append=True, leading_newline=True, trailing_newline=True)["bytes_written"] == 3
    assert put(server, path, "AAE=", append=True, encoding="base64")["bytes_written"] == 2
    assert put(server, path, "", append=True)["bytes_written"] == 0
    assert path.read_bytes() == b"a\n\nb\n\0\1" and path.stat().st_ino == inode


def test_a_large_one(server, tmp_path):
    content = random.Random(1).randbytes(5 * MIB)
    path = tmp_path / "large"
    for _ in range(2):
        assert put(server, path, base64.b64encode(content).decode(), encoding="base64")["bytes_written"] == len(content)
        assert path.read_bytes() == content


# --- where -------------------------------------------------------------------------------------


def test_missing_directories_are_made(server, tmp_path):
    put(server, tmp_path / "a/b//c/file", "x")
    assert (tmp_path / "a/b/c/file").read_text() == "x"


@pytest.mark.parametrize("name", [b"sp ace", b"new\nline", b"\xff\xfe", b"n" * 255, b".hidden", b"-x"])
def test_any_name(server, tmp_path, name):
    path = os.fsencode(tmp_path) + b"/" + name
    coded = base64.b64encode(path).decode()
    for content in ("one", "two"):
        good(server, "write", file="-", path_b64=coded, content=content)
        with open(path) as file:
            assert file.read() == content
    assert os.listdir(os.fsencode(tmp_path)) == [name]


def test_what_the_file_system_says(server, tmp_path):
    (tmp_path / "file").write_text("x")
    os.symlink("loop", tmp_path / "loop")
    before = names(tmp_path)
    assert refused(server, "write", file=str(tmp_path), content="") == ("invalid_target", "EISDIR", "IsADirectoryError")
    assert refused(server, "write", file=f"{tmp_path}/new/", content="")[:2] == ("invalid_target", "EISDIR")
    assert refused(server, "write", file=f"{tmp_path}/file/x", content="")[:2] == ("invalid_target", "ENOTDIR")
    assert refused(server, "write", file=f"{tmp_path}/file/x/y", content="")[:2] == ("invalid_target", "ENOTDIR")
    assert refused(server, "write", file=f"{tmp_path}/loop", content="")[:2] == ("invalid_path", "ELOOP")
    assert refused(server, "write", file=f"{tmp_path}/{'n' * 256}", content="")[:2] == ("invalid_path", "ENAMETOOLONG")
    # Directories made on the way go again.
    assert refused(server, "write", file=f"{tmp_path}/a/b/{'n' * 256}", content="")[:2] == \
        ("invalid_path", "ENAMETOOLONG")
    assert refused(server, "write", file=f"{tmp_path}/a/{'n' * 256}/b", content="")[:2] == \
        ("invalid_path", "ENAMETOOLONG")
    assert names(tmp_path) == before
    data = bad(server, "write", file="", content="")
    assert data["error_type"] == "invalid_path" and data["operation"] == "write"


def test_special_files_are_refused(server, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", "/dev/null", "/dev/full", "/proc/self/fd/0"):
        for append in (False, True):
            assert refused(server, "write", file=str(path), content="x", append=append)[0] == "invalid_target"
    assert refused(server, "write", file="/proc/version", content="x")[0] in ("permission_denied", "io_error")
    assert refused(server, "write", file="/proc/new", content="x")[:2] == ("not_found", "ENOENT")
    assert stat.S_ISFIFO((tmp_path / "fifo").stat().st_mode)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


# --- what the file is, stays -------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o4711, 0o666])
def test_the_mode_stays(server, tmp_path, mode):
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(mode)
    inode = path.stat().st_ino
    put(server, path)
    now = path.stat()
    assert stat.S_IMODE(now.st_mode) == mode and path.read_text() == "new" and now.st_ino != inode


def test_a_new_file_has_the_usual_mode(server, tmp_path):
    put(server, tmp_path / "file")
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o666 & ~current_umask()


def current_umask():
    mask = os.umask(0o22)
    os.umask(mask)
    return mask


def test_links_are_followed(server, tmp_path):
    (tmp_path / "real").mkdir()
    target = tmp_path / "real/file"
    target.write_text("old")
    os.symlink("real/file", tmp_path / "one")
    os.symlink(tmp_path / "one", tmp_path / "two")
    os.symlink("real/new", tmp_path / "dangling")
    os.symlink("real", tmp_path / "dir")
    put(server, tmp_path / "two")
    assert target.read_text() == "new"
    put(server, tmp_path / "dangling", "made")
    assert (tmp_path / "real/new").read_text() == "made"
    put(server, tmp_path / "dir/file", "through a directory")
    assert target.read_text() == "through a directory"
    assert all((tmp_path / name).is_symlink() for name in ("one", "two", "dangling", "dir"))
    assert names(tmp_path / "real") == ["file", "new"]


def test_hard_links_stay_one_file(server, tmp_path):
    path, other = tmp_path / "file", tmp_path / "other"
    path.write_text("old and longer")
    os.link(path, other)
    put(server, path)
    assert other.read_text() == "new" and path.samefile(other) and path.stat().st_nlink == 2
    put(server, other, "larger than it was" * 1000)
    assert path.read_text() == "larger than it was" * 1000 and names(tmp_path) == ["file", "other"]


def test_attributes_stay(server, tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    try:
        os.setxattr(path, "user.note", b"\0value\xff")
    except OSError as error:
        pytest.skip(f"NOT TESTED: no attributes here: {error}")
    put(server, path)
    assert path.read_text() == "new"
    assert os.getxattr(path, "user.note") == b"\0value\xff" and os.listxattr(path) == ["user.note"]


def acl(*entries):
    """An access control list as the kernel has it: (tag, permissions, id)…"""
    return b"\2\0\0\0" + b"".join(tag.to_bytes(2, "little") + perm.to_bytes(2, "little") + who.to_bytes(4, "little")
                                  for tag, perm, who in entries)


NOBODY, ANY = 65534, 0xFFFFFFFF
LIST = acl((1, 6, ANY), (2, 6, NOBODY), (4, 4, ANY), (0x10, 6, ANY), (0x20, 0, ANY))


def test_access_lists_stay(server, tmp_path):
    path, plain = tmp_path / "file", tmp_path / "plain"
    path.write_text("old")
    plain.write_text("old")
    try:
        os.setxattr(path, "system.posix_acl_access", LIST)
        os.setxattr(tmp_path, "system.posix_acl_default", LIST)
    except OSError as error:
        pytest.skip(f"NOT TESTED: no access lists here: {error}")
    put(server, path)
    put(server, plain)
    put(server, tmp_path / "fresh")
    assert os.getxattr(path, "system.posix_acl_access") == LIST and path.read_text() == "new"
    assert os.listxattr(plain) == [] and plain.read_text() == "new"  # it had none before
    assert os.getxattr(tmp_path / "fresh", "system.posix_acl_access") == LIST


def test_files_of_proc_are_written_in_place(server):
    """One of the server's own: the name of its first thread, which lasts as long as the test."""
    path = f"/proc/{server.pid}/comm"
    assert put(server, path, "renamed")["bytes_written"] == 7
    assert open(path).read() == "renamed\n"
    put(server, path, "aio")


@ROOT_ONLY
def test_a_mount_point_is_written_in_place(server, tmp_path):
    path, source = tmp_path / "file", tmp_path / "source"
    path.write_text("under")
    source.write_text("old")
    if subprocess.run(["mount", "--bind", source, path]).returncode:
        pytest.skip("NOT TESTED: nothing can be mounted here")
    try:
        put(server, path, "through the mount")
        assert source.read_text() == "through the mount" and names(tmp_path) == ["file", "source"]
    finally:
        unmount(path)
    assert path.read_text() == "under"


def test_a_file_without_a_name(server, tmp_path):
    """What only /proc leads to is written in place."""
    path = tmp_path / "file"
    with open(path, "w+") as file:
        path.unlink()
        put(server, f"/proc/{os.getpid()}/fd/{file.fileno()}", "nameless")
        assert file.read() == "nameless"
    assert names(tmp_path) == []


# --- all or nothing ----------------------------------------------------------------------------


@ROOT_ONLY
def test_a_full_disk_loses_nothing(server, tmp_path):
    with small_disk(tmp_path, "1m"):
        old = "old" * 1000
        for name in ("replaced", "linked", "appended"):
            (tmp_path / name).write_text(old)
        os.link(tmp_path / "linked", tmp_path / "again")
        (tmp_path / "filler").write_bytes(b"x" * 500_000)
        before = names(tmp_path)
        large = "y" * 800_000
        for name, more in [("replaced", {}), ("linked", {}), ("appended", {"append": True}), ("fresh", {}),
                           ("a/b/fresh", {})]:
            data = bad(server, "write", file=f"{tmp_path}/{name}", content=large, **more)
            assert (data["error_type"], data["errno_name"], data["exception_type"]) == \
                ("no_space_left", "ENOSPC", "OSError")
            assert names(tmp_path) == before
        assert [(tmp_path / name).read_text() for name in ("replaced", "linked", "appended")] == [old] * 3
        # What was taken on the way is free again.
        put(server, tmp_path / "fits", "z" * 400_000)
        assert os.path.getsize(tmp_path / "fits") == 400_000


@ROOT_ONLY
def test_a_read_only_disk(server, tmp_path):
    with small_disk(tmp_path, "1m"):
        (tmp_path / "file").write_text("old")
        subprocess.run(["mount", "-o", "remount,ro", tmp_path], check=True)
        for name in ("file", "new", "a/b"):
            assert refused(server, "write", file=f"{tmp_path}/{name}", content="x")[:2] == \
                ("read_only_filesystem", "EROFS")
        assert (tmp_path / "file").read_text() == "old"


@pytest.mark.concurrency
@pytest.mark.parametrize("kind", ["plain", "hard link"])
def test_64_writers_leave_one_content_whole(server, tmp_path, kind):
    path = tmp_path / "file"
    path.write_text("old")
    if kind == "hard link":
        os.link(path, tmp_path / "other")
    contents = [f"{i:02}" * (100_000 - i * 1000) for i in range(64)]
    seen, stop = set(), threading.Event()

    def look():
        while not stop.is_set():
            seen.add(path.read_text())

    looker = threading.Thread(target=look)
    if kind == "plain":
        looker.start()
    try:
        together(64, lambda i: put(server, path, contents[i]))
    finally:
        stop.set()
        if kind == "plain":
            looker.join()
    assert path.read_text() in contents
    assert seen <= {"old", *contents}  # nobody ever saw half of one
    assert names(tmp_path) == (["file"] if kind == "plain" else ["file", "other"])


@pytest.mark.concurrency
def test_appends_and_replacements_at_once_lose_none(server, tmp_path):
    path = tmp_path / "file"
    lines = [f"line {i} {'x' * i * 10}\n" for i in range(64)]
    together(64, lambda i: put(server, path, lines[i], append=True))
    assert sorted(path.read_text().splitlines(keepends=True)) == sorted(lines)
    together(64, lambda i: good(server, "replace", file=str(path), old_str=f"line {i} ", new_str=f"LINE {i} "))
    assert sorted(path.read_text().splitlines(keepends=True)) == sorted(line.replace("line", "LINE") for line in lines)


@pytest.mark.concurrency
def test_many_make_the_same_directories(server, tmp_path):
    together(32, lambda i: put(server, tmp_path / f"a/b/c/d/{i % 4}", str(i)))
    assert names(tmp_path / "a/b/c/d") == ["0", "1", "2", "3"]


def test_killed_while_it_writes(start_server, tmp_path, tmp_path_factory):
    """Whenever the server dies, each file is whole, and nothing else is left."""
    contents = {chr(97 + i) * (2 * MIB + i) for i in range(4)}
    path = tmp_path / "file"
    path.write_text(min(contents))
    for round in range(4):
        server = Server("aio", (), None, tmp_path_factory.mktemp("killed"))
        killed, written = threading.Event(), []

        def write(content):
            with contextlib.suppress(Exception):  # the server is gone
                while not killed.is_set():
                    server.post("/v1/file/write", {"file": str(path), "content": content})
                    written.append(content)

        with ThreadPoolExecutor(4) as pool:
            for content in contents:
                pool.submit(write, content)
            try:
                assert eventually(lambda: written)
                time.sleep(round * 0.05)  # the stimulus: in the middle of other writes, another place each time
            finally:
                os.kill(server.pid, signal.SIGKILL)
                killed.set()  # its port may soon be another server's
                server.wait()
        assert path.read_text() in contents
        server.client.close()
    server = start_server()
    good(server, "write", file=str(path), content="after")
    assert path.read_text() == "after" and names(tmp_path) == ["file"]


# --- replace -----------------------------------------------------------------------------------


def test_replace(server, tmp_path):
    path = tmp_path / "file"
    path.write_text("one two one\nONE one.\n")
    path.chmod(0o750)
    answer = ask(server, "replace", file=str(path), old_str="one", new_str="$1\\")
    assert answer == {"success": True, "message": "Replacement completed, replaced 3 occurrences", "hint": None,
                      "data": {"file": str(path), "replaced_count": 3}}
    assert path.read_text() == "$1\\ two $1\\\nONE $1\\.\n" and stat.S_IMODE(path.stat().st_mode) == 0o750
    assert good(server, "replace", file=str(path), old_str="$1\\", new_str="")["replaced_count"] == 3
    assert path.read_text() == " two \nONE .\n"


def test_nothing_to_replace(server, tmp_path):
    path = tmp_path / "file"
    path.write_text("text")
    before = path.stat()
    assert good(server, "replace", file=str(path), old_str="x.*", new_str="y")["replaced_count"] == 0
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    path.write_text("")
    assert good(server, "replace", file=str(path), old_str="x", new_str="y")["replaced_count"] == 0


@pytest.mark.parametrize("old, new, before, after", [
    ("a\nb", "x\ny", b"1\r\na\r\nb\r\n", b"1\r\nx\r\ny\r\n"),  # CRLF throughout
    ("a\r\nb", "x\ny", b"1\r\na\r\nb\r\n", b"1\r\nx\r\ny\r\n"),
    ("1", "1\n2", b"1\r\na\r\n", b"1\r\n2\r\na\r\n"),
    ("a\nb", "x\ny", b"1\na\r\nb\r\n", b"1\nx\r\ny\r\n"),  # mixed
    ("a\nb", "x\ny", b"1\r\na\nb\n", b"1\r\nx\ny\n"),
    ("b", "c", b"\xef\xbb\xbfa\nb", b"\xef\xbb\xbfa\nc"),  # a mark
    ("a", "b", b"\xef\xbb\xbfa\n", b"\xef\xbb\xbfb\n"),
    ("\u00e4", "\u20ac\U0001f600", "\ufeffx\u00e4\r\n".encode("utf-16-le"), "\ufeffx\u20ac\U0001f600\r\n".encode("utf-16-le")),
    ("x", "y", "\ufeffx\n".encode("utf-16-be"), "\ufeffy\n".encode("utf-16-be")),
    ("price", "cost", b"price \xa3\n", b"cost \xa3\n"),  # Latin-1
    ("aa", "a", b"aaaaa", b"aaa"),
    ("x", "y", b"x", b"y"),
])
def test_line_endings_and_encodings_stay(server, tmp_path, old, new, before, after):
    path = tmp_path / "file"
    path.write_bytes(before)
    assert good(server, "replace", file=str(path), old_str=old, new_str=new)["replaced_count"] >= 1
    assert path.read_bytes() == after


def test_text_that_does_not_fit_the_encoding(server, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"price \xa3\n")
    for old, new in [("price", "\u00a3"), ("\u00a3", "x")]:
        assert refused(server, "replace", file=str(path), old_str=old, new_str=new)[0] == "decode_error"
    assert path.read_bytes() == b"price \xa3\n"


def test_what_cannot_be_replaced(server, start_server, tmp_path):
    assert refused(server, "replace", file=f"{tmp_path}/no", old_str="a", new_str="b")[:2] == ("not_found", "ENOENT")
    assert refused(server, "replace", file=str(tmp_path), old_str="a", new_str="b")[:2] == ("invalid_target", "EISDIR")
    assert refused(server, "replace", file="/dev/zero", old_str="a", new_str="b")[0] == "invalid_target"
    assert server.post("/v1/file/replace", {"file": "/x", "old_str": "", "new_str": "b"}).status_code == 422
    assert server.post("/v1/file/replace", {"file": "/x", "old_str": "b"}).status_code == 422
    small = start_server(["--max-body", "4K"])
    path = tmp_path / "large"
    path.write_text("a" * 5000)
    assert refused(small, "replace", file=str(path), old_str="a", new_str="b")[0] == "too_large"
    path.write_text("a" * 1000)
    assert refused(small, "replace", file=str(path), old_str="a", new_str="b" * 100)[0] == "too_large"
    assert path.read_text() == "a" * 1000


def test_the_sdk_writes(server, tmp_path):
    box = Sandbox(base_url=server.url, httpx_client=server.client)
    path = str(tmp_path / "file")
    assert box.file.write_file(file=path, content="eA==", encoding="base64").data.bytes_written == 1
    assert box.file.write_file(file=path, content="y", append=True, trailing_newline=True).success
    assert box.file.replace_in_file(file=path, old_str="y", new_str="z").data.replaced_count == 1
    assert (tmp_path / "file").read_text() == "xz\n"
    for failure in (box.file.write_file(file=str(tmp_path), content=""),
                    box.file.replace_in_file(file=str(tmp_path), old_str="a", new_str="b")):
        assert failure.success is False and failure.data.error_type == "invalid_target"
        assert failure.data.file == str(tmp_path)
