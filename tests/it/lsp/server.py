"""A language server for tests: it keeps what it is sent, and is as good or as bad as its first argument says."""

import json
import os
import sys
import threading
import time

HOW, FOLDER = sys.argv[1], sys.argv[2]
LOG = open(os.path.join(FOLDER, f"{HOW}.log"), "a")
LOCK = threading.Lock()


def send(message):
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    with LOCK:
        sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        sys.stdout.buffer.flush()


def receive():
    length = None
    while True:
        line = sys.stdin.buffer.readline()
        if not line:
            sys.exit(0)
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
        if line == b"\r\n":
            return json.loads(sys.stdin.buffer.read(length))


def once(name):
    """Says whether this is the first time, over all runs."""
    path = os.path.join(FOLDER, f"{HOW}.{name}")
    if os.path.exists(path):
        return False
    open(path, "w").close()
    return True


def flood(write):
    def run():
        while True:
            write()

    threading.Thread(target=run, daemon=True).start()


def publish(document, findings):
    params = {"uri": document["uri"], "version": document["version"], "diagnostics": findings}
    send({"method": "textDocument/publishDiagnostics", "params": params})


def finding(line, character, message, severity=1):
    place = {"line": line, "character": character}
    return {"range": {"start": place, "end": place}, "severity": severity, "message": message}


def look(document, text):
    """Finds fault with every line that says `bad`, and says so in two reports."""
    found = [finding(at, 0, f"bad line {at + 1}") for at, line in enumerate(text.split("\n")) if "bad" in line]
    if HOW == "silent":
        return
    publish(document, found[:1])
    if HOW == "slow":
        time.sleep(1)
    publish(document, found)


def ask(method, params):
    send({"id": f"ask-{method}", "method": method, "params": params})


def hover(message):
    if HOW == "hang_call":
        return
    if HOW == "crash_call" or (HOW == "crash_once" and once("crashed")):
        print("it went\x1b[31m wrong", file=sys.stderr, flush=True)
        os._exit(9)
    if HOW == "huge":
        sys.stdout.buffer.write(b"Content-Length: 100000000\r\n\r\n")
        flood(lambda: sys.stdout.buffer.write(b"x" * 65536))
        return
    if HOW == "garbage":
        flood(lambda: sys.stdout.buffer.write(b"nothing in particular\n" * 1000))
        return
    if HOW == "cut":
        sys.stdout.buffer.write(b'Content-Length: 50\r\n\r\n{"id":')
        sys.stdout.buffer.flush()
        os._exit(0)
    if HOW == "refuse":
        send({"id": message["id"], "error": {"code": -32603, "message": "no"}})
        return
    if HOW == "grow":
        hover.memory = bytearray(os.urandom(1 << 20)) * 200
        return
    if HOW == "busy" and once("asked"):
        send({"method": "$/progress", "params": {"token": "t", "value": {"kind": "begin", "title": "Indexing"}}})
        send({"id": message["id"], "result": None})
        time.sleep(0.5)
        send({"method": "$/progress", "params": {"token": "t", "value": {"kind": "end"}}})
        return
    send({"id": message["id"], "result": {"contents": "fine", "at": message["params"]["position"]}})


def main():
    if HOW == "exit":
        print("not installed", file=sys.stderr, flush=True)
        os._exit(3)
    if HOW == "greets":
        sys.stdout.buffer.write(b"Listening for editors\n\n")
        sys.stdout.buffer.flush()
    if HOW == "flood_stderr":
        flood(lambda: sys.stderr.write("complaint " * 1000 + "\n"))
    if HOW == "deaf":
        # Reads one message, and never again.
        message = receive()
        send({"id": message["id"], "result": {"capabilities": {}}})
        flood(lambda: ask("workspace/configuration", {"items": [{}] * 10}))
        time.sleep(1000)
    while True:
        message = receive()
        LOG.write(json.dumps(message) + "\n")
        LOG.flush()
        method, params = message.get("method"), message.get("params")
        if method == "initialize":
            if HOW == "hang_start":
                continue
            if HOW == "refuse_start":
                send({"id": message["id"], "error": {"code": 1, "message": "not today"}})
                continue
            encoding = "utf-8" if HOW == "utf8" else "utf-16"
            send({"id": message["id"], "result": {"capabilities": {"positionEncoding": encoding}}})
        elif method == "initialized":
            ask("workspace/configuration", {"items": [{"section": "a.b"}, {"section": "x"}]})
            ask("no/such/method", {})
            if HOW == "flood_notifications":
                flood(lambda: send({"method": "window/logMessage", "params": {"type": 3, "message": "x" * 1000}}))
        elif method == "textDocument/didOpen":
            look(params["textDocument"], params["textDocument"]["text"])
        elif method == "textDocument/didChange":
            look(params["textDocument"], params["contentChanges"][0]["text"])
        elif method == "textDocument/hover":
            hover(message)
        elif method == "environment":
            send({"id": message["id"], "result": dict(os.environ)})
        elif "id" in message and method:
            send({"id": message["id"], "result": None})


main()
