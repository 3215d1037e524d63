"""/v1/skills: registered from directories and archives, read, deleted; and archives that mean harm."""

import io
import os
import stat
import threading
import zipfile
from pathlib import Path

import httpx
import pytest

import papers
from harness import ANSWER_SECONDS, eventually
from processes import ROOT_ONLY, below, tester, together  # noqa: F401

SKILL = """---
name: {0}
description: "How to {0}: well"
license: MIT
allowed-tools: [bash, "read"]
metadata:
  version: 1.5
  stable: true
  tags:
    - a
    - b
about: |
  Line one
  Line two
---

# {0}

Do it well.
"""
METADATA = {
    "license": "MIT",
    "allowed-tools": ["bash", "read"],
    "metadata": {"version": 1.5, "stable": True, "tags": ["a", "b"]},
    "about": "Line one\nLine two\n",
}


def metadata(name):
    return {"name": name, "description": f"How to {name}: well", **METADATA}


@pytest.fixture
def own(start_server):
    """A server of its own, without skills."""
    return start_server()


@pytest.fixture(autouse=True)
def none_left(request):
    yield
    if "server" in request.fixturenames:
        request.getfixturevalue("server").request("DELETE", "/v1/skills")


def make(folder, name, text=None, **files):
    skill = Path(folder) / name
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(SKILL.format(name) if text is None else text)
    for file, content in files.items():
        (skill / file.replace("__", ".")).write_text(content)
    return skill


def send(server, data=None, filename="skill.zip", timeout=110, **fields):
    files = [(name, (None, str(value))) for name, value in fields.items()]
    if data is not None:
        files.append(("file", (filename, data, "application/zip")))
    return server.request("POST", "/v1/skills/register", files=files, timeout=timeout)


def register(server, data=None, **more):
    answer = send(server, data, **more)
    assert answer.status_code == 200 and answer.json()["success"], answer.text
    result = answer.json()["data"]
    assert result["count"] == len(result["registered"])
    return result["registered"]


def refused(server, status, *words, data=None, **more):
    before = listing(server)
    answer = send(server, data, **more)
    assert answer.status_code == status, answer.text
    message = answer.json()["message"]
    for word in words:
        assert word in message, message
    assert listing(server) == before
    return message


def listing(server, **query):
    answer = server.get("/v1/skills/metadatas", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]["skills"]


def names(server, **query):
    return [skill["name"] for skill in listing(server, **query)]


def store(server):
    return server.home / ".aiobox/skills"


def content(server, name):
    return server.get(f"/v1/skills/{name}/content")


def remove(server, name):
    return server.request("DELETE", f"/v1/skills/{name}")


# --- directories -------------------------------------------------------------------------------


def test_none_at_first(own):
    assert listing(own) == []
    assert content(own, "x").status_code == 404 and remove(own, "x").status_code == 404
    answer = own.request("DELETE", "/v1/skills")
    assert answer.json()["data"] == {"count": 0, "removed": []}
    assert not store(own).exists()


def test_a_directory(server, tmp_path):
    skill = make(tmp_path, "cook")
    assert register(server, path=skill) == [
        {"name": "cook", "path": str(skill), "metadata": metadata("cook"), "dependency_commands": []}
    ]
    assert listing(server) == [
        {"name": "cook", "path": str(skill), "metadata": metadata("cook"), "dependency_commands": []}
    ]
    answer = content(server, "cook")
    assert answer.json()["data"] == {"name": "cook", "path": str(skill), "content": "# cook\n\nDo it well.\n"}


def test_a_directory_stays_when_its_skill_is_deleted(server, tmp_path):
    skill = make(tmp_path, "cook")
    register(server, path=skill)
    answer = remove(server, "cook")
    assert answer.status_code == 200 and answer.json()["data"]["path"] == str(skill)
    assert answer.json()["data"]["metadata"] == metadata("cook")
    assert names(server) == [] and (skill / "SKILL.md").exists()
    assert remove(server, "cook").status_code == 404


