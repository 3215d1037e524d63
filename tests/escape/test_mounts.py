"""Directories of the machine in a box: whose files there are, and where they can be mounted."""

import os
import subprocess

import pytest

from escape.boxes import Refused

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
        os.lchown(place / name, OWNER, OWNER)
    box = start_box(f"{place}:/data:rw", *(f"{farm.probe}:/data/{name}/deep/probe" for name in "abc"))
    assert box.out("for i in a b c; do /data/$i/deep/probe af_inet; done") == "af_inet OK\n" * 3
    assert os.listdir(victim) == ["probe"] and (victim / "probe").read_text() == "kept"
    assert not any((place / name).is_symlink() for name in "abc")


def put(path, text, uid, gid, mode):
    path.write_text(text)
    os.chown(path, uid, gid)
    path.chmod(mode)


def as_nobody(*command):
    done = subprocess.run(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", *command],
                          capture_output=True, text=True)
    return done.stdout


def test_what_a_box_makes_on_the_machine_has_none_of_root_s_rights(start_box, place, tmp_path):
    box = start_box(f"{place}:/data:rw")
    secret = tmp_path / "secret"
    put(secret, "private", 0, 0, 0o600)
    box.out("cd /data; cp /usr/bin/id id; cp /usr/bin/cat cat; chmod 6755 id; mkdir dir; chmod 6777 dir; touch dir/x", root=True)
    box.run("cp /usr/bin/cat /data/able; setcap cap_dac_read_search,cap_setuid+ep /data/able; "
            "cp -p /data/id /data/mine; chown gem: /data/mine; chmod 6755 /data/mine; "
            "chown 0:0 /data/dir; chgrp 6 /data/cat; chmod 2755 /data/cat", root=True)
    box.run("cp /usr/bin/id /data/gem; chmod 6755 /data/gem")
    assert (place / "id").stat().st_mode & 0o6000 == 0o6000  # the bits are there, and of no use
    made = [place, *place.rglob("*")]
    assert len(made) > 7
    for path in made:
        st = path.stat()
        assert (st.st_uid == OWNER or st.st_uid > 600000000) and (st.st_gid == OWNER or st.st_gid > 600000000), path
    for name in ("id", "mine", "gem"):
        assert "uid=0" not in as_nobody(place / name) and "gid=0(" not in as_nobody(place / name)
    assert as_nobody(place / "able", secret) == as_nobody(place / "cat", secret) == ""


def test_files_of_gem_are_the_owner_s(start_box, place):
    put(place / "theirs", "before", OWNER, OWNER, 0o600)
    box = start_box(f"{place}:/data:rw")
    box.out("cd /data; cat theirs; echo after >theirs; mkdir new; echo x >new/file; mv theirs new/; chmod 640 new/file")
    assert box.out("stat -c '%U:%G' /data /data/new /data/new/theirs").split() == ["gem:gem"] * 3
    found = {path.name: path.stat() for path in (place / "new", place / "new/file", place / "new/theirs")}
    assert {(st.st_uid, st.st_gid) for st in found.values()} == {(OWNER, OWNER)}
    assert (place / "new/theirs").read_text() == "after\n"
    # Root of the box can use it all as well, and give what it makes to gem.
    box.out("cd /data; cat new/theirs; echo root >>new/theirs; rm new/file; echo x >own; mkdir sub; chown gem: sub", root=True)
    assert box.out("stat -c %U /data/own; cat /data/own; touch /data/sub/x; rm -f /data/own") == "root\nx\n"
    assert (place / "sub").stat().st_uid == (place / "new/theirs").stat().st_uid == OWNER
    answer = box.post("/v1/file/write", file="/data/by-file-api", content="x")
    assert answer["success"], answer
    assert (place / "by-file-api").stat().st_uid == OWNER


@pytest.mark.parametrize("mode", ["", ":rw"])
def test_private_files_of_others_in_a_mount_stay_private(start_box, place, root, mode):
    put(place / "root", "private", 0, 0, 0o600)
    put(place / "group", "private", 0, 6, 0o640)
    put(place / "other", "private", 5555, 5555, 0o600)
    put(place / "public", "fine", 0, 0, 0o644)
    (place / "dir").mkdir(mode=0o700)
    put(place / "dir/root", "private", 0, 0, 0o644)
    box = start_box(f"{place}:/data{mode}")
    assert "private" not in box.run("cd /data; cat root group other dir/root", root)["stdout"]
    assert "private" not in box.run("cd /data; cp root x; chmod 666 root; chown gem root; mv root y; cat x y root", root)["stdout"]
    assert box.out("cat /data/public", root) == "fine"
    box.run("cd /data; echo no >public; chmod 777 public; rm -f public", root)
    assert (place / "public").read_text() == "fine" and (place / "public").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("owner", [(0, 0), (0, OWNER), (OWNER, 0)])
def test_what_is_root_s_can_be_mounted_read_only(start_box, place, owner):
    put(place / "private", "private", *owner, 0o600)
    put(place / "public", "fine", *owner, 0o644)
    os.chown(place, *owner)
    with pytest.raises(Refused, match="cannot be writable.* root.*chown"):
        start_box(f"{place}:/data:rw")
    with pytest.raises(Refused, match="cannot be writable"):
        start_box(f"{place / 'public'}:/data:rw")
    box = start_box(f"{place}:/data")
    assert box.out("cat /data/public") == "fine"
    if owner[0] == 0:
        assert box.run("cat /data/private", root=True)["stdout"] == ""
    assert box.run("touch /data/x", root=True)["exit_code"] != 0


def test_a_directory_that_root_of_a_box_made_can_be_mounted_again(start_box, place):
    box = start_box(f"{place}:/data:rw")
    box.out("mkdir -m 755 /data/sub; echo x >/data/sub/file", root=True)
    box.stop()
    box.start(f"mount={place}/sub:/sub:rw")
    assert box.out("stat -c %U /sub /sub/file; echo y >/sub/other; cat /sub/file", root=True) == "root\nroot\nx\n"
