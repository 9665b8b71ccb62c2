"""Answering prompts over channels that break."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta, timezone
from typing import Any

import grpc
import pytest

from tests.fake import Context, Fake, break_off, refuse
from toolgate import (
    AsyncClient,
    Client,
    Decision,
    Prompt,
    ReplyResult,
    RpcError,
    Scope,
    always,
    answer,
    instead,
    once,
    reject,
)
from toolgate.v1 import permission_service_pb2, prompt_pb2

Response = permission_service_pb2.ChannelResponse


def prompt(prompt_id: str) -> prompt_pb2.Prompt:
    return prompt_pb2.Prompt(
        prompt_id=prompt_id,
        call_id="c",
        state=prompt_pb2.PROMPT_STATE_OPEN,
        input_digest="d1",
        permission=prompt_pb2.PermissionRequest(permission="bash", patterns=["ls"], title="Lists"),
    )


def added(prompt_id: str) -> Response:
    return Response(prompt_added=permission_service_pb2.PromptAdded(prompt=prompt(prompt_id)))


def resolved(prompt_id: str) -> Response:
    return Response(prompt_resolved=permission_service_pb2.PromptResolved(prompt=prompt(prompt_id)))


SNAPSHOT_END = Response(snapshot_end=permission_service_pb2.SnapshotEnd(prompts=1))


class Channels:
    """The server's side: what is sent at first, and what becomes of the replies."""

    def __init__(self) -> None:
        self.opens = 0
        self.replies: list[permission_service_pb2.PromptReply] = []

    def script(self, *responses: Response, answers: bool = True, after: list[Response] | None = None) -> Any:
        async def play(requests: AsyncIterator[Any], context: Context) -> AsyncIterator[Any]:
            assert (await requests.__anext__()).HasField("open")
            self.opens += 1
            for one in responses:
                yield one
            for one in after or []:
                yield one
            async for request in requests:
                self.replies.append(request.reply)
                if not answers:
                    await break_off(context)
                yield Response(
                    reply_result=permission_service_pb2.PromptReplyResult(
                        prompt_id=request.reply.prompt_id,
                        reply_id=request.reply.reply_id,
                        result=permission_service_pb2.REPLY_RESULT_ACCEPTED,
                    )
                )

        return play

    def broken(self, *responses: Response) -> Any:
        async def play(requests: AsyncIterator[Any], context: Context) -> AsyncIterator[Any]:
            await requests.__anext__()
            self.opens += 1
            for one in responses:
                yield one
            await break_off(context)

        return play


async def test_a_reply_is_sent_again_under_its_id_until_it_is_answered() -> None:
    channels = Channels()
    outcomes: asyncio.Queue[ReplyResult] = asyncio.Queue()
    shown = [added("per_1"), SNAPSHOT_END]
    async with (
        Fake(Channel=[channels.script(*shown, answers=False), channels.script(*shown)]) as fake,
        AsyncClient(fake.target) as client,
    ):
        handled = []

        async def handler(one: Prompt) -> Decision:
            handled.append(one.id)
            return once()

        async with client.approvals(handler, on_reply=lambda outcome: outcomes.put_nowait(outcome.result)):
            assert await outcomes.get() is ReplyResult.ACCEPTED
        first, second = channels.replies
        assert first == second
        assert (first.prompt_id, first.input_digest) == ("per_1", "d1")
        assert handled == ["per_1"]


async def test_a_prompt_is_handled_once_over_reconnections() -> None:
    channels = Channels()
    ready: asyncio.Queue[int] = asyncio.Queue()
    decide = asyncio.Event()
    outcomes: asyncio.Queue[ReplyResult] = asyncio.Queue()
    shown = [added("per_1"), SNAPSHOT_END]
    async with (
        Fake(Channel=[channels.broken(*shown), channels.broken(*shown), channels.script(*shown)]) as fake,
        AsyncClient(fake.target) as client,
    ):
        handled = []

        async def handler(one: Prompt) -> Decision:
            handled.append(one.id)
            await decide.wait()
            return reject("rather not")

        async with client.approvals(
            handler, on_ready=ready.put_nowait, on_reply=lambda outcome: outcomes.put_nowait(outcome.result)
        ):
            for _ in range(3):
                await ready.get()
            decide.set()
            await outcomes.get()
        assert handled == ["per_1"]
        assert [one.message for one in channels.replies] == ["rather not"]


