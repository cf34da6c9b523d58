"""From tokens to deltas: every token is accounted for, and the message does not depend on the steps."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daneel.formats import registry
from daneel.formats.base import Tool
from daneel.formats.validate import ToolSet
from daneel.server.engines.base import StepOutput, TokenAlternatives
from daneel.server.reply import CallProgress, Item, Piece, ReplyBuilder, ReplyOptions
from daneel.wire.accumulate import join
from daneel.wire.errors import ToolCallFailed
from daneel.wire.messages import Delta, Message, TokenLogprob

TIME = Tool("cur_time", "Get current time")
END = "<|im_end|>"
GOOD = '<tool_call>\n{"name": "cur_time", "arguments": {}}\n</tool_call>'
BROKEN = '<tool_call>\n{"name": "cur_time", }\n</tool_call>'

FRAGMENTS = {
    "hermes": [
        "<think>",
        "</think>",
        "<tool_call>",
        "</tool_call>",
        GOOD,
        BROKEN,
        END,
        "word ",
        "\n",
        "🙂",
        '{"name": ',
        "}",
        "<",
    ],
    "gemma4": [
        *(
            "<|channel>thought\n",
            "<channel|>",
            "<|tool_call>",
            "<tool_call|>",
            "call:cur_time{}",
            "<turn|>",
            "<|tool_response>",
        ),
        *("<|tool_call>call:cur_time{}<tool_call|>", '<|"|>', "word ", "{", "}", "é", "\n"),
    ],
    "generic": [
        "```json\n",
        '{"name": "cur_time", "arguments": {}}',
        "```",
        "<think>",
        "</think>",
        GOOD,
        BROKEN,
        "word ",
        "\n",
    ],
}


def builder(pieces: list[bytes], *, family: str = "hermes", stops: list[str] | None = None, **options: Any) -> ReplyBuilder:
    tools = ToolSet([TIME])
    given = {
        "on_failed_tool_call": "report",
        "reasoning_field": "reasoning",
        "logprobs": False,
        "call_id_salt": b"s",
        **options,
    }
    end_ids = frozenset(index for index, piece in enumerate(pieces) if piece == END.encode())
    return ReplyBuilder(
        registry.get(family).parser(tools),
        tools,
        pieces=pieces,
        end_ids=end_ids,
        stops=stops or [],
        options=ReplyOptions(format_name=family, **given),
    )


def output(token_ids: list[int], *, logprobs: bool = False) -> StepOutput:
    alternatives = [TokenAlternatives(-float(token_id), [(token_id, -1.0)]) for token_id in token_ids]
    return StepOutput(1, token_ids, 0, 0, 0, logprobs=alternatives if logprobs else None)


def run(
    reply: ReplyBuilder, steps: list[list[int]], *, truncated: bool = False, logprobs: bool = False
) -> tuple[Message, list[TokenLogprob], list[Item]]:
    items: list[Item] = []
    for step in steps:
        items += reply.step(output(step, logprobs=logprobs))
    items += reply.finish(truncated=truncated)
    pieces = [item for item in items if isinstance(item, Piece)]
    return (
        join(piece.delta for piece in pieces),
        [entry for piece in pieces if piece.logprobs for entry in piece.logprobs.content],
        items,
    )


def tokens(*texts: str) -> list[bytes]:
    return [text.encode() for text in texts]


@st.composite
def generations(draw: st.DrawFn) -> tuple[str, list[bytes], list[list[int]]]:
    """A family, the tokens of a text in it (cut anywhere in its bytes), and their division into steps."""
    family = draw(st.sampled_from(sorted(FRAGMENTS)))
    whole = "".join(draw(st.lists(st.sampled_from(FRAGMENTS[family]), max_size=12))).encode()
    cuts = sorted(draw(st.sets(st.integers(0, len(whole)), max_size=20)))
    edges = [0, *cuts, len(whole)]
    pieces = [whole[start:end] for start, end in itertools.pairwise(edges)]
    steps: list[list[int]] = []
    for index in range(len(pieces)):
        if steps and draw(st.booleans()):
            steps[-1].append(index)
        else:
            steps.append([index])
    return family, pieces, steps


@given(generations(), st.booleans(), st.lists(st.sampled_from(["word", "}\n", "🙂", "</", "call"]), max_size=2))
def test_every_token_is_accounted_for_and_the_steps_do_not_matter(
    generation: tuple[str, list[bytes], list[list[int]]], truncated: bool, stops: list[str]
) -> None:
    family, pieces, steps = generation
    reply = builder(pieces, family=family, stops=stops)
    message, _, _ = run(reply, steps, truncated=truncated)
    kinds = reply.token_kinds()
    details = reply.token_details()
    assert len(kinds) == len(pieces)
    assert reply.raw_text == b"".join(pieces).decode("utf-8", "replace")
    assert (
        details.reasoning_tokens + details.content_tokens + details.tool_tokens + details.failed_tokens + details.control_tokens
    ) == len(pieces)
    for failed in message.failed_tool_calls:
        assert failed.token_span is not None
        first, last = failed.token_span
        assert set(kinds[first:last]) <= {"failed"}
    one_step = builder(pieces, family=family, stops=stops)
    assert run(one_step, [list(range(len(pieces)))], truncated=truncated)[0] == message
    assert one_step.token_kinds() == kinds


@given(generations(), st.booleans())
def test_log_probabilities_are_those_of_the_tokens_of_content_and_calls(
    generation: tuple[str, list[bytes], list[list[int]]], truncated: bool
) -> None:
    family, pieces, steps = generation
    reply = builder(pieces, family=family, logprobs=True)
    _, entries, items = run(reply, steps, truncated=truncated, logprobs=True)
    told = [item.logprobs for item in items if isinstance(item, Piece) and item.logprobs is not None]
    calls = [index for index, kind in enumerate(reply.token_kinds()) if kind in ("tool", "failed")]
    assert [-entry.logprob for each in told for entry in each.tool_calls] == calls
    content = [index for index, kind in enumerate(reply.token_kinds()) if kind == "content"]
    assert [-entry.logprob for entry in entries] == content
    assert [bytes(entry.bytes or []) for entry in entries] == [pieces[index] for index in content]


def test_text_calls_and_the_end_token() -> None:
    reply = builder(tokens("<think>", "why", "</think>", "Hello ", GOOD[:20], GOOD[20:], END))
    message, _, _ = run(reply, [[index] for index in range(7)])
    assert (message.reasoning, message.content) == ("why", "Hello ")
    assert [call.function.name for call in message.tool_calls] == ["cur_time"]
    assert reply.token_kinds() == ["control", "reasoning", "control", "content", "tool", "tool", "control"]
    assert reply.raw_text.endswith(GOOD + END)
    assert reply.num_good_calls == 1


def test_a_long_call_shows_that_it_is_being_written() -> None:
    call = '<tool_call>\n{"name": "cur_time", "arguments": {"note": "' + "x" * 2000 + '"}}\n</tool_call>'
    _, _, items = run(builder(tokens(*call)), [[index] for index in range(len(call))])
    progress = [item for item in items if isinstance(item, CallProgress)]
    assert progress[-1].name == "cur_time"
    assert progress[-1].num_chars > 1000


def test_positions_count_all_calls_and_indexes_the_good_ones() -> None:
    message, _, _ = run(builder(tokens(BROKEN, GOOD, BROKEN, GOOD)), [[0, 1, 2, 3]])
    assert [failed.position for failed in message.failed_tool_calls] == [0, 2]
    assert [failed.token_span for failed in message.failed_tool_calls] == [(0, 1), (2, 3)]
    assert [call.index for call in message.tool_calls] == [0, 1]
    ids = [call.id for call in message.tool_calls] + [failed.id for failed in message.failed_tool_calls]
    assert len(set(ids)) == 4
    assert all(call_id.startswith("call_") for call_id in ids)


def test_a_failed_call_is_content_too_unless_it_is_only_to_be_reported() -> None:
    pieces = tokens("a ", BROKEN, " b")
    shown, _, _ = run(builder(pieces, on_failed_tool_call="content"), [[0], [1], [2]])
    hidden, _, _ = run(builder(pieces, on_failed_tool_call="report"), [[0], [1], [2]])
    assert shown.content == f"a {BROKEN} b"
    assert hidden.content == "a  b"
    assert shown.failed_tool_calls == hidden.failed_tool_calls
    assert shown.failed_tool_calls[0].raw == BROKEN


def test_a_failed_call_as_an_error_says_what_the_model_wrote() -> None:
    reply = builder(tokens(BROKEN), on_failed_tool_call="error")
    with pytest.raises(ToolCallFailed, match="of cur_time that is malformed") as caught:
        run(reply, [[0]])
    assert repr(BROKEN) in caught.value.message


def test_what_is_wrong_with_a_readable_call_stands_beside_it() -> None:
    unknown = GOOD.replace("cur_time", "other")
    message, _, _ = run(builder(tokens(unknown)), [[0]])
    [call], [issue] = message.tool_calls, message.tool_call_issues
    assert (issue.type, issue.tool_call_id) == ("unknown_tool", call.id)


def test_a_repair_names_the_call_and_what_was_written() -> None:
    fenced = '```json\n{"name": "cur_time", "arguments": {}}\n```'
    message, _, _ = run(builder(tokens(fenced), family="generic"), [[0]])
    [call], [repair] = message.tool_calls, message.repairs
    assert repair.tool_call_id == call.id
    assert repair.raw == fenced


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("reasoning", Delta(reasoning="why")),
        ("reasoning_content", Delta(reasoning_content="why")),
        ("both", Delta(reasoning="why", reasoning_content="why")),
    ],
)
def test_reasoning_has_the_name_that_was_asked_for(field: str, expected: Delta) -> None:
    message, _, _ = run(builder(tokens("<think>why</think>x"), reasoning_field=field), [[0]])
    assert (message.reasoning, message.reasoning_content) == (expected.reasoning, expected.reasoning_content)


def test_a_stop_string_ends_the_reply_and_is_control() -> None:
    reply = builder(tokens("one ", "EN", "D", " two"), stops=["END"])
    assert [item.delta.content for item in reply.step(output([0])) if isinstance(item, Piece)] == ["one "]
    assert not reply.stopped
    reply.step(output([1, 2, 3]))
    assert reply.stopped
    reply.finish(truncated=False)
    assert reply.token_kinds() == ["content", "control", "control", "control"]
    assert reply.raw_text == "one END two"


def test_a_stop_string_inside_a_call_leaves_a_truncated_failed_call() -> None:
    message, _, _ = run(builder(tokens("<tool_call>\n{STOP"), stops=["STOP"]), [[0]])
    assert [failed.error.type for failed in message.failed_tool_calls] == ["truncated"]
    assert message.failed_tool_calls[0].raw == "<tool_call>\n{"


def test_ids_follow_from_the_salt_or_are_random() -> None:
    def ids(salt: bytes | None) -> list[str]:
        message, _, _ = run(builder(tokens(GOOD, BROKEN, GOOD), call_id_salt=salt), [[0, 1, 2]])
        return [call.id for call in message.tool_calls]

    assert ids(b"a") == ids(b"a")
    assert len({*ids(b"a"), *ids(b"b"), *ids(None), *ids(None)}) == 8


def test_nothing_generated_is_an_empty_message() -> None:
    reply = builder(tokens(END))
    message, _, _ = run(reply, [[0]])
    assert (message.content, message.tool_calls, message.failed_tool_calls) == (None, [], [])
    assert reply.token_kinds() == ["control"]
