"""Templates: images and archives, hostile ones too."""

import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from archives import add, archive, bash, image, programs, saved


def test_a_root_file_system(host, importer):
    def fill(tar):
        bash(tar)
        add(tar, "bin/tool", b"#!/bin/sh\n", mode=0o4755)
        add(tar, "home/gem/f", b"x", uid=1000, mode=0o640)
        add(tar, "bin/hard", type=tarfile.LNKTYPE, linkname="bin/tool")
        add(tar, "bin/soft", type=tarfile.SYMTYPE, linkname="/bin/tool")
        add(tar, "odd\u00e9name", b"y")

    packed = [archive(fill, mode) for mode in ("w", "w:gz", "w:xz", "w:bz2")]
    packed.append(subprocess.run(["zstd", "-c"], input=packed[0], stdout=subprocess.PIPE, check=True).stdout)
    for data in packed:
        root = importer(data, "rootfs")
        tool = root / "bin/tool"
        assert tool.stat().st_mode & 0o7777 == 0o4755 and tool.stat().st_nlink == 2
        assert (root / "home/gem/f").stat().st_uid == 1000 and os.readlink(root / "bin/soft") == "/bin/tool"
        assert (root / "odd\u00e9name").read_bytes() == b"y"
        host.api("DELETE", "/v1/templates/rootfs")
    importer(archive(fill), "rootfs")
    listed = {t["name"]: t for t in host.api("GET", "/v1/templates")}
    assert set(listed) == {"machine", "rootfs"} and listed["rootfs"]["source"].endswith("rootfs.tar")


@pytest.mark.parametrize("users", [
    None, b"root:x:0:0::/root:/bin/bash\n", b"root:x:0:0::/root:/bin/bash\nnode:x:1000:1000::/home/node:/bin/bash\n",
])
def test_a_root_file_system_of_others_has_gem(host, importer, users):
    def fill(tar):
        programs(tar, "bash", "id", "cat")
        if users:
            add(tar, "etc/passwd", users, mode=0o644)
            add(tar, "etc/group", b"root:x:0:\n", mode=0o644)
            add(tar, "etc/shadow", b"root:*:1:0:9:7:::\n", mode=0o640)
            add(tar, "etc/sudoers.d", type=tarfile.DIRTYPE)

    root = importer(archive(fill), "others")
    assert (root / "etc/shadow").exists() == bool(users) == (root / "etc/sudoers.d/gem").exists()
    assert (root / "etc/passwd").read_bytes().endswith(users or b"root:x:0:0:root:/root:/bin/sh\n")
    box = host.create(template="others")
    try:
        assert box.run("id -un; id -u; id -gn; cd; echo $PWD; echo x >y; cat y") == "gem\n1000\ngem\n/home/gem\nx\n"
    finally:
        box.delete()


def test_a_gem_that_is_there_stays(host, importer):
    def fill(tar):
        bash(tar)
        add(tar, "etc/passwd", b"root:x:0:0::/root:/bin/sh\ngem:x:1234:1234::/home/gem:/bin/sh\n")

    assert (importer(archive(fill), "own") / "etc/passwd").read_bytes().startswith(b"root:")