def test_an_empty_file_is_no_archive(server, tmp_path):
    """An SDK sends a file even where only a path is meant."""
    assert register(server, b"", path=make(tmp_path, "cook"))[0]["name"] == "cook"


def test_several_in_one_directory(server, tmp_path):
    for name in ("wash", "cook", "iron"):
        make(tmp_path, name)
    (tmp_path / "other").mkdir()
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden/SKILL.md").write_text("x")
    assert [skill["name"] for skill in register(server, path=tmp_path)] == ["cook", "iron", "wash"]
    assert names(server) == ["cook", "iron", "wash"]
    assert names(server, names="wash,cook") == ["cook", "wash"]
    assert names(server, names=" wash , nobody ") == ["wash"]
    assert names(server, names="nobody") == [] and names(server, names="") == ["cook", "iron", "wash"]
    answer = server.request("DELETE", "/v1/skills")
    assert answer.json()["data"] == {"count": 3, "removed": ["cook", "iron", "wash"]}
    assert names(server) == [] and (tmp_path / "cook/SKILL.md").exists()


def test_all_or_none(server, tmp_path):
    make(tmp_path, "good")
    make(tmp_path, "bad", "---\nname: [\n---\n")
    refused(server, 400, "bad", "front matter", path=tmp_path)
    (tmp_path / "bad/SKILL.md").write_text("---\nname: good\n---\n")
    refused(server, 409, "two skills", path=tmp_path)


def test_names(server, tmp_path):
    """The one asked for, else the skill's own, else the directory's."""
    assert register(server, path=make(tmp_path, "a"), name="other")[0]["name"] == "other"
    assert register(server, path=make(tmp_path, "b", "no front matter"))[0] == {
        "name": "b", "path": str(tmp_path / "b"), "metadata": {}, "dependency_commands": []}
    assert register(server, path=make(tmp_path, "c", SKILL.format("own.name_1")))[0]["name"] == "own.name_1"
    assert names(server) == ["b", "other", "own.name_1"]


@pytest.mark.parametrize("name", ["..", ".", ".hidden", "a/b", "a b", "-a", "a-", "ä", "a..b", "x" * 65, "a\nb", "a\\b"])
def test_names_that_are_none(server, tmp_path, name):
    skill = make(tmp_path, "good")
    refused(server, 400, "not a valid name for a skill", path=skill, name=name)
    (skill / "SKILL.md").write_text("---\nname: " + repr(name).replace("'", '"') + "\n---\n")
    refused(server, 400, "not a valid name for a skill", path=skill)
    refused(server, 400, "not a valid name for a skill", data=papers.archive({"SKILL.md": b"x"}), name=name)


def test_the_last_registration_counts(server, tmp_path):
    first, second = make(tmp_path / "1", "cook"), make(tmp_path / "2", "cook")
    register(server, path=first)
    register(server, path=second)
    assert [skill["path"] for skill in listing(server)] == [str(second)]


def test_directories_that_are_none(server, tmp_path):
    refused(server, 404, "nothing", path=tmp_path / "nothing")
    refused(server, 400, "no SKILL.md", path=tmp_path)
    refused(server, 400, "absolute", path="relative/dir")
    (tmp_path / "file").write_text("x")
    refused(server, 400, path=tmp_path / "file")
    refused(server, 400, "are needed", name="x")
    make(tmp_path, "one")
    refused(server, 400, "name is for one skill", path=tmp_path, name="x")
    assert server.post("/v1/skills/register", {"path": "/x"}).status_code in (400, 415, 422)


@pytest.mark.parametrize("text, word", [
    ("---\nname: x\n", "does not end"),
    ("---\n- a\n- b\n---\n", "keys and values"),
    ("---\na: b: c\n---\n", "line 1"),
    ("---\nok: 1\na: 'x\n---\n", "line"),
    ("---\na: &x [1]\nb: *x\n---\n", "aliases"),
    ("---\n? [a]\n: b\n---\n", "key"),
    ("---\na: " + "[" * 40 + "]" * 40 + "\n---\n", "deep"),
    ("---\na: \xff\n---\n".encode("latin-1"), "front matter"),
    ("---\na: " + "x" * 70000 + "\n---\n", "longer than"),
    ("x" * (1 << 20) + "x", "larger than"),
])
def test_skill_files_that_are_none(server, tmp_path, text, word):
    skill = make(tmp_path, "good")
    (skill / "SKILL.md").write_bytes(text if isinstance(text, bytes) else text.encode())
    refused(server, 400, word, path=skill)


