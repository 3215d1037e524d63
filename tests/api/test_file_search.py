"""Files by their names: find and glob, in trees with all that trees have."""

import base64
import glob as python_glob
import os
import select
import shutil
import socket

import files
import pytest

from files import ask, bad, open_tree, tree  # noqa: F401
from harness import LEAN, eventually
from processes import ROOT_ONLY, cpu_seconds, tester  # noqa: F401

pytestmark = pytest.mark.server(env=LEAN)
FIND, GLOB = "find", "glob"


@pytest.fixture
def forest(tree):
    for path in ("a.py", "b.js", "sub/c.py", "sub/deep/d.py", "sub/deep/e.txt", ".hidden/f.py", ".env", "x.py/g.txt",
                 "sub/.dot.py", "sp ace/h.py", "[x]/i.py", "gr\u00fc\u00df.py", "new\nline.py", "empty/"):
        put(tree, path)
    return tree


def put(folder, path, content="x"):
    return files.put(folder, path, content)


def find(server, tree, glob, **more):
    data = ask(server, FIND, path=str(tree), glob=glob, **more)["data"]
    return [path.removeprefix(f"{tree}/") for path in data["files"]]


def glob(server, tree, pattern, **more):
    data = ask(server, GLOB, path=str(tree), pattern=pattern, **more)["data"]
    return [one["path"].removeprefix(f"{tree}/") for one in data["files"]]


# --- find --------------------------------------------------------------------------------------


def test_find_fields(server, forest):
    answer = ask(server, FIND, path=str(forest), glob="*.txt")
    assert answer["message"] == "Search completed, found 2 files" and answer["success"] is True
    assert answer["data"] == {"path": str(forest), "files": [f"{forest}/sub/deep/e.txt", f"{forest}/x.py/g.txt"],
                              "files_b64": [], "truncated": False}


@pytest.mark.parametrize("pattern, expected", [
    ("*.py", ["[x]/i.py", "a.py", "gr\u00fc\u00df.py", "new\nline.py", "sp ace/h.py", "sub/c.py", "sub/deep/d.py"]),
    ("**/*.py", ["[x]/i.py", "a.py", "gr\u00fc\u00df.py", "new\nline.py", "sp ace/h.py", "sub/c.py", "sub/deep/d.py"]),
    ("?.py", ["[x]/i.py", "a.py", "sp ace/h.py", "sub/c.py", "sub/deep/d.py"]), ("[a-c].*", ["a.py", "b.js", "sub/c.py"]),
    ("[!a-c].py", ["[x]/i.py", "sp ace/h.py", "sub/deep/d.py"]), ("*.{js,txt}", ["b.js", "sub/deep/e.txt", "x.py/g.txt"]),
    ("sub/*.py", ["sub/c.py"]), ("sub/**", ["sub/c.py", "sub/deep/d.py", "sub/deep/e.txt"]), (".*", [".env", "sub/.dot.py"]),
    (".env", [".env"]), (".hidden/*", [".hidden/f.py"]), ("a.py", ["a.py"]), ("nothing", []), ("sub", []), ("A.PY", []),
    ("gr\u00fc?.py", ["gr\u00fc\u00df.py"]), ("\\[x\\]/*", ["[x]/i.py"]), ("[x", []), ("./a.py", ["a.py"]), ("*/deep/*", [
        "sub/deep/d.py", "sub/deep/e.txt"]), ("**", [
            "[x]/i.py", "a.py", "b.js", "gr\u00fc\u00df.py", "new\nline.py", "sp ace/h.py", "sub/c.py", "sub/deep/d.py",
            "sub/deep/e.txt", "x.py/g.txt"]),
])
def test_find(server, forest, pattern, expected):
    assert find(server, forest, pattern) == expected


def test_find_absolute_pattern(server, forest):
    data = ask(server, FIND, path="/tmp", glob=f"{python_glob.escape(str(forest))}/sub/*.py")["data"]
    assert data["files"] == [f"{forest}/sub/c.py"] and data["path"] == "/tmp"