def test_adding_gem_writes_nowhere_else(host, importer, tmp_path):
    """Links of a template where the tables of users should be: the machine's files stay as they are."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "passwd").write_text("untouched")

    def fill(tar):
        bash(tar)
        add(tar, "etc", type=tarfile.SYMTYPE, linkname=str(outside))
        add(tar, str(outside)[1:] + "/group", b"root:x:0:\n")

    root = importer(archive(fill), "links")
    assert (root / str(outside)[1:] / "passwd").read_text().startswith("gem:x:1000:")
    assert os.listdir(outside) == ["passwd"] and (outside / "passwd").read_text() == "untouched"


def test_a_hostile_archive_stays_inside(host, importer, tmp_path):
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "file").write_text("safe")

    def fill(tar):
        bash(tar)
        add(tar, "/absolute", b"x")
        add(tar, "link", type=tarfile.SYMTYPE, linkname=str(victim))
        add(tar, "link/planted", b"x")
        add(tar, "up", type=tarfile.SYMTYPE, linkname="../" * 20 + str(victim))
        add(tar, "up/planted2", b"x")
        add(tar, "null", type=tarfile.CHRTYPE, devmajor=1, devminor=3)
        add(tar, "disk", type=tarfile.BLKTYPE, devmajor=254, devminor=0)
        add(tar, "fifo", type=tarfile.FIFOTYPE)
        add(tar, "bigid", b"x", uid=3_000_000)
        add(tar, "marked", b"x", pax_headers={"SCHILY.xattr.user.overlay.redirect": "/etc",
                                             "SCHILY.xattr.trusted.overlay.opaque": "y",
                                             "SCHILY.xattr.user.mine": "kept"})

    try:
        root = importer(archive(fill), "hostile")
    except AssertionError:  # refusing all of it is as good
        root = None
    assert os.listdir(victim) == ["file"] and (victim / "file").read_text() == "safe"
    if root:
        assert not any((root / name).exists() or (root / name).is_symlink() for name in ("null", "disk", "fifo"))
        assert (root / "absolute").read_bytes() == b"x" and (root / "bigid").stat().st_uid == 65534
        assert os.listxattr(root / "marked") == ["user.mine"]


@pytest.mark.parametrize("name,entries", [
    ("dotdot", [("bin/../../../../../../tmp/escaped", tarfile.REGTYPE, "")]),
    ("hardlink", [("x", tarfile.LNKTYPE, "../../../../../../etc/passwd")]),
    ("hardlink-abs", [("x", tarfile.LNKTYPE, "/etc/passwd")]),
])
def test_a_way_out_is_refused(host, importer, name, entries):
    def fill(tar):
        add(tar, "bin", type=tarfile.DIRTYPE)
        for path, type, link in entries:
            add(tar, path, type=type, linkname=link)

    before = os.stat("/etc/passwd").st_nlink
    got = importer(archive(fill), name, status=422)
    assert got["message"] and not os.path.exists("/tmp/escaped")
    assert os.stat("/etc/passwd").st_nlink == before


@pytest.mark.parametrize("data", [b"", b"not an archive at all", b"\x1f\x8b\x08\x00damaged", archive(lambda tar: add(tar, "etc/x"))],
                         ids=["empty", "text", "gzip", "no-bin"])
def test_what_is_no_root_file_system(importer, data):
    importer(data, "nothing", status=422)


def elf(machine):
    with open("/bin/bash", "rb") as file:
        data = bytearray(file.read())
    data[18:20] = machine.to_bytes(2, "little")
    return bytes(data)


@pytest.mark.parametrize("name, entry, word", [
    ("busybox", ("bin/busybox", {"data": b"#!x"}), "has no /bin/bash"),
    ("no-file", ("bin/bash", {"type": tarfile.DIRTYPE}), "has no /bin/bash"),
    ("no-program", ("bin/bash", {"data": b"#!/bin/sh", "mode": 0o644}), "has no /bin/bash"),
    ("leads-nowhere", ("bin/bash", {"type": tarfile.SYMTYPE, "linkname": "/usr/bin/nothing"}), "has no /bin/bash"),
    ("no-loader", ("bin/bash", {"data": elf(62 if os.uname().machine == "x86_64" else 183)}), "which the image lacks"),
    ("another-processor", ("bin/bash", {"data": elf(22)}), "for another processor"),
])
def test_an_image_that_no_box_can_run_is_refused(host, importer, tmp_path, name, entry, word):
    """And nothing of it stays."""
    def fill(tar):
        add(tar, "bin/sh", b"#!/bin/busybox\n")
        add(tar, entry[0], **entry[1])

    assert word in importer(archive(fill), name, status=422)["message"]
    (tmp_path / "x.tar").write_bytes(archive(fill))
    done = host.cli("template", "import", name, tmp_path / "x.tar", check=False)
    assert done.returncode == 1 and word in done.stderr


def first(tar):
    bash(tar)
    add(tar, "bin/sh", b"one")
    add(tar, "etc/gone", b"x")
    add(tar, "etc/kept", b"x")
    add(tar, "opt/all/a", b"x")
    add(tar, "opt/all/b", b"x")


def second(tar):
    add(tar, "etc/.wh.gone")
    add(tar, "opt/all/c", b"new")
    add(tar, "opt/all/.wh..wh..opq")
    add(tar, "bin/sh", b"two")
    add(tar, ".wh...", b"")
    add(tar, "etc/.wh.")


def test_an_image_is_its_layers(host, importer, tmp_path):
    layout = image(tmp_path / "layout", (first, "w:gz"), (second, "w"))
    packed = archive(lambda tar: tar.add(layout, "."))
    for name, source in (("layout", layout), ("packed", packed)):
        root = importer(source, name)
        assert (root / "bin/sh").read_bytes() == b"two"
        assert sorted(os.listdir(root / "etc")) == ["group", "kept", "passwd"] and os.listdir(root / "opt/all") == ["c"]


def test_an_image_names_nothing_outside_itself(host, importer, tmp_path):
    """A link in it may not lead to archives of the machine."""
    (tmp_path / "backup.tar").write_bytes(archive(first, "w"))

    def fill(tar):
        add(tar, "link", type=tarfile.SYMTYPE, linkname=str(tmp_path))
        add(tar, "manifest.json", json.dumps([{"Layers": ["link/backup.tar"]}]).encode())

    assert "link/backup.tar" in importer(archive(fill), "outside", status=422)["message"]


def test_a_layer_replaces_what_is_below(host, importer, tmp_path):
    """Files, links and directories in each other's place, hard links, and what whiteouts leave alone."""
    def below(tar):
        bash(tar)
        add(tar, "a/dir/deep/file", b"x")
        add(tar, "a/file", b"x")
        add(tar, "real/inside", b"x")
        add(tar, "a/link", type=tarfile.SYMTYPE, linkname="/real")
        add(tar, "a/through", type=tarfile.SYMTYPE, linkname="../real")
        add(tar, "one", b"old")
        add(tar, "two", type=tarfile.LNKTYPE, linkname="one")
        add(tar, "opaque", type=tarfile.DIRTYPE, uid=1000, mode=0o770)
        add(tar, "opaque/gone", b"x")

    def above(tar):
        add(tar, "a/dir", b"now a file")
        add(tar, "a/file", type=tarfile.DIRTYPE)
        add(tar, "a/file/in", b"y")
        add(tar, "a/link", type=tarfile.DIRTYPE)
        add(tar, "a/link/own", b"y")
        add(tar, "a/through/passed", b"y")
        add(tar, "one", b"new")
        add(tar, "three", type=tarfile.LNKTYPE, linkname="two")
        add(tar, "opaque/.wh..wh..opq")
        add(tar, "dev/null", type=tarfile.CHRTYPE)
        add(tar, "pipe", type=tarfile.FIFOTYPE)
        add(tar, "up", type=tarfile.SYMTYPE, linkname="../../../../../../../../etc/hostname")

    root = importer(image(tmp_path / "layout", (below, "w"), (above, "w:gz")), "replaced")
    assert (root / "a/dir").read_bytes() == b"now a file" and os.listdir(root / "a/file") == ["in"]
    assert os.listdir(root / "a/link") == ["own"] and sorted(os.listdir(root / "real")) == ["inside", "passed"]
    assert (root / "one").read_bytes() == b"new" and (root / "two").read_bytes() == b"old"
    assert (root / "three").samefile(root / "two")
    kept = (root / "opaque").stat()
    assert os.listdir(root / "opaque") == [] and (kept.st_uid, kept.st_mode & 0o777) == (1000, 0o770)
    assert not (root / "dev/null").exists() and not (root / "pipe").exists() and (root / "up").is_symlink()


