"""Gates: when a tool may be called, judged from the calls so far."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daneel import Gate, Harness, Tool, only_after, tool
from daneel.errors import UserError
from daneel.harness.run_record import CallRecord
from daneel.harness.tools.gating import closed, visible


def made(name: str, arguments: dict[str, Any] | None = None, *, error: str | None = None) -> CallRecord:
    return CallRecord(name, arguments or {}, "result", error)


def not_made(name: str) -> CallRecord:
    return CallRecord(name, {}, None, "wrong arguments")


@tool
def read_file(path: str) -> str:
    """Read"""
    return path


def edit(**gates: Any) -> Tool:
    @tool(name="edit_file", description="Edit", **gates)
    def edit_file(path: str, text: str = "") -> str:
        return path + text

    return edit_file


def test_requires_wants_a_success() -> None:
    gated = edit(requires="read_file")
    assert closed(gated, []).needed == "read_file"  # type: ignore[union-attr]
    assert closed(gated, [not_made("read_file"), made("read_file", error="no such file"), made("other")]) is not None
    assert closed(gated, [made("read_file"), made("read_file", error="later")]) is None


def test_a_failure_will_do_without_success() -> None:
    gated = edit(only_after=only_after("read_file", success=False))
    assert closed(gated, [not_made("read_file")]) is not None
    assert closed(gated, [made("read_file", error="no such file")]) is None


def test_the_same_path_is_asked_for_when_there_are_arguments() -> None:
    gated = edit(only_after=only_after("read_file", same="path"))
    calls = [made("read_file", {"path": "./a.txt"})]
    assert closed(gated, calls) is None, "some call of it can be allowed"
    assert closed(gated, calls, {"path": "a.txt"}) is None
    refused = closed(gated, calls, {"path": "b.txt", "text": "x"})
    assert refused is not None
    assert (refused.needed, refused.same) == ("read_file", {"path": "b.txt"})


@pytest.mark.parametrize(("earlier", "now"), [(True, 1), (1, 1.5), ("1", 1), (None, "")])
def test_the_same_is_the_same_type_too(earlier: Any, now: Any) -> None:
    gated = edit(only_after=only_after("read_file", same="path"))
    assert closed(gated, [made("read_file", {"path": earlier})], {"path": now}) is not None


def test_max_calls_counts_calls_that_ran() -> None:
    gated = edit(max_calls=2)
    assert closed(gated, [made("edit_file"), not_made("edit_file"), made("read_file")]) is None
    assert closed(gated, [made("edit_file"), made("edit_file", error="full")]).limit == 2  # type: ignore[union-attr]


def test_a_predicate_sees_the_calls() -> None:
    gated = edit(hidden_until=lambda calls: len(calls) >= 2)
    assert closed(gated, [made("a")]) is not None
    assert closed(gated, [made("a"), made("b")]) is None


def test_a_predicate_that_raises_keeps_the_gate_closed() -> None:
    why = closed(edit(hidden_until=lambda calls: calls[0].name == "a"), [])
    assert why is not None
    assert "IndexError" in str(why.error)


def test_modes() -> None:
    tools = [read_file, edit(requires="read_file"), edit(requires="read_file", gate=Gate(mode="masked"))]
    shown = visible(tools, [], Gate(mode="refused"))
    assert [(each.mode, each.declared, each.closed is None) for each in shown] == [
        ("refused", True, True),
        ("refused", True, False),
        ("masked", True, False),
    ]
    assert [each.declared for each in visible(tools, [], Gate())] == [True, False, True]


NAMES = ["a", "b", "c"]
CALLS = st.lists(
    st.builds(
        CallRecord,
        st.sampled_from(NAMES),
        st.fixed_dictionaries({"path": st.sampled_from(["x", "y"])}),
        st.sampled_from(["result", None]),
        st.sampled_from([None, "error"]),
    ),
    max_size=8,
)


@given(CALLS, CALLS, st.sampled_from(["x", "y"]), st.booleans())
def test_a_gate_that_waits_for_another_tool_never_closes_again(
    before: list[CallRecord], after: list[CallRecord], path: str, success: bool
) -> None:
    gated = edit(only_after=only_after("a", success=success, same="path"))
    if closed(gated, before, {"path": path}) is None:
        assert closed(gated, before) is None, "what is allowed is visible"
        assert closed(gated, [*before, *after], {"path": path}) is None


@pytest.mark.parametrize(
    ("tools", "complaint"),
    [
        ([edit(requires="no_such")], "comes after no_such, which is no tool of this harness"),
        ([read_file, edit(only_after=only_after("read_file", same="text"))], "read_file has no such argument"),
        ([edit(requires="edit_file")], "no order of calls ever opens edit_file"),
    ],
)
def test_gates_that_can_never_open(tools: list[Tool], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        Harness(tools=tools)


@pytest.mark.parametrize(
    "gates",
    [
        {"max_calls": 0},
        {"requires": [3]},
        {"only_after": "read_file"},
        {"hidden_until": True},
        {"gate": "hidden"},
    ],
)
def test_gates_that_make_no_sense(gates: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="tool edit_file"):
        edit(**gates)


def test_an_unknown_mode() -> None:
    with pytest.raises(UserError, match="hidden, refused, masked"):
        Gate(mode="invisible")  # type: ignore[arg-type]


def test_gates_are_part_of_the_fingerprint() -> None:
    variants = [
        Harness(tools=[read_file, edit()]),
        Harness(tools=[read_file, edit(requires="read_file")]),
        Harness(tools=[read_file, edit(only_after=only_after("read_file", same="path"))]),
        Harness(tools=[read_file, edit(max_calls=2)]),
        Harness(tools=[read_file, edit(hidden_until=lambda calls: bool(calls))]),
        Harness(tools=[read_file, edit()], gate=Gate(mode="masked")),
        Harness(tools=[read_file, edit(gate=Gate(mode="masked"))]),
    ]
    assert len({harness.fingerprint() for harness in variants}) == len(variants)
