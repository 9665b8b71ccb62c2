"""What the scripted model says, and what it expects to be told."""

from collections.abc import Generator

from model import Request, Say

Play = Generator[Say, Request, None]

FIX = "The tests fail. Please fix the shop."
LOOK = "Read ROUNDING.md and say in one sentence how amounts are rounded."
TESTS = ("bash", {"command": "python3 -m unittest -q", "description": "Runs the tests"})
RIGHT = "rounding=ROUND_HALF_UP"


def edit(path: str, before: str, after: str) -> tuple[str, object]:
    return ("edit", {"filePath": path, "oldString": before, "newString": after})


def bash(command: str) -> tuple[str, object]:
    return ("bash", {"command": command, "description": f"Runs {command.split()[0]}"})


def fixes_the_shop(request: Request) -> Play:
    """A small job with everything that goes wrong in large ones."""
    offered = set(request.tools)
    assert {"bash", "edit", "glob", "grep", "question", "read", "task"} <= offered, offered
    assert request.messages[1:] == [{"role": "user", "content": FIX}], request.messages
    assert "/shop" in request.messages[0]["content"], "the model is not told where it works"

    # Characters at which careless readers of lines split, and one of four bytes.
    request = yield Say(
        "Let me look\u2028first.\u0085 🔍\n",
        [
            ("read", {"filePath": "pricing.py"}),
            ("read", {"filePath": "test_pricing.py"}),
            ("grep", {"pattern": "ROUND_"}),
            ("glob", {"pattern": "*.py"}),
        ],
    )
    assert request.messages[2]["content"] == "Let me look\u2028first.\u0085 🔍\n", request.messages[2]
    code, tests, found, files = request.results()
    assert "def total(prices, discount):" in code, code
    assert "test_half_a_cent" in tests, tests
    assert "pricing.py" in found and "ROUND_DOWN" in found, found
    assert "test_pricing.py" in files, files

    request = yield Say("I run the tests.", [TESTS])
    request.result("FAILED (failures=1)", "Decimal('0.13') != Decimal('0.14')")

    request = yield Say("", [edit("test_pricing.py", '"0.14"', '"0.13"')])
    request.result("specified a rule which prevents you", "test_*")

    malformed = '{"filePath": "pricing.py", "oldString": "ROUND_DO'
    request = yield Say("", [("edit", malformed)])
    last = next(message for message in reversed(request.messages) if message["role"] == "assistant")
    assert last["tool_calls"][0]["function"]["arguments"] == malformed, last
    request.result("arguments", "edit")

    request = yield Say("", [edit("pricing.py", "rounding=ROUND_DOWN", "rounding=ROUND_UP")])
    request.result("with the following feedback: Read ROUNDING.md first.")

    task = {"description": "Read the rounding rule", "prompt": LOOK, "subagent_type": "explore"}
    request = yield Say("Somebody else may read that.", [("task", task)])
    request.result("Half a cent goes up.", "ses_")

    request = yield Say("", [edit("pricing.py", "ROUND_DOWN, Decimal", "ROUND_HALF_UP, Decimal")])
    request.result()
    request = yield Say("", [edit("pricing.py", "rounding=ROUND_DOWN", RIGHT)])
    request.result()

    request = yield Say("", [bash("rm -rf build"), bash("rm -rf dist")])
    built, removed = request.results()
    assert built.startswith("kept\n") and "replaced the input" in built, built
    assert "feedback" not in removed, removed

    options = [{"label": "Yes", "description": "Now"}, {"label": "No", "description": "Later"}]
    questions = [
        {"question": "Commit it?", "header": "Commit", "options": options},
        {"question": "With which message?", "header": "Message", "options": []},
    ]
    request = yield Say("", [("question", {"questions": questions})])
    request.result('"Commit it?"="No"', '"With which message?"="Half a cent goes up"')

    request = yield Say("", [bash("seq 1 9000")])
    long = request.result("\n1000\n", "truncated")
    assert len(long) < 60_000 and "\n8000\n" not in long, f"{len(long)} characters"

    # What was allowed for always is not asked again.
    request = yield Say("", [TESTS])
    request.result("Ran 2 tests", "OK")
    yield Say("Done: half a cent\x1b[2J is rounded up.", ends=True)


