"""Text in files: the same answers from ripgrep and without it, in trees with all that trees have."""

import base64
import os
import shutil
import socket
import subprocess

import files
import pytest

from files import ask, open_tree, tree, unmount  # noqa: F401
from harness import LEAN, eventually
from processes import ROOT_ONLY, below, comm, cpu_seconds, gone, tester  # noqa: F401

GREP, SEARCH = "grep", "search"
RG = shutil.which("rg")
NO_RG = {**LEAN, "PATH": "/nonexistent"}
with_rg = pytest.mark.skipif(not RG, reason="NOT TESTED: needs ripgrep")


@pytest.fixture(scope="module")
def servers(start_shared):
    """One that has ripgrep, if there is one, and one that has not."""
    return [start_shared(env=LEAN), start_shared(env=NO_RG)] if RG else [start_shared(env=NO_RG)]


@pytest.fixture(scope="module")
def server(servers):
    return servers[-1]


def grep(servers, path, pattern, **more):
    """What all of them answer."""
    answers = [ask(server, GREP, path=str(path), pattern=pattern, **more) for server in servers]
    for answer in answers:
        assert answer["success"] is True, answer
    answers[-1]["data"]["files_searched"] = answers[0]["data"]["files_searched"]  # which ripgrep does not tell
    for answer in answers[1:]:
        assert answer == answers[0]
    return answers[0]["data"]


def refused(servers, what=GREP, **body):
    """What all of them answer: the same type of error."""
    answers = [files.bad(server, what, **body) for server in servers]
    assert len({answer["error_type"] for answer in answers}) == 1
    return answers[-1]


def lines(data):
    base = data["path"].rstrip("/") + "/"
    return [(m["file"].removeprefix(base), m["line_number"], m["line_content"]) for m in data["matches"]]


def files_of(data):
    return sorted({path for path, _, _ in lines(data)})


def put(folder, path, content="needle\n"):
    return files.put(folder, path, content)


# --- matches -----------------------------------------------------------------------------------


def test_fields(servers, server, tree):
    put(tree, "b.txt", "one\nthe needle here\nthree\n")
    put(tree, "a/c.txt", "needle")
    put(tree, "a.txt", "nothing\n")
    answer = ask(servers[0], GREP, path=str(tree), pattern="needle")
    assert answer["message"] == "Search completed, found 2 matches" and answer["hint"] is None
    data = ask(server, GREP, path=str(tree), pattern="needle")["data"]
    assert {**data, "files_searched": None} == grep(servers, tree, "needle")
    assert data == {
        "path": str(tree), "pattern": "needle", "match_count": 2, "files_searched": 3, "files_matched": 2,
        "truncated": False, "matches": [
            {"file": str(tree / "a/c.txt"), "line_number": 1, "line_content": "needle", "context_before": None,
             "context_after": None, "line_truncated": False, "path_b64": None},
            {"file": str(tree / "b.txt"), "line_number": 2, "line_content": "the needle here", "context_before": None,
             "context_after": None, "line_truncated": False, "path_b64": None}]}


@pytest.mark.parametrize("pattern, options, expected", [
    ("fo+", {}, [1, 2, 3]), ("FOO", {}, [4]), ("FOO", {"case_insensitive": True}, [1, 2, 3, 4]),
    ("f.o", {"fixed_strings": True}, [5]), ("F.O", {"fixed_strings": True, "case_insensitive": True}, [5]),
    ("^foo$", {}, [1, 3]), ("foo bar|x=\\d+", {}, [2, 6]), ("\\bbar\\b", {}, [2]), ("(?i)foo", {}, [1, 2, 3, 4]),
    ("[[:digit:]]{2}", {}, [6]), ("gr\u00fc\u00df", {}, [7]), ("GR\u00dc", {"case_insensitive": True}, [7]),
    ("gr.\u00df", {}, [7]), ("\\w+\u00df", {}, [7]), ("^$", {}, [8]), ("", {}, [1, 2, 3, 4, 5, 6, 7, 8, 9]),
    ("\\s$", {}, [9]), ("-e", {"fixed_strings": True}, []), ("nothing like it", {}, []), ("foo\\s+x=", {}, []),
    ("foo\n", {"fixed_strings": True}, []), ("foo(?= bar)", {}, [2]), ("(o)\\1$", {}, [1, 3]), ("\u20ac", {}, []),
])
def test_patterns(servers, tree, pattern, options, expected):
    put(tree, "f", "foo\nfoo bar\nfoo\nFOO\nf.o\nx=42\ngr\u00fc\u00df\n\nend \n")
    assert [number for _, number, _ in lines(grep(servers, tree, pattern, **options))] == expected
    assert [number for _, number, _ in lines(grep(servers, tree / "f", pattern, **options))] == expected


