"""Archives of root file systems."""

import io
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
    libraries = set()
    for name in names:
        path = shutil.which(name)
        add(tar, f"bin/{name}", open(path, "rb").read())
        said = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
        libraries |= set(re.findall(r"/\S+(?= \(0x)", said))
    for path in libraries:
        add(tar, path.lstrip("/"), open(path, "rb").read())
