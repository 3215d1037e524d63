"""What the peer answers: one trivial tool, served by the official Python SDK over streamable HTTP."""
import sys

try:
    from mcp.server.mcpserver import MCPServer
except ImportError:  # before 2.0 it had another name
    from mcp.server.fastmcp import FastMCP as MCPServer

server = MCPServer("peer", log_level="ERROR")


@server.tool()
def test_simple_text() -> str:
    """For tests."""
    return "This is a simple text response for testing."


if __name__ == "__main__":
    import uvicorn

    app = server.streamable_http_app(json_response=True)
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