def test_find_relative_path(server):
    put(server.home, "here/f.xyz")
    assert ask(server, FIND, path=".", glob="*.xyz")["data"]["files"] == [str(server.home / "here/f.xyz")]
    assert ask(server, FIND, path="here", glob="*")["data"]["files"] == [str(server.home / "here/f.xyz")]


def test_find_special_files_and_links(server, tree):
    put(tree, "d/f")
    os.mkfifo(tree / "fifo")
    (tree / "loop").symlink_to(".")
    (tree / "d/up").symlink_to("..")
    (tree / "link").symlink_to("d/f")
    (tree / "broken").symlink_to("nowhere")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tree / "socket"))
    assert find(server, tree, "*") == ["broken", "d/f", "fifo", "link", "socket"]
    assert find(server, tree / "loop", "f") == ["d/f"]
    listener.close()


def test_find_names_of_all_kinds(server, tree):
    names = [b"bad\xff\xfe", b"x" * 255, b"'\"$(*)\\", b" "]
    for name in names:
        open(os.path.join(os.fsencode(tree), name), "w").close()
    os.mkdir(os.path.join(os.fsencode(tree), b"d\xff"))
    open(os.path.join(os.fsencode(tree), b"d\xff", b"inner"), "w").close()
    data = ask(server, FIND, path=str(tree), glob="*")["data"]
    assert len(data["files"]) == 5
    coded = [base64.b64decode(one) for one in data["files_b64"]]
    assert coded == [os.path.join(os.fsencode(tree), name) for name in (b"bad\xff\xfe", b"d\xff/inner")]
    folder = base64.b64encode(os.path.join(os.fsencode(tree), b"d\xff")).decode()
    data = ask(server, FIND, path="ignored", path_b64=folder, glob="*")["data"]
    assert base64.b64decode(data["files_b64"][0]).endswith(b"d\xff/inner")
    assert find(server, tree, "bad??") == ["bad\ufffd\ufffd"]


def test_find_failures(server, tree):
    error = bad(server, FIND, path=str(tree / "no"), glob="*")
    assert error["message"] == f"Failed to find files: [Errno 2] No such file or directory: '{tree}/no'"
    assert (error["operation"], error["error_type"], error["errno"], error["errno_name"], error["exception_type"],
            error["retryable"], error["path"]) == ("find", "not_found", 2, "ENOENT", "FileNotFoundError", False, f"{tree}/no")
    put(tree, "f")
    assert bad(server, FIND, path=str(tree / "f"), glob="*")["error_type"] == "invalid_target"
    for pattern in ("", "../*", "a/../b", "x" * 5000, "{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}", "a/" * 70 + "b",
                    "{" * 2000 + "a" + "}" * 2000, "{a}" * 1300):
        assert bad(server, FIND, path=str(tree), glob=pattern)["error_type"] == "invalid_pattern", pattern
    for body in ({}, {"path": "/"}, {"glob": "*"}, {"path": 1, "glob": "*"}, {"path": "/", "glob": None}):
        assert server.post(f"/v1/file/{FIND}", body).status_code == 422


