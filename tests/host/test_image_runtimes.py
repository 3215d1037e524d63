"""What an image needs for Python, Jupyter, Node.js and documents in its boxes: what is missing is named, and where the
image has what the product's own runtimes need, they serve its boxes too."""

import os
import subprocess
import tarfile

import pytest

from archives import add, archive, libraries, programs
from harness import ROOT

CALLS = {
    "kernel": ("/v1/jupyter/execute", {"code": "1 + 1"}),
    "python": ("/v1/code/execute", {"language": "python", "code": "print(1 + 1)"}),
    "node": ("/v1/nodejs/execute", {"code": "console.log(1 + 1)"}),
    "javascript": ("/v1/code/execute", {"language": "javascript", "code": "console.log(1 + 1)"}),
    "session": ("/v1/nodejs/execute", {"code": "1 + 1", "stateful": True}),
    "document": ("/v1/util/convert_to_markdown", {"uri": "file:///etc/passwd"}),
}


def bare(tar):
    programs(tar, "bash", "sh", "cat", "id", "env")
    for name in ("tmp", "etc", "home"):
        add(tar, name, type=tarfile.DIRTYPE)


def call(box, what):
    path, body = CALLS[what]
    return box.request("POST", path, json=body, timeout=100)


def test_an_image_with_neither_says_what_to_add(host, importer):
    importer(archive(bare), "bare")
    box = host.create(template="bare")
    for what, words in {"kernel": ["python3", "ipykernel", "image"], "python": ["python3", "image"],
                        "document": ["python3", "image"], "node": ["libstdc++", "nodejs", "image"],
                        "javascript": ["libstdc++", "nodejs", "image"], "session": ["libstdc++", "nodejs", "image"]}.items():
        answer = call(box, what)
        said = answer.json()["message"] + (answer.json()["hint"] or "")
        assert all(word in said for word in words) and "make deps" not in said, (what, answer.text)
        assert answer.status_code == 503 or what in ("node", "javascript", "session"), answer.text
    box.delete()


def test_a_python_of_another_version_is_the_image_s_own(host, importer):
    """It has none of the product's packages, so it must not be taken for the product's Python: that would hide the image's."""
    def fill(tar):
        bare(tar)
        add(tar, "usr/bin/python3.99", b"#!/bin/bash\necho own python, \"$@\"\n")
        add(tar, "usr/bin/python3", type=tarfile.SYMTYPE, linkname="python3.99")

    importer(archive(fill), "other")
    box = host.create(template="other")
    assert box.run("command -v python3; python3 --version") == "/usr/bin/python3\nown python, --version\n"
    answer = call(box, "kernel")
    assert answer.status_code == 503 and "ipykernel" in answer.text and "image" in answer.text, answer.text
    assert "document" in call(box, "document").text
    box.delete()


def own_python():
    """The version of the product's packages, where this machine has it under that name."""
    real = os.path.basename(os.path.realpath("/usr/bin/python3"))
    return real if os.path.isdir(f"{ROOT}/.venv/lib/{real}") else None


def test_an_image_with_the_same_python_has_the_product_s_packages(host, importer):
    version = own_python()
    if not version:
        pytest.skip("no .venv of this machine's Python")

    def fill(tar):
        bare(tar)
        add(tar, f"usr/bin/{version}", open(f"/usr/bin/{version}", "rb").read())
        add(tar, "usr/bin/python3", type=tarfile.SYMTYPE, linkname=version)
        libraries(tar, f"/usr/bin/{version}")
        tar.add(f"/usr/lib/{version}", f"usr/lib/{version}",
                filter=lambda info: None if info.name.endswith(("__pycache__", "/test", "idlelib")) else info)
        modules = [os.path.join(f"/usr/lib/{version}/lib-dynload", name) for name in os.listdir(f"/usr/lib/{version}/lib-dynload")]
        libraries(tar, *modules)
        for name in ("libstdc++.so.6", "libgcc_s.so.1", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libm.so.6"):
            path = find_library(name)
            add(tar, path.lstrip("/"), open(path, "rb").read())

    importer(archive(fill), "same")
    box = host.create(template="same", services=[])
    got = call(box, "kernel")
    assert got.status_code == 200 and "2" in got.text, got.text
    assert call(box, "node").json()["data"]["stdout"] == "2\n"
    assert box.run("python3 -c 'import ipykernel, numpy; print(numpy.arange(3).sum())'") == "3\n"
    box.delete()


def find_library(name):
    said = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    return next(line.split(" => ")[1] for line in said.splitlines() if line.strip().startswith(name + " "))
