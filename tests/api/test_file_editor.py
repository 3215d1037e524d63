"""The editor: the flows that language models make of it, and how they go wrong."""

import base64
import os
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest
from agent_sandbox import Sandbox

from files import ask, bad, good, names, small_disk
from harness import LEAN
from processes import ROOT_ONLY, together

pytestmark = pytest.mark.server(env=LEAN)
MIB = 1 << 20
REVIEW = "Review the changes and make sure they are as expected. Edit the file again if necessary."


@pytest.fixture
def file(tmp_path):
    return tmp_path / "file.py"


def edit(server, command, path, **more):
    return good(server, "str_replace_editor", command=command, path=str(path), **more)


def fails(server, command, path, **more):
    return bad(server, "str_replace_editor", command=command, path=str(path), **more)


def numbered(text, first=1):
    return "".join(f"{i:6}\t{line}\n" for i, line in enumerate(text.splitlines(), first))


# --- view --------------------------------------------------------------------------------------


def test_view(server, file):
    file.write_text("one\ntwo\n\nfour")
    assert ask(server, "str_replace_editor", command="view", path=str(file)) == {
        "success": True, "message": "Editor command completed", "hint": None,
        "data": {
            "output": f"Here's the result of running `cat -n` on {file}:\n" + numbered("one\ntwo\n\nfour"),
            "error": None, "path": str(file), "prev_exist": True, "old_content": None, "new_content": None,
            "metadata": None,
        },
    }


@pytest.mark.parametrize("range, first, last", [
    ([1, 1], 1, 1), ([2, 3], 2, 3), ([3, -1], 3, 5), ([5, 5], 5, 5), ([1, 5], 1, 5), ([], 1, 5), (None, 1, 5),
])
def test_view_some_lines(server, file, range, first, last):
    lines = [f"line {i}" for i in (1, 2, 3, 4, 5)]
    file.write_text("\n".join(lines) + "\n")
    output = edit(server, "view", file, view_range=range)["output"]
    assert output.split("\n", 1)[1] == numbered("\n".join(lines[first - 1:last]), first)


def test_view_beyond_the_end_says_so(server, file):
    file.write_text("a\nb\n")
    output = edit(server, "view", file, view_range=[2, 100])["output"]
    assert output.startswith("NOTE: We only show up to 2 since there're only 2 lines in this file.\n")
    assert output.endswith(numbered("b", 2))


@pytest.mark.parametrize("range, said", [
    ([1], "It should be a list of two integers"), ([1, 2, 3], "It should be a list of two integers"),
    ([0, 1], "[0, 1]. Its first element should be at least 1"),
    ([4, 5], "[4, 5]. Its first element should be within the range of lines of the file: [1, 3]"),
    ([2, 1], "[2, 1]. Its second element should be greater than or equal to the first"),
    ([2, -2], "[2, -2]. Its second element"),
])
def test_view_of_wrong_lines(server, file, range, said):
    file.write_text("a\nb\nc\n")
    data = fails(server, "view", file, view_range=range)
    assert "Invalid `view_range` parameter" in data["message"] and said in data["message"]
    assert data["error_type"] == "invalid_argument" and data["error"] == data["message"]


@pytest.mark.parametrize("content, shown", [
    (b"", ""), (b"a\r\nb\r\n", "a\nb"), (b"\xef\xbb\xbfmark", "mark"), ("\ufeff\u00e4\n\U0001f600".encode("utf-16-le"), "\u00e4\n\U0001f600"),
    ("\ufeffx".encode("utf-16-be"), "x"), (b"tab\there", "tab\there"), (b"nul \0 it", "nul \0 it"),
])
def test_view_of_other_texts(server, file, content, shown):
    file.write_bytes(content)
    assert edit(server, "view", file)["output"].split("\n", 1)[1] == numbered(shown)


def test_view_of_what_is_no_text(server, file):
    for content in (b"\x89PNG\r\n\x1a\n\0\xff", b"\xff\xfe\0", "\ufeff".encode("utf-16-le") + b"\0\xd8"):
        file.write_bytes(content)
        assert fails(server, "view", file)["error_type"] == "decode_error"


def test_view_of_an_unknown_encoding(server, file):
    file.write_bytes(b"caf\xe9\nbar\n")
    answer = ask(server, "str_replace_editor", command="view", path=str(file))
    assert answer["data"]["output"].endswith(numbered("caf\ufffd\nbar")) and "not UTF-8" in answer["hint"]
    edit(server, "insert", file, insert_line=1, new_str="x")
    assert file.read_bytes() == b"caf\xe9\nx\nbar\n"
    assert fails(server, "insert", file, insert_line=1, new_str="\u00e9")["error_type"] == "decode_error"