def test_a_skill_file_that_is_no_file(server, tmp_path):
    os.mkfifo(tmp_path / "SKILL.md")
    refused(server, 400, "not a regular file", path=tmp_path)


def test_front_matter(server, tmp_path):
    text = ("\ufeff---\r\nname: odd\r\nempty:\r\nint: -7\r\nreal: 2.5e3\r\nzip: 01234\r\nbig: 123456789012345678901\r\n"
            "no: false\r\nquoted: 'true'\r\nfolded: >\r\n  a\r\n  b\r\nurl: http://x/y#z\r\n...\r\n\r\nText\r\n")
    skill = make(tmp_path, "x", "")
    (skill / "SKILL.md").write_bytes(text.encode())
    assert register(server, path=skill)[0]["metadata"] == {
        "name": "odd", "empty": None, "int": -7, "real": 2500.0, "zip": "01234", "big": 123456789012345678901.0,
        "no": False, "quoted": "true", "folded": "a b\n", "url": "http://x/y#z"}
    assert content(server, "odd").json()["data"]["content"] == "Text\r\n"


def test_a_skill_that_was_damaged_later(server, tmp_path):
    skill = make(tmp_path, "cook")
    register(server, path=skill)
    (skill / "SKILL.md").write_text("---\nname: [\n---\n")
    assert [(entry["name"], entry["metadata"]) for entry in listing(server)] == [("cook", {})]
    assert content(server, "cook").status_code == 400
    (skill / "SKILL.md").write_text("new text")
    assert content(server, "cook").json()["data"]["content"] == "new text"
    (skill / "SKILL.md").unlink()
    assert listing(server) == [] and content(server, "cook").status_code == 404
    answer = remove(server, "cook")
    assert answer.status_code == 200 and answer.json()["data"]["path"] == str(skill)
    assert remove(server, "cook").status_code == 404 and os.listdir(store(server)) == []


def test_an_archive_takes_the_place_of_a_directory(server, tmp_path):
    skill = make(tmp_path, "cook")
    register(server, path=skill)
    assert register(server, zipped())[0]["path"] == str(store(server) / "cook")
    assert os.listdir(store(server)) == ["cook"] and (skill / "SKILL.md").exists()


# --- archives ----------------------------------------------------------------------------------


def zipped(name="cook", **files):
    return papers.archive({"SKILL.md": SKILL.format(name).encode(), **files})


def test_an_archive(server):
    program = zipfile.ZipInfo("scripts/run.sh")
    program.external_attr, program.create_system = (stat.S_IFREG | 0o4755) << 16, 3
    data = papers.archive({"SKILL.md": SKILL.format("cook").encode(), "scripts/run.sh": (program, b"#!/bin/sh\n"),
                           "data/deep/er/x.txt": b"x" * 100000})
    registered = register(server, data)
    where = store(server) / "cook"
    assert registered == [{"name": "cook", "path": str(where), "metadata": metadata("cook"), "dependency_commands": []}]
    assert (where / "data/deep/er/x.txt").read_bytes() == b"x" * 100000
    assert stat.S_IMODE((where / "scripts/run.sh").stat().st_mode) == 0o755
    assert stat.S_IMODE((where / "SKILL.md").stat().st_mode) == 0o644
    assert content(server, "cook").json()["data"]["content"].startswith("# cook")
    assert remove(server, "cook").status_code == 200
    assert os.listdir(store(server)) == []


def test_an_archive_with_a_directory_around_it(server):
    register(server, papers.archive({"top/": b"", "top/SKILL.md": SKILL.format("cook").encode(), "top/x": b"1"}))
    assert sorted(os.listdir(store(server) / "cook")) == ["SKILL.md", "x"]


