"""Models for the programs of the guide, which say what a script says: a call, and in the end a sentence."""

from __future__ import annotations

from typing import Any

CALL = {"command": "touch notes.txt", "description": "Makes the file"}
END = "The file is there."


def langchain() -> Any:
    from collections.abc import Sequence

    from langchain_core.language_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage

    class Scripted(GenericFakeChatModel):
        def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:  # noqa: ARG002 - the script has the calls
            return self

    call = AIMessage("", tool_calls=[{"name": "bash", "args": CALL, "id": "call_0"}])
    return Scripted(messages=iter([call, AIMessage(END)]))


def pydantic_ai() -> Any:
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    def answer(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        if any(isinstance(part, ToolReturnPart) for part in messages[-1].parts):
            return ModelResponse([TextPart(END)])
        return ModelResponse([ToolCallPart("bash", CALL, "call_0")])

    return FunctionModel(answer)


def openai_agents() -> Any:
    from agents import set_tracing_disabled
    from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call

    set_tracing_disabled(True)
    call = function_call("bash", CALL, call_id="call_0")
    return ScriptedModel([ModelStep(output=[call]), ModelStep(output=[assistant_message(END)])])