def test_pattern_that_looks_like_an_option(servers, tree):
    put(tree, "f", "a --files b\n-v\n")
    assert lines(grep(servers, tree, "--files")) == [("f", 1, "a --files b")]
    assert lines(grep(servers, tree, "-v")) == [("f", 2, "-v")]
    (tree / "--json").write_text("needle\n")
    assert lines(grep(servers, tree, "needle")) == [("--json", 1, "needle")]


def test_context(servers, tree):
    put(tree, "f", "".join(f"line {i}{' X' if i in (1, 4, 5, 9) else ''}\n" for i in range(1, 10)))
    data = grep(servers, tree, "X", context_before=2, context_after=1)
    assert [(m["line_number"], m["context_before"], m["context_after"]) for m in data["matches"]] == [
        (1, [], ["line 2"]), (4, ["line 2", "line 3"], ["line 5 X"]), (5, ["line 3", "line 4 X"], ["line 6"]),
        (9, ["line 7", "line 8"], [])]
    data = grep(servers, tree, "X", context_before=20, context_after=20, max_results=1)
    assert data["matches"][0]["context_before"] == [] and len(data["matches"][0]["context_after"]) == 8
    assert data["truncated"] is True
    data = grep(servers, tree, "X", context_after=3)
    assert data["matches"][0]["context_before"] is None
    assert data["matches"][0]["context_after"] == ["line 2", "line 3", "line 4 X"]


def test_multiline(servers, tree):
    put(tree, "f", "a begin\nmiddle\nend b\nbegin\nnot\n\nx begin end y\nlast begin\nend")
    data = grep(servers, tree, "begin.*?end", multiline=True, context_before=1, context_after=1)
    found = [(m["line_number"], m["line_content"], m["context_before"], m["context_after"]) for m in data["matches"]]
    assert found[0][:2] == (1, "a begin\nmiddle\nend b\nbegin\nnot\n\nx begin end y\nlast begin\nend")
    put(tree, "f", "a begin\nmiddle\nend b\nbreak\nx begin end y\n\nbegin\nend")
    data = grep(servers, tree, "begin.*?end", multiline=True, context_before=1, context_after=1)
    found = [(m["line_number"], m["line_content"], m["context_before"], m["context_after"]) for m in data["matches"]]
    assert found == [(1, "a begin\nmiddle\nend b", [], ["break"]), (5, "x begin end y", ["break"], [""]),
                     (7, "begin\nend", [""], [])]
    assert grep(servers, tree, "begin.*?end")["match_count"] == 1
    assert [n for _, n, _ in lines(grep(servers, tree, "^b", multiline=True))] == [4, 7]


def test_line_endings(servers, tree):
    put(tree, "crlf", "one\r\ntwo needle\r\nneedle\r\nfour")
    put(tree, "none", "needle")
    put(tree, "empty", "")
    put(tree, "newlines", "\n\n\n")
    assert lines(grep(servers, tree, "needle$")) == [("crlf", 2, "two needle"), ("crlf", 3, "needle"), ("none", 1, "needle")]
    data = grep(servers, tree, "^needle$", context_before=1, context_after=1)
    assert data["matches"][0]["context_before"] == ["two needle"] and data["matches"][0]["context_after"] == ["four"]
    assert [n for _, n, _ in lines(grep(servers, tree / "newlines", "^$"))] == [1, 2, 3]
    assert grep(servers, tree / "empty", "^$")["match_count"] == 0


