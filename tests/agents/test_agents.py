"""The example agents, end to end: the real service, a small repository, a scripted model, somebody at a terminal."""

import json
import os
import signal
import subprocess
import time
import unittest
from collections.abc import Callable

import scripts
from model import KEY, NAME, ScriptedModel
from person import END, INTERRUPT, Person
from service import Service
from toolgate import Client, once

LIMIT = 30.0
PROMPT = "\n> "


def eventually(what: str, holds: Callable[[], object]) -> None:
    """Waits for what no screen shows."""
    deadline = time.monotonic() + LIMIT
    while not holds():
        assert time.monotonic() < deadline, f"still not so: {what}"
        time.sleep(0.02)


class AgentTests:
    """What holds for the agent of every language, started with COMMAND."""

    command: list[str]

    def setUp(self) -> None:
        self.service = Service(os.environ["TOOLGATE_BIN"])
        self.addCleanup(self.service.stop)
        self.service.start()
        self.model = ScriptedModel(scripts.SCRIPTS)
        self.addCleanup(self.model.close)

    def test_fixes_the_shop(self) -> None:
        agent = self.started()
        agent.sees("> ")
        agent.types(scripts.FIX)
        agent.sees("Let me look")

        agent.sees("for the permission bash")
        agent.sees("python3 -m unittest -q")
        agent.sees("always: python3 *")
        agent.sees("[e]dit? ")
        agent.types("x")  # no answer
        agent.sees("[e]dit? ")
        agent.types("a")
        agent.sees("✗ edit")  # the rule
        agent.sees("✗ edit  Invalid input for tool edit")

        agent.sees("for the permission edit")
        agent.sees('-    return whole.quantize(Decimal("0.01"), rounding=ROUND_DOWN)')
        agent.sees('+    return whole.quantize(Decimal("0.01"), rounding=ROUND_UP)')
        agent.sees("[e]dit? ")
        agent.types("n")
        agent.sees("What should it do instead")
        agent.types("Read ROUNDING.md first.")

        agent.sees("  ✓ read  ROUNDING.md")  # the subagent's
        agent.sees("✓ task  Read the rounding rule")
        for _ in range(2):
            agent.sees("[e]dit? ")
            agent.types("y")

        # Both commands ask; the first one is changed by hand.
        for _ in range(2):
            if agent.sees("  rm -rf build\n", "  rm -rf dist\n") == "  rm -rf build\n":
                agent.sees("[e]dit? ")
                agent.types("e")
                agent.sees("What to change")
                agent.types("no JSON")
                agent.sees("[e]dit? ")
                agent.types("e")
                agent.sees("What to change")
                agent.types('{"command": "echo kept"}')
            else:
                agent.sees("[e]dit? ")
                agent.types("y")

        agent.sees("Commit it?")
        agent.sees("2. No: Later")
        agent.sees("? ")
        agent.types("2")
        agent.sees("With which message?")
        agent.sees("(n: dismiss)? ")
        agent.types("Half a cent goes up")

        agent.sees("  seq 1 9000\n")
        agent.sees("[e]dit? ")
        agent.types("y")
        agent.sees("shortened for the model")
        # What would clear the screen is shown, not done.
        agent.sees("Done: half a cent\\x1b[2J is rounded up.")
        agent.sees(PROMPT)
        agent.presses(END)
        self.assertEqual(agent.sees_the_end(), 0, agent.screen)
        self.model.check()

        self.service.runs_its_tests()
        self.assertEqual(self.service.changed_files(), ["pricing.py"])
        self.agrees_with_the_records()

    def agrees_with_the_records(self) -> None:
        """The service has recorded the job as it was done."""
        calls = self.service.calls()
        ends = [(call["tool"], "failed" in call and call["failed"]["reason"]) for call in calls]
        self.assertEqual(sorted(ends[:4]), [("glob", False), ("grep", False), ("read", False), ("read", False)])
        expected = [
            ("bash", False),
            ("edit", "FAILURE_REASON_DENIED"),
            ("invalid", False),
            ("edit", "FAILURE_REASON_REJECTED"),
            ("task", False),
            ("read", False),
            ("edit", False),
            ("edit", False),
            ("bash", False),
            ("bash", False),
            ("question", False),
            ("bash", False),
            ("bash", False),
        ]
        self.assertEqual(ends[4:], expected)
        task, read = calls[8], calls[9]
        self.assertEqual(read["context"]["parentCallId"], task["callId"])
        self.assertEqual(read["context"]["agent"], "explore")
        self.assertNotEqual(read["context"]["sessionId"], task["context"]["sessionId"])
        self.assertEqual({call["context"]["agent"] for call in calls}, {"build", "explore"})
        own = {call["context"]["sessionId"] for call in calls if call is not read}
        self.assertEqual(len(own), 1)

        records = self.service.audit()
        count = {kind: sum(one["kind"] == kind for one in records) for kind in ("admitted", "ended", "denied")}
        self.assertEqual(count, {"admitted": len(calls), "ended": len(calls), "denied": 1})
        decisions = sorted(one["decision"] for one in records if one["kind"] == "decided")
        self.assertEqual(decisions, ["always", "answers", "instead", "once", "once", "once", "once", "reject"])
        granted = [one["call"] for one in records if one["kind"] == "allowed" and one.get("grants")]
        self.assertEqual(granted, [calls[-1]["callId"]])

    def test_is_interrupted(self) -> None:
        agent = self.started()
        agent.sees("> ")
        agent.types(scripts.WAIT)
        agent.sees("✓ bash")
        self.runs("4242")
        agent.sees("Runs sleep")
        agent.presses(INTERRUPT)
        agent.sees("Stopped.")
        self.assertEqual(self.service.processes("4242"), [])
        agent.sees(PROMPT)

        agent.types("Never mind.")
        agent.sees("I am thinking")
        agent.presses(INTERRUPT)
        agent.sees("Stopped.")
        eventually("the model's stream is left", lambda: "I am thinking" in self.model.left)
        agent.sees(PROMPT)

        agent.types("Think less.")
        agent.sees("[e]dit? ")
        agent.types("e")
        agent.sees("What to change")
        agent.types('{"command": 5}')
        agent.sees("The call still waits for an answer.")
        agent.presses(INTERRUPT)
        agent.sees("Stopped.")
        agent.sees(PROMPT)

        agent.types("Do not ask.")
        agent.sees("[e]dit? ")
        agent.types("n")
        agent.sees("What should it do instead")
        agent.types("")
        # Without a word the model is not asked again.
        agent.sees(PROMPT)

        agent.types("Let somebody else wait.")
        self.runs("4243")
        agent.presses(INTERRUPT)
        agent.sees("Stopped.")
        self.assertEqual(self.service.processes("4243"), [])
        agent.sees(PROMPT)

        agent.types("That is all.")
        agent.sees("Goodbye.")
        agent.sees(PROMPT)
        agent.presses(INTERRUPT)
        self.assertEqual(agent.sees_the_end(), 130, agent.screen)
        self.model.check()
        self.assertFalse((self.service.repository / "asked").exists())
        self.assertFalse((self.service.repository / "refused").exists())

        self.has_ended_everything()
        reasons = {call["failed"]["reason"] for call in self.service.calls() if "failed" in call}
        self.assertEqual(reasons, {"FAILURE_REASON_CANCELLED", "FAILURE_REASON_REJECTED"})

    def test_a_second_interrupt_ends_it(self) -> None:
        agent = self.started()
        agent.sees("> ")
        agent.types(scripts.WAIT)
        self.runs("4242")
        agent.presses(INTERRUPT)
        agent.sees("Ctrl-C again ends the agent")
        agent.presses(INTERRUPT)
        self.assertEqual(agent.sees_the_end(), 130, agent.screen)
        self.has_ended_everything()

    def test_ends_when_told(self) -> None:
        agent = self.sleeping()
        os.kill(agent.program.pid, signal.SIGTERM)
        self.assertNotEqual(agent.sees_the_end(), 0, agent.screen)
        self.has_ended_everything()

    def test_ends_with_its_terminal(self) -> None:
        self.assertNotEqual(self.sleeping().hangs_up(), 0)
        self.has_ended_everything()

    def sleeping(self) -> Person:
        """An agent with a command that runs, and one in the background."""
        agent = self.started()
        agent.sees("> ")
        agent.types(scripts.LEFT)
        self.runs("4245")
        self.assertTrue(self.service.processes("4244"))
        return agent

    def test_lets_others_answer(self) -> None:
        agent = self.started()
        agent.sees("> ")
        agent.types(scripts.SHARED)
        agent.sees("I make it.")
        agent.sees("! the model")
        agent.sees(PROMPT)
        agent.types("Again, please.")
        agent.sees("[e]dit? ")
        with Client(self.service.target) as client, client.approvals(lambda _: once(), name="other", everybody=True):
            agent.sees("Thank you.")
        agent.sees(PROMPT)
        agent.presses(END)
        self.assertEqual(agent.sees_the_end(), 0, agent.screen)
        self.model.check()
        self.assertTrue((self.service.repository / "shared").exists())

    def test_works_without_a_terminal(self) -> None:
        ran = self.ran(f"{scripts.PIPED}\ny\n".encode(), self.environment())
        shown = (ran.stdout + ran.stderr).decode()
        self.assertEqual(ran.returncode, 0, shown)
        self.assertIn("One of two.", shown)
        self.assertNotIn("\x1b", shown)
        self.assertEqual(ran.stderr, b"")
        self.assertTrue((self.service.repository / "one").exists())
        self.assertFalse((self.service.repository / "two").exists())
        self.model.check()
        self.has_ended_everything()

    def test_says_what_is_wrong(self) -> None:
        nobody = {**self.environment(), "TOOLGATE_SERVER": f"unix:{self.service.folder}/nobody.sock"}
        ran = self.ran(b"", nobody)
        self.assertEqual(ran.returncode, 1, ran)
        self.assertIn(b"toolgate-agent: ", ran.stdout + ran.stderr)
        self.assertNotIn(b"Traceback", ran.stderr)
        self.assertNotIn(b"    at ", ran.stderr)

        wrong_key = {**self.environment(), "OPENAI_API_KEY": "wrong"}
        ran = self.ran(f"{scripts.PIPED}\n".encode(), wrong_key)
        self.assertEqual(ran.returncode, 0, ran)
        self.assertIn(b"500", ran.stdout)
        self.assertTrue(self.model.failures)

    def ran(self, typed: bytes, environment: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            self.command_line(),
            input=typed,
            capture_output=True,
            env=environment,
            cwd=self.service.folder,
            timeout=LIMIT,
        )

    def started(self) -> Person:
        return self.at_a_terminal(self.command_line())

    def at_a_terminal(self, command: list[str]) -> Person:
        person = Person(command, self.environment(), self.service.folder, self.model.failures)
        self.addCleanup(person.leave)
        return person

    def command_line(self) -> list[str]:
        return [*self.command, "--base-url", self.model.base_url, "--model", NAME]

    def environment(self) -> dict[str, str]:
        python = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
        return {**self.service.environment, **python, "OPENAI_API_KEY": KEY, "LANG": "C.UTF-8"}

    def runs(self, argument: str) -> None:
        """Waits until a program with this argument runs."""
        eventually(f"a program with {argument} runs", lambda: self.service.processes(argument))

    def has_ended_everything(self) -> None:
        eventually("no process is left", lambda: not self.service.processes())
        states = {call["state"] for call in self.service.calls()}
        self.assertLessEqual(states, {"CALL_STATE_COMPLETED", "CALL_STATE_FAILED"})


class Python(AgentTests, unittest.TestCase):
    command = json.loads(os.environ.get("AGENT_PYTHON", "[]"))


class TypeScript(AgentTests, unittest.TestCase):
    command = json.loads(os.environ.get("AGENT_TYPESCRIPT", "[]"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
