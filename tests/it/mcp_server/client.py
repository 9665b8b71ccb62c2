"""A client made with the official Python SDK: lists tools, makes calls, answers a form, reads a resource, and prints what
it saw. Usage: client.py http URL | client.py stdio COMMAND ARGS…
"""

import asyncio
import json
import sys

from mcp import Client, StdioServerParameters
from mcp_types import ElicitResult

KIND, *REST = sys.argv[1:]


async def main():
    seen = {"forms": 0, "progress": []}

    async def form(_context, _params):
        seen["forms"] += 1
        return ElicitResult(action="accept", content={"decision": "once"})

    async def progress(_progress, _total, message):
        seen["progress"].append(message)

    where = REST[0] if KIND == "http" else StdioServerParameters(command=REST[0], args=REST[1:])
    async with Client(where, elicitation_callback=form) as client:
        seen["version"] = client.protocol_version
        seen["tools"] = [tool.name for tool in (await client.list_tools()).tools]
        result = await client.call_tool(
            "bash", {"command": "echo from the sdk", "description": "Tests"}, progress_callback=progress
        )
        seen["text"] = result.content[0].text
        missing = await client.call_tool("read", {"filePath": "missing"})
        seen["failed"] = missing.is_error is True
        read = await client.read_resource(result.meta["truncation"]["uri"])
        seen["resource"] = read.contents[0].text
    print(json.dumps(seen))


asyncio.run(main())