def test_an_archive_in_a_directory(server, tmp_path):
    registered = register(server, zipped(), path=tmp_path / "new/er", name="baker")
    assert registered[0]["name"] == "baker" and registered[0]["path"] == str(tmp_path / "new/er/baker")
    assert (tmp_path / "new/er/baker/SKILL.md").exists() and os.listdir(tmp_path / "new/er") == ["baker"]
    assert names(server) == ["baker"]
    remove(server, "baker")
    assert (tmp_path / "new/er/baker/SKILL.md").exists()


def test_an_archive_without_a_name_inside(server):
    assert register(server, papers.archive({"SKILL.md": b"text"}), filename="my-tool.zip")[0]["name"] == "my-tool"
    refused(server, 400, "not a valid name", data=papers.archive({"SKILL.md": b"text"}), filename="../../x y.zip")


def test_an_archive_of_several(server):
    data = papers.archive({f"{name}/SKILL.md": SKILL.format(name).encode() for name in ("one", "two")})
    assert [skill["name"] for skill in register(server, data, filename="pack.zip")] == ["one", "two"]
    assert [skill["path"] for skill in listing(server)] == [str(store(server) / "pack" / n) for n in ("one", "two")]
    assert remove(server, "one").status_code == 200 and names(server) == ["two"]
    assert not (store(server) / "pack/one").exists()
    assert len(register(server, data, filename="pack.zip")) == 2
    server.request("DELETE", "/v1/skills")
    assert os.listdir(store(server)) == []


def test_an_archive_of_several_in_a_directory_again(server, tmp_path):
    data = papers.archive({f"{name}/SKILL.md": SKILL.format(name).encode() for name in ("one", "two")})
    for _ in range(2):
        assert len(register(server, data, path=tmp_path, name="pack")) == 2
    assert os.listdir(tmp_path) == ["pack"] and sorted(os.listdir(tmp_path / "pack")) == ["one", "two"]


def test_a_newer_archive_replaces_the_older(server):
    register(server, zipped(old=b"1"))
    register(server, zipped(new=b"2"))
    assert sorted(os.listdir(store(server) / "cook")) == ["SKILL.md", "new"] and os.listdir(store(server)) == ["cook"]


def test_what_is_no_skill_is_not_replaced(server, tmp_path):
    (tmp_path / "cook").mkdir()
    (tmp_path / "cook/mine").write_text("mine")
    refused(server, 409, "is not a skill", data=zipped(), path=tmp_path)
    assert os.listdir(tmp_path) == ["cook"] and os.listdir(tmp_path / "cook") == ["mine"]
    register(server, zipped("wash"))
    refused(server, 409, "another skill 'wash'", path=make(tmp_path, "wash"))


def with_mode(name, mode, data=b"/etc/passwd"):
    info = zipfile.ZipInfo(name)
    info.external_attr, info.create_system = mode << 16, 3
    return {"SKILL.md": b"x", name: (info, data)}


def raw_name(name):
    """An archive with a member whose name zipfile would not write."""
    return papers.archive({"SKILL.md": b"x", "Q" * len(name): b"bad"}).replace(b"Q" * len(name), name)