def test_view_of_a_directory(server, tmp_path):
    (tmp_path / "a/b/c").mkdir(parents=True)
    (tmp_path / "a/b/c/deep").touch()
    (tmp_path / "a/.hidden").touch()
    (tmp_path / ".secret").mkdir()
    (tmp_path / "file").touch()
    os.symlink("..", tmp_path / "up")
    assert edit(server, "view", tmp_path)["output"] == (
        f"Here's the files and directories up to 2 levels deep in {tmp_path}, excluding hidden items:\n"
        f"{tmp_path}/\n{tmp_path}/a/\n{tmp_path}/a/b/\n{tmp_path}/file\n{tmp_path}/up\n\n"
        f"1 hidden files/directories in this directory are excluded. You can use 'ls -la {tmp_path}' to see them.\n")
    assert "not allowed when `path` points to a directory" in fails(server, "view", tmp_path, view_range=[1, 2])["message"]


def test_view_of_a_file_larger_than_may_be_held(start_server, file):
    server = start_server(["--max-body", "64K"])
    file.write_text("".join(f"line {i}\n" for i in range(1, 20001)))
    output = edit(server, "view", file, view_range=[19999, -1])["output"]
    assert output.split("\n", 1)[1] == numbered("line 19999\nline 20000", 19999)
    output = edit(server, "view", file, view_range=[20000, 20010])["output"]
    assert "there're only 20000 lines" in output and output.endswith(numbered("line 20000", 20000))
    assert fails(server, "view", file)["error_type"] == "too_large"
    assert "[1, 20000]" in fails(server, "view", file, view_range=[20001, 20002])["message"]
    assert fails(server, "str_replace", file, old_str="line 7\n", new_str="")["error_type"] == "too_large"


# --- create ------------------------------------------------------------------------------------


def test_create(server, tmp_path):
    path = tmp_path / "a/b/file"
    data = edit(server, "create", path, file_text="text\n")
    assert data == {"output": f"File created successfully at: {path}", "error": None, "path": str(path),
                    "prev_exist": False, "old_content": None, "new_content": "text\n", "metadata": None}
    assert path.read_text() == "text\n"
    data = fails(server, "create", path, file_text="other")
    assert data["message"] == (f"Invalid `path` parameter: {path}. File already exists at: {path}. "
                               "Cannot overwrite files using command `create`.")
    assert (data["error_type"], data["errno_name"]) == ("already_exists", "EEXIST")
    assert path.read_text() == "text\n"
    assert fails(server, "create", tmp_path, file_text="")["error_type"] == "already_exists"


def test_create_an_empty_file(server, file):
    edit(server, "create", file, file_text="")
    assert file.stat().st_size == 0
    assert "`file_text` is required" in fails(server, "create", f"{file}2")["message"]
    assert not os.path.exists(f"{file}2")


@pytest.mark.concurrency
def test_only_one_creates(server, tmp_path):
    path = str(tmp_path / "d/file")
    answers = together(16, lambda i: ask(server, "str_replace_editor", command="create", path=path, file_text=str(i)))
    made = [i for i, answer in enumerate(answers) if answer["success"]]
    assert len(made) == 1 and open(path).read() == str(made[0])


# --- str_replace -------------------------------------------------------------------------------


def test_str_replace(server, file):
    old = "".join(f"line {i}\n" for i in range(1, 21))
    file.write_text(old)
    file.chmod(0o751)
    data = edit(server, "str_replace", file, old_str="line 10\n", new_str="ten\nand a half\n")
    new = old.replace("line 10\n", "ten\nand a half\n")
    assert file.read_text() == new and stat.S_IMODE(file.stat().st_mode) == 0o751
    assert data["old_content"] == old and data["new_content"] == new and data["prev_exist"] is True
    shown = new.splitlines()[5:16]
    assert data["output"] == (f"The file {file} has been edited. Here's the result of running `cat -n` on a snippet of "
                              f"{file}:\n" + numbered("\n".join(shown), 6) + REVIEW)


def test_str_replace_deletes(server, file):
    file.write_text("keep drop keep")
    assert edit(server, "str_replace", file, old_str=" drop")["new_content"] == "keep keep"
    assert edit(server, "str_replace", file, old_str="keep keep", new_str="")["new_content"] == ""
    assert file.read_text() == ""


