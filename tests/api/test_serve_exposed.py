"""`aio serve` isolates nothing: as root on an address that others can reach, it says so."""

import os
import shutil
import subprocess

import pytest

from harness import clean_environment, program

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root and unshare")


def log(tmp_path, listen, *args, **env):
    """What it logs until it is ready, in a network of its own."""
    env = clean_environment(tmp_path, {"SANDBOX_API_KEY": "a-key", **env})
    server = subprocess.Popen(["unshare", "-n", program("aio"), "serve", "--listen", listen, *args], env=env, cwd=tmp_path,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert "is ready" in server.stdout.readline()
    finally:
        server.terminate()
        _, text = server.communicate(timeout=60)
    return text


def test_on_every_address_it_warns(tmp_path):
    text = log(tmp_path, "0.0.0.0:0")
    assert "warn" in text and "without isolation" in text and "aio up --listen 0.0.0.0:0" in text, text
    assert "whoever has the key" in text


def test_without_a_key_it_says_that_anyone_can(tmp_path):
    text = log(tmp_path, "0.0.0.0:0", "--insecure", SANDBOX_API_KEY="")
    assert "anyone who reaches this address can take the machine over" in text and "has the key" not in text, text


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "unix:{}/socket"])
def test_on_loopback_it_does_not(tmp_path, listen):
    assert "isolation" not in log(tmp_path, listen.format(tmp_path))


def test_in_a_box_it_does_not(tmp_path):
    assert "isolation" not in log(tmp_path, "0.0.0.0:0", AIO_SANDBOX_ID="a-box")