def test_encodings(servers, tree):
    put(tree, "utf16le", b"\xff\xfe" + "a n\u00e9edle\nb\n".encode("utf-16-le"))
    put(tree, "utf16be", b"\xfe\xff" + "n\u00e9edle".encode("utf-16-be"))
    put(tree, "bom", b"\xef\xbb\xbfn\xc3\xa9edle\n")
    put(tree, "latin1", "caf\u00e9 n\u00e9edle needle\n".encode("latin-1"))
    assert lines(grep(servers, tree, "n\u00e9edle")) == [
        ("bom", 1, "n\u00e9edle"), ("utf16be", 1, "n\u00e9edle"), ("utf16le", 1, "a n\u00e9edle")]
    assert lines(grep(servers, tree, "^n\u00e9")) == [("bom", 1, "n\u00e9edle"), ("utf16be", 1, "n\u00e9edle")]
    assert lines(grep(servers, tree, "needle")) == [("latin1", 1, "caf\ufffd n\ufffdedle needle")]


def test_binary_files_are_passed_over(servers, tree):
    put(tree, "image", b"needle\n\0\1\2needle\n")
    put(tree, "late", b"needle\n" * 30000 + b"\0")
    put(tree, "text", "needle\n")
    assert lines(grep(servers, tree, "needle")) == [("text", 1, "needle")]
    assert grep(servers, tree / "image", "needle")["matches"] == []


def test_huge_lines(servers, tree):
    put(tree, "min.js", "a" * 300000 + "needle" + "b" * 300000 + "\nnext\n")
    put(tree, "euro", "\u20ac" * 5000 + "needle\n")
    data = grep(servers, tree, "needle", context_after=1)
    for match in data["matches"]:
        assert match["line_truncated"] is True and "needle" in match["line_content"]
        assert len(match["line_content"].encode()) <= 8192 and "\ufffd" not in match["line_content"]
    assert data["matches"][1]["context_after"] == ["next"]
    data = grep(servers, tree, "next", context_before=1)
    assert data["matches"][0]["context_before"] == ["a" * 8192]


def test_file_size(servers, tree):
    put(tree, "big", "needle\n" + "x" * (1 << 20))
    put(tree, "exact", "needle\n" + "x" * ((1 << 20) - 7))
    put(tree, "small", "needle\n")
    assert files_of(grep(servers, tree, "needle")) == ["exact", "small"]
    assert files_of(grep(servers, tree, "needle", max_file_size="2M")) == ["big", "exact", "small"]
    assert files_of(grep(servers, tree, "needle", max_file_size="7")) == ["small"]
    assert files_of(grep(servers, tree, "needle", max_file_size="1k")) == ["small"]
    assert files_of(grep(servers, tree, "needle", max_file_size="1GB")) == ["big", "exact", "small"]
    answer = ask(servers[0], GREP, path=str(tree / "big"), pattern="needle")
    assert answer["data"]["matches"] == [] and "max_file_size" in answer["hint"]
    for size in ("", "M", "1X", "-1", "1 M", "1.5M", "99999999999999999999"):
        assert refused(servers, path=str(tree), pattern="x", max_file_size=size)["exception_type"] == "ValueError"


# --- which files -------------------------------------------------------------------------------


@pytest.fixture
def forest(tree):
    for path in ("a.py", "b.js", "sub/c.py", "sub/deep/d.py", "sub/e.min.js", "node_modules/x/f.js", ".hidden/g.py", ".env",
                 ".git/config", "sub/.git/HEAD", "README.md", "sub/node_modules", "[x]/h.py", "sp ace/i.py", "Makefile",
                 "gr\u00fc\u00df.py", "b!c.txt", "#x.txt", "sub/j.pyi"):
        put(tree, path)
    return tree


