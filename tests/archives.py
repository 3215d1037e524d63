"""Archives of root file systems, and images."""

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile


def add(tar, name, data=b"", type=tarfile.REGTYPE, mode=0o755, uid=0, **more):
    info = tarfile.TarInfo(name)
    info.type, info.size, info.mode, info.uid, info.gid = type, len(data), mode, uid, uid
    for key, value in more.items():
        setattr(info, key, value)
    tar.addfile(info, io.BytesIO(data))


def archive(fill, mode="w"):
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode, format=tarfile.PAX_FORMAT) as tar:
        fill(tar)
    return file.getvalue()


def programs(tar, *names):
    """Programs of this machine, with the libraries that they load."""
    paths = {name: shutil.which(name) for name in names}
    for name, path in paths.items():
        add(tar, f"bin/{name}", open(path, "rb").read())
    libraries(tar, *paths.values())


def libraries(tar, *paths):
    said = subprocess.run(["ldd", *paths], capture_output=True, text=True, check=True).stdout
    for path in set(re.findall(r"/\S+(?= \(0x)", said)):
        add(tar, path.lstrip("/"), open(path, "rb").read())


def python(tar, *modules):
    """This machine's Python, with the modules and what they need."""
    find = f"import sys, {', '.join(modules)}; print(*(getattr(m, '__file__', None) or '' for m in sys.modules.values()))"
    said = subprocess.run(["/usr/bin/python3", "-I", "-c", find], capture_output=True, text=True, check=True).stdout
    files = [path for path in set(said.split()) if path.startswith("/usr/lib/python")]
    for path in ["/usr/bin/python3", *files]:
        add(tar, path.lstrip("/"), open(path, "rb").read())
    libraries(tar, "/usr/bin/python3", *(path for path in files if path.endswith(".so")))


def bash(tar):
    """What every template has, where nobody runs it."""
    add(tar, "bin/bash", b"#!/bin/sh\n")


def blob(folder, data):
    digest = hashlib.sha256(data).hexdigest()
    (folder / "blobs/sha256").mkdir(parents=True, exist_ok=True)
    (folder / "blobs/sha256" / digest).write_bytes(data)
    return {"digest": f"sha256:{digest}", "size": len(data)}


def image(folder, *layers, config=None):
    """An OCI layout with an index in its index, as multi-platform images have. A layer is bytes, or a function that
    fills an archive and the archive's mode."""
    descriptors = [blob(folder, one if isinstance(one, bytes) else archive(*one)) for one in layers]
    config = blob(folder, json.dumps({"config": config or {}}).encode())
    manifest = blob(folder, json.dumps({"schemaVersion": 2, "config": config, "layers": descriptors}).encode())
    other = blob(folder, b'{"layers": []}')
    index = blob(folder, json.dumps({"manifests": [
        {**other, "platform": {"architecture": "s390x"}}, {**manifest, "platform": {"architecture": "amd64"}},
        {**manifest, "platform": {"architecture": "arm64"}}]}).encode())
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [index]}))
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return folder


def saved(folder, layers, link, config):
    """As 'docker save' writes it: a layer that is there twice is a link the second time."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"config": config}))
    names = []
    for number, fill in enumerate(layers):
        (folder / f"{number}").mkdir()
        (folder / f"{number}/layer.tar").write_bytes(archive(fill))
        names.append(f"{number}/layer.tar")
    (folder / "last").mkdir()
    os.symlink(link, folder / "last/layer.tar")
    text = [{"Config": "config.json", "RepoTags": None, "Layers": [*names, "last/layer.tar"]}]
    (folder / "manifest.json").write_text(json.dumps(text))
    return folder