# Made when they are needed: some take their time, and every worker process imports this.
HARMFUL = {
    "climbing": lambda: (papers.archive({"SKILL.md": b"x", "../evil": b"x"}), 400, "leads out"),
    "climbing later": lambda: (papers.archive({"SKILL.md": b"x", "a/../../evil": b"x"}), 400, "leads out"),
    "absolute": lambda: (raw_name(b"/tmp/evil"), 400, "bad name"),
    "backslash": lambda: (raw_name(b"..\\evil"), 400, "name"),
    "link": lambda: (papers.archive(with_mode("link", stat.S_IFLNK | 0o777)), 400, "not a plain file"),
    "device": lambda: (papers.archive(with_mode("device", stat.S_IFCHR | 0o666)), 400, "not a plain file"),
    "pipe": lambda: (papers.archive(with_mode("pipe", stat.S_IFIFO | 0o666)), 400, "not a plain file"),
    "too many": lambda: (papers.archive({"SKILL.md": b"x", **{f"f{i}": b"" for i in range(2001)}}), 413, "2000 members"),
    "bomb": lambda: (papers.archive({"SKILL.md": b"x", "zeroes": b"\0" * (257 << 20)}), 413, "unpacks to more"),
    "lies": lambda: (papers.zip_that_lies(10 << 20, 10), 400, "readable"),
    "file and directory": lambda: (papers.archive({"SKILL.md": b"x", "a": b"x", "a/b": b"x"}), 400, "as a file and as a directory"),
    "long name": lambda: (papers.archive({"SKILL.md": b"x", "n" * 300: b"x"}), 400, "leads out"),
    "no archive": lambda: (b"certainly no archive", 400, "not a readable zip"),
    "cut": lambda: (papers.archive({"SKILL.md": b"x" * 5000})[:-30], 400, "not a readable zip"),
    "no skill": lambda: (papers.archive({"README.md": b"x"}), 400, "no SKILL.md"),
    "empty": lambda: (papers.archive({}), 400, "no SKILL.md"),
}


@pytest.mark.parametrize("what", HARMFUL)
def test_a_harmful_archive_leaves_nothing(server, tmp_path, what):
    data, status, word = HARMFUL[what]()
    refused(server, status, word, data=data, path=tmp_path / "below", name="evil")
    assert os.listdir(tmp_path) == ["below"] and os.listdir(tmp_path / "below") == []
    assert not os.path.exists("/tmp/evil")


def test_a_member_twice(server, tmp_path):
    out = io.BytesIO()
    with pytest.warns(UserWarning), zipfile.ZipFile(out, "w") as file:
        file.writestr("SKILL.md", "x")
        file.writestr("SKILL.md", "y")
    refused(server, 400, "twice", data=out.getvalue(), path=tmp_path, name="evil")
    assert os.listdir(tmp_path) == []


def test_an_encrypted_archive(server, tmp_path):
    data = bytearray(papers.archive({"SKILL.md": b"secret"}))
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    refused(server, 400, "encrypted", data=bytes(data), path=tmp_path, name="evil")


def test_an_archive_larger_than_allowed(start_server):
    server = start_server(["--max-document", "100K"])
    refused(server, 413, "larger than", data=zipped(noise=os.urandom(200_000)))


def test_a_full_disk_leaves_nothing(server, tmp_path):
    if os.geteuid() != 0 or os.system(f"mount -t tmpfs -o size=1m none {tmp_path} 2>/dev/null") != 0:
        pytest.skip("NOT TESTED: cannot mount")
    try:
        refused(server, 400, "cannot be unpacked: No space left", data=zipped(noise=os.urandom(3 << 20)), path=tmp_path)
        assert os.listdir(tmp_path) == []
    finally:
        assert eventually(lambda: os.system(f"umount {tmp_path} 2>/dev/null") == 0)  # a fork may still end


# --- where they are kept -----------------------------------------------------------------------


def test_they_survive_a_restart(start_server, tmp_path):
    place = {"AIO_SKILLS_PATH": str(tmp_path / "skills")}
    first = start_server(env=place)
    register(first, zipped("cook"))
    register(first, path=make(tmp_path, "wash"))
    before = listing(first)
    assert [skill["path"] for skill in before] == [str(tmp_path / "skills/cook"), str(tmp_path / "wash")]
    first.signal()
    assert first.wait() == 0
    assert listing(start_server(env=place)) == before


def test_what_is_put_there_is_registered(start_server, tmp_path):
    make(tmp_path, "cook")
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    (tmp_path / "dangling").symlink_to("/nonexistent")
    make(tmp_path, ".aiobox-0000000000000000")
    server = start_server(["--skills", tmp_path])
    assert names(server) == ["cook"]
    assert content(server, "..").status_code == 404 and content(server, "%2e%2e%2fetc").status_code in (400, 404)
    assert remove(server, "empty").status_code == 404 and (tmp_path / "empty").exists()


