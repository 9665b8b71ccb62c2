"""An MCP server over standard streams, for the tests of the libraries: more notes than a page has, a template, two prompts."""

import json
import sys

NOTES = 120
LISTS = {
    "resources/list": {
        "resources": [{"uri": f"notes://{day}", "name": f"note {day}", "size": day} for day in range(NOTES)]
    },
    "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "notes://{day}", "name": "day"}]},
    "prompts/list": {
        "prompts": [{"name": "plan", "arguments": [{"name": "day", "required": True}]}, {"name": "private"}]
    },
}


def answer(method, params):
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "serverInfo": {"name": "notes", "version": "1"},
            "capabilities": {"resources": {}, "prompts": {}, "completions": {}},
        }
    if method == "resources/read":
        uri = params["uri"]
        return {
            "contents": [
                {"uri": uri, "mimeType": "text/plain", "text": f"This is {uri}."},
                {"uri": f"{uri}/zip", "mimeType": "application/zip", "blob": "AAEC"},
            ]
        }
    if method == "prompts/get":
        text = json.dumps(params.get("arguments", {}))
        return {"description": "as told", "messages": [{"role": "user", "content": {"type": "text", "text": text}}]}
    if method == "completion/complete":
        # What it was told is in what it suggests.
        owner = params["ref"].get("name") or params["ref"]["uri"]
        given = params.get("context", {}).get("arguments", {})
        values = [params["argument"]["value"] + "day", owner, *given.values()]
        return {"completion": {"values": values, "total": 7, "hasMore": True}}
    return LISTS.get(method, {})


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        result = answer(request["method"], request.get("params", {}))
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
