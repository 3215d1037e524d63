"""Listing directories: large, deep, odd and changing ones."""

import base64
import os
import stat
import subprocess
import tempfile
import threading
from datetime import datetime, timezone

import pytest
from agent_sandbox import Sandbox

from files import ask, bad, good, names, refused
from harness import LEAN

pytestmark = pytest.mark.server(env=LEAN)
MIB = 1 << 20


@pytest.fixture
def tree(tmp_path):
    """Three levels of files of different sizes, ages, kinds."""
    for i, name in enumerate(["b.py", "a.TXT", ".hidden.py", "c.tar.gz", "none", "dir.d/x.py", "dir.d/sub/y.py",
                              "dir.d/sub/z.txt", ".git/config"]):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * (10 - i))
        os.utime(path, (1000 + i * 10, 1000 + i * 10))
    return tmp_path


def listed(server, path, **more):
    return [os.path.relpath(file["path"], path) for file in good(server, "list", path=str(path), **more)["files"]]


def test_the_answer(server, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("four")
    path.chmod(0o640)
    os.utime(path, ns=(0, 1_234_567_890_123_456_789))
    (tmp_path / "dir").mkdir()
    os.utime(tmp_path / "dir", (0, 0))
    answer = ask(server, "list", path=str(tmp_path))
    assert answer == {
        "success": True, "message": "Directory listed successfully", "hint": None,
        "data": {
            "path": str(tmp_path), "total_count": 2, "directory_count": 1, "file_count": 1, "truncated": False,
            "files": [
                {"name": "a.txt", "path": str(path), "is_directory": False, "size": 4, "permissions": None,
                 "modified_time": "2009-02-13T23:31:30.123456Z", "extension": ".txt", "path_b64": None},
                {"name": "dir", "path": f"{tmp_path}/dir", "is_directory": True, "size": None, "permissions": None,
                 "modified_time": "1970-01-01T00:00:00.000000Z", "extension": "", "path_b64": None},
            ],
        },
    }


def test_what_can_be_told(server, tmp_path):
    for mode in (0o4755, 0o644, 0o000):
        path = tmp_path / f"{mode:o}"
        path.touch()
        path.chmod(mode)
    files = good(server, "list", path=str(tmp_path), include_permissions=True, include_size=False)["files"]
    assert {file["name"]: (file["permissions"], file["size"]) for file in files} == \
        {"4755": ("4755", None), "644": ("644", None), "0": ("000", None)}


def test_hidden_ones(server, tree):
    assert listed(server, tree) == [".git", ".hidden.py", "a.TXT", "b.py", "c.tar.gz", "dir.d", "none"]
    assert listed(server, tree, show_hidden=False) == ["a.TXT", "b.py", "c.tar.gz", "dir.d", "none"]
    assert ".git/config" not in listed(server, tree, show_hidden=False, recursive=True)
    assert ".git/config" in listed(server, tree, recursive=True)


def test_depth(server, tree):
    one = {".git", ".hidden.py", "a.TXT", "b.py", "c.tar.gz", "dir.d", "none"}
    two = one | {"dir.d/x.py", "dir.d/sub", ".git/config"}
    three = two | {"dir.d/sub/y.py", "dir.d/sub/z.txt"}
    for depth, expected in [(0, one), (1, one), (2, two), (3, three), (99, three), (None, three)]:
        assert set(listed(server, tree, recursive=True, max_depth=depth)) == expected
    assert set(listed(server, tree, recursive=False, max_depth=3)) == one


def test_extensions(server, tree):
    files = good(server, "list", path=str(tree), recursive=True)["files"]
    assert {file["name"]: file["extension"] for file in files} == {
        ".git": "", ".hidden.py": ".py", "a.TXT": ".TXT", "b.py": ".py", "c.tar.gz": ".gz", "dir.d": "", "none": "",
        "config": "", "x.py": ".py", "sub": "", "y.py": ".py", "z.txt": ".txt"}
    assert listed(server, tree, file_types=[".py", "txt"]) == [".git", ".hidden.py", "a.TXT", "b.py", "dir.d"]
    assert [name for name in listed(server, tree, file_types=["py"], recursive=True) if name.endswith("py")] == \
        [".hidden.py", "b.py", "dir.d/x.py", "dir.d/sub/y.py"]
    assert len(listed(server, tree, file_types=[])) == 7


@pytest.mark.parametrize("by, order", [
    ("name", ["a.TXT", "b.py", "c.tar.gz", "dir.d", "none"]),
    ("size", ["none", "c.tar.gz", "a.TXT", "b.py", "dir.d"]),
    ("modified", ["b.py", "a.TXT", "c.tar.gz", "none", "dir.d"]),
    ("type", ["dir.d", "none", "a.TXT", "c.tar.gz", "b.py"]),
])
def test_order(server, tree, by, order):
    assert listed(server, tree, show_hidden=False, sort_by=by) == order
    assert listed(server, tree, show_hidden=False, sort_by=by, sort_desc=True) == order[::-1]


def test_links(server, tmp_path):
    (tmp_path / "dir").mkdir()
    (tmp_path / "dir/file").write_text("12345")
    os.symlink("dir", tmp_path / "to-dir")
    os.symlink("dir/file", tmp_path / "to-file")
    os.symlink("nowhere", tmp_path / "to-nothing")
    os.symlink(".", tmp_path / "dir/round")
    os.symlink("loop", tmp_path / "loop")
    os.mkfifo(tmp_path / "fifo")
    files = good(server, "list", path=str(tmp_path), recursive=True)["files"]
    kinds = {os.path.relpath(file["path"], tmp_path): (file["is_directory"], file["size"]) for file in files}
    assert kinds == {"dir": (True, None), "dir/file": (False, 5), "to-dir": (True, None), "to-file": (False, 5),
                     "to-nothing": (False, 7), "dir/round": (True, None), "loop": (False, 4), "fifo": (False, 0)}
    assert listed(server, tmp_path / "to-dir") == ["file", "round"]


NAMES = [b"sp ace", b"new\nline", b"\xff\xfe", b"n" * 255, b"quote\"\\", b"\x01", "\u20ac".encode()]


def test_any_name(server, tmp_path):
    top = os.fsencode(tmp_path)
    for name in NAMES:
        os.mkdir(top + b"/" + name)
        open(top + b"/" + name + b"/in", "w").close()
    files = good(server, "list", path=str(tmp_path))["files"]
    assert {file["name"] for file in files} == {name.decode(errors="replace") for name in NAMES}
    odd = [file for file in files if file["path_b64"]]
    assert [base64.b64decode(file["path_b64"]) for file in odd] == [top + b"/\xff\xfe"]
    for file in files:  # what is listed can be used
        inner = good(server, "list", path=file["path"], path_b64=file["path_b64"])["files"]
        assert [entry["name"] for entry in inner] == ["in"]
        content = good(server, "read", file=inner[0]["path"], path_b64=inner[0]["path_b64"])
        assert content["content"] == ""


def test_spellings_of_the_path(server):
    (server.home / "one").touch()
    for body in ({"path": "."}, {"directory": str(server.home)}, {"path": f"{server.home}///"}):
        data = good(server, "list", **body)
        assert data["path"] == str(server.home) and "one" in [file["name"] for file in data["files"]]
        assert f"{server.home}/one" in [file["path"] for file in data["files"]]
    assert "/etc" in [file["path"] for file in good(server, "list", path="/")["files"]]


def test_what_cannot_be_listed(server, tmp_path):
    (tmp_path / "file").touch()
    assert refused(server, "list", path=f"{tmp_path}/file") == ("invalid_target", "ENOTDIR", "NotADirectoryError")
    assert refused(server, "list", path=f"{tmp_path}/no") == ("not_found", "ENOENT", "FileNotFoundError")
    data = bad(server, "list", path=f"{tmp_path}/no")
    assert data["operation"] == "list" and data["files"] == [] and data["message"].startswith("Failed to list path: ")
    for body in ({}, {"path": "/", "sort_by": "age"}, {"path": "/", "file_types": "py"}, {"path": "/", "max_depth": -1}):
        assert server.post("/v1/file/list", body).status_code == 422


def test_null_is_absent(server, tree):
    everything = dict.fromkeys(["recursive", "show_hidden", "file_types", "max_depth", "include_size",
                                "include_permissions", "sort_by", "sort_desc"])
    assert listed(server, tree, **everything) == listed(server, tree)


def test_a_large_directory_in_little_memory(server, tmp_path):
    count = 30_000
    for i in range(count):
        os.mknod(tmp_path / f"{i:06}")
    before = server.reset_peak()
    data = good(server, "list", path=str(tmp_path))
    assert data["total_count"] == data["file_count"] == count and data["truncated"] is False
    assert [file["name"] for file in data["files"]] == [f"{i:06}" for i in range(count)]
    assert server.memory("VmHWM") - before < 32 * MIB


def test_more_than_deep(server, tmp_path):
    """Deeper than a path can be long."""
    fd = os.open(tmp_path, os.O_RDONLY)
    for _ in range(100):
        os.mkdir("d" * 100, dir_fd=fd)
        inner = os.open("d" * 100, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(fd)
    found = good(server, "list", path=str(tmp_path), recursive=True)["files"]
    assert 30 <= len(found) <= 100
    assert good(server, "list", path=str(tmp_path), recursive=True, max_depth=3)["total_count"] == 3
    os.system(f"rm -rf {tmp_path}/d*")
    assert names(tmp_path) == []


def test_the_whole_of_proc(server):
    """It changes all the time, has things nobody may see, and names that lead in circles."""
    data = good(server, "list", path="/proc", recursive=True, max_depth=4)
    assert data["total_count"] > 100 and data["total_count"] == len(data["files"])


@pytest.mark.concurrency
def test_a_directory_that_changes_meanwhile(server, tmp_path):
    stop = threading.Event()

    def change():
        while not stop.is_set():
            for i in range(50):
                (tmp_path / f"dir{i}").mkdir()
            for i in range(50):
                (tmp_path / f"dir{i}").rmdir()

    (tmp_path / "stays").touch()
    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(30):
            assert "stays" in listed(server, tmp_path, recursive=True)
    finally:
        stop.set()
        thread.join()


def test_times_before_the_epoch(server, tmp_path):
    path = tmp_path / "old"
    path.touch()
    os.utime(path, (-86400, -86400))
    assert stat.S_ISREG(path.stat().st_mode)
    [file] = good(server, "list", path=str(tmp_path))["files"]
    assert datetime.fromisoformat(file["modified_time"]) == datetime(1969, 12, 31, tzinfo=timezone.utc)


def test_a_time_that_no_calendar_has(server):
    """Some file systems, such as tmpfs, keep any number."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        os.chmod(folder, 0o755)
        for name, when in ("a", 9 * 10**16), ("b", 0):
            subprocess.run(["touch", "-d", f"@{when}", f"{folder}/{name}"], check=True, timeout=20)
        assert os.stat(f"{folder}/a").st_mtime == 9e16, "this file system does not"
        [a, b] = good(server, "list", path=folder)["files"]
        assert (a["modified_time"], b["modified_time"]) == (None, "1970-01-01T00:00:00.000000Z")
        [a, b] = good(server, "glob", path=folder, pattern="*")["files"]
        assert (a["modified_time"], b["modified_time"]) == (None, "1970-01-01T00:00:00.000000Z")


def test_the_sdk_lists(server, tree):
    box = Sandbox(base_url=server.url, httpx_client=server.client)
    result = box.file.list_path(path=str(tree), recursive=True, show_hidden=False, file_types=[".py"], max_depth=2,
                                include_size=True, include_permissions=True, sort_by="size", sort_desc=True)
    assert [file.name for file in result.data.files if not file.is_directory] == ["b.py", "x.py"]
    assert result.data.files[-1].permissions and result.data.directory_count == 2
    failure = box.file.list_path(path=str(tree / "no"))
    assert failure.success is False and failure.data.error_type == "not_found"
