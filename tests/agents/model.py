"""A model that says what a script says: chat completions on loopback, streamed in small pieces.

*Invariant:* it refuses whatever the script does not expect, and remembers that for the test.
"""

import contextlib
import json
import random
import threading
import time
import traceback
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

KEY = "the-key"
NAME = "scripted"


@dataclass(frozen=True)
class Request:
    """What an agent sent."""

    messages: list[dict]
    tools: dict[str, dict]

    def results(self) -> list[str]:
        """The results of the calls in the model's last message, which must all be there and in order."""
        last = max(i for i, message in enumerate(self.messages) if message["role"] == "assistant")
        wanted = [call["id"] for call in self.messages[last].get("tool_calls", [])]
        answers = [message for message in self.messages[last + 1 :] if message["role"] == "tool"]
        assert [message["tool_call_id"] for message in answers] == wanted, f"{wanted} were called, not {answers}"
        return [message["content"] for message in answers]

    def result(self, *parts: str) -> str:
        """The only result, which holds these parts."""
        (text,) = self.results()
        for part in parts:
            assert part in text, f"{part!r} is not in the result: {text[:2000]!r}"
        return text


@dataclass(frozen=True)
class Say:
    """A message of the model: text, and calls by name and arguments (a value, or text as it is).

    One that `stalls` never comes to its end, of one that `breaks` only a part comes; with one that `ends` the script is
    played.
    """

    text: str = ""
    calls: list[tuple[str, object]] = field(default_factory=list)
    stalls: bool = False
    breaks: bool = False
    ends: bool = False


Script = Callable[[Request], Generator[Say, Request, None]]


class ScriptedModel:
    """Plays scripts, chosen by the first thing that a user says in a conversation."""

    def __init__(self, scripts: dict[str, Script]) -> None:
        self.failures: list[str] = []
        self.left: set[str] = set()
        self._scripts = scripts
        self._playing: dict[str, Generator[Say, Request, None]] = {}
        self._said: dict[str, Say] = {}
        self._calls = 0
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def check(self) -> None:
        """Fails if an agent said something unexpected, or a script was not played to its end."""
        assert not self.failures, "\n\n".join(self.failures)
        unfinished = [name for name, say in self._said.items() if not say.ends]
        assert not unfinished, f"not played to the end: {unfinished}"

    def answer(self, headers: dict[str, str], body: dict) -> Say:
        with self._lock:
            assert headers.get("authorization") == f"Bearer {KEY}", headers
            assert body["stream"] is True and body["model"] == NAME, body
            assert body["messages"][0]["role"] == "system", body["messages"][0]
            for tool in body["tools"]:
                assert tool["type"] == "function" and tool["function"]["parameters"]["type"] == "object", tool
            request = Request(body["messages"], {tool["function"]["name"]: tool["function"] for tool in body["tools"]})
            first = next(message["content"] for message in request.messages if message["role"] == "user")
            if first not in self._playing:
                self._playing[first] = self._scripts[first](request)
                self._said[first] = next(self._playing[first])
            else:
                assert not self._said[first].ends, f"{first!r} has been played to its end"
                self._said[first] = self._playing[first].send(request)
            return self._said[first]

    def pieces(self, say: Say) -> list[bytes]:
        """Returns the events of a message, cut where no reader expects it."""
        deltas: list[dict] = [{"role": "assistant", "content": ""}]
        deltas += [{"content": part} for part in cut(say.text, 7)]
        for index, (name, arguments) in enumerate(say.calls):
            self._calls += 1
            text = arguments if isinstance(arguments, str) else json.dumps(arguments)
            opening = {"index": index, "id": f"call_{self._calls}", "type": "function"}
            deltas.append({"tool_calls": [{**opening, "function": {"name": name, "arguments": ""}}]})
            deltas += [{"tool_calls": [{"index": index, "function": {"arguments": part}}]} for part in cut(text, 9)]
        chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
        if not say.stalls:
            reason = "tool_calls" if say.calls else "stop"
            chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
            chunks.append({"choices": [], "usage": {"total_tokens": 1}})
        # Characters stand as they are, so that pieces end within them.
        lines = [f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n" for chunk in chunks]
        end = "" if say.stalls else "data: [DONE]\n\n"
        data = (": a comment\n\n" + "".join(lines) + end).encode()
        return list(cut(data, 50))

    def _handler(model) -> type[BaseHTTPRequestHandler]:  # noqa: N805
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                try:
                    assert self.path == "/v1/chat/completions", self.path
                    say = model.answer({name.lower(): value for name, value in self.headers.items()}, body)
                except Exception:
                    model.failures.append(traceback.format_exc())
                    refusal = b'{"error": {"message": "the script expects something else"}}'
                    self.send_response(500)
                    self.send_header("content-length", str(len(refusal)))
                    self.end_headers()
                    self.wfile.write(refusal)
                    return
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                with contextlib.suppress(ConnectionError):
                    pieces = model.pieces(say)
                    if say.breaks:
                        self.close_connection = True
                        pieces = pieces[: len(pieces) * 3 // 4]
                    for piece in pieces:
                        self._chunk(piece)
                    if say.breaks:
                        return
                    # A stalled message ends when its reader leaves, and at the latest after a minute.
                    for _ in range(600 if say.stalls else 0):
                        self._chunk(b": waiting\n\n")
                        time.sleep(0.1)
                    self._chunk(b"")
                    return
                model.left.add(say.text)
                self.close_connection = True

            def _chunk(self, data: bytes) -> None:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
                self.wfile.flush()

            def log_message(self, *_: object) -> None:
                pass

        return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Agents that end leave their connections as they are; what matters is in `failures`."""


_random = random.Random(7)


def cut(text, longest: int):
    """Cuts a text or bytes into pieces of any length up to the longest."""
    start = 0
    while start < len(text):
        end = start + _random.randint(1, longest)
        yield text[start:end]
        start = end