def test_what_docker_saves(host, importer, tmp_path):
    folder = saved(tmp_path / "saved", [first, second], "../1/layer.tar", {"Env": ["A=b"]})
    for name, source in (("saved", folder), ("packed", archive(lambda tar: tar.add(folder, ".")))):
        root = importer(source, name)
        assert (root / "bin/sh").read_bytes() == b"two" and os.listdir(root / "opt/all") == ["c"]
        assert json.loads((root.parent / "about.json").read_text())["image"] == {"env": {"A": "b"}}


@pytest.mark.parametrize("link", ["../../outside.tar", "/etc/passwd", "nothing", "layer.tar"])
def test_a_layer_that_leads_out_is_refused(host, importer, tmp_path, link):
    (tmp_path / "outside.tar").write_bytes(archive(first))
    assert "lacks" in importer(saved(tmp_path / "saved", [first], link, {}), "out", status=422)["message"]


def test_what_an_image_says_about_running_it(host, importer, tmp_path):
    def fill(tar):
        programs(tar, "bash", "sh")
        add(tar, "app", type=tarfile.DIRTYPE)
        add(tar, "private/app", type=tarfile.DIRTYPE)
        add(tar, "private", type=tarfile.DIRTYPE, mode=0o700)
        add(tar, "file")

    def settings(number, **config):
        root = importer(image(tmp_path / f"layout{number}", (fill, "w"), config=config), f"says-{number}")
        return json.loads((root.parent / "about.json").read_text())["image"]

    odd = ["GOOD=1", "EMPTY=", "TWO=a=b", "=x", "nothing", "a b=c", 7, None, "AIO_LISTEN=0.0.0.0:1", "USER=root", "HOME=/nowhere",
           "SANDBOX_API_KEY=guess", "WORKSPACE=/private", "BIG=" + "x" * 70000]
    said = settings(1, Env=odd, WorkingDir="/app/", User="root", Entrypoint=["/nothing"])
    assert said == {"env": {"GOOD": "1", "EMPTY": "", "TWO": "a=b"}, "workdir": "/app/"}
    box = host.create(template="says-1")
    assert box.run('echo "$PWD $GOOD-$EMPTY-$TWO $HOME $USER"') == "/app 1--a=b /home/gem gem\n"
    box.delete()
    for number, place in enumerate(["/", "relative", "/file", "/private/app", "/nothing", "", 7, "/../../../../tmp/x"], 2):
        assert settings(number, WorkingDir=place) == {"env": {}}, place
    assert settings(99, Env="no list") == {"env": {}}