@pytest.mark.parametrize("way", ["told", "while the channel was broken"])
async def test_a_handler_whose_prompt_has_ended_is_cancelled(way: str) -> None:
    channels = Channels()
    gone: asyncio.Queue[str] = asyncio.Queue()
    shown = [added("per_1"), SNAPSHOT_END]
    scripts = {
        "told": [channels.script(*shown, after=[resolved("per_1")])],
        "while the channel was broken": [channels.broken(*shown), channels.script(SNAPSHOT_END)],
    }
    async with Fake(Channel=scripts[way]) as fake, AsyncClient(fake.target) as client:
        ends = []

        async def handler(_one: Prompt) -> Decision:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                ends.append("cancelled")
                raise
            return once()

        async with client.approvals(handler, on_gone=lambda one: gone.put_nowait(one.id)):
            assert await gone.get() == "per_1"
        assert ends == ["cancelled"]
        assert not channels.replies


async def test_a_handler_that_raises_leaves_its_prompt_open_and_the_others_go_on() -> None:
    channels = Channels()
    problems: list[str] = []
    outcomes: asyncio.Queue[str] = asyncio.Queue()
    async with (
        Fake(Channel=[channels.script(added("per_1"), added("per_2"), added("per_3"), SNAPSHOT_END)]) as fake,
        AsyncClient(fake.target) as client,
    ):

        def handler(one: Prompt) -> Decision | None:
            if one.id == "per_1":
                raise RuntimeError("what now")
            return once() if one.id == "per_3" else None

        async with client.approvals(
            handler,
            on_error=lambda one, error: problems.append(f"{one.id}: {error}"),
            on_reply=lambda outcome: outcomes.put_nowait(outcome.prompt.id),
        ):
            assert await outcomes.get() == "per_3"
        assert problems == ["per_1: what now"]
        assert [one.prompt_id for one in channels.replies] == ["per_3"]


async def test_a_reply_that_was_decided_is_delivered_before_the_end() -> None:
    channels = Channels()
    async with (
        Fake(Channel=[channels.script(added("per_1"), SNAPSHOT_END)]) as fake,
        AsyncClient(fake.target) as client,
    ):
        decided = asyncio.Event()

        async def handler(_one: Prompt) -> Decision:
            decided.set()
            return once()

        async with client.approvals(handler):
            await decided.wait()
        assert len(channels.replies) == 1


class NotTaken:
    """A server that takes no reply before it has said so a number of times."""

    def __init__(self, *results: permission_service_pb2.ReplyResult.ValueType, shows: str) -> None:
        self.results = list(results)
        self.shows = shows
        self.digests: list[str] = []

    async def play(self, requests: AsyncIterator[Any], _context: Context) -> AsyncIterator[Any]:
        await requests.__anext__()
        yield added("per_1")
        yield SNAPSHOT_END
        async for request in requests:
            self.digests.append(request.reply.input_digest)
            result = permission_service_pb2.PromptReplyResult(
                prompt_id="per_1",
                reply_id=request.reply.reply_id,
                result=self.results.pop(0),
                message="it does not fit",
            )
            if self.shows:
                result.prompt.CopyFrom(prompt("per_1"))
                result.prompt.input_digest = self.shows
            yield Response(reply_result=result)


