"""Recent turns: their tokens are put in the place of the template's text only where that says the same."""

from __future__ import annotations

import pytest

from daneel.formats.base import Tool
from daneel.formats.registry import get
from daneel.formats.validate import ToolSet
from daneel.server.turn_memory import MAX_TURNS, PastTurn, TurnMemory, first_difference

TOOLS = ToolSet([Tool("now")])
PROMPT = "<|im_start|>user\nTime?<|im_end|>\n<|im_start|>assistant\n"
THINKING = PROMPT + "<think>\n"
NEXT = "<|im_end|>\n<|im_start|>user\nThanks<|im_end|>\n<|im_start|>assistant\n"
CALL = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
OTHER_SPACE = '<tool_call>{"arguments":{},  "name":"now"}</tool_call>'


def memory(text: str, rendered: str = PROMPT, *, family: str = "hermes", ends: tuple[str, ...] = ("<|im_end|>",)) -> TurnMemory:
    kept = TurnMemory(get(family), ends)
    kept.remember(PastTurn(rendered, rendered, [1, 2], [3, 4], text))
    return kept


@pytest.mark.parametrize(
    ("generated", "rendered"),
    [
        ("Noon.", "Noon."),
        ("Noon. \n", "Noon."),
        (OTHER_SPACE, CALL),
        (f"Let me see.\n\n{OTHER_SPACE}\n", f"Let me see.\n{CALL}"),
        ("<think>\nWell.\n</think>\n\nNoon.", "<think>Well.</think>Noon."),
        ("Noon.", "<think>\n\n</think>\n\nNoon."),
    ],
)
def test_a_turn_that_says_the_same_keeps_its_tokens(generated: str, rendered: str) -> None:
    found = memory(generated).recall(PROMPT + rendered + NEXT, TOOLS)
    assert (list(found.ids), found.changed) == ([1, 2, 3, 4], None)
    assert (PROMPT + rendered + NEXT)[found.end :] == NEXT


@pytest.mark.parametrize(
    ("generated", "rendered"),
    [
        ("Noon.", "Midnight."),
        (OTHER_SPACE, CALL.replace("now", "other")),
        ("<think>Well.</think>Noon.", "Noon."),
        ("Noon.", ""),
        (f"{CALL}\n{CALL}", CALL),
        ('<tool_call>\n{"name": "now", broken\n</tool_call>', CALL),
    ],
)
def test_a_turn_that_says_something_else_does_not(generated: str, rendered: str) -> None:
    found = memory(generated).recall(PROMPT + rendered + NEXT, TOOLS)
    assert (list(found.ids), found.end) == ([], 0)
    assert found.changed is not None


@pytest.mark.parametrize(
    ("generated", "rendered", "same"),
    [
        ("Well.\n</think>\n\nNoon.", "<think>\nWell.\n</think>\n\nNoon.", True),
        ("Well.\n</think>\n\nNoon.", "<think>Well.</think>Noon.", True),
        ("Well.\n</think>\n\nNoon.", "Noon.", False),
        ("</think>Noon.", "Noon.", True),
    ],
)
def test_a_thought_that_the_prompt_opened_may_be_written_otherwise(generated: str, rendered: str, same: bool) -> None:
    found = memory(generated, THINKING).recall(PROMPT + rendered + NEXT, TOOLS)
    assert (list(found.ids) == [1, 2, 3, 4]) is same


def test_an_end_marker_inside_the_text_is_not_the_end() -> None:
    text = "It ends with <|im_end|>, they say."
    found = memory(text).recall(PROMPT + text + NEXT, TOOLS)
    assert found.end == len(PROMPT + text)


def test_the_longest_conversation_counts_whatever_the_order() -> None:
    kept = memory("Noon.")
    longer = PROMPT + "Noon." + NEXT
    kept.remember(PastTurn(longer, longer, [1, 2, 3, 4, 5], [6], "Bye."))
    kept.remember(PastTurn("elsewhere", "", [9], [9], "x"))
    found = kept.recall(longer + "Bye." + NEXT, TOOLS)
    assert list(found.ids) == [1, 2, 3, 4, 5, 6]
    found = kept.recall(longer + "Farewell." + NEXT, TOOLS)
    assert list(found.ids) == [1, 2, 3, 4]
    assert found.changed is not None
    assert found.changed.text == "Bye."


def test_another_tenants_turns_are_not_looked_at() -> None:
    found = memory("Noon.").recall(PROMPT + "Noon." + NEXT, TOOLS, tenant="other")
    assert (list(found.ids), found.changed) == ([], None)


def test_old_turns_are_forgotten() -> None:
    kept = memory("Noon.")
    for number in range(MAX_TURNS):
        kept.remember(PastTurn(f"{number}", "", [], [], "x"))
    assert kept.recall(PROMPT + "Noon." + NEXT, TOOLS).ids == ()


def test_a_framed_familys_turn_is_found_behind_the_markers_inside_it() -> None:
    generated = "<|channel>thought\nWell.\n<channel|>Noon."
    rendered = "<|turn>model\n"
    again = rendered + "<|channel>thought\nWell.<channel|>Noon.<turn|>\n"
    found = memory(generated, rendered, family="gemma4", ends=("<turn|>",)).recall(again, TOOLS)
    assert again[found.end :] == "<turn|>\n"


def test_the_first_token_that_differs_is_told() -> None:
    turn, pieces = PastTurn("", "", [1, 2], [3, 4], ""), [f"<{number}>".encode() for number in range(9)]
    assert first_difference(turn, [1, 2, 7, 8], pieces) == "token 2 differs: '<3>' was generated, the template writes '<7>'"
    assert first_difference(turn, [1, 2, 3, 4, 5], pieces) is None
