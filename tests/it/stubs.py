"""Asks a service for its tools with plain stubs of gRPC's C core: no library of this repository, no channel option.

    stubs.py PROTO_FOLDER TARGET...
"""

import importlib
import json
import sys
import tempfile
from pathlib import Path

import grpc
from grpc_tools import protoc


def stubs(proto):
    made = tempfile.mkdtemp()
    files = [str(path) for path in Path(proto, "toolgate", "v1").glob("*.proto")]
    included = str(Path(protoc.__file__).parent / "_proto")
    assert protoc.main(["", f"-I{proto}", f"-I{included}", f"--python_out={made}", f"--grpc_python_out={made}", *files]) == 0
    sys.path.insert(0, made)
    name = "toolgate.v1.tool_service_pb2"
    return importlib.import_module(name), importlib.import_module(f"{name}_grpc")


def main(proto, targets):
    messages, services = stubs(proto)
    for target in targets:
        with grpc.insecure_channel(target) as channel:
            tools = services.ToolServiceStub(channel)
            # More than once: what is sent again is named by its place in a table.
            for tool in ["read", "no_such_tool", "read"]:
                request = messages.RunToolRequest(tool=tool, input_json='{"filePath": "a"}')
                call = tools.RunTool(request, timeout=60).call
                print(json.dumps({"target": target, "tool": call.tool, "output": call.completed.output}))


main(sys.argv[1], sys.argv[2:])
