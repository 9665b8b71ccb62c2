"""A host in Python: lends the tool `spell`, which takes a word and asks before it spells a long one.

    host.py PROTO_FOLDER ADDRESS

Stubs are generated from the contract when it starts. It ends when the service closes the stream.
"""

import importlib
import json
import queue
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
    name = "toolgate.v1.host_service_pb2"
    return importlib.import_module(name), importlib.import_module(f"{name}_grpc")


def main(proto, address):
    messages, services = stubs(proto)
    says = queue.Queue()
    schema = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
    tool = messages.LentTool(name="spell", description="Spells a word", input_schema_json=json.dumps(schema))
    says.put(messages.HostRequest(hello=messages.HostHello(name="python", tools=[tool])))
    asked = {}

    def report(invocation, **what):
        says.put(messages.HostRequest(report=messages.HostReport(invocation_id=invocation, **what)))

    def spell(invocation, word):
        report(invocation, completed=messages.HostCompleted(title=word, output="-".join(word)))

    channel = grpc.insecure_channel(address)
    for response in services.HostServiceStub(channel).Host(iter(says.get, None)):
        event = response.event
        if event.HasField("invoke"):
            word = json.loads(event.invoke.input_json)["word"]
            if len(word) < 10:
                spell(event.invoke.invocation_id, word)
                continue
            asked[event.invoke.invocation_id] = word
            ask = messages.HostAsk(ask_id="long", permission="spell_long", patterns=[word], title=f"Spell {word}")
            report(event.invoke.invocation_id, ask=ask)
        elif event.HasField("ask_result"):
            result = event.ask_result
            word = asked.pop(result.invocation_id)
            if result.allowed:
                spell(result.invocation_id, word)
            else:
                report(result.invocation_id, failed=messages.HostFailed(error=result.error))


main(*sys.argv[1:])
