"""With whose rights files are touched: those of the sandbox user, and with sudo those of root."""

import os
import pwd
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest

from files import ask, bad, good, names, refused
from harness import START_SECONDS, STOP_SECONDS, clean_environment, eventually, program
from processes import ROOT_ONLY, tester, together  # noqa: F401

pytestmark = ROOT_ONLY


@pytest.fixture(scope="module")
def place(tester):
    """Where that user may be: what pytest makes is for root only."""
    with tempfile.TemporaryDirectory(prefix="aio-test.") as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


@pytest.fixture(scope="module")
def server(start_shared, tester, place):
    home = place / "work"
    home.mkdir()
    who = pwd.getpwnam(tester)
    os.chown(home, who.pw_uid, who.pw_gid)
    return start_shared(["--user", tester], env={"WORKSPACE": str(home)})


@pytest.fixture(scope="module")
def who(tester):
    return pwd.getpwnam(tester)


@pytest.fixture
def mine(place, who):
    """An empty directory of the user's."""
    folder = Path(tempfile.mkdtemp(dir=place))
    os.chown(folder, who.pw_uid, who.pw_gid)
    yield folder
    subprocess.run(["rm", "-rf", folder], check=True)


@pytest.fixture
def roots(place):
    """One of root's that everybody may look into."""
    folder = Path(tempfile.mkdtemp(dir=place))
    folder.chmod(0o755)
    yield folder
    subprocess.run(["rm", "-rf", folder], check=True)


def owner(path):
    return os.lstat(path).st_uid, os.lstat(path).st_gid


DENIED = ("permission_denied", "EACCES", "PermissionError")


def test_what_is_made_is_the_user_s(server, mine, who):
    good(server, "write", file=f"{mine}/a/b/file", content="x")
    good(server, "write", file=f"{mine}/log", content="x", append=True)
    good(server, "str_replace_editor", command="create", path=f"{mine}/c/made", file_text="x")
    files = {"file": ("name", b"x" * 100000)}
    assert server.request("POST", "/v1/file/upload", files=files, data={"path": f"{mine}/d/up"}).json()["success"]
    for name in ("a", "a/b", "a/b/file", "log", "c", "c/made", "d", "d/up"):
        assert owner(mine / name) == (who.pw_uid, who.pw_gid), name
    assert stat.S_IMODE(os.stat(mine / "d/up").st_mode) == 0o644


def test_what_root_makes_is_root_s(server, mine, roots):
    for folder in (mine, roots):
        good(server, "write", file=f"{folder}/a/file", content="x", sudo=True)
        assert owner(folder / "a") == owner(folder / "a/file") == (0, 0)


@pytest.mark.parametrize("sudo", [False, True])
def test_reading(server, roots, sudo):
    secret = roots / "secret"
    secret.write_text("for root\n")
    secret.chmod(0o600)
    closed = roots / "closed"
    closed.mkdir(mode=0o700)
    (closed / "file").write_text("inside")
    calls = [("read", {"file": str(secret)}), ("read", {"file": f"{closed}/file"}), ("list", {"path": str(closed)}),
             ("replace", {"file": str(secret), "old_str": "root", "new_str": "gods"})]
    for what, body in calls:
        if sudo:
            good(server, what, **body, sudo=True)
        else:
            assert refused(server, what, **body) == DENIED, (what, body)
    assert secret.read_text() == ("for gods\n" if sudo else "for root\n") and owner(secret) == (0, 0)
    if not sudo:
        assert bad(server, "str_replace_editor", command="view", path=str(secret))["error_type"] == "permission_denied"
        for path in (secret, closed / "file"):
            assert server.get("/v1/file/download", params={"path": str(path)}).status_code == 403
        listed = good(server, "list", path=str(roots), recursive=True)["files"]
        assert {Path(file["path"]).name for file in listed} == {"secret", "closed"}


@pytest.mark.parametrize("sudo", [False, True])
def test_writing(server, roots, sudo):
    readable = roots / "readable"
    readable.write_text("old")
    readable.chmod(0o644)
    for path, more in [(readable, {}), (readable, {"append": True}), (roots / "new", {}), (roots / "dir/new", {})]:
        if sudo:
            good(server, "write", file=str(path), content="new", sudo=True, **more)
        else:
            assert refused(server, "write", file=str(path), content="new", **more) == DENIED, path
    assert readable.read_text() == ("newnew" if sudo else "old")
    assert names(roots) == (["dir", "new", "readable"] if sudo else ["readable"])
    if not sudo:
        assert bad(server, "str_replace_editor", command="insert", path=str(readable), insert_line=0,
                   new_str="x")["error_type"] == "permission_denied"
        answer = server.request("POST", "/v1/file/upload", files={"file": b"x"}, data={"path": str(readable)}).json()
        assert answer["success"] is False and answer["data"]["error_type"] == "permission_denied"
        assert readable.read_text() == "old"


