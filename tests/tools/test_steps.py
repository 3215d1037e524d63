"""The rules by which `make test` judges a run: tools/steps and results.py, with a small suite of their own."""

import json
import subprocess
import sys

import pytest

from harness import ROOT

MAKEFILE = f"""
PYTEST = {sys.executable} -m pytest -p no:cacheprovider --results build/test/$@$(if $(AGAIN),.again).jsonl \\
	$(if $(AGAIN),--only build/test/$@.again,$1) tests
api:
	@$(call PYTEST,-n 2 --dist loadfile -m 'not serial')
serial:
	@$(call PYTEST,-m serial)
good:
	@echo all is well
bad:
	@echo it does not compile; false
"""
INI = f"""[pytest]
pythonpath = {ROOT}/tests
addopts = --import-mode=importlib --disable-plugin-autoload -p xdist
markers =
    serial
"""
CONFTEST = "from results import *"
# Each is a test that fails when it runs for the first time.
FIRST_TIME = """
import os, subprocess, sys
from pathlib import Path
import pytest
from harness import Report

def is_first(name):
    path = Path(f"{__file__}.{name}.ran")
    first = not path.exists()
    path.touch()
    return first
"""


@pytest.fixture
def suite(tmp_path):
    """suite({"api/test_x.py": "def test…"}, "api", "serial") runs these steps: its exit code and its output."""
    (tmp_path / "Makefile").write_text(MAKEFILE)
    (tmp_path / "pytest.ini").write_text(INI)
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/conftest.py").write_text(CONFTEST)

    def run(files, *steps):
        for name, text in files.items():
            path = tmp_path / "tests" / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(FIRST_TIME + text)
        done = subprocess.run([ROOT / "tools/steps", "make --no-print-directory", *steps], cwd=tmp_path,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=200)
        return done.returncode, done.stdout

    run.results = tmp_path / "build/test"
    return run


def closing(out):
    return out.splitlines()[-2:]


def test_a_good_run_is_counted_and_timed(suite):
    code, out = suite({
        "api/test_a.py": "import time\ndef test_slow(): time.sleep(3)\ndef test_two(): pass\n"
                         "@pytest.mark.skip(reason='no R here')\ndef test_r(): pass\n",
        "host/test_h.py": "def test_box(): pass\n",
    }, "api", "serial", "--", "good")
    assert code == 0, out
    assert closing(out) == ["flaky: 0", "test: 3 passed, 0 failed, 1 skipped"]
    assert "skipped: no R here: tests/api/test_a.py::test_r" in out
    slowest = out.partition("slowest tests:\n")[2].splitlines()[0]
    assert slowest.endswith(" s  tests/api/test_a.py::test_slow")
    assert " s  api: ok (2 passed, 1 skipped)\n" in out
    assert " s  serial: ok (1 passed)\n" in out
    assert " s  good: ok\n" in out and "all is well" in out


def test_a_test_that_passes_alone_is_flaky_and_reported(suite):
    code, out = suite({"api/test_a.py": "def test_f(): assert not is_first('f'), 'the machine stalled'\ndef test_g(): pass\n"},
                      "api", "--", "good")
    assert code == 0, out
    assert closing(out) == ["flaky: 1", "test: 2 passed, 0 failed, 0 skipped"]
    assert "FLAKY tests/api/test_a.py::test_f" in out and " s  api: ok (1 passed, 1 flaky)\n" in out
    flaky = (suite.results / "flaky.txt").read_text()
    assert "FLAKY tests/api/test_a.py::test_f" in flaky and "the machine stalled" in flaky
    again = (suite.results / "api.again.jsonl").read_text().splitlines()
    assert [json.loads(line).get("id") for line in again] == ["tests/api/test_a.py::test_f", None]