def test_a_path_that_is_not_absolute(make_server):
    with pytest.raises(AssertionError, match="not an absolute path"):
        make_server(["--skills", "relative"])


@ROOT_ONLY
def test_all_is_done_with_the_users_rights(start_server, tester, tmp_path):  # noqa: F811
    server = start_server(["--user", tester, "--skills", f"/home/{tester}/skills"])
    registered = register(server, zipped())
    owner = os.stat(registered[0]["path"] + "/SKILL.md")
    assert owner.st_uid != 0 and owner.st_gid != 0
    secret = make(tmp_path, "secret")
    os.chmod(tmp_path, 0o700)
    answer = send(server, path=secret)
    assert answer.status_code == 403, answer.text
    assert send(server, zipped(), path="/usr/share/evil").status_code == 403
    assert not os.path.exists("/usr/share/evil")
    assert remove(server, "cook").status_code == 200


# --- what a skill needs ------------------------------------------------------------------------


def test_requirements_are_installed(server, tmp_path):
    """The result of pip is told, whatever it is; neither of these needs a network."""
    fine = make(tmp_path, "fine", requirements__txt="# nothing\n")
    done = register(server, path=fine)[0]["dependency_commands"]
    assert [entry["command"] for entry in done] == [["python3", "-m", "pip", "install", "-r", "requirements.txt"]]
    assert done[0]["success"] is True
    bad = make(tmp_path, "bad", requirements__txt="./missing-1.0-py3-none-any.whl\n")
    done = register(server, path=bad)[0]["dependency_commands"]
    assert done[0]["success"] is False and "missing-1.0" in done[0]["stdout"] + done[0]["stderr"]
    assert names(server) == ["bad", "fine"]
    assert eventually(lambda: below(server) <= {server.document_worker()})


def test_packages_are_installed(server, tmp_path):
    skill = make(tmp_path, "node", package__json='{"name": "x", "version": "1.0.0", "scripts": {"postinstall": "echo ran >ran"}}')
    done = register(server, path=skill)[0]["dependency_commands"]
    assert done[0]["command"][:2] == ["npm", "install"] and done[0]["success"], done
    assert (skill / "ran").read_text() == "ran\n"
    assert eventually(lambda: below(server) <= {server.document_worker()})


# --- many --------------------------------------------------------------------------------------


@pytest.mark.concurrency
def test_many_at_once(server):
    def one(i):
        register(server, zipped(f"skill{i % 8}", number=str(i).encode()))
        return names(server)

    together(24, one)
    assert names(server) == [f"skill{i}" for i in range(8)]
    for i in range(8):
        assert int((store(server) / f"skill{i}/number").read_text()) % 8 == i
    assert sorted(os.listdir(store(server))) == names(server)


@pytest.mark.concurrency
def test_registered_and_deleted_at_once(server):
    stop = threading.Event()

    def delete(_):
        while not stop.is_set():
            assert remove(server, "cook").status_code in (200, 404)
            server.request("DELETE", "/v1/skills")

    def add(_):
        for _ in range(10):
            register(server, zipped())

    deleting = threading.Thread(target=delete, args=(0,))
    deleting.start()
    try:
        together(3, add)
    finally:
        stop.set()
        deleting.join()
    server.request("DELETE", "/v1/skills")
    assert os.listdir(store(server)) == []


def test_the_official_sdk(server, tmp_path):
    from agent_sandbox import Sandbox

    with httpx.Client(timeout=ANSWER_SECONDS) as client:
        skills = Sandbox(base_url=server.url, httpx_client=client).skills
        result = skills.register_skills(file=("cook.zip", zipped()), name="cook").data
        assert result.count == 1 and result.registered[0].metadata["license"] == "MIT"
        assert [skill.name for skill in skills.list_metadata(names="cook").data.skills] == ["cook"]
        assert skills.get_content("cook").data.content.startswith("# cook")
        assert skills.delete_skill("cook").data.name == "cook"
        assert skills.clear_skills().success