@pytest.mark.parametrize("options, expected", [
    ({}, [".env", ".hidden/g.py", "#x.txt", "Makefile", "README.md", "[x]/h.py", "a.py", "b!c.txt", "b.js",
          "gr\u00fc\u00df.py", "node_modules/x/f.js", "sp ace/i.py", "sub/c.py", "sub/deep/d.py", "sub/e.min.js", "sub/j.pyi",
          "sub/node_modules"]),
    ({"include": ["*.js"]}, ["b.js", "node_modules/x/f.js", "sub/e.min.js"]),
    ({"include": ["*.js"], "exclude": ["node_modules"]}, ["b.js", "sub/e.min.js"]),
    ({"include": ["*.{js,md}"], "exclude": ["*.min.js", "node_modules/"]}, ["README.md", "b.js"]),
    ({"exclude": ["*.py", "*.js", ".*", "sub"]}, ["#x.txt", "Makefile", "README.md", "b!c.txt"]),
    ({"include": ["sub/**/*.py"]}, ["sub/c.py", "sub/deep/d.py"]), ({"include": ["sub/*.py"]}, ["sub/c.py"]),
    ({"include": ["/a.py"]}, ["a.py"]), ({"include": ["?.py"]}, [".hidden/g.py", "[x]/h.py", "a.py", "sp ace/i.py", "sub/c.py",
                                                              "sub/deep/d.py"]),
    ({"include": ["[ab].*"]}, ["a.py", "b.js"]), ({"include": ["[!a-c].py"], "exclude": ["[gh].py"]}, ["sp ace/i.py", "sub/deep/d.py"]),
    ({"include": ["gr??.py"]}, ["gr\u00fc\u00df.py"]), ({"include": ["gr[\u00fc]\u00df.py"]}, ["gr\u00fc\u00df.py"]),
    ({"include": ["\\[x\\]/*"]}, ["[x]/h.py"]), ({"include": ["b!c.txt", "#x.txt"]}, ["#x.txt", "b!c.txt"]),
    ({"include": ["!a.py"]}, []), ({"include": ["sp ace/*"]}, ["sp ace/i.py"]), ({"include": ["*.py"], "exclude": ["**"]}, []),
    ({"type": "py"}, [".hidden/g.py", "[x]/h.py", "a.py", "gr\u00fc\u00df.py", "sp ace/i.py", "sub/c.py", "sub/deep/d.py",
                      "sub/j.pyi"]),
    ({"type": "md"}, ["README.md"]), ({"type": "make"}, ["Makefile"]),
    ({"type": "py", "include": ["sub/**", "b.js"]}, ["sub/c.py", "sub/deep/d.py", "sub/j.pyi"]),
    ({"type": "js", "exclude": ["node_modules"]}, ["b.js", "sub/e.min.js"]),
    ({"recursive": False, "type": "py"}, ["a.py", "gr\u00fc\u00df.py"]), ({"recursive": False, "include": ["sub/*"]}, []),
    ({"include": None, "exclude": None, "type": None, "max_results": None, "recursive": False, "offset": None},
     [".env", "#x.txt", "Makefile", "README.md", "a.py", "b!c.txt", "b.js", "gr\u00fc\u00df.py"]),
])
def test_which_files(servers, forest, options, expected):
    answers = [ask(server, GREP, path=str(forest), pattern="needle", **options)["data"] for server in servers]
    for data in answers:
        assert files_of(data) == sorted(expected)
        assert data["match_count"] == data["files_matched"] == len(expected)
        paths = [path for path, _, _ in lines(data)]
        assert paths == sorted(paths, key=lambda path: path.split("/"))


def test_inside_what_is_passed_over(servers, forest):
    assert files_of(grep(servers, forest / ".git", "needle")) == ["config"]
    assert grep(servers, forest / "sub/.git/HEAD", "needle")["match_count"] == 1


