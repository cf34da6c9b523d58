"""From deltas to messages: ours exactly, every peer's tolerantly."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daneel.wire.accumulate import Accumulator, join, new_call_id
from daneel.wire.messages import CallError, Delta, FailedToolCall, FunctionCall, Message, Repair, ToolCall, Warning
from daneel.wire.sse import Decoder


def counting() -> Callable[[], str]:
    numbers = itertools.count()
    return lambda: f"made_{next(numbers)}"


def chunk(delta: Any = None, finish: str | None = None, **extra: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}], **extra}


def accumulated(*chunks: Any) -> Accumulator:
    read = Accumulator(new_id=counting())
    for each in chunks:
        read.add(each)
    return read


def pieces(*tool_calls: Any) -> Accumulator:
    """One chunk for every argument; a list is several pieces in one chunk."""
    return accumulated(*(chunk({"tool_calls": piece if isinstance(piece, list) else [piece]}) for piece in tool_calls))


def named(read: Accumulator) -> list[tuple[str, str]]:
    return [(call.function.name, call.function.arguments) for call in read.message().tool_calls]


def fn(name: str | None = None, arguments: Any = "", **beside: Any) -> dict[str, Any]:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {**beside, "function": function}


# --- our own deltas ---------------------------------------------------------------------------------------------------


def test_join() -> None:
    call = ToolCall(id="c", function=FunctionCall("f", "{}"), type="function", index=0)
    failed = FailedToolCall("d", 1, None, "<x", CallError("truncated", "cut", 2), "hermes")
    deltas = [
        Delta(role="assistant", content=""),
        Delta(reasoning="a"),
        Delta(reasoning="b", content="x"),
        Delta(tool_calls=[call]),
        Delta(failed_tool_calls=[failed], content="y"),
        Delta(repairs=[Repair("c", "fenced_json", "raw")]),
    ]
    assert join(deltas) == Message(
        role="assistant",
        content="xy",
        reasoning="ab",
        tool_calls=[call],
        failed_tool_calls=[failed],
        repairs=[Repair("c", "fenced_json", "raw")],
    )


def test_join_of_nothing_is_an_empty_message() -> None:
    assert join([]) == Message(role="assistant", content=None)
    assert join([Delta(role="assistant", content="")]) == Message(role="assistant", content=None)


def test_join_twice_does_not_share_lists() -> None:
    call = ToolCall(id="c", function=FunctionCall("f", "{}"), type="function", index=0)
    deltas = [Delta(tool_calls=[call]), Delta(tool_calls=[call])]
    assert len(join(deltas).tool_calls) == len(join(deltas).tool_calls) == 2
    assert len(deltas[0].tool_calls) == 1


# --- text -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_thoughts_under_either_name(name: str) -> None:
    read = accumulated(chunk({name: "a", "content": None}), chunk({name: "b"}), chunk({"content": "c", name: None}))
    assert (read.message().reasoning, read.message().content, read.reasoning_field) == ("ab", "c", name)


def test_thoughts_sent_twice_are_read_once() -> None:
    read = accumulated(chunk({"reasoning": "a", "reasoning_content": "a"}))
    assert (read.message().reasoning, read.reasoning_field) == ("a", "reasoning")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, None),
        ("", None),
        ("x", "x"),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "ab"),
        (["a", "b"], "ab"),
        ([], None),
    ],
)
def test_content_in_every_shape(content: Any, text: str | None) -> None:
    assert accumulated(chunk({"content": content})).message().content == text


def test_thoughts_as_content_parts() -> None:
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "yes"}]
    read = accumulated(chunk({"content": parts}))
    assert (read.message().reasoning, read.message().content) == ("hm", "yes")


def test_content_that_is_no_text_is_noted() -> None:
    assert "no text" in accumulated(chunk({"content": [{"type": "image", "url": "x"}]})).notes[0]


def test_a_character_cut_in_two_by_its_peer() -> None:
    read = Accumulator()
    deltas = [read.add(chunk({"content": half})) for half in ("a\ud83d", "\ude00b\ud83d")]
    deltas.append(read.final_delta())
    assert read.message().content == "a\U0001f600b\ufffd"
    assert join(delta for delta in deltas if delta) == read.message()


# --- tool calls -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "read"),
    [
        ('{"a": 1}', '{"a": 1}'),
        ({"a": 1}, '{"a":1}'),
        (None, "{}"),
        ("", "{}"),
        ("null", "{}"),
        ({}, "{}"),
        ('"{\\"a\\": 1}"', '{"a": 1}'),
        ('"text"', '"text"'),
        ('{"a": ', '{"a": '),
        ("[1]", "[1]"),
        ([1], "[1]"),
    ],
)
def test_arguments_in_every_shape(arguments: Any, read: str) -> None:
    assert named(pieces(fn("f", arguments, index=0, id="c"))) == [("f", read)]
    whole = accumulated({"choices": [{"message": {"tool_calls": [fn("f", arguments, id="c")]}}]})
    assert named(whole) == [("f", read)]


TWO = [("f", '{"a": 1}'), ("g", '{"b": 2}')]


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(
            [
                fn("f", "", index=0, id="x"),
                fn(None, '{"a"', index=0),
                fn(None, ": 1}", index=0),
                fn("g", "", index=1, id="y"),
                fn(None, '{"b": 2}', index=1),
            ],
            id="as the dialect has it",
        ),
        pytest.param(
            [
                fn("f", "", index=0, id="x"),
                fn("g", "", index=1, id="y"),
                fn(None, '{"a"', index=0),
                fn(None, '{"b": 2}', index=1),
                fn(None, ": 1}", index=0),
            ],
            id="interleaved",
        ),
        pytest.param([fn("f", '{"a": 1}', index=0, id="x"), fn("g", '{"b": 2}', index=0, id="y")], id="both at index 0"),
        pytest.param([fn("f", '{"a": 1}', index=0), fn("g", '{"b": 2}', index=0)], id="both at index 0, no id"),
        pytest.param([fn("f", '{"a": 1}', index=0, id="x"), fn("g", '{"b": 2}', index=0, id="x")], id="index 0, same id"),
        pytest.param(
            [
                fn("f", '{"a"', index=0, id="x"),
                fn(None, ": 1}", index=0),
                fn("g", "", index=0, id="y"),
                fn(None, '{"b": 2}', index=0),
            ],
            id="both at index 0, in pieces",
        ),
        pytest.param([[fn("f", '{"a": 1}', index=0), fn("g", '{"b": 2}', index=0)]], id="index 0 in one chunk"),
        pytest.param([[fn("f", '{"a": 1}'), fn("g", '{"b": 2}')]], id="one chunk, no index, no id"),
        pytest.param([fn("f", '{"a": 1}', id="x"), fn("g", '{"b": 2}', id="y")], id="no index"),
        pytest.param([fn("f", '{"a"', id="x"), fn("g", '{"b": 2}', id="y"), fn(None, ": 1}", id="x")], id="no index, by id"),
        pytest.param([fn("f", '{"a"'), fn(None, ": 1}"), fn("g", ""), fn(None, '{"b": 2}')], id="no index, no id"),
        pytest.param(
            [fn("f", '{"a"', id="x"), fn(None, ": 1}", index=0), fn("g", '{"b"', id="y"), fn(None, ": 2}", index=1)],
            id="index on later pieces only",
        ),
        pytest.param(
            [fn("f", '{"a"', index=0, id="x"), fn("f", ": 1}", index=0, id="x"), fn("g", '{"b": 2}', index=1, id="y")],
            id="name in every piece",
        ),
        pytest.param(
            [fn("f", '{"a"', index=0, id="x1"), fn(None, ": 1}", index=0, id="x2"), fn("g", '{"b": 2}', index=1, id="y")],
            id="a new id in every piece",
        ),
        pytest.param(
            [fn("f", '{"a": 1}', index=0, id="x"), fn("g", '{"b": 2}', index=1, id="y"), fn("g", '{"b": 2}', index=1, id="y")],
            id="the last call sent twice",
        ),
        pytest.param([fn("f", '{"a": 1}', index="0", id="x"), fn("g", '{"b": 2}', index="1", id="y")], id="index as text"),
        pytest.param(
            [{"id": "x", "name": "f", "arguments": '{"a": 1}'}, {"id": "y", "name": "g", "arguments": '{"b": 2}'}], id="flat"
        ),
        pytest.param(
            [
                {"index": 0, "id": "x"},
                fn("f", '{"a": 1}', index=0),
                {"index": 0, "id": "y"},
                fn("g", '{"b": 2}', index=0),
            ],
            id="id before name",
        ),
    ],
)
def test_two_calls_in_every_dialect(sent: list[Any]) -> None:
    read = pieces(*sent)
    assert named(read) == TWO
    calls = read.message().tool_calls
    assert [call.index for call in calls] == [0, 1]
    assert len({call.id for call in calls}) == 2


def test_the_same_call_twice_is_two_calls_in_a_whole_reply() -> None:
    entry = fn("f", "{}", id="same")
    read = accumulated({"choices": [{"message": {"tool_calls": [entry, entry]}, "finish_reason": "tool_calls"}]})
    assert named(read) == [("f", "{}"), ("f", "{}")]
    assert [call.id for call in read.message().tool_calls] == ["same", "made_0"]
    assert any("'same'" in note for note in read.notes)


def test_the_same_call_twice_is_two_calls_at_two_indexes() -> None:
    read = pieces(fn("f", "{}", index=0, id="x"), fn("f", "{}", index=1, id="y"))
    assert named(read) == [("f", "{}"), ("f", "{}")]


def test_ids_are_made_up_once() -> None:
    read = Accumulator()
    read.add(chunk({"tool_calls": [fn("f", "{}")]}))
    assert read.message() == read.message()
    assert new_call_id() != new_call_id()


def test_a_call_without_a_name_stays_visible() -> None:
    read = pieces(fn(None, '{"a": 1}', index=0, id="x"))
    assert named(read) == [("", '{"a": 1}')]
    assert "a tool call without a name" in read.notes


def test_what_is_no_call_is_noted_and_does_not_stop_the_rest() -> None:
    read = pieces(["nonsense", fn("f", "{}", index=0)], None, 7)
    assert named(read) == [("f", "{}")]
    assert sum("no object" in note for note in read.notes) == 3


def test_the_old_function_call() -> None:
    read = accumulated(
        chunk({"function_call": {"name": "f", "arguments": ""}}), chunk({"function_call": {"arguments": '{"a": 1}'}})
    )
    assert named(read) == [("f", '{"a": 1}')]


@given(
    st.lists(st.tuples(st.sampled_from("fgh"), st.dictionaries(st.text(max_size=3), st.integers(), max_size=2)), max_size=4),
    st.booleans(),
    st.booleans(),
    st.data(),
)
def test_any_cut_of_the_arguments_gives_the_same_calls(
    calls: list[tuple[str, dict[str, int]]], with_index: bool, name_in_every_piece: bool, data: st.DataObject
) -> None:
    """Calls with ids of their own, with or without index, in pieces cut anywhere."""
    sent = []
    for position, (name, arguments) in enumerate(calls):
        text = json.dumps(arguments)
        cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=3)))
        beside = {"index": position} if with_index else {}
        for number, (start, end) in enumerate(itertools.pairwise([0, *cuts, len(text)])):
            given_name = name if number == 0 or name_in_every_piece else None
            sent.append(fn(given_name, text[start:end], id=f"id{position}", **beside))
    assert named(pieces(*sent)) == [(name, json.dumps(arguments)) for name, arguments in calls]


# --- what stands beside the message -----------------------------------------------------------------------------------

USAGE = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}


@pytest.mark.parametrize(
    "chunks",
    [
        [chunk({"content": "x"}, "stop"), {"choices": [], "usage": USAGE}],
        [chunk({"content": "x"}), chunk({}, "stop", usage=USAGE)],
        [chunk({"content": "x"}, usage={**USAGE, "completion_tokens": 1}), chunk({}, "stop", usage=USAGE)],
        [{"choices": [{"delta": {"content": "x"}, "finish_reason": "stop", "usage": USAGE}]}],
        [{"usage": USAGE}, chunk({"content": "x"}, "stop", usage=None)],
    ],
)
def test_usage_anywhere(chunks: list[Any]) -> None:
    usage = accumulated(*chunks).usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (5, 7, 12)


@pytest.mark.parametrize(
    ("given_usage", "cached"),
    [
        (USAGE, None),
        ({**USAGE, "prompt_tokens_details": None}, None),
        ({**USAGE, "prompt_tokens_details": {"cached_tokens": 0}}, 0),
        ({**USAGE, "prompt_tokens_details": {"cached_tokens": 4}}, 4),
        ({**USAGE, "prompt_cache_hit_tokens": 3}, 3),
        ({**USAGE, "cached_tokens": 2}, 2),
        ({**USAGE, "cached_tokens": float("nan")}, None),
    ],
)
def test_cached_tokens_that_were_told_and_not_told(given_usage: Any, cached: int | None) -> None:
    assert accumulated(chunk({}, usage=given_usage)).cached_tokens == cached


@pytest.mark.parametrize("usage", [None, {}, [], "x", {"prompt_tokens": "many"}, {"prompt_tokens": -1}])
def test_usage_that_says_nothing(usage: Any) -> None:
    assert accumulated(chunk({}, usage=usage)).usage is None


@pytest.mark.parametrize(
    "frame",
    [
        {"error": {"message": "boom", "code": 500}},
        {"error": "boom"},
        {"object": "error", "message": "boom"},
        {"detail": "boom"},
        {"choices": [{"delta": {}, "finish_reason": "error"}], "error": {"message": "boom"}},
    ],
)
def test_error_frames(frame: Any) -> None:
    read = accumulated(chunk({"content": "x"}), frame)
    assert read.error is not None
    assert read.error.message == "boom"
    assert read.message().content == "x"


def test_the_additions_of_daneel() -> None:
    failed = {
        "id": "d",
        "position": 0,
        "name": None,
        "raw": "<x",
        "error": {"type": "truncated", "message": "cut", "offset": 2},
        "format": "hermes",
        "token_span": [1, 3],
    }
    issue = {"tool_call_id": "c", "type": "unknown_tool", "message": "no"}
    repair = {"tool_call_id": "c", "kind": "fenced_json", "raw": "r"}
    warning = {"field": "n", "action": "ignored", "detail": "why"}
    part = {"failed_tool_calls": [failed], "tool_call_issues": [issue], "repairs": [repair]}
    read = accumulated(chunk(part), chunk({}, "stop", warnings=[warning], daneel={"timings": {}}))
    message = read.message()
    assert message.failed_tool_calls[0].token_span == (1, 3)
    assert message.tool_call_issues[0].type == "unknown_tool"
    assert message.repairs[0].kind == "fenced_json"
    assert read.warnings == [Warning("n", "ignored", "why")]
    assert read.daneel == {"timings": {}}
    assert not read.notes


def test_an_addition_of_another_kind_is_noted_with_its_text() -> None:
    assert "half a call" in accumulated(chunk({"failed_tool_calls": [{"raw": "half a call"}]})).notes[0]


def test_only_the_first_choice_is_read() -> None:
    read = accumulated({"choices": [{"index": 1, "delta": {"content": "b"}}, {"index": 0, "delta": {"content": "a"}}]})
    assert read.message().content == "a"
    assert read.notes


@pytest.mark.parametrize("nonsense", [None, 1, "x", [], {"choices": 3}, {"choices": [None]}, {"choices": [{"delta": "x"}]}])
def test_nonsense_is_survived(nonsense: Any) -> None:
    assert accumulated(nonsense).message() == Message(role="assistant", content=None)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=4),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "choices",
                        "delta",
                        "message",
                        "content",
                        "tool_calls",
                        "function",
                        "name",
                        "arguments",
                        "id",
                        "index",
                        "usage",
                        "error",
                        "warnings",
                        "reasoning",
                    ]
                ),
                inner,
                max_size=5,
            )
        ),
        max_leaves=25,
    )
)
def test_any_json_is_survived(value: Any) -> None:
    read = accumulated({"choices": [{"delta": value}]}, {"choices": value}, value)
    assert isinstance(read.message(), Message)


def test_nothing_new_is_no_progress() -> None:
    read = Accumulator()
    assert read.add(chunk({"role": "assistant", "content": ""})) is None
    assert read.add(chunk({"content": "x"})) == Delta(content="x")
    assert read.add(chunk({"tool_calls": [fn("f", "", index=0)]})) == Delta()
    assert read.add(chunk({}, "stop")) == Delta()


# --- what real servers sent -------------------------------------------------------------------------------------------


def body_of(path: Path) -> bytes:
    head, _, body = path.read_bytes().partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" not in head.lower():
        return body
    whole = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        length = int(size, 16)
        whole, body = whole + body[:length], body[length + 2 :]
    return whole


def read_stream(body: bytes, cut: int) -> Accumulator:
    read, decoder = Accumulator(new_id=lambda: "made"), Decoder()
    events = decoder.feed(body[:cut]) + decoder.feed(body[cut:]) + decoder.finish()
    for event in events:
        if event.kind == "data" and not event.is_done:
            read.add(json.loads(event.text))
    return read


def without_ids(message: Message) -> Message:
    for call in message.tool_calls:
        call.id = ""
    return message


def test_whole_and_streamed_replies_of_real_servers_are_the_same(shared_dir: Path) -> None:
    compared = 0
    for path in sorted((shared_dir / "wire-samples").glob("*/*_stream.response")):
        whole_path = path.with_name(path.name.replace("_stream", ""))
        whole_body = body_of(whole_path) if whole_path.exists() else b""
        if not whole_body:
            continue  # the server broke down on the whole request
        whole = accumulated(json.loads(whole_body))
        streamed = read_stream(body_of(path), 0)
        assert without_ids(streamed.message()) == without_ids(whole.message()), path
        assert streamed.finish_reason == whole.finish_reason, path
        assert not streamed.notes, path
        compared += 1
    assert compared >= 25


def test_every_cut_of_a_real_stream_gives_the_same_message(shared_dir: Path) -> None:
    path = shared_dir / "wire-samples" / "mlx_lm_scripted_gemma4" / "69_unicode_args_stream.response"
    body = body_of(path)
    whole = read_stream(body, 0)
    assert whole.message().tool_calls
    for cut in range(len(body)):
        read = read_stream(body, cut)
        assert (read.message(), read.finish_reason, read.usage) == (whole.message(), whole.finish_reason, whole.usage), cut


@pytest.mark.parametrize("form", ["delta", "message"])
def test_log_probabilities_are_kept_as_they_came(form: str) -> None:
    entries = [{"token": text, "logprob": -0.5, "top_logprobs": []} for text in "abc"]
    read = Accumulator()
    for told in (
        {"content": entries[:1]},
        {"content": entries[1:2], "tool_calls": entries[2:]},
        None,
        "odd",
        {"content": [3]},
    ):
        read.add({"choices": [{"index": 0, form: {"content": "x"}, "logprobs": told}]})
    assert read.logprobs == entries
