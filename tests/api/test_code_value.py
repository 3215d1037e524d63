"""JavaScript that is run once: the value of its last expression is an output, as in a session."""

import pytest

from harness import LEAN, Calls

CODE = Calls("/v1/code", timeout=120)
pytestmark = pytest.mark.server(env=LEAN)

CASES = {
    "1 + 1": ("2", 2),
    "let a = 1; a + 1": ("2", 2),
    "const a = [1, 2]\na.map(x => x * 2)\n": ("[ 2, 4 ]", [2, 4]),
    "function f() { return 'x' }\nf() // it; says; x": ("'x'", "x"),
    "const a = {\n  b: 1,\n}\na.b;": ("1", 1),
    "let a = 5; ({ a })": ("{ a: 5 }", {"a": 5}),
    "const a = await Promise.resolve(3); a * 2": ("6", 6),
    "import { sep } from 'node:path'\nsep": ("'/'", "/"),
    "import { sep } from 'node:path'; const a = await 1; `${a}${sep}`": ("'1/'", "1/"),
    "let a = 1\nif (a)\n  a": None,
    "let f = (x) => x\nlet a = f\n(1)": None,
    "let a = 1; a = undefined": None,
    "for (let i = 0; i < 3; i++) i\n": None,
    "let a = `x;\ny`": None,
    "return 5": None,
    "let a = 1; setTimeout(() => {}, 1)": None,
    "const a = await 1\nlet o = { a: 1 } // see: foo; bar": None,
    "const a = await 1\nconst s = String.raw\n`x`": None,
    "const a = await f()\nfunction f() { return 1 }": None,
    "const a = await 1\n{ a }": None,
    "const a = await 1 // it; says\na + 1 // so; it does": ("2", 2),
    "function process(x) { return x }\nconst r = process(4)\nr": ("4", 4),
    "var Buffer = 1, JSON = 2\nBuffer + JSON": ("3", 3),
    "const a = await 1\na, 2": ("2", 2),
    "await Promise.resolve(7)": ("7", 7),
    " (await Promise.resolve([7]))[0];\n": ("7", 7),
    "export const z = 3; z + 1": ("4", 4),
    "import 'node:fs'": None,
    "let a = 1; a, 2": ("2", 2),
    "let a = [];\n[1, 2].map(x => x + 1)": ("[ 2, 3 ]", [2, 3]),
    "let a = [1]\na.push(2); // done": ("2", 2),
    "let a = 'http://x'\n// it; says\n/* so */\na.length": ("8", 8),
    "let o = { f() { return 1 } }\no\n  .f()": ("1", 1),
    "let p = new Proxy({}, { get() { throw new Error() } })\np": None,
}

# What a program prints that is as it was: it is a file of its own, whatever is asked of it.
PRINTED = {
    "const r = await 1\nconsole.log(r) // first; second": "1\n",
    "import fs from 'node:fs'\nconsole.log('x') // done; ok": "x\n",
    "function main() { console.log('main') }\nif (require.main === module) main()": "main\n",
    "let a = require('node:path').basename(require.main.filename)\nconsole.log(a); a = 1": "main.js\n",
    "this.x = 1; console.log(module.exports.x); let a = 1": "1\n",
    "let a = arguments.length; console.log(a); a": "5\n",
    "function process() { }\nlet window = 1\nconsole.log(require('./neighbour.cjs').all); 1": "object undefined\n",
}


def run(server, code, **more):
    return CODE.reply(server, "execute", language=more.pop("language", "javascript"), code=code, **more)["data"]


@pytest.mark.parametrize("code", CASES)
def test_the_value_is_an_output(server, code):
    data = run(server, code)
    values = [output["data"] for output in data["outputs"] if output["output_type"] == "execute_result"]
    wanted = CASES[code]
    assert values == ([{"text/plain": wanted[0], "application/json": wanted[1]}] if wanted else []), data
    assert data["stdout"] == ""


@pytest.mark.parametrize("code", PRINTED)
def test_programs_are_as_they_were(server, code, tmp_path):
    tmp_path.chmod(0o755)
    (tmp_path / "neighbour.cjs").write_text("exports.all = `${typeof process.env} ${typeof window}`")
    data = run(server, code, cwd=str(tmp_path))
    assert (data["status"], data["stdout"]) == ("ok", PRINTED[code]), data


def test_it_comes_beside_what_was_printed_and_after_it(server):
    data = run(server, "console.log('printed'); const a = 6\na * 7")
    assert [output["output_type"] for output in data["outputs"]] == ["stream", "execute_result"]
    assert data["stdout"] == "printed\n" and data["outputs"][1]["data"]["text/plain"] == "42"


def test_places_of_errors_stay(server):
    data = run(server, "let a = 1\nlet b = null\n  b.x; b.y")
    assert data["status"] == "error" and any("main.js:3:5" in line for line in data["traceback"]), data
    data = run(server, "let b = null; b.y")
    assert any("main.js:1:17" in line for line in data["traceback"]), data
    data = run(server, "const b = await null // it; is\n  b.y")
    assert any("main.js:2:5" in line for line in data["traceback"]) and "__aio" not in data["stderr"], data


def test_a_value_that_is_too_large_is_not_written_whole(server):
    data = run(server, "const a = []; for (let i = 0; i < 1e6; i++) a.push({ i })\na")
    value = data["outputs"][-1]["data"]
    assert "application/json" not in value and "999900 more items" in value["text/plain"], data


def test_typescript_has_one_too(server):
    data = run(server, "const a: number = 5; a + 1", language="typescript")
    if "TypeScript needs Node.js" in data["stderr"]:
        pytest.skip("NOT TESTED: this Node.js has no TypeScript")
    assert data["status"] == "ok" and data["outputs"][-1]["data"]["text/plain"] == "6", data
