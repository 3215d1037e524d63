"""The verbs of a sandbox's API, and aio file cp, with boxes of a host: by name, and by the address with a path."""

import json
import os

import pytest


@pytest.fixture(scope="module")
def other(host):
    box = host.create(name="cp-other")
    yield box
    box.delete()


def test_a_verb_in_a_box(host, box):
    said = json.loads(host.cli("bash", "exec", "uname -n", "--box", box.id).stdout)
    assert said["data"]["stdout"].strip() == box.id
    assert host.cli("bash", "exec", "exit 7", "--box", box.id, check=False).returncode == 7
    done = host.cli("sandbox", "info", "--box", "nothing", check=False)
    assert done.returncode == 1 and "nothing" in done.stderr and not done.stdout
    done = host.cli("sandbox", "info", "--box", box.id, "--api-url", host.url, check=False)
    assert done.returncode == 2 and "only one of them" in done.stderr


def test_a_verb_at_the_address_of_a_box(host, box):
    at = ["--api-url", f"{host.url}/s/{box.id}/"]
    assert host.cli("bash", "exec", "uname -n", "--plain", *at, "--api-key", box.token).stdout == f"{box.id}\n"
    assert host.cli("sandbox", "info", *at, check=False).returncode == 1
    assert host.cli("sandbox", "info", *at, "--api-key", "wrong", check=False).returncode == 1


def test_copies(host, box, other, tmp_path):
    (tmp_path / "tree/sub").mkdir(parents=True)
    (tmp_path / "tree/sub/file").write_text("words")
    os.chmod(tmp_path / "tree/sub/file", 0o750)
    host.cli("file", "cp", tmp_path / "tree", f"{box.id}:/tmp/")
    assert host.cli("exec", box.id, "stat -c '%a %U' /tmp/tree/sub/file; cat /tmp/tree/sub/file").stdout == "750 gem\nwords"
    host.cli("file", "cp", f"{box.id}:/tmp/tree", f"{other.id}:copied")
    assert host.cli("exec", other.id, "cat copied/sub/file").stdout == "words"
    at = ["--api-url", f"{host.url}/s/{other.id}", "--api-key", other.token]
    host.cli("file", "cp", *at, ":copied/sub/file", tmp_path / "back")
    assert (tmp_path / "back").read_text() == "words" and os.stat(tmp_path / "back").st_mode & 0o777 == 0o750
    host.cli("file", "cp", *at, f"{box.id}:/tmp/tree/.", ":/tmp/made/")
    assert host.cli("file", "cp", "--box", other.id, ":/tmp/made/sub/file", "-").stdout == "words"
    done = host.cli("file", "cp", "nothing:/x", tmp_path / "y", check=False)
    assert done.returncode == 1 and "nothing" in done.stderr and not (tmp_path / "y").exists()
    done = host.cli("file", "cp", tmp_path / "back", f"{box.id}:/etc/words", check=False)
    assert done.returncode == 1 and "Permission denied" in done.stderr
