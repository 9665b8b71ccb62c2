"""The person in the loop: prompts, shown in the terminal and answered there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from toolgate import QuestionPrompt, ReplyOutcome, ReplyResult, always, answer, instead, once, reject

from toolgate_agent.terminal import visible

if TYPE_CHECKING:
    from collections.abc import Container

    from toolgate import Decision, Permission, PermissionPrompt, Prompt, Question

    from toolgate_agent.terminal import Terminal

# With a message the model goes on, and finds another way if there is one.
_NOBODY = "There is nobody to ask. Go on without it, or say what is missing."


class Person:
    """Whoever sits at the terminal."""

    def __init__(self, terminal: Terminal, sessions: Container[str]) -> None:
        self._terminal = terminal
        self._sessions = sessions

    async def decide(self, prompt: Prompt) -> Decision | None:
        """Asks the person. It is cancelled when the prompt ends otherwise: another approver, a cancelled call."""
        # The prompts of other agents in the same workspace are for their own people.
        if prompt.session not in self._sessions:
            return None
        async with self._terminal.dialog():
            head = f"{prompt.tool} of the agent {prompt.agent} asks"
            if isinstance(prompt, QuestionPrompt):
                self._terminal.say(self._terminal.paint(33, f"? {visible(head)}"))
                return await self._answer(prompt.questions)
            self._terminal.say(
                self._terminal.paint(33, f"? {visible(head)} for the permission {prompt.permission.name}")
            )
            self._show(prompt.permission)
            return await self._permit(prompt)

    def told(self, outcome: ReplyOutcome) -> None:
        """Says what became of a reply that did not decide."""
        if outcome.result is not ReplyResult.ACCEPTED:
            self._terminal.line(self._terminal.paint(33, f"! {visible(outcome.message)}"))
        if outcome.result is ReplyResult.INVALID:
            self._terminal.line("  The call still waits for an answer. Ctrl-C cancels it.")

    def _show(self, permission: Permission) -> None:
        if permission.title:
            self._terminal.say(f"  {visible(permission.title)}")
        if permission.diff:
            for line in visible(permission.diff).split("\n"):
                code = 32 if line.startswith("+") else 31 if line.startswith("-") else 0
                self._terminal.say("  " + self._terminal.paint(code, line))
        else:
            for pattern in permission.patterns:
                self._terminal.say("  " + visible(pattern).replace("\n", "\n  "))
        for part in permission.parts:
            if part.unclear:
                self._terminal.say(f"  {visible(part.text)}: {visible(part.unclear)}")
        if permission.always:
            self._terminal.say(self._terminal.paint(2, f"  always: {visible(', '.join(permission.always))}"))

    async def _permit(self, prompt: PermissionPrompt) -> Decision:
        keys = "[y]es, [a]lways, [n]o" + (", [e]dit" if prompt.editable else "")
        while (line := await self._terminal.ask(f"{keys}? ")) is not None:
            match line.strip().lower():
                case "y":
                    return once()
                case "a":
                    return always()
                case "n":
                    return reject(await self._terminal.ask("What should it do instead (empty: stop)? ") or "")
                case "e" if prompt.input is not None:
                    if (changed := await self._edit(prompt.input)) is not None:
                        return changed
        return reject(_NOBODY)

    async def _edit(self, before: dict[str, object]) -> Decision | None:
        self._terminal.say("  " + visible(json.dumps(before, ensure_ascii=False)))
        line = await self._terminal.ask("What to change, as JSON (empty: nothing)? ")
        try:
            changes = json.loads(line or "{}")
        except ValueError as error:
            self._terminal.say(f"  This is no JSON: {error}")
            return None
        return instead({**before, **changes}) if changes and isinstance(changes, dict) else None

    async def _answer(self, questions: list[Question]) -> Decision:
        answers: list[list[str]] = []
        for question in questions:
            self._terminal.say(f"  {visible(question.question)}")
            for number, option in enumerate(question.options, start=1):
                self._terminal.say(f"  {number}. {visible(option.label)}: {visible(option.description)}")
            several = "numbers with commas" if question.multiple else "a number"
            own = "your own words, or " if question.custom else ""
            line = await self._terminal.ask(f"{own}{several} (n: dismiss)? " if question.options else "(n: dismiss)? ")
            if line is None or line.strip().lower() == "n":
                return reject()
            answers.append(_choice(question, line.strip()))
        return answer(*answers)


def _choice(question: Question, line: str) -> list[str]:
    """Returns the labels of the numbers in a line; a line that is anything else is an answer of its own."""
    words = line.split(",") if question.multiple else [line]
    labels = {str(number): option.label for number, option in enumerate(question.options, start=1)}
    if all(word.strip() in labels for word in words):
        return [labels[word.strip()] for word in words]
    return [line] if line else []
