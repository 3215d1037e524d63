"""Which kind of document some bytes are: by what they begin with, else by what they are called."""

import mimetypes
import os
import zipfile

from refused import Refused

UNPACKED_MAX = 512 << 20
PARTS_MAX = 20000

OFFICE = {"word/": ".docx", "xl/": ".xlsx", "ppt/": ".pptx"}
MAGIC = [
    (b"%PDF-", ".pdf"),
    (b"\x89PNG\r\n\x1a\n", ".png"),
    (b"\xff\xd8\xff", ".jpg"),
    (b"GIF8", ".gif"),
    (b"BM", ".bmp"),
    (b"II*\0", ".tiff"),
    (b"MM\0*", ".tiff"),
]
IMAGES = {".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".ico"}
TEXTS = {".html", ".htm", ".xhtml", ".csv", ".ipynb", ".rss", ".atom", ".xml"}


def check_archive(file):
    """Its parts, unless they would be too much: zipfile never reads more than a part declares."""
    try:
        with zipfile.ZipFile(file) as archive:
            parts = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, EOFError, OSError, ValueError) as problem:
        raise Refused("invalid", f"the document is not a readable archive: {problem}") from None
    finally:
        file.seek(0)
    if len(parts) > PARTS_MAX:
        raise Refused("too_large", f"the document has {len(parts)} parts, more than {PARTS_MAX}")
    if sum(part.file_size for part in parts) > UNPACKED_MAX:
        raise Refused("too_large", f"the document unpacks to more than {UNPACKED_MAX >> 20} MiB")
    return [part.filename for part in parts]


def archive_kind(file):
    names = check_archive(file)
    if "mimetype" in names and "META-INF/container.xml" in names:
        return ".epub"
    if "[Content_Types].xml" in names:
        for folder, kind in OFFICE.items():
            if any(name.startswith(folder) for name in names):
                return kind
    return ".zip"


def text_kind(head, extension, media_type):
    if media_type:
        guessed = mimetypes.guess_extension(media_type, strict=False) or ""
        if guessed in TEXTS:
            return guessed
    if extension in TEXTS:
        return extension
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    return ".html" if start.startswith((b"<!doctype html", b"<html")) else ".txt"


def kind_of(file, name="", media_type=""):
    """The extension that fits, such as ".pdf"; "" for what is neither known nor text."""
    head = file.read(4096)
    file.seek(0)
    extension = os.path.splitext(name)[1].lower()
    if head.startswith(b"PK\x03\x04") or head.startswith(b"PK\x05\x06"):
        return archive_kind(file)
    for magic, kind in MAGIC:
        if head.startswith(magic) and (magic != b"BM" or b"\0" in head):
            return kind
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return ".webp"
    if head.startswith(b"\xd0\xcf\x11\xe0"):
        return extension if extension in (".xls", ".msg") else ".xls"
    if b"%PDF-" in head[:1024]:
        return ".pdf"
    if b"\0" in head and not head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return ""
    return text_kind(head, extension, media_type)