@pytest.mark.parametrize("shows", ["", "d2"])
async def test_a_handler_whose_reply_was_not_taken_is_asked_again(shows: str) -> None:
    invalid, mismatch = permission_service_pb2.REPLY_RESULT_INVALID, permission_service_pb2.REPLY_RESULT_DIGEST_MISMATCH
    server = NotTaken(invalid, mismatch, permission_service_pb2.REPLY_RESULT_ACCEPTED, shows=shows)
    outcomes: asyncio.Queue[ReplyResult] = asyncio.Queue()
    problems: list[str] = []

    async def handler(one: Prompt) -> Decision:
        problems.append(one.problem)
        return once()

    async with (
        Fake(Channel=[server.play]) as fake,
        AsyncClient(fake.target) as client,
        client.approvals(handler, on_reply=lambda outcome: outcomes.put_nowait(outcome.result)),
    ):
        ends = [await outcomes.get() for _ in range(3)]
    assert ends == [ReplyResult.INVALID, ReplyResult.DIGEST_MISMATCH, ReplyResult.ACCEPTED]
    assert problems == ["", "it does not fit", "it does not fit"]
    assert server.digests == ["d1", shows or "d1", shows or "d1"]


async def test_a_handler_whose_replies_are_never_taken_is_not_asked_for_ever() -> None:
    server = NotTaken(*[permission_service_pb2.REPLY_RESULT_INVALID] * 6, shows="d1")
    errors: asyncio.Queue[str] = asyncio.Queue()
    async with (
        Fake(Channel=[server.play]) as fake,
        AsyncClient(fake.target) as client,
        client.approvals(lambda _: once(), on_error=lambda one, error: errors.put_nowait(f"{one.id}: {error}")),
    ):
        assert await errors.get() == "per_1: 6 replies were not taken: it does not fit"
    assert len(server.digests) == 6


async def test_what_another_reply_would_not_change_is_left_to_others() -> None:
    server = NotTaken(permission_service_pb2.REPLY_RESULT_NOT_ALLOWED, shows="d1")
    outcomes: asyncio.Queue[ReplyResult] = asyncio.Queue()
    async with (
        Fake(Channel=[server.play]) as fake,
        AsyncClient(fake.target) as client,
        client.approvals(lambda _: once(), on_reply=lambda outcome: outcomes.put_nowait(outcome.result)),
    ):
        assert await outcomes.get() is ReplyResult.NOT_ALLOWED
    assert len(server.digests) == 1


async def test_a_refused_channel_is_an_error() -> None:
    async def refused(_requests: Any, context: Context) -> AsyncIterator[Any]:
        await refuse(context, grpc.StatusCode.UNAUTHENTICATED, "who are you", "NO_CREDENTIALS")
        yield None

    async with Fake(Channel=[refused]) as fake, AsyncClient(fake.target) as client:
        with pytest.raises(RpcError, match="who are you"):
            async with client.approvals(lambda _: None):
                pass


async def test_plain_programs_answer_from_a_thread() -> None:
    channels = Channels()

    def program(target: str) -> ReplyResult:
        import queue

        outcomes: queue.Queue[ReplyResult] = queue.Queue()
        with (
            Client(target) as client,
            client.approvals(lambda _: once(), on_reply=lambda outcome: outcomes.put(outcome.result)),
        ):
            return outcomes.get(timeout=20)

    async with Fake(Channel=[channels.script(added("per_1"), SNAPSHOT_END)]) as fake:
        assert await asyncio.to_thread(program, fake.target) is ReplyResult.ACCEPTED


def test_decisions_are_messages_of_the_contract() -> None:
    assert once().reply.decision == prompt_pb2.PROMPT_DECISION_ONCE
    moment = datetime(2030, 1, 1, tzinfo=timezone.utc)
    reply = always(Scope("session", expires=moment, max_uses=3), ["git *"]).reply
    assert reply.scope.reach == prompt_pb2.GRANT_REACH_SESSION
    assert reply.scope.expire_time.ToDatetime(tzinfo=timezone.utc) == moment
    assert (reply.scope.max_uses, list(reply.always_patterns)) == (3, ["git *"])
    assert not always().reply.HasField("scope")
    in_an_hour = always(Scope(expires=timedelta(hours=1))).reply.scope.expire_time.ToDatetime(tzinfo=timezone.utc)
    assert timedelta(minutes=59) < in_an_hour - datetime.now(timezone.utc) < timedelta(minutes=61)
    assert [list(one.values) for one in answer("Yes", ["a", "b"], []).reply.answers] == [["Yes"], ["a", "b"], []]
    assert instead({"command": "ls"}).reply.input_json == '{"command": "ls"}'
