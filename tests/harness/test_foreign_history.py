"""A conversation with daneel's server, as any other server can take it."""

from __future__ import annotations

from typing import Any

import pytest

from daneel.harness.foreign_history import foreign_history

ASK = {"role": "user", "content": "1 + 2?"}
CALL = {"id": "c", "type": "function", "function": {"name": "add", "arguments": "{}"}}
FAILED = {"id": "f", "raw": "<tool_call>{", "name": None}
RESULT = {"role": "tool", "tool_call_id": "c", "content": "3"}
TOLD = {"role": "tool", "tool_call_id": "f", "content": "Error: unreadable"}


def assistant(**more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": "", **more}


@pytest.mark.parametrize(
    ("messages", "sent"),
    [
        ([ASK], [ASK]),
        ([ASK, assistant(tool_calls=[CALL]), RESULT], [ASK, assistant(tool_calls=[CALL]), RESULT]),
        (
            [ASK, assistant(failed_tool_calls=[FAILED]), TOLD],
            [ASK, assistant(content="<tool_call>{"), {"role": "user", "content": "Error: unreadable"}],
        ),
        (
            [
                ASK,
                assistant(content="I add.", tool_calls=[CALL], failed_tool_calls=[FAILED]),
                TOLD,
                RESULT,
                assistant(content="3"),
            ],
            [
                ASK,
                assistant(content="I add.\n<tool_call>{", tool_calls=[CALL]),
                RESULT,
                {"role": "user", "content": "Error: unreadable"},
                assistant(content="3"),
            ],
        ),
        (
            [ASK, assistant(failed_tool_calls=[FAILED]), TOLD, {"role": "user", "content": "Last turn.", "name": "n"}],
            [
                ASK,
                assistant(content="<tool_call>{"),
                {"role": "user", "content": "Error: unreadable\n\nLast turn.", "name": "n"},
            ],
        ),
        (
            [ASK, assistant(content="see <tool_call>{", failed_tool_calls=[FAILED])],
            [ASK, assistant(content="see <tool_call>{")],
        ),
    ],
)
def test_failed_calls(messages: list[dict[str, Any]], sent: list[dict[str, Any]]) -> None:
    before = [dict(message) for message in messages]
    assert foreign_history(messages) == sent
    assert messages == before


@pytest.mark.parametrize("had", ["reasoning", "reasoning_content"])
@pytest.mark.parametrize("wanted", ["reasoning", "reasoning_content"])
def test_thoughts_get_the_name_that_the_server_uses(had: str, wanted: str) -> None:
    assert foreign_history([assistant(**{had: "hm"})], reasoning_field=wanted) == [assistant(**{wanted: "hm"})]


@pytest.mark.parametrize("field", [None, "<think>", "</think>"])
def test_thoughts_keep_their_name_while_none_is_known(field: str | None) -> None:
    messages = [assistant(reasoning_content="hm"), {"role": "user", "content": "x", "reasoning": "kept"}]
    assert foreign_history(messages, reasoning_field=field) == messages