def test_a_damaged_image_is_refused(host, importer, tmp_path):
    layout = image(tmp_path / "layout", (first, "w"))
    victim = max((layout / "blobs/sha256").iterdir(), key=lambda path: path.stat().st_size)
    data = bytearray(victim.read_bytes())
    data[600] ^= 1
    victim.write_bytes(data)
    assert "damaged" in importer(layout, "damaged", status=422)["message"]


def test_a_template_of_a_snapshot_by_the_command_line(host):
    box = host.create()
    box.run("echo baked >~/baked")
    assert host.cli("snapshot", box.id, "baked").stdout == "baked\n"
    assert "baked" in host.cli("template", "ls").stdout
    two = host.create(template="baked")
    assert two.data["template"] == "baked" and two.run("cat ~/baked") == "baked\n"
    two.delete()
    assert host.cli("template", "rm", "baked").stdout == "baked\n"


def test_boxes_are_made_while_packages_come_and_go(host):
    """Files and directories that were just seen are gone."""
    done = threading.Event()

    def churn(place):
        while not done.is_set():
            with tempfile.TemporaryDirectory(prefix="aio-churn-", dir=place) as folder:
                os.chmod(folder, 0o755)
                for i in range(20):
                    os.mkdir(f"{folder}/{i}", 0o755)
                    open(f"{folder}/{i}/secret", "w", opener=lambda path, flags: os.open(path, flags, 0o600)).close()
                done.wait(0.05)

    with ThreadPoolExecutor() as pool:
        churns = [pool.submit(churn, place) for place in ("/usr/local/share", "/etc")]
        try:
            for _ in range(2):
                made = host.api("POST", "/v1/sandboxes", json={}, timeout=100)
                host.api("DELETE", f"/v1/sandboxes/{made['id']}")
            assert not any(one.done() for one in churns)  # they have gone on all the while
        finally:
            done.set()


def test_what_is_hidden_later_is_not_seen_by_boxes_made_later(host):
    """A box is root for the mode bits of the machine's own files: so those that are not public are not there."""
    folder = Path(tempfile.mkdtemp(prefix="aio-late-", dir="/usr/local/share"))
    folder.chmod(0o755)
    try:
        (folder / "turned").write_text("was public")
        assert host.create().run(f"sudo cat {folder}/turned") == "was public"
        (folder / "turned").chmod(0o600)
        (folder / "made").touch(0o600)
        (folder / "made").write_text("late secret")
        (folder / "moved").write_text("late secret")
        (folder / "below").mkdir(0o755)
        (folder / "below" / "made").touch(0o640)
        os.rename(folder / "made", folder / "below" / "moved")
        (folder / "shown").write_text("shown")
        (folder / "closed").mkdir(0o700)
        (folder / "closed" / "made").write_text("late secret")
        box = host.create()
        assert box.run(f"sudo find {folder} -type f | sort").split() == [f"{folder}/moved", f"{folder}/shown"]
        (folder / "below" / "made").chmod(0o644)
        again = host.create()
        assert again.run(f"sudo find {folder} -type f | sort").split() == [f"{folder}/{name}" for name in
                                                                               ("below/made", "moved", "shown")]
        assert again.run(f"cat {folder}/shown") == "shown"
    finally:
        shutil.rmtree(folder)