def test_deep_trees(server, tree):
    """Deeper than a path can be long: what can be named is found, and there is an end."""
    here, depth = os.open(tree, os.O_RDONLY), 0
    try:
        for depth in range(60):
            os.mkdir("d" * 100, dir_fd=here)
            below = os.open("d" * 100, os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
            os.close(os.open("leaf", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    finally:
        os.close(here)
    found = find(server, tree, "leaf")
    assert 35 <= len(found) < 60 and max(map(len, found)) < 4096
    # Removed from the top: no path leads to the bottom.
    shutil.rmtree(tree)


# --- glob --------------------------------------------------------------------------------------


def test_glob_fields(server, tree):
    put(tree, "sub/a.py", "hello")
    os.utime(tree / "sub/a.py", (1700000000, 1700000000.25))
    answer = ask(server, GLOB, path=str(tree), pattern="**/*.py")
    assert answer["data"] == {
        "path": str(tree), "pattern": "**/*.py", "total_count": 1, "truncated": False, "files": [
            {"path": f"{tree}/sub/a.py", "name": "a.py", "is_directory": False, "size": 5,
             "modified_time": "2023-11-14T22:13:20.250000Z", "path_b64": None}]}
    answer = ask(server, GLOB, path=str(tree), pattern="**/*.py", include_metadata=False)
    assert answer["data"]["files"][0]["size"] is None and answer["data"]["files"][0]["modified_time"] is None


@pytest.mark.parametrize("pattern", [
    "*", "*.py", "**/*.py", "**", "sub/**", "sub/*", "*/*", "**/deep/**", "?.js", "[ab].*", "x.py/*", "sub/deep", ".*", "**/.*",
    ".hidden/*", "nothing", "**/d*", "sub/**/*.py", "*/**/*.txt", "gr*", "new*", "./*.js", "**/**/e.txt",
])
@pytest.mark.parametrize("files_only", [True, False])
def test_glob_is_what_python_says(server, forest, pattern, files_only):
    expected = {os.path.normpath(path) for path in python_glob.glob(pattern, root_dir=forest, recursive=True) if path}
    expected.discard(".")
    if files_only:
        expected = {path for path in expected if not (forest / path).is_dir()}
    assert glob(server, forest, pattern, files_only=files_only) == sorted(expected)


def test_glob_hidden(server, forest):
    everything = glob(server, forest, "**", include_hidden=True)
    assert everything == sorted(str(path.relative_to(forest)) for path in forest.rglob("*") if not path.is_dir())
    assert glob(server, forest, "**/*.py", include_hidden=True) == [
        path for path in everything if path.endswith(".py")]
    assert ".hidden/f.py" in everything and "sub/.dot.py" in everything


def test_glob_exclude(server, forest):
    assert glob(server, forest, "**/*.py", exclude=["sub"]) == [
        "[x]/i.py", "a.py", "gr\u00fc\u00df.py", "new\nline.py", "sp ace/h.py"]
    assert glob(server, forest, "**/*.py", exclude=["sub/*.py", "?.py", "*\n*"]) == ["gr\u00fc\u00df.py"]
    assert glob(server, forest, "**", exclude=["*"]) == []
    assert glob(server, forest, "*", exclude=None) == glob(server, forest, "*", exclude=[])


def test_glob_order(server, tree):
    for i, (name, size) in enumerate([("b/z", 3), ("a", 1), ("c", 2), ("b/a", 3)]):
        os.utime(put(tree, name, "x" * size), (1000 - i, 1000 - i))
    assert glob(server, tree, "**") == ["a", "b/a", "b/z", "c"]
    assert glob(server, tree, "**", sort_desc=True) == ["c", "b/z", "b/a", "a"]
    assert glob(server, tree, "**", sort_by="name") == ["a", "b/a", "c", "b/z"]
    assert glob(server, tree, "**", sort_by="size") == ["a", "c", "b/a", "b/z"]
    assert glob(server, tree, "**", sort_by="size", sort_desc=True, include_metadata=False) == ["b/z", "b/a", "c", "a"]
    assert glob(server, tree, "**", sort_by="modified") == ["b/a", "c", "a", "b/z"]
    assert glob(server, tree, "**", sort_by=None, max_results=None, files_only=None) == ["a", "b/a", "b/z", "c"]
    assert bad(server, GLOB, path=str(tree), pattern="*", sort_by="colour")["exception_type"] == "ValueError"


def test_glob_limit(server, tree):
    for i in range(3000):
        (tree / f"{(i * 7919) % 3000:04}").touch()
    data = ask(server, GLOB, path=str(tree), pattern="*", max_results=10)["data"]
    assert data["total_count"] == 3000 and data["truncated"] is True
    assert [one["name"] for one in data["files"]] == [f"{i:04}" for i in range(10)]
    data = ask(server, GLOB, path=str(tree), pattern="*", max_results=10, sort_desc=True)["data"]
    assert [one["name"] for one in data["files"]] == [f"{i:04}" for i in range(2999, 2989, -1)]
    data = ask(server, GLOB, path=str(tree), pattern="*", max_results=3000)["data"]
    assert len(data["files"]) == 3000 and data["truncated"] is False
    for most in (0, 50001, "many"):
        assert server.post(f"/v1/file/{GLOB}", {"path": str(tree), "pattern": "*", "max_results": most}).status_code == 422


def test_glob_through_links(server, tree):
    """As a shell would, one level at a time; ** does not follow them."""
    put(tree, "real/f.txt")
    (tree / "link").symlink_to("real")
    (tree / "loop").symlink_to(".")
    assert glob(server, tree, "link/*.txt") == ["link/f.txt"]
    assert glob(server, tree, "*/*.txt") == ["link/f.txt", "real/f.txt"]
    assert glob(server, tree, "loop/loop/link/*") == ["loop/loop/link/f.txt"]
    assert glob(server, tree, "**/*.txt") == ["real/f.txt"]
    data = ask(server, GLOB, path=str(tree), pattern="*", files_only=False)["data"]
    assert [(one["name"], one["is_directory"]) for one in data["files"]] == [("link", True), ("loop", True), ("real", True)]


def test_glob_failures(server, tree):
    assert bad(server, GLOB, path=str(tree / "no"), pattern="*")["error_type"] == "not_found"
    put(tree, "f")
    error = bad(server, GLOB, path=str(tree / "f"), pattern="*")
    assert (error["operation"], error["error_type"], error["exception_type"]) == ("glob", "invalid_target", "NotADirectoryError")
    assert bad(server, GLOB, path="", pattern="*")["error_type"] == "invalid_path"
    assert bad(server, GLOB, path=str(tree), pattern="*", exclude=[".."])["error_type"] == "invalid_pattern"


def test_only_what_can_match_is_read(server):
    """A pattern with a beginning does not walk the whole machine."""
    start = cpu_seconds(server)
    data = ask(server, GLOB, path="/", pattern="etc/host*")["data"]
    assert "/etc/hostname" in [one["path"] for one in data["files"]] or data["total_count"] > 0
    assert cpu_seconds(server) - start < 0.5


def test_not_into_proc(server):
    assert ask(server, FIND, path="/", glob="/proc/**/meminfo")["data"]["files"] == []
    assert ask(server, FIND, path="/", glob="/proc/meminf?")["data"]["files"] == ["/proc/meminfo"]
    assert ask(server, FIND, path="/proc", glob="self/status")["data"]["files"] == ["/proc/self/status"]
    assert ask(server, GLOB, path="/proc", pattern="**/meminfo", exclude=["[0-9]*"])["data"]["total_count"] == 1


@ROOT_ONLY
def test_rights(start_server, open_tree, tester):
    server, tree = start_server(["--user", tester]), open_tree
    put(tree, "open/f")
    put(tree, "secret/f").parent.chmod(0o700)
    assert find(server, tree, "f") == ["open/f"] == glob(server, tree, "**/f")
    assert find(server, tree, "f", sudo=True) == ["open/f", "secret/f"] == glob(server, tree, "*/f", sudo=True)
    error = bad(server, FIND, path=str(tree / "secret"), glob="*")
    assert (error["error_type"], error["errno_name"], error["exception_type"]) == (
        "permission_denied", "EACCES", "PermissionError")


def test_client_leaves(server, tree):
    """A walk over all there is ends when nobody wants to know."""
    assert server.settle()
    idle = server.threads()

    def leaves():
        """Whether the walk was seen before it was over."""
        with server.begin(f"/v1/file/{FIND}", path="/", glob="**/*[a-z]*[0-9]*x*y*z*q", sudo=False) as peer:
            eventually(lambda: "/" in server._links() or select.select([peer.sock], [], [], 0)[0])
            seen = "/" in server._links() and not select.select([peer.sock], [], [], 0)[0]
            peer.reset()
            return seen

    assert eventually(leaves), "it never began"
    assert eventually(lambda: "/" not in server._links() and server.threads() <= idle)
