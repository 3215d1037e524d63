"""How much of the contract is there: what is done must be whole, the rest is only reported."""

import json
import subprocess
import sys

import pytest

from harness import ROOT, clean_environment, program

TOOL = ROOT.parent / "shared/tools/contract-coverage"
CONTRACT = ROOT.parent / "shared/contract/openapi.json"
DONE = [
    "/v1/sandbox",
    "/v1/sandbox/packages/python",
    "/v1/sandbox/packages/nodejs",
    "/tickets",
    "/auth",
    "/v1/file/search",
    "/v1/file/find",
    "/v1/file/grep",
    "/v1/file/glob",
    "/v1/file/watch",
    "/v1/file/watch/wait",
    "/v1/file/watch/{watcher_id}",
    "/v1/file/watch/{watcher_id}/events",
    "/v1/file/watch/{watcher_id}/poll",
]


@pytest.fixture(scope="module")
def differences(tmp_path_factory):
    """Every difference, as (path, line), and the summary."""
    if not TOOL.exists():
        pytest.skip("the contract is not part of this repository: no ../shared/tools/contract-coverage")
    env = clean_environment(tmp_path_factory.mktemp("home"))
    document = subprocess.run([program("aio"), "openapi"], capture_output=True, check=True, env=env).stdout
    result = subprocess.run([sys.executable, TOOL, "--all"], input=document, capture_output=True, check=False)
    assert not result.stderr, result.stderr.decode()
    *lines, summary = result.stdout.decode().splitlines()
    return [(line.split(" ")[1].rstrip(":"), line) for line in lines], summary


@pytest.mark.parametrize("path", DONE)
def test_what_is_done_is_whole(differences, path):
    assert path in json.loads(CONTRACT.read_text())["paths"]
    assert [line for where, line in differences[0] if where == path] == []


def test_report(differences, record_property):
    """Says how far the rest is."""
    record_property("contract", differences[1])
    print(f"contract: {differences[1]}")
    assert "operations whole" in differences[1]
