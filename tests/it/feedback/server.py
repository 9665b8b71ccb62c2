"""A language server that behaves as its first argument says.

For each line of a file that has `broken` in it, it reports an error at that word, in UTF-16 units; for `doubtful`, a
warning. The second argument is how many milliseconds it takes for that, the third a file for what it sees: a line for
each message.
"""

import json
import os
import sys
import threading
import time

HOW = sys.argv[1]
DELAY = float(sys.argv[2]) / 1000 if len(sys.argv) > 2 else 0
SEEN = sys.argv[3] if len(sys.argv) > 3 else None
LOCK = threading.Lock()
CHANGES = 0


def saw(message):
    if SEEN:
        with open(SEEN, "a") as file:
            file.write(json.dumps({"method": message.get("method"), "params": message.get("params")}) + "\n")


def send(**message):
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    with LOCK:
        sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n" % len(body))
        sys.stdout.buffer.write(body)
        sys.stdout.buffer.flush()


def read():
    length = 0
    while True:
        line = sys.stdin.buffer.readline()
        if not line:
            sys.exit(0)
        if line == b"\r\n":
            return json.loads(sys.stdin.buffer.read(length))
        name, value = line.decode().split(":", 1)
        if name.lower() == "content-length":
            length = int(value)


def units(text):
    return len(text.encode("utf-16-le")) // 2


def at(line, start, length, severity, message):
    begin, end = {"line": line, "character": start}, {"line": line, "character": start + length}
    return {"range": {"start": begin, "end": end}, "severity": severity, "message": message, "source": "fake"}


def found(text):
    diagnostics = []
    for number, line in enumerate(text.split("\n")):
        for word, severity in (("broken", 1), ("doubtful", 2)):
            if word in line:
                start = units(line[: line.index(word)])
                diagnostics.append(at(number, start, len(word), severity, "this is " + word))
    return diagnostics


def publish(uri, diagnostics, version=None):
    params = {"uri": uri, "diagnostics": diagnostics}
    if version is not None:
        params["version"] = version
    send(method="textDocument/publishDiagnostics", params=params)


def report(uri, text, version):
    time.sleep(DELAY)
    if HOW == "flood":
        publish(uri, [at(number, 0, 1, 1, "error %d" % number) for number in range(100_000)], version)
        return
    if HOW == "many":
        publish(uri, [at(number, 0, 1, 1, "error %d" % number) for number in range(2_000)], version)
        return
    if HOW == "huge":
        publish(uri, [at(0, 0, 1, 1, "y" * 10_000_000)], version)
        return
    if HOW == "others":
        folder = uri.rsplit("/", 1)[0]
        for number in range(8):
            publish("%s/other%d.fake" % (folder, number), [at(0, 0, 1, 1, "broken by the change")])
        publish("file:///etc/passwd", [at(0, 0, 1, 1, "outside")])
        publish("https://example.com/x", [at(0, 0, 1, 1, "no file")])
        publish("untitled:x", [at(0, 0, 1, 1, "no file")])
        publish("file:///%00%ff/../x", [at(0, 0, 1, 1, "strange")])
    publish(uri, found(text), version)
    if HOW == "endless":
        while True:
            publish(uri, found(text), version)
            publish("%s/never%d.fake" % (uri.rsplit("/", 1)[0], int(time.time() * 1e6)), [at(0, 0, 1, 1, "z" * 1000)])


def changed(document, text):
    global CHANGES
    CHANGES += 1
    if HOW == "crash" or (HOW == "crash_later" and CHANGES > 1):
        os._exit(3)
    if HOW == "hang":
        time.sleep(3600)
    if HOW == "garbage":
        sys.stdout.buffer.write(b"this is no message\r\n\r\n" * 100)
        sys.stdout.buffer.flush()
    if HOW != "silent":
        arguments = (document["uri"], text, document.get("version"))
        threading.Thread(target=report, args=arguments, daemon=True).start()


def answer(request):
    if request["method"] == "initialize":
        if HOW == "hang_start":
            time.sleep(3600)
        if HOW == "exit":
            os._exit(3)
        return {"result": {"capabilities": {"textDocumentSync": 1}}}
    if request["method"] == "shutdown":
        return {"result": None}
    if request["method"] == "textDocument/hover":
        return {"result": {"contents": "a hover"}}
    return {"error": {"code": -32601, "message": "not here"}}


while True:
    message = read()
    saw(message)
    method, params = message.get("method"), message.get("params") or {}
    if method == "exit":
        break
    if "id" in message and method:
        send(id=message["id"], **answer(message))
    elif method == "textDocument/didOpen":
        changed(params["textDocument"], params["textDocument"]["text"])
    elif method == "textDocument/didChange":
        changed(params["textDocument"], params["contentChanges"][-1]["text"])