def test_ambiguous(server, file):
    file.write_text("x = 1\ny\nx = 1\nx = 1 x = 1\n")
    data = fails(server, "str_replace", file, old_str="x = 1", new_str="x = 2")
    assert data["message"] == ("No replacement was performed. Multiple occurrences of old_str `x = 1` in lines [1, 3, 4]: "
                               "it is not unique. Please ensure it is unique, or use `replace_mode`.")
    assert data["errno"] is None and file.read_text().count("x = 1") == 4
    file.write_text("z\n" * 100)
    assert "lines [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, …]" in \
        fails(server, "str_replace", file, old_str="z")["message"]


@pytest.mark.parametrize("mode, result, count", [("ALL", "b b b", "3 of 3"), ("FIRST", "b a a", "1 of 3"), ("LAST", "a a b", "1 of 3")])
def test_modes(server, file, mode, result, count):
    file.write_text("a a a")
    data = edit(server, "str_replace", file, old_str="a", new_str="b", replace_mode=mode)
    assert file.read_text() == data["new_content"] == result and f"Replaced {count} occurrences" in data["output"]
    assert "did not appear" in fails(server, "str_replace", file, old_str="x", new_str="b", replace_mode=mode)["message"]


def test_missing(server, file):
    file.write_text("something")
    data = fails(server, "str_replace", file, old_str="else", new_str="x")
    assert data["message"] == f"No replacement was performed, old_str `else` did not appear verbatim in {file}."
    long = fails(server, "str_replace", file, old_str="\u20ac" * 100000, new_str="x")["message"]
    assert len(long) < 500 and "\ufffd" not in long
    assert "must be different" in fails(server, "str_replace", file, old_str="some", new_str="some")["message"]
    assert "must not be empty" in fails(server, "str_replace", file, old_str="", new_str="x")["message"]
    assert "`old_str` is required" in fails(server, "str_replace", file, new_str="x")["message"]
    file.write_text("")
    assert "did not appear" in fails(server, "str_replace", file, old_str="x", new_str="y")["message"]


@pytest.mark.parametrize("before, old, new, after", [
    (b"a\r\nb\r\nc\r\n", "a\nb", "1\n2\n3", b"1\r\n2\r\n3\r\nc\r\n"),
    (b"\xef\xbb\xbfa\r\n", "a", "b\nc", b"\xef\xbb\xbfb\r\nc\r\n"),
    ("\ufeffa\n\u20ac".encode("utf-16-le"), "\u20ac", "\U0001f600", "\ufeffa\n\U0001f600".encode("utf-16-le")),
    (b"no end", "end", "END", b"no END"),
    (b"\xe9 x \xe9", "x", "y", b"\xe9 y \xe9"),
])
def test_what_the_file_is_stays(server, file, before, old, new, after):
    file.write_bytes(before)
    edit(server, "str_replace", file, old_str=old, new_str=new)
    assert file.read_bytes() == after
    edit(server, "undo_edit", file)
    assert file.read_bytes() == before


# --- insert ------------------------------------------------------------------------------------


@pytest.mark.parametrize("before, line, new, after", [
    ("a\nb\n", 0, "x", "x\na\nb\n"), ("a\nb\n", 1, "x\ny", "a\nx\ny\nb\n"), ("a\nb\n", 2, "x", "a\nb\nx\n"),
    ("a\nb", 2, "x", "a\nb\nx"), ("a\nb", 1, "x", "a\nx\nb"), ("", 0, "x", "x\n"), ("a\r\n", 1, "x\ny", "a\r\nx\r\ny\r\n"),
    ("a\r\n", 0, "x", "x\r\na\r\n"), ("\ufeffa\n", 0, "x", "\ufeffx\na\n"), ("a\n", 1, "", "a\n\n"),
])
def test_insert(server, file, before, line, new, after):
    file.write_bytes(before.encode())
    data = edit(server, "insert", file, insert_line=line, new_str=new)
    assert file.read_bytes() == after.encode()
    assert data["output"].startswith(f"The file {file} has been edited. Here's the result of running `cat -n` on a "
                                     "snippet of the edited file:\n") and data["output"].endswith(REVIEW)
    edit(server, "undo_edit", file)
    assert file.read_bytes() == before.encode()