def test_ignore_files_have_no_say(servers, tree):
    put(tree, ".gitignore", "*.log\n")
    put(tree, ".ignore", "*.txt\n")
    put(tree, "a.log")
    put(tree, "b.txt")
    subprocess.run(["git", "init", "-q", tree], capture_output=True)
    assert files_of(grep(servers, tree, "needle")) == ["a.log", "b.txt"]


def test_unknown_type(servers, tree):
    error = refused(servers, path=str(tree), pattern="x", type="klingon")
    assert error["error_type"] == "invalid_pattern" and "klingon" in error["message"]


def test_names_of_all_kinds(servers, tree):
    names = [b"with space", b"new\nline", b"bad\xff\xfe", b"x" * 255, b"'\"$(*)\\", b"-"]
    for name in names:
        with open(os.path.join(os.fsencode(tree), name), "w") as file:
            file.write("needle\n")
    data = grep(servers, tree, "needle")
    told = [base64.b64decode(m["path_b64"]) if m["path_b64"] else m["file"].encode() for m in data["matches"]]
    assert sorted(told) == sorted(os.path.join(os.fsencode(tree), name) for name in names)
    bad = base64.b64encode(os.path.join(os.fsencode(tree), names[2])).decode()
    assert grep(servers, "ignored", "needle", path_b64=bad)["match_count"] == 1


def test_special_files_and_links(servers, tree):
    put(tree, "real")
    os.mkfifo(tree / "fifo")
    (tree / "link").symlink_to("real")
    (tree / "loop").symlink_to(".")
    (tree / "broken").symlink_to("nowhere")
    (tree / "zero").symlink_to("/dev/zero")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tree / "socket"))
    assert files_of(grep(servers, tree, "needle")) == ["real"]
    assert grep(servers, tree / "link", "needle")["match_count"] == 1
    assert files_of(grep(servers, tree / "loop", "needle")) == ["real"]
    listener.close()
    for path in (tree / "fifo", tree / "socket", "/dev/zero", tree / "zero"):
        assert refused(servers, path=str(path), pattern="x")["error_type"] == "invalid_target"


@ROOT_ONLY
def test_not_into_proc(servers, tree):
    put(tree, "f")
    (tree / "pr oc").mkdir()
    if subprocess.run(["mount", "-t", "proc", "none", tree / "pr oc"], capture_output=True).returncode:
        pytest.skip("NOT TESTED: cannot mount")
    try:
        data = grep(servers, tree, "")
        assert files_of(data) == ["f"]
        data = grep(servers, tree / "pr oc", "^MemTotal", include=["/meminfo"], exclude=["[0-9]*"], recursive=False)
        assert data["match_count"] == 1
    finally:
        unmount(tree / "pr oc")


def test_a_file_of_proc(servers, tree):
    data = grep(servers, "/proc/meminfo", "^MemTotal:")
    assert [m["line_number"] for m in data["matches"]] == [1]


def test_failures(servers, tree):
    error = refused(servers, path=str(tree / "nothing"), pattern="x")
    assert error == {"path": str(tree / "nothing"), "operation": "grep", "error_type": "not_found", "errno": 2,
                     "errno_name": "ENOENT", "exception_type": "FileNotFoundError", "retryable": False,
                     "message": f"Failed to grep: [Errno 2] No such file or directory: '{tree}/nothing'",
                     **{key: error[key] for key in set(error) - {"path", "operation", "error_type", "errno", "errno_name",
                                                               "exception_type", "retryable", "message"}}}
    put(tree, "f")
    assert refused(servers, path=str(tree / "f/x"), pattern="x")["error_type"] == "invalid_target"
    assert refused(servers, path="", pattern="x")["error_type"] == "invalid_path"
    assert refused(servers, path=str(tree), pattern="x", include=["../*"])["error_type"] == "invalid_pattern"


