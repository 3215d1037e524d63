"""tools/escape-report: the table of attacks in a document."""

import json
import subprocess

from harness import ROOT


def write(tmp_path, tests, text="Before.\n<!-- escape-report -->\nold\n<!-- /escape-report -->\nAfter.\n"):
    (tmp_path / "doc.md").write_text(text)
    (tmp_path / "results").write_text("".join(json.dumps(one) + "\n" for one in [*tests, {"exit": 0}]))
    done = subprocess.run([ROOT / "tools/escape-report", tmp_path / "results", tmp_path / "doc.md"], cwd=ROOT,
                          capture_output=True, text=True)
    return done, (tmp_path / "doc.md").read_text()


def test_a_row_for_each_file(tmp_path):
    test = lambda name, outcome="passed", why="": {"id": f"tests/tools/test_{name}", "outcome": outcome, "why": why}
    done, text = write(tmp_path, [
        test("changed.py::test_x[1]"), test("changed.py::test_x[2]"), test("changed.py::test_y", "failed"),
        test("escape_report.py::test_x", "skipped", "NOT TESTED: no disk: /dev/sda"), test("escape_report.py::test_y")])
    assert done.returncode == 0, done.stderr
    assert text.startswith("Before.\n") and text.endswith("After.\n") and "old" not in text
    assert "| tools/changed: which files differ from the last merge. [test_changed](../tests/tools/test_changed.py) | 2 | 3 | " \
           "**1 FAILED**, 2 held |" in text
    assert "| 2 | 2 | 1 held, 1 not tried here (no disk) |" in text


def test_a_document_without_a_place_for_it(tmp_path):
    done, text = write(tmp_path, [], text="nothing\n")
    assert done.returncode == 1 and "has no place" in done.stderr and text == "nothing\n"