def test_a_file_that_may_not_be_written_is_not_replaced_either(server, mine, who):
    """Though its directory would allow that."""
    path = mine / "read-only"
    path.write_text("old")
    path.chmod(0o444)
    os.chown(path, who.pw_uid, who.pw_gid)
    assert refused(server, "write", file=str(path), content="new") == DENIED
    path.chmod(0o644)
    os.chown(path, 0, 0)
    assert refused(server, "write", file=str(path), content="new") == DENIED
    assert path.read_text() == "old" and names(mine) == ["read-only"]
    good(server, "write", file=str(path), content="by root", sudo=True)
    assert path.read_text() == "by root" and owner(path) == (0, 0)


def test_a_directory_that_may_not_be_changed(server, roots, who):
    """A file of the user's in it is written in place."""
    path = roots / "file"
    path.write_text("old and longer")
    os.chown(path, who.pw_uid, who.pw_gid)
    inode = path.stat().st_ino
    good(server, "write", file=str(path), content="new")
    assert path.read_text() == "new" and path.stat().st_ino == inode and names(roots) == ["file"]
    files = {"file": ("name", b"uploaded, and longer than it was")}
    assert server.request("POST", "/v1/file/upload", files=files, data={"path": str(path)}).json()["success"]
    assert path.read_text() == "uploaded, and longer than it was" and path.stat().st_ino == inode


def test_somebody_else_s_file_stays_theirs(server, mine, who):
    path = mine / "shared"
    path.write_text("old")
    os.chown(path, 65534, 65534)
    path.chmod(0o666)
    good(server, "write", file=str(path), content="new")
    assert path.read_text() == "new" and owner(path) == (65534, 65534) and stat.S_IMODE(path.stat().st_mode) == 0o666
    os.chown(path, who.pw_uid, 65534)  # a group the user is not in
    good(server, "write", file=str(path), content="newer")
    assert path.read_text() == "newer" and owner(path) == (who.pw_uid, 65534)
    good(server, "write", file=str(path), content="by root", sudo=True)
    assert path.read_text() == "by root" and owner(path) == (who.pw_uid, 65534) and names(mine) == ["shared"]


def test_a_sticky_directory(server, mine, who):
    """As /tmp is: who may write a file may still not rename over it."""
    os.chown(mine, 0, 0)
    mine.chmod(0o1777)
    path = mine / "file"
    path.write_text("old")
    os.chown(path, 65534, who.pw_gid)
    path.chmod(0o664)
    good(server, "write", file=str(path), content="new")
    assert path.read_text() == "new" and owner(path) == (65534, who.pw_gid) and names(mine) == ["file"]


def test_a_group_s_file(server, mine, who, tester):
    """One of the user's further groups gives rights, too."""
    group = [g for g in os.getgrouplist(tester, who.pw_gid) if g != who.pw_gid][0]
    path = mine / "group"
    path.write_text("old")
    os.chown(path, who.pw_uid, group)
    path.chmod(0o660)
    good(server, "write", file=str(path), content="new")
    assert owner(path) == (who.pw_uid, group) and stat.S_IMODE(path.stat().st_mode) == 0o660
    os.chown(path, 0, group)
    assert good(server, "read", file=str(path))["content"] == "new"
    good(server, "write", file=str(path), content="newer")
    assert path.read_text() == "newer" and owner(path) == (0, group)
    mine.chmod(0o2775)
    os.chown(mine, who.pw_uid, group)
    good(server, "write", file=f"{mine}/made", content="x")
    files = {"file": ("name", b"x")}
    assert server.request("POST", "/v1/file/upload", files=files, data={"path": f"{mine}/uploaded"}).json()["success"]
    assert owner(mine / "made") == owner(mine / "uploaded") == (who.pw_uid, group)