@pytest.mark.parametrize("body", [
    {}, {"path": "/tmp"}, {"pattern": "x"}, {"path": "/tmp", "pattern": "x", "context_before": 21},
    {"path": "/tmp", "pattern": "x", "context_after": -1}, {"path": "/tmp", "pattern": "x", "max_results": 0},
    {"path": "/tmp", "pattern": "x", "max_results": 10001}, {"path": "/tmp", "pattern": "x", "offset": -1},
    {"path": "/tmp", "pattern": "x", "include": "*.py"}, {"path": "/tmp", "pattern": "x" * 32769},
    {"path": "/tmp", "pattern": "a\0b"}, {"path": "/tmp", "pattern": "x", "include": ["*"] * 1001},
])
def test_bad_request(server, body):
    assert server.post(f"/v1/file/{GREP}", body).status_code == 422


# --- patterns that are none, or never end ------------------------------------------------------


@pytest.mark.parametrize("pattern", ["(", "[a", "a{2,1}", "*", "\\", "(?<n", "(?P<1>x)", "\\p{Klingon}", "(?z)"])
def test_invalid_pattern(servers, tree, pattern):
    put(tree, "f")
    error = refused(servers, path=str(tree), pattern=pattern)
    assert error["error_type"] == "invalid_pattern" and "regular expression is not valid" in error["message"]
    error = refused(servers, SEARCH, file=str(tree / "f"), regex=pattern)
    assert error["error_type"] == "invalid_pattern" and error["retryable"] is False


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "^(([a-z])+.)+[A-Z]([a-z])+$", "(?=(a+)+$).", "(a+)+\\1$"])
def test_catastrophic_pattern(servers, tree, pattern):
    """ripgrep has no trouble with those it understands; without it there is an end, soon."""
    put(tree, "f", "a" * 5000 + "!\n")
    start = cpu_seconds(servers[-1])
    error = refused(servers[-1:], path=str(tree), pattern=pattern)
    assert error["error_type"] == "invalid_pattern" and "too many steps" in error["message"]
    assert refused(servers[-1:], SEARCH, file=str(tree / "f"), regex=pattern)["error_type"] == "invalid_pattern"
    assert cpu_seconds(servers[-1]) - start < 30
    for server in servers[:-1]:
        assert ask(server, GREP, path=str(tree), pattern=pattern)["success"] is ("?=" not in pattern and "\\1" not in pattern)


def test_large_repetition(servers, tree):
    put(tree, "f", "x\n")
    for pattern in ("(a{1000}){1000}", "((a{100}){100}){100}", "(" * 300 + "a" + ")" * 300):
        for server in servers:
            answer = ask(server, GREP, path=str(tree), pattern=pattern)
            assert answer["success"] is False or answer["data"]["matches"] == []


# --- pages and limits --------------------------------------------------------------------------


def test_pages(servers, tree):
    for i in range(30):
        put(tree, f"d{i % 3}/f{i:02}", "needle\n" * (i % 5))
    everything = grep(servers, tree, "needle")
    assert everything["match_count"] == 60 and everything["truncated"] is False
    pages, offset = [], 0
    while True:
        page = grep(servers, tree, "needle", max_results=7, offset=offset)
        assert page["match_count"] == 60 and page["files_matched"] == everything["files_matched"]
        pages += page["matches"]
        offset += len(page["matches"])
        assert page["truncated"] is (offset < 60)
        if not page["truncated"]:
            break
    assert pages == everything["matches"]
    assert grep(servers, tree, "needle", offset=60)["matches"] == []
    assert grep(servers, tree, "needle", offset=10**15)["matches"] == []


def test_default_limit(servers, tree):
    put(tree, "f", "needle\n" * 700)
    data = grep(servers, tree, "needle")
    assert len(data["matches"]) == 500 and data["match_count"] == 700 and data["truncated"] is True


def test_many_matches_stay_in_order(servers, tree):
    """More than are kept at a time: the first by path, though found in any order."""
    for i in range(400):
        put(tree, f"{i % 20:02}/{i:03}", "needle\n" * 50)
    data = grep(servers, tree, "needle", max_results=1000)
    paths = sorted(f"{i % 20:02}/{i:03}" for i in range(400))
    assert [path for path, _, _ in lines(data)] == [path for path in paths for _ in range(50)][:1000]
    assert data["match_count"] == 20000


