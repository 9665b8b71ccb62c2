"""An MCP server over standard streams that behaves as its first argument says.

The second argument, if there is one, is a file for what it sees: a line for each start and for each notification.
"""

import json
import os
import signal
import sys
import threading
import time

HOW = sys.argv[1]
SEEN = sys.argv[2] if len(sys.argv) > 2 else None
LOCK = threading.Lock()
RENAMED = False


# Properties that are not quite JSON Schema, as servers are found to have them.
SHAPES = {
    "fine": {"type": "string"},
    "alias": {"type": "int"},
    "upper": {"type": "STRING"},
    "required": {"type": "string", "required": True},
    "no_items": {"type": "array", "items": []},
    "tuple": {"type": "array", "items": [{"type": "string"}, {"type": "int"}]},
    "word_items": {"type": "array", "items": "string"},
    "enum": {"type": "string", "enum": {}},
    "number_text": {"type": "string", "description": 12},
    "no_text": {"type": "string", "description": None},
    "no_choice": {"anyOf": []},
    "quoted": {"type": "integer", "minimum": "1"},
    "nothing": None,
    "word": "string",
    "list": {"type": "object", "properties": []},
    "unknown": {"type": "thing"},
}


def saw(text):
    if SEEN:
        with open(SEEN, "a") as file:
            file.write(text + "\n")


def send(**message):
    line = json.dumps({"jsonrpc": "2.0", **message}) + "\n"
    with LOCK:
        sys.stdout.write(line)
        sys.stdout.flush()


def text(value):
    return {"content": [{"type": "text", "text": value}]}


def tool(name, **schema):
    return {"name": name, "description": "", "inputSchema": {"type": "object", **schema}}


def initialize(request):
    if HOW == "hang_start":
        return
    if HOW == "exit":
        sys.exit(3)
    if HOW == "garbage_start":
        print("Welcome to the server!", flush=True)
    version = "1999-01-01" if HOW == "version" else request["params"]["protocolVersion"]
    send(id=request["id"], result={
        "protocolVersion": version,
        "capabilities": {"tools": {"listChanged": True}},
        "serverInfo": {"name": HOW, "version": "1"},
    })
    if HOW == "flood_stderr":
        threading.Thread(target=flood_stderr, daemon=True).start()
    if HOW == "flood_notifications":
        threading.Thread(target=flood_notifications, daemon=True).start()
    if HOW == "flood_changes":
        threading.Thread(target=flood_changes, daemon=True).start()


def flood_stderr():
    while True:
        sys.stderr.write("x" * 5000 + "\n")


def flood_notifications():
    while True:
        send(method="notifications/message", params={"level": "info", "data": "x" * 1000})
        send(method="notifications/progress", params={"progressToken": 0, "progress": 1})


def flood_changes():
    while True:
        send(method="notifications/tools/list_changed")


def tools_list(request):
    if HOW == "hang_list":
        return
    if HOW == "huge_list":
        # A page is small enough, and there is always another one.
        tools = [{**tool("work"), "description": "x" * 1024 * 1024}]
        send(id=request["id"], result={"tools": tools, "nextCursor": str(time.monotonic_ns())})
        return
    if HOW == "flood_changes":
        # Another list each time.
        tools = [{**tool("work"), "description": str(time.monotonic_ns())}]
        tools += [tool("other%d" % number) for number in range(500)]
        send(id=request["id"], result={"tools": tools})
        return
    if HOW == "same_cursor":
        send(id=request["id"], result={"tools": [], "nextCursor": "again"})
        return
    tools = [tool("work")]
    if HOW == "lies":
        tools += [
            {"name": "no_schema"},
            {"name": "text", "inputSchema": "object"},
            {"name": "broken", "inputSchema": {"type": "object", "properties": {"a": {"type": 7}}}},
            {"inputSchema": {}},
            17,
        ]
    if HOW == "shapes":
        tools = [tool(name, properties={"a": shape}) for name, shape in SHAPES.items()]
    if HOW == "renames":
        tools = [tool("new" if RENAMED else "old")]
    send(id=request["id"], result={"tools": tools})


def call(request):
    global RENAMED
    identity = request["id"]
    if HOW in ("hang_call", "cancelled"):
        return
    if HOW == "crash_call":
        with LOCK:
            sys.stdout.write('{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"te' % identity)
            sys.stdout.flush()
            os._exit(9)
    elif HOW == "lost":
        with open(SEEN) as file:
            first = file.read().count("start") == 1
        if not first:
            send(id=identity, result=text("fine"))
            return
        # It is gone; what it started holds its streams, and is slow to go.
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(60)
        os._exit(9)
    elif HOW == "huge":
        with LOCK:
            sys.stdout.write('{"result":{"content":[{"type":"text","text":"')
            for _ in range(100):
                sys.stdout.write("x" * 1024 * 1024)
            sys.stdout.write('"}]},"jsonrpc":"2.0","id":%d}\n' % identity)
            sys.stdout.flush()
    elif HOW == "huge_unknown":
        with LOCK:
            for _ in range(100):
                sys.stdout.write("x" * 1024 * 1024)
            sys.stdout.write("\n")
            sys.stdout.flush()
    elif HOW == "garbage":
        with LOCK:
            sys.stdout.write('{"id": %d, "result": oops}\nnot JSON\n\xff\n[]\n' % identity)
            sys.stdout.flush()
    elif HOW == "deep":
        with LOCK:
            sys.stdout.write('{"jsonrpc":"2.0","id":%d,"result":%s%s}\n' % (identity, "[" * 1000, "]" * 1000))
            sys.stdout.flush()
    elif HOW == "strange_result":
        send(id=identity, result=[1, 2])
    elif HOW == "wrong_id":
        send(id=identity + 1000, result=text("for somebody else"))
    elif HOW == "renames":
        RENAMED = True
        send(method="notifications/tools/list_changed")
        time.sleep(0.3)
        send(id=identity, result=text("renamed"))
    elif HOW == "environment":
        send(id=identity, result={"content": [], "structuredContent": dict(os.environ)})
    elif HOW == "progress":
        token = request["params"]["_meta"]["progressToken"]
        for step in range(1, 6):
            time.sleep(0.4)
            send(method="notifications/progress",
                 params={"progressToken": token, "progress": step, "total": 5, "message": "step %d" % step})
        send(id=identity, result={**text("done"), "metadata": {"own": 1}})
    elif HOW == "asks":
        send(id="r", method="roots/list")
        send(id="s", method="sampling/createMessage", params={"messages": [], "maxTokens": 1})
        send(id="e", method="elicitation/create",
             params={"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}})
        send(id="x", method="no/such")
        answers = {}
        while len(answers) < 4:
            answer = json.loads(sys.stdin.readline())
            answers[answer["id"]] = answer.get("result", answer.get("error"))
        send(id=identity, result={"content": [], "structuredContent": answers})
    elif HOW == "flood_requests":
        number = 0
        while True:
            number += 1
            send(id="q%d" % number, method="ping")
    else:
        send(id=identity, result=text("fine"))


saw("start")
for line in sys.stdin:
    request = json.loads(line)
    method = request.get("method", "")
    if method == "initialize":
        initialize(request)
    elif method == "tools/list":
        tools_list(request)
    elif method == "tools/call":
        call(request)
    elif method.startswith("notifications/"):
        saw(method)