def looks(request: Request) -> Play:
    """The subagent."""
    assert {"grep", "read"} <= set(request.tools), request.tools.keys()
    assert not {"question", "task", "todowrite"} & set(request.tools), request.tools.keys()
    assert request.messages[1:] == [{"role": "user", "content": LOOK}], request.messages
    request = yield Say("I am reading.", [("read", {"filePath": "ROUNDING.md"})])
    request.result("Half a cent is rounded up.")
    yield Say("Half a cent goes up.", ends=True)


WAIT = "Wait for something."
DELEGATE = "Wait in a corner."


def is_interrupted(request: Request) -> Play:
    """Ctrl-C, wherever the agent is."""
    request = yield Say("This takes long.", [bash("sleep 4242"), bash("echo quick")])
    assert request.messages[-1] == {"role": "user", "content": "Never mind."}, request.messages[-1]
    slow, quick = request.results()
    assert quick == "quick\n", quick
    assert "stopped" in slow.lower() or "cancel" in slow.lower() or "abort" in slow.lower(), slow

    request = yield Say("I am thinking", stalls=True)
    assert request.messages[-1] == {"role": "user", "content": "Think less."}, request.messages[-1]
    assert request.messages[-2] == {"role": "assistant", "content": "I am thinking"}, request.messages[-2]

    request = yield Say("", [bash("touch asked")])
    assert request.messages[-1] == {"role": "user", "content": "Do not ask."}, request.messages[-1]
    assert len(request.results()) == 1

    request = yield Say("", [bash("touch refused")])
    assert request.messages[-1] == {"role": "user", "content": "Let somebody else wait."}, request.messages[-1]
    request.result("rejected permission")

    task = {"description": "Wait", "prompt": DELEGATE, "subagent_type": "general"}
    request = yield Say("", [("task", task)])
    assert request.messages[-1] == {"role": "user", "content": "That is all."}, request.messages[-1]
    assert len(request.results()) == 1

    yield Say("Goodbye.", ends=True)


def delegated_wait(request: Request) -> Play:
    yield Say("", [bash("sleep 4243")], ends=True)


PIPED = "Make two files."


def makes_files(request: Request) -> Play:
    """For an agent without a terminal."""
    request = yield Say("", [bash("touch one")])
    request.result()
    request = yield Say("", [bash("touch two")])
    request.result("There is nobody to ask.")
    yield Say("One of two.", ends=True)


SHARED = "Make a file for everybody."


def makes_a_shared_file(request: Request) -> Play:
    """For an agent whose prompts somebody else answers."""
    # Of a message that breaks off no call is made.
    request = yield Say("I make it.", [bash("touch half"), bash("touch half")], breaks=True)
    said = {"role": "assistant", "content": "I make it."}
    assert request.messages[-2:] == [said, {"role": "user", "content": "Again, please."}], request.messages[-2:]
    request = yield Say("", [bash("touch shared")])
    assert "rejected" not in request.result()
    yield Say("Thank you.", ends=True)


LEFT = "Sleep until you are told to end."


def sleeps(request: Request) -> Play:
    """For an agent that is told to end while it works."""
    background = {"command": "sleep 4244", "description": "Sleeps", "background": True}
    request = yield Say("", [("bash", background)])
    request.results()
    yield Say("", [bash("sleep 4245")], ends=True)


SCRIPTS = {
    FIX: fixes_the_shop,
    LOOK: looks,
    WAIT: is_interrupted,
    DELEGATE: delegated_wait,
    PIPED: makes_files,
    SHARED: makes_a_shared_file,
    LEFT: sleeps,
}