def test_endless_matches(servers, tree):
    """A million matches are enough, and little of it is kept."""
    put(tree, "f", "x\n" * 1200000)
    for server in servers:
        server.reset_peak()
        before = server.memory()
        answer = ask(server, GREP, path=str(tree), pattern="x", max_file_size="10M", max_results=10)
        assert answer["data"]["truncated"] is True and len(answer["data"]["matches"]) == 10
        assert answer["data"]["match_count"] >= 1000000 and "too many matches" in answer["hint"]
        assert server.memory("VmHWM") - before < 60 << 20
        assert eventually(lambda: not server.children())


def test_much_text(servers, tree):
    """Long lines with much context: an answer of some size, whole."""
    put(tree, "f", "".join(f"{i:04}{'y' * 4000}\n" for i in range(200)))
    data = grep(servers, tree, "^0", context_before=20, context_after=20)
    assert data["match_count"] == 200 and data["truncated"] is False
    assert sum(len(m["context_before"]) for m in data["matches"]) == 200 * 20 - 210


# --- leaving -----------------------------------------------------------------------------------


def leaves(server, tree, pattern, busy):
    with server.begin(f"/v1/file/{GREP}", path=str(tree), pattern=pattern, max_file_size="1G") as peer:
        found = eventually(busy)
        assert found, "it never began"
        peer.reset()
    return found


@with_rg
def test_client_leaves_ripgrep(servers, tree, tmp_path, start_server):
    """A ripgrep that never ends, with a child: both are gone when the client is."""
    fake = tmp_path / "bin"
    fake.mkdir()
    (fake / "rg").write_text("#!/bin/sh\nsleep 1000 &\nwait\n")
    (fake / "rg").chmod(0o755)
    server = start_server(env={**LEAN, "PATH": f"{fake}:/usr/bin:/bin"})
    started = leaves(server, tree, "x", lambda: [pid for pid in below(server) if comm(pid) == "sleep"])
    assert eventually(lambda: not server.children()) and gone(*started)


def test_client_leaves_pcre(servers, tree):
    server = servers[-1]
    for i in range(20):  # minutes of work
        put(tree, f"f{i}", ("a" * 24 + "b\n") * 2000)
    reading = lambda: any(str(tree) in link for link in server._links())  # noqa: E731
    leaves(server, tree, "(a|aa)+$", reading)
    assert eventually(lambda: not reading())


@with_rg
@pytest.mark.parametrize("script", [
    "echo not json", "exit 2", "kill -9 $$", "printf '{\"type\":\"begin\"'", "echo '{}'; exit 0", "exit 0",
    "yes '{\"type\":\"match\",\"data\":{\"lines\":{\"text\":\"x\"},\"line_number\":1}}' | head -100; exit 2",
])
def test_ripgrep_that_is_broken(tree, tmp_path, start_server, script):
    """What a broken ripgrep says is not believed; PCRE2 answers, or the failure is told."""
    put(tree, "f")
    fake = tmp_path / "bin"
    fake.mkdir()
    (fake / "rg").write_text(f"#!/bin/sh\n{script}\n")
    (fake / "rg").chmod(0o755)
    server = start_server(env={**LEAN, "PATH": f"{fake}:/usr/bin:/bin"})
    answer = ask(server, GREP, path=str(tree), pattern="needle")
    if "kill" in script:
        assert answer["success"] is False and answer["data"]["error_type"] == "io_error"
    else:
        assert files_of(answer["data"]) == ["f"]


# --- rights ------------------------------------------------------------------------------------


