"""A resource, named by an http(s), file or data URI, as Markdown."""

import base64
import binascii
import io
import os
import stat
import sys
import types
from urllib.parse import unquote, unquote_to_bytes, urljoin, urlsplit

# What Magika is asked is known here already (see kinds), and it would cost 40 MiB and some threads,
# which a process that forks must not have.
sys.modules.setdefault("magika", types.ModuleType("magika")).Magika = lambda: None

import charset_normalizer
import requests
from markitdown import MarkItDown, StreamInfo, UnsupportedFormatException
from markitdown._base_converter import DocumentConverter, DocumentConverterResult
from markitdown.converters import AudioConverter, ImageConverter
from PIL import ExifTags, Image

import slides  # noqa: F401: it makes python-pptx bear shapes that it does not know
from kinds import IMAGES, kind_of
from refused import Refused

REDIRECTS_MAX = 5
CHUNK = 1 << 16
SAMPLE = 1 << 16


class PictureConverter(DocumentConverter):
    """What a picture says about itself."""

    def accepts(self, file_stream, stream_info, **_):
        return (stream_info.extension or "").lower() in IMAGES

    def convert(self, file_stream, stream_info, **_):
        with Image.open(file_stream) as image:
            facts = {"Format": image.format, "ImageSize": f"{image.width}x{image.height}", "Mode": image.mode}
            if getattr(image, "n_frames", 1) > 1:
                facts["Frames"] = image.n_frames
            facts |= {key: value for key, value in image.info.items() if isinstance(value, str)}
            exif = image.getexif()
            exif.update(exif.get_ifd(ExifTags.IFD.Exif))
            for tag, value in exif.items():
                name = ExifTags.TAGS.get(tag)
                if name and isinstance(value, (str, int, float)):
                    facts[name] = value
        lines = [f"{key}: {' '.join(str(value).split())[:1000]}" for key, value in facts.items()]
        return DocumentConverterResult(markdown="\n".join(lines))


class Converter(MarkItDown):
    """Ours tells the kind of each document, those in an archive included."""

    def __init__(self):
        super().__init__(enable_plugins=False)
        self._converters = [
            known for known in self._converters if not isinstance(known.converter, (AudioConverter, ImageConverter))
        ]
        self.register_converter(PictureConverter())

    def _get_stream_info_guesses(self, file_stream, base_guess):
        start = file_stream.tell()
        kind = kind_of(file_stream, base_guess.filename or base_guess.extension or "", base_guess.mimetype or "")
        file_stream.seek(start)
        if not kind:
            raise Refused("invalid", "this kind of document cannot be converted")
        guess = StreamInfo(extension=kind, filename=base_guess.filename, url=base_guess.url)
        if kind in (".txt", ".html", ".htm", ".xhtml", ".csv", ".xml", ".rss", ".atom", ".ipynb"):
            charset = base_guess.charset or charset_of(file_stream)
            file_stream.seek(start)
            kinds = {".txt": "text/plain", ".csv": "text/csv", ".ipynb": "application/json"}
            media = kinds.get(kind, "text/xml" if kind in (".xml", ".rss", ".atom") else "text/html")
            guess = guess.copy_and_update(mimetype=media, charset=charset)
        return [guess]


def charset_of(file):
    data = file.read(SAMPLE)
    for cut in range(4):  # a character may be split at the end of the sample
        try:
            data[: len(data) - cut if cut else None].decode("utf-8")
            return "utf-8"
        except UnicodeDecodeError:
            pass
    best = charset_normalizer.from_bytes(data).best()
    return best.encoding if best else "latin-1"


converter = Converter()


def as_markdown(file, info):
    try:
        result = converter.convert_stream(file, stream_info=info)
    except UnsupportedFormatException:
        raise Refused("invalid", "this kind of document cannot be converted") from None
    return result.markdown


# --- where it comes from -----------------------------------------------------------------------