def test_names_with_any_character_are_run_again(suite):
    code, out = suite({"web/test_a.py": "@pytest.mark.parametrize('x', ['a b', '\"\\'$(x)', '\\u20ac', 'a\\nb'])\n"
                                        "def test_f(x): assert x != '\"\\'$(x)' or not is_first('f')\n"}, "api")
    assert code == 0, out
    assert closing(out) == ["flaky: 1", "test: 4 passed, 0 failed, 0 skipped"]


def test_a_test_that_fails_twice_has_failed(suite):
    code, out = suite({"api/test_a.py": "def test_f(): assert 1 == 2\ndef test_g(): assert not is_first('g')\n"}, "api")
    assert code == 1
    assert closing(out) == ["flaky: 1", "test: 1 passed, 1 failed, 0 skipped"]
    assert "failed: tests/api/test_a.py::test_f" in out.splitlines()


def test_more_than_three_flaky_tests_fail_the_run(suite):
    text = "@pytest.mark.parametrize('i', range({}))\ndef test_f(i): assert not is_first(str(i))\n"
    code, out = suite({"api/test_a.py": text.format(3)}, "api")
    assert code == 0 and closing(out) == ["flaky: 3", "test: 3 passed, 0 failed, 0 skipped"], out
    for path in (suite.results.parents[1] / "tests/api").glob("*.ran"):
        path.unlink()
    code, out = suite({"api/test_a.py": text.format(4)}, "api")
    assert code == 1 and closing(out) == ["flaky: 4", "test: 4 passed, 1 failed, 0 skipped"], out
    assert "failed: 4 flaky tests, more than 3" in out


NEVER_AGAIN = {
    "host/test_box.py": "def test_f(): assert not is_first('f')\n",
    "escape/test_box.py": "def test_f(): assert not is_first('f')\n",
    "tools/test_tool.py": "def test_f(): assert not is_first('f')\n",
    "api/test_report.py": "def test_f():\n    if is_first('f'): raise Report('leaked: a descriptor')\n",
    "api/test_report_at_its_end.py": """
@pytest.fixture
def checked():
    yield
    if is_first('g'): raise Report('the server died')

def test_f(checked): assert not is_first('f')
""",
    "api/test_sanitizer.py": "def test_f(): assert not is_first('f'), 'WARNING: ThreadSanitizer: data race'\n",
    "api/test_printed.py": """
def test_f():
    print('ERROR: AddressSanitizer: heap-use-after-free', file=sys.stderr)
    assert not is_first('f')
""",
    "api/test_crash.py": "def test_f():\n    if is_first('f'): os._exit(3)\n",
}


def test_what_is_never_run_again(suite):
    code, out = suite(NEVER_AGAIN, "api", "serial")
    assert code == 1 and closing(out) == ["flaky: 0", f"test: 0 passed, {len(NEVER_AGAIN)} failed, 0 skipped"], out
    for name in NEVER_AGAIN:
        assert f"failed: tests/{name}::test_f" in out.splitlines()
    assert not list(suite.results.glob("*.again"))


def test_a_step_without_tests_can_fail(suite):
    for steps in (("bad", "good"), ("good", "--", "bad")):
        code, out = suite({}, *steps)
        assert code == 1 and closing(out) == ["flaky: 0", "test: 0 passed, 1 failed, 0 skipped"], out
        assert "failed: bad (see its output above)" in out.splitlines() and "it does not compile" in out


def test_a_file_that_cannot_be_read_fails_the_run(suite):
    code, out = suite({"api/test_a.py": "def test_f(): pass\n", "api/test_b.py": "import nothing_such\n"}, "api")
    assert code == 1 and "failed: tests/api/test_b.py" in out.splitlines(), out


def test_far_too_many_failures_are_not_run_again(suite):
    code, out = suite({"api/test_a.py": "@pytest.mark.parametrize('i', range(26))\ndef test_f(i): assert 0\n"}, "api")
    assert code == 1 and "26 tests failed, too many to run them again" in out
    assert closing(out) == ["flaky: 0", "test: 0 passed, 26 failed, 0 skipped"]