@ROOT_ONLY
@pytest.mark.parametrize("env", [pytest.param(LEAN, marks=with_rg), NO_RG])
def test_rights(start_server, open_tree, tester, env):
    server, tree = start_server(["--user", tester], env=env), open_tree
    put(tree, "open/f")
    put(tree, "secret/f").parent.chmod(0o700)
    put(tree, "file").chmod(0o600)
    data = ask(server, GREP, path=str(tree), pattern="needle")["data"]
    assert files_of(data) == ["open/f"]
    data = ask(server, GREP, path=str(tree), pattern="needle", sudo=True)["data"]
    assert files_of(data) == ["file", "open/f", "secret/f"]
    error = refused([server], path=str(tree / "file"), pattern="needle")
    assert (error["error_type"], error["errno_name"]) == ("permission_denied", "EACCES")
    error = refused([server], path=str(tree / "secret"), pattern="needle")
    assert error["error_type"] == "permission_denied"
    error = refused([server], SEARCH, file=str(tree / "file"), regex="needle")
    assert error["error_type"] == "permission_denied"
    assert ask(server, SEARCH, file=str(tree / "file"), regex="needle", sudo=True)["data"]["matches"] == ["needle"]


# --- search ------------------------------------------------------------------------------------


def test_search(server, tree):
    file = put(tree, "f.py", "import os\r\n\r\ndef main():\r\n    return os\r\n")
    answer = ask(server, SEARCH, file=str(file), regex="os$")
    assert answer["message"] == "Search completed, found 2 matches"
    assert answer["data"] == {"file": str(file), "matches": ["import os", "    return os"], "line_numbers": [1, 4],
                              "truncated": False}
    assert ask(server, SEARCH, path=str(file), regex="^def (?=main)")["data"]["line_numbers"] == [3]
    answer = ask(server, SEARCH, file=str(file), regex="nothing")
    assert answer["success"] is True and answer["data"]["matches"] == [] and answer["message"].endswith("found 0 matches")


def test_search_relative_path(server):
    put(server.home, "here.txt", "needle\n")
    assert ask(server, SEARCH, file="here.txt", regex="needle")["data"]["file"] == str(server.home / "here.txt")
    assert ask(server, GREP, path=".", pattern="needle", include=["here.txt"])["data"]["match_count"] == 1


def test_search_failures(server, tree):
    assert refused([server], SEARCH, file=str(tree), regex="x")["error_type"] == "invalid_target"
    assert refused([server], SEARCH, file=str(tree / "no"), regex="x")["error_type"] == "not_found"
    put(tree, "binary", b"a\0b")
    error = refused([server], SEARCH, file=str(tree / "binary"), regex="x")
    assert (error["error_type"], error["exception_type"]) == ("decode_error", "UnicodeDecodeError")
    os.mkfifo(tree / "fifo")
    assert refused([server], SEARCH, file=str(tree / "fifo"), regex="x")["error_type"] == "invalid_target"
    assert refused([server], SEARCH, file="/dev/zero", regex="x")["error_type"] == "invalid_target"


def test_official_client(servers, tree):
    agent_sandbox = pytest.importorskip("agent_sandbox")
    put(tree, "a.txt", "one\nneedle\n")
    for server in servers:
        client = agent_sandbox.Sandbox(base_url=server.url, httpx_client=server.client)
        found = client.file.grep_files(path=str(tree), pattern="needle", context_before=1)
        assert found.data.matches[0].line_number == 2 and found.data.matches[0].context_before == ["one"]
        found = client.file.search_in_file(file=str(tree / "a.txt"), regex="ne+dle")
        assert found.data.line_numbers == [2]
        found = client.file.find_files(path=str(tree), glob="*.txt")
        assert found.data.files == [str(tree / "a.txt")]
        found = client.file.glob_files(path=str(tree), pattern="**/*.txt")
        assert found.data.files[0].size == 11 and found.data.total_count == 1
        assert client.file.grep_files(path=str(tree / "nothing"), pattern="x").success is False
        made = client.file.watch_create(path=str(tree))
        assert made["watcher_id"]
        client.file.watch_poll(made["watcher_id"], timeout=0)
        client.file.watch_stop(made["watcher_id"])
