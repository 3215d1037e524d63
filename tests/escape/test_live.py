"""Boxes of templates that show the machine's own /usr: what not everyone may read there is hidden, as of today."""

import contextlib
import os
from pathlib import Path

LAYERS = 16  # that a template may have at a place


@contextlib.contextmanager
def planted(place="/usr/local/etc"):
    """A private file below /usr, for as long as this lasts."""
    path = Path(place) / f"aiobox-live-{os.getpid()}"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(fd, b"private")
        os.close(fd)
        yield path
    finally:
        path.unlink()


def take(farm, box):
    """A snapshot of a box, as a template."""
    name = f"snapshot-{box.id}"
    farm.run("freeze", box.id)
    farm.run("snapshot", box.id, name)
    farm.run("thaw", box.id)
    return farm.state / name


def seen(box, path):
    return box.run(f"cat {path}; find {path.parent} -name '{path.name}'", root=True)["stdout"]


def test_a_file_made_after_a_snapshot_is_hidden_in_its_boxes(farm, start_box):
    box = start_box()
    box.out("sudo touch /usr/local/etc/own && sudo rm -rf /usr/share/doc/bash && echo mine | sudo tee /usr/bin/mine")
    template = take(farm, box)
    with planted() as path:
        one = start_box(template=template)
        assert seen(one, path) == ""
        assert one.out("ls /usr/local/etc/own; cat /usr/bin/mine; ls -d /usr/share/doc/bash || true") == (
            "/usr/local/etc/own\nmine\n")
        one.out("sudo touch /usr/local/etc/other")  # its directory is written, and then not merged from below anew
        assert seen(one, path) == ""
        again = start_box(template=take(farm, one))  # of a snapshot of a snapshot
        assert seen(again, path) == ""
        one.stop()
        one.start()
        assert seen(one, path) == ""


def test_what_hides_stays_while_a_box_of_a_snapshot_runs(farm, start_box):
    """The machine's template is made anew, and the old one removed, when something of the machine changes."""
    template = take(farm, start_box())
    with planted() as path:
        one = start_box(template=template)
        with planted("/usr/local/lib"):
            start_box()
        assert seen(one, path) == ""


def test_a_template_with_as_many_layers_as_there_may_be(farm, start_box):
    box = start_box()
    template = take(farm, box)
    lines = dict(line.split(" ", 1) for line in (template / "layers").read_text().splitlines())
    own, live = lines["/usr"].rsplit(" ", 1)
    more = [f"more{i}" for i in range(LAYERS - len(own.split()) - 1)]
    for i, name in enumerate(more):
        (template / name).mkdir()
        (template / name / f"layer{i}").touch()
    lines["/usr"] = " ".join([*more, own, live])
    (template / "layers").write_text("".join(f"{place} {layers}\n" for place, layers in lines.items()))
    with planted() as path:
        one = start_box(template=template)
        assert int(one.out("ls -d /usr/layer* | wc -l")) == len(more)
        assert seen(one, path) == ""