def test_insert_nowhere(server, file):
    file.write_text("a\nb\n")
    for line in (3, -1, 10**15):
        data = fails(server, "insert", file, insert_line=line, new_str="x")
        assert data["message"] == (f"Invalid `insert_line` parameter: {line}. It should be within the range of allowed "
                                   "values: [0, 2]")
    assert "`insert_line` is required" in fails(server, "insert", file, new_str="x")["message"]
    assert "`new_str` is required" in fails(server, "insert", file, insert_line=0)["message"]
    assert file.read_text() == "a\nb\n"


def test_a_snippet_in_the_middle(server, file):
    file.write_text("".join(f"{i}\n" for i in range(1, 101)))
    output = edit(server, "insert", file, insert_line=50, new_str="x\ny")["output"]
    shown = "\n".join(["47", "48", "49", "50", "x", "y", "51", "52", "53", "54"])
    assert numbered(shown, 47) + REVIEW == output.split("\n", 1)[1]


# --- undo --------------------------------------------------------------------------------------


def test_undo_chain(server, file):
    """Three edits and two undos leave the first edit; what made the file is undone last."""
    edit(server, "create", file, file_text="0\n")
    for i in range(3):
        edit(server, "str_replace", file, old_str=f"{i}\n", new_str=f"{i + 1}\n")
    data = edit(server, "undo_edit", file)
    assert data["output"] == (f"Last edit to {file} undone successfully. Here's the result of running `cat -n` on {file}:\n"
                              + numbered("2"))
    assert (data["old_content"], data["new_content"], data["prev_exist"]) == ("3\n", "2\n", True)
    edit(server, "undo_edit", file)
    assert file.read_text() == "1\n"
    edit(server, "undo_edit", file)
    assert edit(server, "undo_edit", file)["output"].endswith("It had created the file, which is removed.")
    assert not file.exists()
    edit(server, "create", file, file_text="again")
    edit(server, "undo_edit", file)
    assert not file.exists()


def test_nothing_to_undo(server, file):
    file.write_text("untouched")
    data = fails(server, "undo_edit", file)
    assert data["message"] == f"No edit history found for {file}." and file.read_text() == "untouched"


def test_ten_edits_can_be_undone(server, file):
    file.write_text("0")
    for i in range(12):
        edit(server, "str_replace", file, old_str=str(i), new_str=str(i + 1))
    for i in range(11, 1, -1):
        assert edit(server, "undo_edit", file)["new_content"] == str(i)
    assert "No edit history" in fails(server, "undo_edit", file)["message"]
    assert file.read_text() == "2"


def test_history_is_of_the_file_not_of_the_name(server, file):
    file.write_text("a")
    link = file.parent / "link"
    os.symlink(file, link)
    edit(server, "str_replace", link, old_str="a", new_str="b")
    edit(server, "undo_edit", file)
    assert file.read_text() == "a" and link.is_symlink()


def test_undo_says_when_more_goes_with_it(server, file):
    file.write_text("a\n")
    edit(server, "str_replace", file, old_str="a", new_str="b")
    file.write_text("b\nby someone else\n")
    answer = ask(server, "str_replace_editor", command="undo_edit", path=str(file))
    assert answer["success"] and "Something else had changed the file" in answer["hint"]
    assert file.read_text() == "a\n"


def test_history_ends_with_the_server(start_server, file):
    file.write_text("a")
    first = start_server()
    edit(first, "str_replace", file, old_str="a", new_str="b")
    first.stop()
    second = start_server()
    assert "No edit history" in fails(second, "undo_edit", file)["message"]
    assert file.read_text() == "b"


def test_what_is_remembered_is_bounded(server, tmp_path):
    """More than is kept; a file too large to be remembered forgets what was before, too."""
    before = server.memory()
    text = "x" * (6 * MIB)
    for i in range(14):
        (tmp_path / f"{i}").write_text("a" + text)
        edit(server, "str_replace", tmp_path / f"{i}", old_str="ax", new_str="bx")
    assert server.memory() - before < 200 * MIB
    assert edit(server, "undo_edit", tmp_path / "13")["new_content"] == "a" + text
    assert "No edit history" in fails(server, "undo_edit", tmp_path / "0")["message"]
    large = tmp_path / "large"
    large.write_text("1")
    edit(server, "insert", large, insert_line=0, new_str="x" * (17 * MIB))
    edit(server, "insert", large, insert_line=0, new_str="y")
    assert "No edit history" in fails(server, "undo_edit", large)["message"]


