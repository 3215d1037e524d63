"""The official clients, the Inspector and the conformance suite, each as its users run it."""

import asyncio
import json
import os
import subprocess

import pytest

import commands
from harness import ANSWER_SECONDS, ROOT, clean_environment, program
from mcp_peer import FIXTURE
from mcp_sdk import python_client

NODE_HOME = ROOT / "build/node/node_modules"
pytestmark = [pytest.mark.timeout(180), pytest.mark.server(program="fixture", env=FIXTURE)]


def node(*args, **more):
    """Runs a program of Node.js: that of build/node where the machine's own is too old."""
    if not (NODE_HOME / "@modelcontextprotocol").exists():
        pytest.skip("build/node is not there: run make test-deps")
    own = [NODE_HOME / f"node-linux-{arch}/bin" for arch in ("x64", "arm64")]
    path = ":".join([str(place) for place in own if place.exists()] + [os.environ["PATH"]])
    return subprocess.run(["node", *map(str, args)], capture_output=True, text=True, timeout=150,
                          env={**os.environ, "PATH": path}, **more)


@pytest.fixture(scope="module")
def localhost(server):
    return server.url.replace("127.0.0.1", "localhost")


# --- conformance -------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_conformance(localhost, revision, tmp_path):
    done = node(NODE_HOME / "@modelcontextprotocol/conformance/dist/index.js", "server", "--url", f"{localhost}/mcp",
                "--requirements", revision, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    failed = [line for line in done.stdout.splitlines() if line.startswith("\u2717")]
    # What is not part of the revision: an optional extension, and headers that a tool of ours would declare.
    assert all("tasks-" in line or "http-custom-header" in line for line in failed), failed
    assert done.stdout.count("\u2713") >= 33


# --- Inspector ---------------------------------------------------------------------------------


def inspect(url, *args):
    return node(NODE_HOME / "@modelcontextprotocol/inspector/clients/launcher/build/index.js", "--cli", url,
                "--transport", "http", *args)


@pytest.mark.parametrize("era", ["legacy", "auto", "modern"])
def test_inspector(localhost, era):
    done = inspect(f"{localhost}/mcp", "--method", "tools/list", "--format", "json", "--strict", "--protocol-era", era)
    assert done.returncode == 0, done.stderr
    listed = [tool["name"] for tool in json.loads(done.stdout)["result"]["tools"]]
    assert "sandbox_execute_bash" in listed and "test_simple_text" in listed
    done = inspect(f"{localhost}/mcp", "--method", "tools/call", "--tool-name", "test_simple_text", "--protocol-era", era)
    assert done.returncode == 0 and "This is a simple text response" in done.stdout
    done = inspect(f"{localhost}/mcp", "--method", "tools/call", "--tool-name", "test_error_handling", "--protocol-era", era)
    assert done.returncode == 5, done.stdout  # the tool's own failure


def test_inspector_under_load(localhost):
    done = inspect(f"{localhost}/mcp", "--method", "tools/call", "--tool-name", "test_simple_text", "--load",
                   "--load-requests", "400", "--load-concurrency", "50")
    assert done.returncode == 0, done.stdout + done.stderr


# --- TypeScript --------------------------------------------------------------------------------

TYPESCRIPT = """
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema, ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
const client = new Client({ name: 't', version: '1' }, { capabilities: { elicitation: {} } });
let changed; const news = new Promise(done => { changed = done; });
client.setNotificationHandler(ToolListChangedNotificationSchema, () => changed(true));
client.setRequestHandler(ElicitRequestSchema, async () => ({ action: 'accept', content: { username: 'u', email: 'e' } }));
const transport = new StreamableHTTPClientTransport(new URL(process.argv[2]));
await client.connect(transport);
const out = { version: client.getServerVersion().name };
out.tools = (await client.listTools()).tools.map(tool => tool.name);
out.text = (await client.callTool({ name: 'test_simple_text' })).content[0].text;
const steps = [];
await client.callTool({ name: 'test_tool_with_progress' }, undefined, { onprogress: p => p.total && steps.push(p.progress) });
out.steps = steps;
out.asked = (await client.callTool({ name: 'test_elicitation', arguments: { message: 'm' } })).content[0].text;
out.bash = (await client.callTool({ name: 'sandbox_execute_bash', arguments: { command: 'echo ts' } })).structuredContent;
out.resource = (await client.readResource({ uri: 'test://static-text' })).contents[0].text;
out.prompt = (await client.getPrompt({ name: 'test_simple_prompt' })).messages[0].content.text;
out.again = (await client.callTool({ name: 'test_reconnection' })).content[0].text;
await client.callTool({ name: 'test_trigger_tool_change' });
out.changed = await news;
try { await client.callTool({ name: 'wait', arguments: {} }, undefined, { timeout: 500 }); }
catch (problem) { out.timeout = problem.code; }
await transport.terminateSession();
await client.close();
console.log(JSON.stringify(out));
"""


def test_the_typescript_sdk(server, localhost):
    script = ROOT / f"build/node/sdk-test-{os.getpid()}.mjs"  # where Node.js finds the SDK
    script.write_text(TYPESCRIPT)
    try:
        done = node(script, f"{localhost}/mcp")
    finally:
        script.unlink()
    assert done.returncode == 0, done.stderr
    out = json.loads(done.stdout)
    assert out["version"] == "aiobox" and "test_simple_text" in out["tools"] and out["steps"] == [0, 50, 100]
    assert out["text"].startswith("This is") and "accept" in out["asked"] and out["bash"]["output"] == "ts\n"
    assert out["resource"].startswith("This is the content") and "simple prompt" in out["prompt"]
    assert "completed successfully" in out["again"] and out["changed"] is True and out["timeout"] == -32001
    commands.close_all(server)


# --- Python ------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode, version", [("legacy", "2025-11-25"), ("auto", "2026-07-28")])
def test_the_python_sdk(server, localhost, mode, version):
    out = asyncio.run(python_client(f"{localhost}/mcp", mode))
    assert out["version"] == version and "test_simple_text" in out["tools"]
    assert out["text"].startswith("This is") and out["steps"] == [0, 50, 100] and out["bash"]["output"] == "py\n"
    assert out["resource"].startswith("This is the content") and out["prompt"].endswith("arg1='a', arg2='b'")
    assert out["many"] == 20 and ("accept" in out["asked"] or out["asked"] == "both steps done")
    commands.close_all(server)


def test_the_python_sdk_s_first_transport(server):
    from mcp import ClientSession
    from mcp.client.sse import sse_client

    async def talk():
        connection = sse_client(f"{server.url}/sse", timeout=ANSWER_SECONDS)
        async with connection as (read, write), ClientSession(read, write) as session:
            await session.initialize()
            tools = [tool.name for tool in (await session.list_tools()).tools]
            return tools, (await session.call_tool("test_simple_text", {})).content[0].text

    tools, text = asyncio.run(talk())
    assert "test_simple_text" in tools and text.startswith("This is")


def test_the_python_sdk_on_stdio(tmp_path):
    import mcp

    async def talk():
        parameters = mcp.StdioServerParameters(command=program("aio"), args=["mcp"], env=clean_environment(tmp_path), cwd=tmp_path)
        async with mcp.Client(parameters) as client:
            return (await client.call_tool("sandbox_execute_bash", {"command": "echo stdio"})).structured_content

    assert asyncio.run(talk())["output"] == "stdio\n"