def get(url, job):
    """Follows redirects, each to http or https, and hands over the first answer that is none."""
    session = requests.Session()
    session.headers["User-Agent"] = "aiobox"
    session.headers["Accept"] = "text/markdown, text/html;q=0.9, */*;q=0.8"
    for _ in range(REDIRECTS_MAX + 1):
        if not url.lower().startswith(("http://", "https://")):
            raise Refused("not_found", "the server redirects to an address that is not http or https")
        try:
            response = session.get(url, stream=True, allow_redirects=False, timeout=job["seconds"])
        except (requests.RequestException, UnicodeError, ValueError) as problem:
            raise Refused("not_found", f"cannot fetch: {problem}"[:400]) from None
        if not response.is_redirect:
            return response
        try:
            url = urljoin(url, response.headers["location"])
        except ValueError as problem:
            raise Refused("not_found", f"the server redirects to a bad address: {problem}") from None
        response.close()
    raise Refused("not_found", f"the server redirects more than {REDIRECTS_MAX} times")


def fetch(uri, job):
    response = get(uri, job)
    if not response.ok:
        raise Refused("not_found", f"cannot fetch: the server answers {response.status_code} {response.reason}")
    body = io.BytesIO()
    try:
        for chunk in response.iter_content(CHUNK):
            if body.tell() + len(chunk) > job["input_max"]:
                raise Refused("too_large", f"the resource is larger than {job['input_max'] >> 20} MiB")
            body.write(chunk)
    except requests.RequestException as problem:
        raise Refused("not_found", f"the transfer broke off: {problem}"[:400]) from None
    body.seek(0)
    media, _, parameters = response.headers.get("content-type", "").partition(";")
    charset = parameters.partition("charset=")[2].strip(" \"'") or None
    name = os.path.basename(unquote(urlsplit(response.url).path))
    return body, StreamInfo(mimetype=media.strip().lower(), charset=charset, filename=name, url=response.url)


def open_file(uri, job):
    try:
        parts = urlsplit(uri)
    except ValueError as problem:
        raise Refused("bad_request", f"the URI is malformed: {problem}") from None
    if parts.netloc not in ("", "localhost"):
        raise Refused("bad_request", "a file URI must be of this machine: file:///path")
    path = os.fsdecode(unquote_to_bytes(parts.path))
    if not path.startswith("/") or "\0" in path:
        raise Refused("bad_request", "a file URI must have an absolute path: file:///path")
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        raise Refused("missing", f"there is no file '{path}'") from None
    except PermissionError:
        raise Refused("denied", f"the file '{path}' may not be read") from None
    except OSError as problem:
        raise Refused("invalid", f"cannot open '{path}': {problem.strerror}") from None
    check_file(fd, job)
    return os.fdopen(fd, "rb"), StreamInfo(filename=os.path.basename(path))


def check_file(fd, job):
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        raise Refused("invalid", "the document is not a regular file")
    if status.st_size > job["input_max"]:
        raise Refused("too_large", f"the document is larger than {job['input_max'] >> 20} MiB")


def from_data(document, job):
    """data:[type][;base64],… is too long for a job's message and comes as a file."""
    with os.fdopen(document, "rb") as file:
        head, comma, body = file.read().partition(b",")
    if not comma:
        raise Refused("bad_request", "a data URI must have a comma before its data")
    words = head[5:].decode("latin-1").split(";")
    data = unquote_to_bytes(body)
    if words[-1].strip().lower() == "base64":
        try:
            data = base64.b64decode(b"".join(data.split()) + b"==", altchars=None, validate=False)
        except (binascii.Error, ValueError) as problem:
            raise Refused("bad_request", f"the data URI is not valid base64: {problem}") from None
    if len(data) > job["input_max"]:
        raise Refused("too_large", f"the resource is larger than {job['input_max'] >> 20} MiB")
    charset = next((word.partition("=")[2] for word in words if word.lower().startswith("charset=")), None)
    media = words[0].strip().lower() or "text/plain"
    return io.BytesIO(data), StreamInfo(mimetype=media, charset=charset)


def convert(job, document):
    if document >= 0:
        file, info = from_data(document, job)
    elif job["uri"][:5].lower() == "file:":
        file, info = open_file(job["uri"], job)
    else:
        file, info = fetch(job["uri"], job)
    with file:
        return as_markdown(file, info), {}
