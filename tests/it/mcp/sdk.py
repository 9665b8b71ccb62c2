"""A server made with the official Python SDK: `sdk.py stdio`, or `sdk.py http PORT` with `json` for answers that are no streams."""

import asyncio
import sys

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError

server = MCPServer("python")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
async def count(to: int, ctx: Context) -> str:
    """Counts, and says how far it is."""
    for step in range(1, to + 1):
        await ctx.report_progress(step, to, f"step {step}")
        await asyncio.sleep(0.2)
    return "counted"


@server.tool()
def fail() -> str:
    """Does not work."""
    raise ToolError("it was not to be")


@server.tool()
async def more(ctx: Context) -> str:
    """Adds a tool."""
    server.add_tool(lambda: "new", name="new", description="Came later")
    await ctx.session.send_tool_list_changed()
    return "there is more"


@server.tool()
async def wait(ctx: Context) -> str:
    """Waits without end, and says when it begins and when it is told not to."""
    try:
        await ctx.report_progress(1, 2, "waiting")
        await asyncio.sleep(600)
    except asyncio.CancelledError:
        print("cancelled", file=sys.stderr, flush=True)
        raise
    return "never"


if sys.argv[1] == "stdio":
    server.run("stdio")
else:
    server.run("streamable-http", port=int(sys.argv[2]), json_response="json" in sys.argv[3:])
