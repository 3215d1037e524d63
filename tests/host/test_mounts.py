"""Mounts that a box may not have, or no longer; and who may reach the files of boxes on the machine."""

import os

import pytest

from harness import eventually

OWNER = 4321


@pytest.fixture
def place(host):
    os.chmod(host.roots, 0o755)
    path = host.roots / "project"
    path.mkdir(exist_ok=True)
    os.chown(path, OWNER, OWNER)
    return path


def mount(place):
    return {"source": str(place), "target": "/mnt/project", "writable": True}


def test_a_writable_mount_of_root_s_is_refused(host, place):
    os.chown(place, 0, 0)
    got = host.client.post("/v1/sandboxes", headers=host.auth, json={"mounts": [mount(place)]})
    assert got.status_code in (400, 422) and "cannot be writable" in got.text and "chown" in got.text, got.text
    failed = host.cli("create", "--mounts", f"{place}:/mnt/project:rw", check=False)
    assert failed.returncode == 1 and "cannot be writable" in failed.stderr, failed


def test_a_box_starts_without_a_mount_that_it_may_no_longer_have(host, place):
    """As one does that an earlier version made."""
    (place / "file").write_text("shared")
    box = host.create(mounts=[mount(place), {**mount(place), "target": "/mnt/also", "writable": False}])
    assert box.run("cat /mnt/project/file; echo x >/mnt/project/new") == "shared"
    assert (place / "new").stat().st_uid == OWNER
    box.kill()
    assert eventually(lambda: box.state == "stopped")
    os.chown(place, 0, 0)
    box.call("POST", "/resume")
    assert box.run("ls /mnt/project 2>/dev/null; cat /mnt/also/file || true") == "shared"
    event = next(event for event in box.call("GET", "/events") if event["type"] == "unmounted")
    assert event["data"]["target"] == "/mnt/project" and "belongs to root" in event["data"]["why"], event
    assert host.logged(f"sandbox '{box.id}' has no '/mnt/project'")
    os.chown(place, OWNER, OWNER)
    box.kill()
    assert eventually(lambda: box.state == "stopped")
    box.call("POST", "/resume")
    assert box.run("cat /mnt/project/file") == "shared"


def test_others_are_kept_out_of_the_files_of_boxes(start_host):
    """Programs there may be root's and have its rights: boxes put them there."""
    host = start_host()
    folders = [host.state / name for name in ("boxes", "templates", "run", "log")]
    host.kill()
    for folder in folders:
        assert folder.stat().st_mode & 0o777 == 0o700
        folder.chmod(0o755)
    host.start()
    assert [folder.stat().st_mode & 0o777 for folder in folders] == [0o700] * 4
    assert host.logged(f"'{folders[0]}' was open to others")


@pytest.mark.parametrize("target", ["/", "/home/..", "/..", "/mnt/../etc", "/../etc"])
def test_a_mount_is_at_no_place_that_leads_back(host, place, target):
    before = host.holdings()
    got = host.client.post("/v1/sandboxes", headers=host.auth, json={"mounts": [{**mount(place), "target": target}]})
    assert got.status_code == 422 and target in got.text, got.text
    assert eventually(lambda: host.holdings() == before)
