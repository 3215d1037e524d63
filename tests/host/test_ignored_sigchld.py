"""A host that was started with SIGCHLD ignored, as some supervisors do. The kernel then reports the end of no child."""

import pytest

from hosts import Host, folder
from refusals import problem


class Deaf(Host):
    before = ("env", "--ignore-signal=CHLD")


@pytest.fixture(scope="module")
def host():
    host = Deaf(folder(), ["--import-roots", "/"])
    yield host
    host.end()


def test_what_cannot_be_unpacked_is_refused(host, tmp_path):
    (tmp_path / "x.tar").write_text("not an archive at all")
    got = host.client.post("/v1/templates", headers=host.auth, json={"name": "x", "source": str(tmp_path / "x.tar")})
    assert got.status_code == 422 and "archive" in problem(got), got.text
    assert [one["name"] for one in host.api("GET", "/v1/templates")] == ["machine"]


def test_a_folder_is_packed_by_the_command_line(host, tmp_path):
    done = host.cli("template", "import", "empty", tmp_path, check=False)
    assert done.returncode == 1 and "it has no /bin" in done.stderr, done.stderr
