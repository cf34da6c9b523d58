"""A name is put right or not known; it never becomes another tool's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daneel import tool
from daneel.harness.names import bare_name, find_tool, letters
from daneel.harness.tools.registry import Tool


def named(name: str) -> Tool:
    return tool(name=name, description="x")(lambda: None)


TOOLS = [named(name) for name in ("cur_time", "curTimeZone", "read.file", "read_files", "get-x", "getX2", "add", "functions")]


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("cur_time", "cur_time"),
        ("CurTime", "cur_time"),
        ("cur time", "cur_time"),
        ("functions.cur_time", "cur_time"),
        ("functions.add:3", "add"),
        ("default_api:add", "add"),
        ("tools/add", "add"),
        ("`add`", "add"),
        (" add() ", "add"),
        ("add<|channel|>json", "add"),
        ("**add**", "add"),
        ("functions", "functions"),
        ("readFile", "read.file"),
        ("get_x", "get-x"),
        ("cur_tim", None),
        ("time", None),
        ("add_two", None),
        ("addadd", None),
        ("sub.add", None),
        ("my_functions.add", None),
        ("add(1, 2)", None),
        ("add, cur_time", None),
        ("", None),
        ("x" * 10_000, None),
    ],
)
def test_find_tool(written: str, name: str | None) -> None:
    found = find_tool(written, TOOLS, slips=True)
    assert (found.name if found else None) == name
    exact = find_tool(written, TOOLS, slips=False)
    assert (exact.name if exact else None) == (written if written == name else None)


def test_two_tools_that_differ_in_separators_alone_are_not_guessed() -> None:
    tools = [named("add_up"), named("addup")]
    assert find_tool("AddUp", tools, slips=True) is None
    assert find_tool("functions.add_up", tools, slips=True) is None or bare_name("functions.add_up") == "add_up"


@given(st.text(max_size=30) | st.sampled_from([each.name for each in TOOLS]).map(lambda name: name + "x"))
def test_what_is_found_has_the_same_letters(written: str) -> None:
    found = find_tool(written, TOOLS, slips=True)
    assert found is None or letters(found.name) in (letters(written), letters(bare_name(written)))
