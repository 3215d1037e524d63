"""A zip archive into a directory: plain files and directories below it, and nothing else."""

import os
import stat
import zipfile

from refused import Refused

CHUNK = 1 << 20


def parts_of(name):
    """The components of a member's name; whatever could lead elsewhere is refused."""
    if "\0" in name or "\\" in name or name.startswith("/") or len(name.encode("utf-8", "replace")) > 4000:
        raise Refused("invalid", f"the archive has a member with a bad name: {name[:100]!r}")
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts or (parts and ":" in parts[0][:2]) or any(len(os.fsencode(part)) > 255 for part in parts):
        raise Refused("invalid", f"the archive has a member that leads out of it: {name[:100]!r}")
    return parts


def kind_of(member):
    """Directory or file; a symbolic link, device or pipe is refused."""
    kind = stat.S_IFMT(member.external_attr >> 16) if member.create_system == 3 else 0
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise Refused("invalid", f"the archive has a member that is not a plain file: {member.filename[:100]!r}")
    if member.flag_bits & 1:
        raise Refused("invalid", "the archive is encrypted")
    return member.is_dir()


def folder(top, parts):
    """A descriptor of the directory, made on the way; no link is ever followed."""
    at = os.dup(top)
    for part in parts:
        try:
            os.mkdir(part, 0o755, dir_fd=at)
        except FileExistsError:
            pass
        try:
            below = os.open(part, os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
        except NotADirectoryError:
            raise Refused("invalid", f"the archive has {part[:100]!r} as a file and as a directory") from None
        finally:
            os.close(at)
        at = below
    return at


def write(archive, member, at, name, room):
    """Copies one member: how many bytes."""
    mode = 0o755 if member.create_system == 3 and member.external_attr >> 16 & 0o100 else 0o644
    try:
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=at)
    except FileExistsError:
        raise Refused("invalid", f"the archive has {member.filename[:100]!r} twice") from None
    size = 0
    with os.fdopen(fd, "wb") as to, archive.open(member) as source:
        while data := source.read(CHUNK):
            size += len(data)
            if size > room:
                raise Refused("too_large", "the archive unpacks to more than it may")
            to.write(data)
    return size


def top_of(members):
    """The one directory that everything is in, when the skill's file is not at the top itself."""
    tops = {parts[0] for parts, _ in members if parts}
    roots = [parts for parts, member in members if len(parts) == 1 and not member.is_dir()]
    return tops.pop() if len(tops) == 1 and not roots else None


def unpack(job, document):
    with os.fdopen(document, "rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                members = [(parts_of(member.filename), member) for member in archive.infolist()]
                if len(members) > job["members_max"]:
                    raise Refused("too_large", f"the archive has more than {job['members_max']} members")
                if sum(member.file_size for _, member in members) > job["unpacked_max"]:
                    raise Refused("too_large", f"the archive unpacks to more than {job['unpacked_max'] >> 20} MiB")
                top = top_of(members)
                extract(archive, members, job, top)
        except (zipfile.BadZipFile, NotImplementedError, EOFError, ValueError) as problem:
            raise Refused("invalid", f"the file is not a readable zip archive: {problem}") from None
        except OSError as problem:
            raise Refused("invalid", f"the archive cannot be unpacked: {problem.strerror}") from None
    return "", {"top": top}


def extract(archive, members, job, top):
    root = os.open(job["dir"], os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    room = job["unpacked_max"]
    for parts, member in members:
        is_dir = kind_of(member)
        parts = parts[1:] if top else parts
        if not parts:
            continue
        at = folder(root, parts if is_dir else parts[:-1])
        if not is_dir:
            room -= write(archive, member, at, parts[-1], room)
        os.close(at)
