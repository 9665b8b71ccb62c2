"""Results in the forms of model APIs."""

from __future__ import annotations

from toolgate import Result
from toolgate.v1 import call_pb2

PNG = "data:image/png;base64,AQID"
UNHEARD = "[a.wav (audio/wav) is not shown here]"
UNREAD = f"[a.pdf (application/pdf) is not shown here]\n{UNHEARD}"


def a_result() -> Result:
    message = call_pb2.CallCompleted(
        output="seen",
        attachments=[
            call_pb2.Attachment(mime="image/png", filename="dot.png", data=b"\x01\x02\x03"),
            call_pb2.Attachment(mime="application/pdf", filename="a.pdf", url="https://x.example/a.pdf"),
            call_pb2.Attachment(mime="audio/wav", filename="a.wav", data=b"\x01\x02\x03"),
        ],
    )
    return Result.from_proto("c", message)


def a_failure() -> Result:
    return Result.from_proto("c", call_pb2.CallFailed(error="no such file"))


def test_chat_completions_take_no_pictures() -> None:
    text = f"seen\n[dot.png (image/png) is not shown here]\n{UNREAD}"
    assert a_result().openai("t") == {"role": "tool", "tool_call_id": "t", "content": text}
    assert a_failure().openai("t")["content"] == "no such file"


def test_responses() -> None:
    assert a_result().openai_responses("t") == {
        "type": "function_call_output",
        "call_id": "t",
        "output": [
            {"type": "input_text", "text": f"seen\n{UNREAD}"},
            {"type": "input_image", "detail": "auto", "image_url": PNG},
        ],
    }
    assert a_failure().openai_responses("t")["output"] == "no such file"


def test_messages_of_anthropic() -> None:
    assert a_result().anthropic("t") == {
        "type": "tool_result",
        "tool_use_id": "t",
        "is_error": False,
        "content": [
            {"type": "text", "text": f"seen\n{UNHEARD}"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AQID"}},
            {"type": "document", "source": {"type": "url", "url": "https://x.example/a.pdf"}},
        ],
    }
    assert a_failure().anthropic("t")["is_error"] is True


def test_contents_of_gemini() -> None:
    assert a_result().gemini("read", "t") == {
        "functionResponse": {
            "name": "read",
            "id": "t",
            "response": {"output": f"seen\n{UNREAD}"},
            "parts": [{"inlineData": {"mimeType": "image/png", "data": "AQID", "displayName": "dot.png"}}],
        }
    }
    failed = {"functionResponse": {"name": "read", "response": {"error": "no such file"}}}
    assert a_failure().gemini("read") == failed


def test_bytes_of_a_data_url() -> None:
    message = call_pb2.CallCompleted(output="seen", attachments=[call_pb2.Attachment(mime="image/png", url=PNG)])
    (attachment,) = Result.from_proto("c", message).attachments
    assert (attachment.base64, attachment.link) == ("AQID", PNG)
