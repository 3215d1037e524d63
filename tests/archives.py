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
    find = f"import sys, {', '.join(modules)}; print(*{{m.__file__ for m in sys.modules.values() if getattr(m, '__file__', 0)}})"
    said = subprocess.run(["/usr/bin/python3", "-I", "-c", find], capture_output=True, text=True, check=True).stdout
    files = [path for path in said.split() if path.startswith("/usr/lib/python")]
    for path in ["/usr/bin/python3", *files]:
        add(tar, path.lstrip("/"), open(path, "rb").read())
    libraries(tar, "/usr/bin/python3", *(path for path in files if path.endswith(".so")))
