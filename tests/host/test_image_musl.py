"""Boxes of an image with musl instead of glibc, as Alpine's are. The product's own runtimes cannot run there: those of
the image do, and where it has none, the response names what to add."""

import os
import platform
import tarfile
from pathlib import Path

import pytest

from archives import add, archive

BUSYBOX, LOADER = "/bin/busybox", f"/lib/ld-musl-{platform.machine()}.so.1"
APPLETS = ("sh", "cat", "env", "id", "uname")
NODE = {"code": "console.log(1 + 1)"}


def is_static(path):
    """Whether a program names no loader that the image would have to have."""
    return os.path.exists(path) and b"/ld-linux" not in Path(path).read_bytes()[:4096]


pytestmark = pytest.mark.skipif(not (is_static(BUSYBOX) and os.path.exists(LOADER)),
                                reason="NOT TESTED: busybox-static or musl is not installed")


def bare(tar):
    """As Alpine's own: without bash."""
    for name in ("tmp", "etc", "home"):
        add(tar, name, type=tarfile.DIRTYPE)
    for path in (BUSYBOX, LOADER):
        add(tar, path.lstrip("/"), Path(path).read_bytes())
    for name in APPLETS:
        add(tar, f"bin/{name}", type=tarfile.SYMTYPE, linkname="busybox")
    add(tar, "sbin/apk", b"#!/bin/sh\n")


def alpine(tar):
    bare(tar)
    add(tar, "bin/bash", b'#!/bin/sh\nexec /bin/sh "$@"\n')


def message(box, path, **body):
    answer = box.request("POST", path, json=body, timeout=100)
    assert answer.status_code == 503, answer.text
    return answer.json()["message"]


def test_without_bash_it_is_refused(importer):
    assert "apk add bash" in importer(archive(bare), "bare", status=422)["message"]


def test_what_is_missing_is_named_as_alpine_names_it(host, importer):
    importer(archive(alpine), "alpine")
    box = host.create(template="alpine", services=[])
    assert box.run(f"id -un; test -x {LOADER} && echo musl") == "gem\nmusl\n"
    assert "apk add python3 py3-pip" in message(box, "/v1/jupyter/execute", code="1")
    assert "apk add python3" in message(box, "/v1/code/execute", language="python", code="1")
    assert "glibc" in message(box, "/v1/util/convert_to_markdown", uri="file:///etc/passwd")
    for more in ({}, {"stateful": True}, {"version": "node22"}):
        assert "apk add nodejs npm" in message(box, "/v1/nodejs/execute", **NODE, **more)
    assert "apk add nodejs npm" in message(box, "/v1/code/execute", language="javascript", **NODE)
    box.delete()


def test_its_own_runtimes_are_used(host, importer):
    """Also a Python of the product's version: its packages are for glibc."""
    def fill(tar):
        alpine(tar)
        for name in ("node", f"python{platform.python_version().rpartition('.')[0]}"):
            add(tar, f"usr/bin/{name}", b'#!/bin/sh\necho own "$@"\n')
        add(tar, "usr/bin/python3", type=tarfile.SYMTYPE, linkname=name)

    importer(archive(fill), "own")
    box = host.create(template="own", services=[])
    assert box.run("command -v python3; command -v node; node -v") == "/usr/bin/python3\n/usr/bin/node\nown -v\n"
    assert "ipykernel" in message(box, "/v1/jupyter/execute", code="1")
    assert box.request("POST", "/v1/nodejs/execute", json=NODE, timeout=100).json()["data"]["stdout"].startswith("own ")
    box.delete()