@pytest.mark.concurrency
def test_rights_are_of_the_request_alone(server, roots):
    """Many at once, every other one with sudo, on few connections."""
    secret = roots / "secret"
    secret.write_text("for root")
    secret.chmod(0o600)

    def read(i):
        with_sudo = bool(i % 2)
        answer = ask(server, "read", file=str(secret), sudo=with_sudo)
        return answer["success"] == with_sudo

    assert all(together(32, lambda i: all(read(i + k) for k in range(10))))
    # And what the server itself does, it does as root again.
    assert good(server, "read", file=str(secret), sudo=True)["content"] == "for root"
    status = Path(f"/proc/{server.pid}/status").read_text()
    assert "Uid:\t0\t0\t0\t0\n" in status and "Gid:\t0\t0\t0\t0\n" in status


def test_a_server_that_is_not_root(tester, who, place, mine):
    """Has no sudo to give, and says why."""
    subprocess.run(["cp", program("aio"), place / "aio"], check=True)
    listener = "127.0.0.1:0"
    out, err = mine / "out", mine / "err"
    command = ["setpriv", f"--reuid={who.pw_uid}", f"--regid={who.pw_gid}", "--init-groups", place / "aio", "serve",
               "--listen", listener]
    env = clean_environment(mine, {"AIO_HOME": str(place)})
    with open(out, "wb") as stdout, open(err, "wb") as stderr:
        process = subprocess.Popen(command, env=env, stdout=stdout, stderr=stderr, cwd=mine)
    try:
        assert eventually(lambda: b"\n" in out.read_bytes(), START_SECONDS), err.read_text()
        import httpx

        url = out.read_text().split("ready: ")[1].split()[0]
        (mine / "file").write_text("x")
        os.chown(mine / "file", who.pw_uid, who.pw_gid)
        with httpx.Client(base_url=url, timeout=60) as client:
            for what, body in [("read", {"file": f"{mine}/file"}), ("write", {"file": f"{mine}/file", "content": "y"})]:
                answer = client.post(f"/v1/file/{what}", json={**body, "sudo": True}).json()
                assert answer["success"] is False and answer["data"]["error_type"] == "permission_denied"
                assert "not as root" in answer["message"] and answer["data"]["exception_type"] == "PermissionError"
                assert client.post(f"/v1/file/{what}", json=body).json()["success"] is True
        assert (mine / "file").read_text() == "y"
    finally:
        process.terminate()
        assert process.wait(STOP_SECONDS) == 0, err.read_text()




def test_a_search_gives_its_rights_to_no_other_thread(start_server, tester, mine):
    """The first request of all starts a thread that stays: with the rights of the server, not of the search."""
    server = start_server(["--user", tester], env={"WORKSPACE": str(mine)})
    (mine / "file").write_text("needle\n")
    assert good(server, "grep", path=str(mine), pattern="needle")["match_count"] == 1

    def rights():
        found = set()
        for status in Path(f"/proc/{server.pid}/task").glob("*/status"):
            try:
                lines = status.read_text().splitlines()
            except (FileNotFoundError, ProcessLookupError):
                continue
            found.add(tuple(line for line in lines if line.startswith(("Uid:", "Gid:", "Groups:"))))
        return found

    assert len(rights()) == 1


def test_a_snapshot_is_looked_at_with_the_user_s_rights(server, roots):
    """Else the answer would say which of root's files there are."""
    secret = roots / "secret"
    secret.write_text("x=1\n")
    secret.chmod(0o600)
    answers = [server.post("/v1/bash/sessions/create", {"snapshot_path": str(path)}) for path in (secret, roots / "none")]
    assert [answer.status_code for answer in answers] == [400, 400]
    secret.chmod(0o644)
    assert server.post("/v1/bash/sessions/create", {"snapshot_path": str(secret)}).status_code == 200


def test_the_version_of_npm_is_read_with_the_user_s_rights(start_server, tester, roots):
    (roots / "bin").mkdir(mode=0o755)
    (roots / "bin/npm").write_text("#!/bin/sh\n")
    (roots / "bin/npm").chmod(0o755)
    manifest = roots / "package.json"
    manifest.write_text('{"version": "1.2.3"}')
    server = start_server(["--user", tester], env={"PATH": f"{roots}/bin:{os.environ['PATH']}"})
    assert server.get("/v1/nodejs/info").json()["data"]["npm_version"] == "1.2.3"
    manifest.chmod(0o600)
    assert server.get("/v1/nodejs/info").json()["data"]["npm_version"] == ""
