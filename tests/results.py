"""What became of each test, written for tools/steps to --results, and which failures may be tried again.

A failed test of tests/api or tests/web may: machines stall. Never one of the others, and never a failure that reports
something of the program: a server that died, leaked, or had a sanitizer complain.

The file has a line of JSON for each test, then {"exit": STATUS}; --only FILE runs the tests whose ids it lists."""

import json
from pathlib import Path

import pytest

from harness import SANITIZER_REPORT, Report

AGAIN = ("tests/api/", "tests/web/")
SERIAL = ("tests/host/", "tests/escape/")

tests = {}


def pytest_addoption(parser):
    parser.addoption("--results", help="write what became of each test to this file")
    parser.addoption("--only", help="run the tests whose ids this file lists")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    for item in items:
        if item.nodeid.startswith(SERIAL):
            item.add_marker(pytest.mark.serial)
    if only := config.getoption("only"):
        wanted = set(Path(only).read_text().splitlines())
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in wanted])
        items[:] = [item for item in items if item.nodeid in wanted]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.failed:
        text = report.longreprtext + "".join(section for _, section in report.sections)
        report.again = (item.nodeid.startswith(AGAIN) and not call.excinfo.errisinstance(Report)
                        and not SANITIZER_REPORT.search(text))
    return report


def add_report(report):
    test = tests.setdefault(report.nodeid, {"id": report.nodeid, "outcome": "passed", "seconds": 0.0, "why": "",
                                            "again": True})
    if report.failed:
        test["outcome"] = "failed"
        test["why"] += f"{report.longreprtext}\n"
        test["again"] &= getattr(report, "again", False)  # not set by a worker that crashed
    return test


def pytest_collectreport(report):
    """A file that cannot be imported is a failed test."""
    if report.failed:
        add_report(report)


def pytest_runtest_logreport(report):
    """Called for the setup, the call and the teardown of each test, which together make its result."""
    test = add_report(report)
    test["seconds"] += report.duration
    if report.skipped and test["outcome"] == "passed":
        _file, _line, reason = report.longrepr
        test["outcome"], test["why"] = "skipped", reason.removeprefix("Skipped: ")


def pytest_sessionfinish(session, exitstatus):
    path = session.config.getoption("results")
    if not path or hasattr(session.config, "workerinput"):
        return
    lines = [json.dumps(test) for test in tests.values()] + [json.dumps({"exit": int(exitstatus)})]
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text("\n".join(lines) + "\n")


__all__ = [name for name in dir() if name.startswith("pytest_")]
