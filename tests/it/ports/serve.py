"""What the tests of ports reach: `serve.py talk` speaks by the first byte of a connection, `serve.py web` speaks HTTP.

A second argument names a port, a third an address. Prints `port N` when it listens.
"""

import base64
import hashlib
import http.server
import json
import socket
import struct
import sys
import threading


def talk(connection):
    with connection:
        kind = connection.recv(1)
        if kind == b"E":  # Echo, and say how much it was.
            count = 0
            while piece := connection.recv(65536):
                count += len(piece)
                connection.sendall(piece)
            connection.sendall(b"%d bytes" % count)
        elif kind == b"B":  # Say something, and be done with it.
            connection.sendall(b"bye")
        elif kind == b"R":  # Break off.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif kind == b"W":  # Wait.
            connection.sendall(b"waiting")
            while connection.recv(65536):
                pass
        elif kind == b"S":  # Send without end.
            while True:
                connection.sendall(bytes(65536))


class Web(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        port = self.server.server_address[1]
        if self.path.startswith("/headers"):
            self.answer(json.dumps({"path": self.path, "headers": dict(self.headers)}).encode())
        elif self.path == "/bold":
            self.answer(
                b"bold",
                ("Set-Cookie", "a=b"),
                ("Service-Worker-Allowed", "/"),
                ("Clear-Site-Data", '"*"'),
                ("Strict-Transport-Security", "max-age=1"),
                ("Access-Control-Allow-Origin", "https://evil.example"),
                ("Access-Control-Allow-Credentials", "true"),
                ("Content-Security-Policy", "default-src 'self'"),
                ("Referrer-Policy", "unsafe-url"),
                ("X-Own", "kept"),
            )
        elif self.path == "/moved":
            self.answer(b"", ("Location", f"http://localhost:{port}/headers?moved"), code=302)
        elif self.path == "/pieces":
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for piece in (b"one", b"two"):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                self.wfile.flush()
                self.server.go_on.wait()
            self.wfile.write(b"0\r\n\r\n")
        elif self.path == "/go-on":
            self.server.go_on.set()
            self.answer(b"")
        elif self.path == "/socket":
            key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
            accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
            self.send_response(101)
            self.send_header("Upgrade", "websocket")
            self.send_header("Connection", "Upgrade")
            self.send_header("Sec-WebSocket-Accept", accept)
            self.end_headers()
            while piece := self.connection.recv(65536):
                self.connection.sendall(piece)
            self.close_connection = True
        else:
            self.answer(b"nothing here", code=404)

    def do_POST(self):
        digest = hashlib.sha256()
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            while size := int(self.rfile.readline(), 16):
                digest.update(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
        else:
            digest.update(self.rfile.read(int(self.headers["Content-Length"])))
        self.answer(digest.hexdigest().encode())

    def answer(self, body, *headers, code=200):
        self.send_response(code)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def main():
    kind, port, host = (sys.argv[1:] + ["0", "127.0.0.1"])[:1] + (sys.argv[2:] + ["0", "127.0.0.1"][len(sys.argv) - 2 :])[:2]
    if kind == "web":
        server = http.server.ThreadingHTTPServer((host, int(port)), Web)
        server.daemon_threads = True
        server.go_on = threading.Event()
        print("port", server.server_address[1], flush=True)
        server.serve_forever()
    listener = socket.create_server((host, int(port)), backlog=512)
    print("port", listener.getsockname()[1], flush=True)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=talk, args=(connection,), daemon=True).start()


main()
