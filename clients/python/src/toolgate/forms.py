"""Results as the common model APIs take them.

*Invariant:* a failed call is told as one where the API has a way to, and what a form cannot carry is named in the text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from toolgate._json import JsonObject
    from toolgate.results import Attachment, Result

_IMAGES = {"image/png", "image/jpeg", "image/gif", "image/webp"}
_PDF = "application/pdf"


def is_image(attachment: Attachment) -> bool:
    """Whether it is a picture that models can look at. One without content would have the whole request refused."""
    return attachment.mime in _IMAGES and _has_content(attachment)


def is_pdf(attachment: Attachment) -> bool:
    """Whether it is a PDF file with content."""
    return attachment.mime == _PDF and _has_content(attachment)


def _has_content(attachment: Attachment) -> bool:
    return bool(attachment.data or attachment.url)


def name_of(attachment: Attachment) -> str:
    """Returns a name for a person and for the model."""
    return attachment.filename or attachment.mime


def text_of(result: Result, carried: Callable[[Attachment], bool]) -> str:
    """Returns the text for the model, which names the attachments that the form does not carry."""
    left = [f"[{name_of(one)} ({one.mime}) is not shown here]" for one in result.attachments if not carried(one)]
    return "\n".join([result.text, *left]) if left else result.text


def openai(result: Result, tool_call_id: str) -> JsonObject:
    """Makes the message `tool` of OpenAI's chat completions."""
    return {"role": "tool", "tool_call_id": tool_call_id, "content": text_of(result, lambda _: False)}


def openai_responses(result: Result, call_id: str) -> JsonObject:
    """Makes the item `function_call_output` of OpenAI's responses."""

    def carried(one: Attachment) -> bool:
        return is_image(one) or (is_pdf(one) and one.base64 is not None)

    text = text_of(result, carried)
    files: list[JsonObject] = []
    for one in filter(carried, result.attachments):
        if is_image(one):
            files.append({"type": "input_image", "detail": "auto", "image_url": one.link})
        else:
            files.append({"type": "input_file", "filename": one.filename or "file.pdf", "file_data": one.link})
    words: list[JsonObject] = [{"type": "input_text", "text": text}] if text else []
    return {"type": "function_call_output", "call_id": call_id, "output": [*words, *files] if files else text}


def anthropic(result: Result, tool_use_id: str) -> JsonObject:
    """Makes the block `tool_result` of Anthropic's messages."""

    def carried(one: Attachment) -> bool:
        return is_image(one) or is_pdf(one)

    content: list[JsonObject] = [{"type": "text", "text": text_of(result, carried) or "(no output)"}]
    for one in filter(carried, result.attachments):
        data = one.base64
        source = {"type": "url", "url": one.link}
        if data is not None:
            source = {"type": "base64", "media_type": one.mime, "data": data}
        content.append({"type": "image" if is_image(one) else "document", "source": source})
    return {"type": "tool_result", "tool_use_id": tool_use_id, "content": content, "is_error": not result.ok}


def gemini(result: Result, name: str, call_id: str) -> JsonObject:
    """Makes the part `functionResponse` of Gemini's generateContent."""

    def carried(one: Attachment) -> bool:
        return (is_image(one) or is_pdf(one)) and one.base64 is not None

    response: JsonObject = {"name": name, "response": {"output" if result.ok else "error": text_of(result, carried)}}
    if call_id:
        response["id"] = call_id
    parts = [
        {"inlineData": {"mimeType": one.mime, "data": one.base64, "displayName": name_of(one)}}
        for one in filter(carried, result.attachments)
    ]
    if parts:
        response["parts"] = parts
    return {"functionResponse": response}
