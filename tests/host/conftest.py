"""Fixtures of the host's tests:

    host           one `aio up` for the whole run, with a box `default`
    box            a box of its own for a module
    start_host()   one more host, for this test alone
    rootless       a host without root, see tests/rootless.py
    importer()     makes a template of an archive or an image, or fails with a status

Each test must leave the host alive, and no box that it made."""

import os

import pytest

from hosts import Host, folder, why_not
from refusals import problem
from rootless import group, launcher, ranges, rootless  # noqa: F401: fixtures


def pytest_collection_modifyitems(items):
    reason = why_not()
    for item in items:
        if reason and "/tests/host/" in str(item.path):
            item.add_marker(pytest.mark.skip(reason=f"no host here: {reason}"))


@pytest.fixture(scope="session")
def host(tmp_path_factory):
    roots = tmp_path_factory.mktemp("roots")
    host = Host(folder(), ["--mount-roots", roots, "--import-roots", tmp_path_factory.getbasetemp()])
    host.roots = roots
    yield host
    host.end()


@pytest.fixture
def start_host():
    started = []

    def start(*args, at=None, **more):
        started.append(Host(at or folder(), *args, **more))
        return started[-1]

    yield start
    for host in started:
        host.end()


@pytest.fixture(scope="module")
def box(host):
    box = host.create()
    yield box
    box.delete()


@pytest.fixture
def importer(host, tmp_path):
    names = set()

    def do(data, name="imported", status=200):
        path = tmp_path / f"{name}.tar"
        if isinstance(data, bytes):
            path.write_bytes(data)
        else:
            path = data
        got = host.client.post("/v1/templates", headers=host.auth, json={"name": name, "source": str(path)})
        assert got.status_code == status, got.text
        assert "unpacking it has failed" not in got.text  # it has crashed
        if status == 200:
            names.add(name)
        return host.state / "templates" / name / "root" if status == 200 else {"message": problem(got)}

    yield do
    for name in names:
        host.api("DELETE", f"/v1/templates/{name}")
    assert os.listdir(host.state / "templates") == []


@pytest.fixture(autouse=True)
def boxes_are_gone(request):
    if "host" not in request.fixturenames:
        yield
        return
    host = request.getfixturevalue("host")
    if "box" in request.fixturenames:
        request.getfixturevalue("box")
    before = set(host.ids())
    yield
    host.check()
    for extra in set(host.ids()) - before:
        gone = host.client.delete(f"/v1/sandboxes/{extra}", headers=host.auth)
        assert gone.status_code in (200, 404), gone.text  # its time may just have run out
