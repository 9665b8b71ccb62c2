"""What the SDKs of agent-sandbox want beside the sandbox: a played Kubernetes API, whose claims are ready at once, and a played
Service, which has ports of its own."""

import http.server
import json
import socket
import threading
import urllib.parse

NOW = "2026-01-01T00:00:00Z"
CLAIMS = "sandboxclaims"
CONDITION = {"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": NOW}


class Cluster(http.server.ThreadingHTTPServer):
    """The API: claims are kept, each with a sandbox of its name."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Requests)
        self.claims = {}
        self.made = 0
        self.lock = threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def claim(self, body):
        with self.lock:
            self.made += 1
            metadata = body["metadata"]
            name = metadata.get("name") or metadata["generateName"] + str(self.made)
            metadata |= {"name": name, "namespace": "default", "uid": f"uid-{self.made}", "resourceVersion": "1"}
            body["status"] = {"conditions": [CONDITION], "sandbox": {"name": name, "podIPs": ["127.0.0.1"]}}
            self.claims[name] = body
            return body

    def sandbox(self, name):
        metadata = {"name": name, "namespace": "default", "uid": f"sandbox-{name}", "resourceVersion": "1"}
        status = {"conditions": [CONDITION], "podIPs": ["127.0.0.1"], "serviceFQDN": "localhost"}
        return {
            "apiVersion": "agents.x-k8s.io/v1beta1",
            "kind": "Sandbox",
            "metadata": metadata | {"annotations": {"agents.x-k8s.io/pod-name": name}},
            "spec": {},
            "status": status,
        }


class Requests(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self, code, body):
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def read(self):
        return json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")

    def wanted(self):
        """The kind and the name that a request is about, and whether it is a watch."""
        url = urllib.parse.urlsplit(self.path)
        query = urllib.parse.parse_qs(url.query)
        parts = url.path.strip("/").split("/")
        kind, name = parts[5], parts[6] if len(parts) > 6 else None
        selected = query.get("fieldSelector", [""])[0].removeprefix("metadata.name=")
        return kind, name, selected, query.get("watch", ["false"])[0].lower() in ("true", "1")

    def found(self, kind, name):
        if name not in self.server.claims:
            return None
        return self.server.claims[name] if kind == CLAIMS else self.server.sandbox(name)

    def do_GET(self):
        kind, name, selected, watch = self.wanted()
        found = self.found(kind, name or selected)
        if name:
            return self.answer(200, found) if found else self.answer(404, not_found(name))
        if watch:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            if found:
                self.wfile.write(json.dumps({"type": "ADDED", "object": found}).encode() + b"\n")
            return None
        group, made = ("extensions.agents.x-k8s.io", "SandboxClaimList") if kind == CLAIMS else ("agents.x-k8s.io", "SandboxList")
        items = [found] if found else []
        listed = {"apiVersion": f"{group}/v1beta1", "kind": made, "metadata": {"resourceVersion": "1"}, "items": items}
        return self.answer(200, listed)

    def do_POST(self):
        self.answer(201, self.server.claim(self.read()))

    def do_DELETE(self):
        _, name, _, _ = self.wanted()
        self.read()
        gone = self.server.claims.pop(name, None)
        self.answer(200, {"kind": "Status", "status": "Success"}) if gone else self.answer(404, not_found(name))


def not_found(name):
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404, "message": name}


def port_of_service(target):
    """Returns a port that leads to `target`, as one of a Service does."""
    listener = socket.create_server(("127.0.0.1", 0))

    def carry(source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            # Either side is gone, and so is the connection.
            source.close()
            sink.close()

    def serve():
        while True:
            client, _ = listener.accept()
            server = socket.create_connection(target)
            for pair in ((client, server), (server, client)):
                threading.Thread(target=carry, args=pair, daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    return listener.getsockname()[1]
