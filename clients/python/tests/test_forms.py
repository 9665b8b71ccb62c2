"""Results in the forms of model APIs: those that `clients/forms.json` expects of every library."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format

from toolgate import Call
from toolgate.v1 import call_pb2

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "forms.json").read_text("utf-8"))


@pytest.mark.parametrize("case", CASES, ids=[case["what"] for case in CASES])
def test_results_take_the_forms_of_model_apis(case: dict[str, Any]) -> None:
    result = Call.from_proto(json_format.ParseDict(case["call"], call_pb2.Call())).result
    assert result is not None
    call_id = case["model_call"]
    assert result.openai(call_id) == case["openai"]
    assert result.openai_responses(call_id) == case["openai_responses"]
    assert result.anthropic(call_id) == case["anthropic"]
    assert result.gemini(case["tool"], call_id) == case["gemini"]