@ROOT_ONLY
def test_an_edit_that_does_not_fit_changes_nothing(server, tmp_path):
    with small_disk(tmp_path, "256k"):
        path = tmp_path / "file"
        path.write_text("a\n" + "x" * 100_000)
        edit(server, "str_replace", path, old_str="a\n", new_str="b\n")
        (tmp_path / "filler").write_bytes(b"f" * 120_000)
        assert fails(server, "insert", path, insert_line=1, new_str="y" * 120_000)["error_type"] == "no_space_left"
        assert fails(server, "undo_edit", path)["error_type"] == "no_space_left"  # and is not lost by that
        assert names(tmp_path) == ["file", "filler"] and path.read_text().startswith("b\nx")
        (tmp_path / "filler").unlink()
        edit(server, "undo_edit", path)
        assert path.read_text() == "a\n" + "x" * 100_000


# --- paths -------------------------------------------------------------------------------------


def test_paths(server, tmp_path):
    for command in ("view", "str_replace", "insert", "undo_edit"):
        data = fails(server, command, tmp_path / "no", old_str="a", new_str="b", insert_line=0)
        assert data["message"] == (f"Invalid `path` parameter: {tmp_path}/no. The path {tmp_path}/no does not exist. "
                                   "Please provide a valid path.")
        assert (data["error_type"], data["errno"], data["operation"]) == ("not_found", 2, "str_replace_editor")
    for command in ("str_replace", "insert", "undo_edit"):
        data = fails(server, command, tmp_path, old_str="a", new_str="b", insert_line=0)
        assert "only the `view` command can be used on directories" in data["message"]
        assert data["error_type"] == "invalid_target"
    data = fails(server, "view", "relative")
    assert "Invalid `path` parameter: relative. The path should be an absolute path" in data["message"]
    os.mkfifo(tmp_path / "fifo")
    for command in ("view", "str_replace", "insert"):
        assert fails(server, command, tmp_path / "fifo", old_str="a", new_str="b", insert_line=0)["error_type"] == \
            "invalid_target"


def test_a_name_that_is_not_utf8(server, tmp_path):
    path = os.fsencode(tmp_path) + b"/\xff"
    coded = base64.b64encode(path).decode()
    for command, more in [("create", {"file_text": "a"}), ("view", {}), ("str_replace", {"old_str": "a", "new_str": "b"}),
                          ("undo_edit", {})]:
        edit(server, command, "-", path_b64=coded, **more)
    with open(path) as file:
        assert file.read() == "a"


@pytest.mark.parametrize("body", [
    {"command": "view"}, {"path": "/x"}, {"command": "delete", "path": "/x"}, {"command": "view", "path": "/x", "view_range": "1"},
    {"command": "view", "path": "/x", "view_range": [1.5, 2]}, {"command": "insert", "path": "/x", "insert_line": "one"},
    {"command": "str_replace", "path": "/x", "old_str": "a", "replace_mode": "all"},
    {"command": "view", "path": "/x", "view_range": list(range(1000))},
])
def test_what_is_no_request(server, body):
    assert server.post("/v1/file/str_replace_editor", body).status_code == 422


@pytest.mark.concurrency
def test_edits_at_once_lose_none(server, file):
    file.write_text("".join(f"<{i}>\n" for i in range(64)))
    together(64, lambda i: edit(server, "str_replace", file, old_str=f"<{i}>", new_str=f"[{i}]"))
    assert file.read_text() == "".join(f"[{i}]\n" for i in range(64))
    with ThreadPoolExecutor(10) as pool:
        list(pool.map(lambda _: edit(server, "undo_edit", file), range(10)))
    assert file.read_text().count("[") == 54


def test_the_sdk_edits(server, file):
    editor = Sandbox(base_url=server.url, httpx_client=server.client).file.str_replace_editor
    assert editor(command="create", path=str(file), file_text="a\nb\n").data.prev_exist is False
    assert editor(command="str_replace", path=str(file), old_str="a", new_str="c").data.new_content == "c\nb\n"
    assert editor(command="insert", path=str(file), insert_line=2, new_str="d").success
    assert editor(command="view", path=str(file), view_range=[1, -1]).data.output.endswith(numbered("c\nb\nd"))
    assert editor(command="undo_edit", path=str(file)).data.new_content == "c\nb\n"
    failure = editor(command="str_replace", path=str(file), old_str="zzz")
    assert failure.success is False and "did not appear" in failure.data.error
