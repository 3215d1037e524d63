"""Videos that a server has made, as ffprobe and ffmpeg read them."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from harness import eventually

NEEDED = pytest.mark.skipif(not shutil.which("ffprobe"), reason="NOT TESTED: no ffmpeg on this machine")


@pytest.fixture
def recordings():
    """Where they go by default, for any user: the server of another test file may have made it for its own."""
    if os.geteuid() == 0:
        folder = Path("/tmp/recordings")
        folder.mkdir(exist_ok=True)
        folder.chmod(0o1777)


def probe(path):
    """What ffprobe sees: the stream, with the file's duration. Errors on the way fail."""
    done = subprocess.run(["ffprobe", "-v", "error", "-of", "json", "-show_streams", "-show_format", path],
                          capture_output=True, check=True, timeout=60)
    assert not done.stderr, done.stderr
    said = json.loads(done.stdout)
    [stream] = said["streams"]
    assert stream["codec_name"] == "h264" and "mp4" in said["format"]["format_name"]
    return {**stream, "seconds": float(said["format"]["duration"])}


def frames(path, size=None):
    """Every picture of a video, as rows of RGB bytes, or made as large as `size`; a part that cannot be decoded fails."""
    about = probe(path)
    width, height = size or (about["width"], about["height"])
    done = subprocess.run(["ffmpeg", "-v", "error", "-xerror", "-i", f"file:{path}", "-vsync", "passthrough", "-vf",
                           f"scale={width}:{height}:flags=neighbor", "-f", "rawvideo", "-pix_fmt", "rgb24", "-"],
                          capture_output=True, check=True, timeout=120)
    assert not done.stderr, done.stderr
    length = width * height * 3
    assert done.stdout and len(done.stdout) % length == 0
    return [Picture(done.stdout[at:at + length], width) for at in range(0, len(done.stdout), length)]


class Picture:
    def __init__(self, rgb, width):
        self.rgb, self.width, self.height = rgb, width, len(rgb) // 3 // width

    def is_at(self, x, y, colour):
        at = (y * self.width + x) * 3
        return all(abs(a - b) < 24 for a, b in zip(self.rgb[at:at + 3], colour))

    def is_all(self, colour):
        return all(self.is_at(self.width * x // 8, self.height * y // 8, colour) for x in range(1, 8) for y in range(1, 8))


def playable(path):
    """The pictures of a file whose end may be missing: what was written by then."""
    done = subprocess.run(["ffmpeg", "-v", "quiet", "-i", f"file:{path}", "-f", "rawvideo", "-vf", "scale=16:16", "-pix_fmt", "rgb24",
                           "-"], capture_output=True, check=True, timeout=60)
    return len(done.stdout) // (16 * 16 * 3)


def written(path, fragments=2):
    assert eventually(lambda: path.exists() and path.read_bytes().count(b"moof") >= fragments, seconds=60, pause=0.1)
