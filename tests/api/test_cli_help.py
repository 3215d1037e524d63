"""The help of every verb of the CLI, and what it says of mistakes: from the tables of routes, without a server."""

import json
import re
import subprocess

from harness import program

GROUPS = ("browser", "gui", "shell", "bash", "file", "code", "jupyter", "nodejs", "skills", "mcp", "sandbox")
NOT_VERBS = {"GET /openapi.json", "GET /v1/openapi.json"}  # aio openapi prints it
OWN = {"file cp"}  # what is more than one operation


def run(*words):
    return subprocess.run([program("aio"), *words], capture_output=True, text=True, timeout=60)


def verbs_of(group):
    """The names that `aio GROUP --help` lists."""
    said = run(group, "--help").stdout.rpartition("\nVerbs")[2]
    lines = re.findall(r"^  (\S.*?)  +\S", said, re.M)
    return [f"{group} " + " ".join(word for word in line.split() if re.fullmatch(r"[a-z][a-z0-9-]*", word)) for line in lines]


def test_every_operation_is_a_verb_and_every_verb_has_help():
    """`aio help verbs` has the help of all."""
    verbs = [verb for group in GROUPS for verb in verbs_of(group)]
    assert len(verbs) == len(set(verbs)) and OWN - set(verbs) == set(), verbs
    helps = re.split(r"^(?=Usage: )", run("help", "verbs").stdout, flags=re.M)[1:]
    assert len(helps) == len(verbs)
    same = {}
    for verb in verbs:
        (said,) = [said for said in helps if said.startswith(f"Usage: aio {verb} ") and
                   re.match(rf"Usage: aio {verb}( [^a-z]|$)", said)]
        flags = re.findall(r"^  (--[a-z0-9-]+)", said, re.M)
        assert len(flags) == len(set(flags)) and "--api-url" in flags, (verb, flags)
        if verb not in OWN:
            same.setdefault(re.search(r"The same as (.*?)(?:, action_type .*)?\.$", said, re.M).group(1), []).append(verb)
    document = json.loads(run("openapi").stdout)
    operations = {f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods}
    assert set(same) == operations - NOT_VERBS
    assert [names for route, names in same.items() if len(names) > 1 and route != "POST /v1/browser/actions"] == []
    for verb in ("file cp", "browser tabs open", "gui click", "mcp call", "sandbox info"):
        assert run(*verb.split(), "--help").stdout.strip() in [said.strip() for said in helps]


def test_what_was_perhaps_meant():
    def wrong(*words):
        done = run(*words)
        assert done.returncode == 2 and not done.stdout
        return done.stderr

    assert "did you mean 'file'?" in wrong("fiel", "read")
    assert "did you mean 'search'?" in wrong("file", "serach", "x")
    assert "did you mean 'sessions create'?" in wrong("nodejs", "sesions", "create")
    assert "did you mean '--start-line'?" in wrong("file", "read", "x", "--start-lin", "1")
    assert "FILE is missing" in wrong("file", "read")
    assert "--language is missing" in wrong("code", "run", "1")
    assert "unexpected argument 'y'" in wrong("file", "read", "x", "y")
    assert "not a number" in wrong("file", "read", "x", "--start-line", "one")
    assert "one of png" in wrong("gui", "screenshot", "--format", "gif", "-o", "x")
    assert "only one of them" in wrong("sandbox", "info", "--json", "--plain")
    assert "needs a value" in wrong("sandbox", "info", "--box")
