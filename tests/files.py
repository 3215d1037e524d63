"""Calls of /v1/file, and files to call them for: what the tests of /v1/file share."""

import contextlib
import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from harness import Calls, eventually

ERROR_FIELDS = {"path", "operation", "message", "error_type", "retryable", "errno", "errno_name", "exception_type"}
CALLS = Calls("/v1/file")
ask = CALLS.reply


def good(server, what, **body):
    """The data of a call that went well."""
    answer = ask(server, what, **body)
    assert answer["success"] is True, str(answer)[:1000]
    return answer["data"]


def bad(server, what, **body):
    """The data of a call that the file system, or the editor, refused."""
    answer = ask(server, what, **body)
    assert answer["success"] is False, str(answer)[:1000]
    assert answer["data"].keys() >= ERROR_FIELDS
    assert answer["message"] == answer["data"]["message"]
    return answer["data"]


def refused(server, what, **body):
    """error_type, errno_name and exception_type of such a call."""
    data = bad(server, what, **body)
    return data["error_type"], data["errno_name"], data["exception_type"]


def names(folder):
    return sorted(os.listdir(folder))


@pytest.fixture
def tree(tmp_path):
    """An empty directory, with nothing of the test's own beside what it is given."""
    path = tmp_path / "tree"
    path.mkdir()
    return path


def put(folder, path, content):
    """Writes a file and makes its directories, or makes a directory if the path ends in a slash."""
    target = Path(folder) / path
    if path.endswith("/"):
        target.mkdir(parents=True)
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content if isinstance(content, bytes) else content.encode())
    return target


@pytest.fixture
def open_tree():
    """An empty directory that every user may look into. It is not in pytest's directory: each run of pytest that starts
    closes that one to other users again."""
    with tempfile.TemporaryDirectory(prefix="aio-test.") as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


def unmount(folder):
    """Waits while others use it: a test that walks the whole machine may be in there."""
    assert eventually(lambda: subprocess.run(["umount", folder], capture_output=True).returncode == 0)


@contextlib.contextmanager
def small_disk(folder, size, options=""):
    """A file system of its own that is soon full."""
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=777{options}", "tmpfs", folder],
                          capture_output=True)
    if done.returncode:
        pytest.skip(f"NOT TESTED: no tmpfs can be mounted here: {done.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)
