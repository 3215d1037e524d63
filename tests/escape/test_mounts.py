"""Directories of the machine in a box: whose files there are, and where they can be mounted."""

import os

import pytest

OWNER = 4321  # of directories on the machine; not gem's number


@pytest.fixture
def place(tmp_path):
    """A directory of an ordinary user of the machine, which boxes can reach."""
    for path in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        path.chmod(0o755)
    path = tmp_path / "project"
    path.mkdir()
    os.chown(path, OWNER, OWNER)
    return path


def test_a_mount_inside_a_shared_one_follows_no_link_there(farm, start_box, place, tmp_path):
    victim = tmp_path / "victim"
    victim.mkdir()
    victim.chmod(0o777)
    (victim / "probe").write_text("kept")
    for name, target in {"a": victim, "b": "../victim", "c": "/tmp"}.items():
        (place / name).symlink_to(target)
    box = start_box(f"{place}:/data:rw", *(f"{farm.probe}:/data/{name}/deep/probe" for name in "abc"))
    assert box.out("for i in a b c; do /data/$i/deep/probe af_inet; done") == "af_inet OK\n" * 3
    assert os.listdir(victim) == ["probe"] and (victim / "probe").read_text() == "kept"
    assert not any((place / name).is_symlink() for name in "abc")
