"""An agent of the Agent Client Protocol whose model is the user: a prompt is the tool call to make, as JSON.

It starts the MCP servers of a session and has no tools of its own. It does not cancel calls of theirs. `deaf` as an argument
makes it one that ends neither with its input nor at the polite signal. What it does for methods that begin with `x/` is below.
"""

import json
import os
import signal
import subprocess
import sys
import threading

lock = threading.Lock()
sessions = {}


def say(message):
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


class Server:
    """A server of tools, started as the editor says."""

    def __init__(self, entry):
        variables = {one["name"]: one["value"] for one in entry["env"]}
        # Nothing else of the environment: some agents hand on as little.
        self.program = subprocess.Popen(
            [entry["command"], *entry["args"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=variables, text=True
        )
        self.calls = 0
        self.ask(
            "initialize",
            {
                "protocolVersion": "2025-06-18",
                # Whoever puts forms to this client has put them to nobody.
                "capabilities": {"elicitation": {}},
                "clientInfo": {"name": "agent", "version": "1"},
            },
        )
        self.tell({"method": "notifications/initialized"})

    def tell(self, message):
        self.program.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.program.stdin.flush()

    def ask(self, method, params):
        self.calls += 1
        self.tell({"id": self.calls, "method": method, "params": params})
        for line in self.program.stdout:
            message = json.loads(line)
            assert message.get("method") != "elicitation/create", message
            if message.get("id") == self.calls:
                return message
        return {"error": {"message": "the server is gone"}}


def prompt(message, version):
    params = message["params"]
    session = params["sessionId"]
    call = json.loads(params["prompt"][0]["text"])
    answer = sessions[session].ask("tools/call", call)
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": json.dumps(answer)}}
    say({"method": "session/update", "params": {"sessionId": session, "update": update}})
    say({"id": message["id"], "result": {"stopReason": "end_turn"}})


def main():
    deaf = "deaf" in sys.argv
    if deaf:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    version = 1
    opened = None
    for line in sys.stdin:
        message = json.loads(line)
        method = message.get("method")
        if method == "initialize":
            version = message["params"]["protocolVersion"]
            about = {
                1: {"agentCapabilities": {"loadSession": True}},
                2: {"capabilities": {"session": {"mcp": {"stdio": {}}}}, "info": {"name": "agent", "version": "1"}},
            }[version]
            say({"id": message["id"], "result": {"protocolVersion": version, **about}})
        elif method in ("session/new", "session/load"):
            session = message["params"].get("sessionId", f"session {len(sessions) + 1}")
            (entry,) = message["params"]["mcpServers"]
            assert entry.get("type") == (None if version == 1 else "stdio"), entry
            opened = line
            sessions[session] = Server(entry)
            say({"id": message["id"], "result": {"sessionId": session}})
        elif method == "session/prompt":
            threading.Thread(target=prompt, args=(message, version), daemon=True).start()
        elif method == "x/echo":
            say({"id": message["id"], "result": line})
        elif method == "x/babble":
            print("Listening on port 8080\n" * message["params"].get("times", 1), end="", flush=True)
            say({"id": message["id"], "result": os.getpid()})
        elif method == "x/opened":
            # The request for the last session, as it came.
            say({"id": message["id"], "result": opened})
        elif method == "x/length":
            say({"id": message["id"], "result": len(line)})
        elif method == "x/long":
            say({"id": message["id"], "result": "x" * message["params"]})
        elif method == "x/many":
            for number in range(message["params"]):
                say({"method": "x/one", "params": [number, "x" * 10_000]})
            say({"id": message["id"], "result": None})
        elif method == "x/stall":
            # It reads no more, and goes on with what it does.
            say({"id": message["id"], "result": os.getpid()})
            while True:
                signal.pause()
        elif method == "x/close":
            say({"id": message["id"], "result": os.getpid()})
            os.close(0)
            while True:
                signal.pause()
        elif method == "x/leave":
            # What it has started ends when it is told to, and not at once.
            left = "trap 'sleep 1; echo done >\"$0\"; exit' TERM; echo; while :; do sleep 0.1; done"
            program = subprocess.Popen(["sh", "-c", left, message["params"]], stdout=subprocess.PIPE)
            program.stdout.readline()
            sys.exit(3)
        elif method == "x/exit":
            sys.exit(message["params"])
    while deaf:
        signal.pause()


main()
