"""Asking for files: what the tests of /v1/file share."""

import contextlib
import os
import subprocess

import pytest

ERROR_FIELDS = {"path", "operation", "message", "error_type", "retryable", "errno", "errno_name", "exception_type"}


def ask(server, what, **body):
    """The whole answer of a call that is answered at all."""
    answer = server.post(f"/v1/file/{what}", body, timeout=100)
    assert answer.status_code == 200, answer.text[:1000]
    return answer.json()


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
