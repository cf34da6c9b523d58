"""The static part: what is said of names and descriptions, and what is left in peace."""

from __future__ import annotations

from typing import Any

import pytest

from daneel.bench.lint.checks import lint
from daneel.bench.lint.meaning import nearness, split_words
from daneel.bench.lint.names import shorter_name
from daneel.bench.lint.tokens import TokenCounter
from daneel.tools import edit_file, list_files, read_file, run_command, search_text, submit, write_file


def declared(name: str, description: str = "Counts the apples of a tree", /, **properties: Any) -> dict[str, Any]:
    required = [key for key, value in properties.items() if not value.pop("left_out", False)]
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def kinds(*declarations: dict[str, Any]) -> list[tuple[str, tuple[str, ...]]]:
    return [(finding.kind, finding.tools) for finding in lint("h", declarations)]


@pytest.mark.parametrize(
    "text", ["", " ", "TODO", "todo: write", "TBD", "...", "…", "FIXME", "n/a", "A tool", "description here"]
)
def test_a_description_that_says_nothing(text: str) -> None:
    assert kinds(declared("apples", text)) == [("description", ("apples",))]


@pytest.mark.parametrize("text", ["Get current date", "To-do list of a person", "None is locked", "Toolbox of a car"])
def test_a_description_that_says_something(text: str) -> None:
    assert kinds(declared("apples", text)) == []


def test_a_description_that_only_repeats_the_name() -> None:
    assert kinds(declared("cur_date", "cur_date")) == [("description", ("cur_date",))]


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("Counts. Takes no arguments.", {"tree": {"type": "string"}}),
        ("Counts what the parameter `bush` names", {"tree": {"type": "string"}}),
        ("Counts", {"tree": {"type": "string", "description": "Optional. Which tree"}}),
        ("Counts", {"tree": {"type": "string", "description": "required", "left_out": True}}),
        ("Counts", {"tree": {"type": "integer", "default": 3, "description": "which tree, default 5", "left_out": True}}),
        ("Counts", {"tree": {"type": "integer", "description": "a string with the tree"}}),
        ("Counts", {"tree": {"type": "array", "description": "string that names the tree"}}),
    ],
)
def test_a_description_that_contradicts_the_schema(text: str, properties: dict[str, Any]) -> None:
    assert kinds(declared("apples", text, **properties)) == [("description", ("apples",))]


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("Counts. Takes no arguments.", {}),
        ("Counts what the parameter `tree` names", {"tree": {"type": "string"}}),
        ("The argument is a tree; arguments must be words", {"tree": {"type": "string"}}),
        ("Counts", {"tree": {"type": "string", "description": "not optional"}}),
        ("Counts", {"tree": {"type": "string", "description": "Optional. Which tree", "left_out": True}}),
        ("Counts", {"tree": {"type": "integer", "default": 5, "description": "which tree, default 5", "left_out": True}}),
        ("Counts", {"tree": {"type": "boolean", "default": True, "description": "defaults to true", "left_out": True}}),
        ("Counts", {"tree": {"type": "array", "description": "list of trees"}}),
    ],
)
def test_a_description_that_fits_the_schema(text: str, properties: dict[str, Any]) -> None:
    assert kinds(declared("apples", text, **properties)) == []


def test_names_with_a_long_common_beginning_are_one_finding() -> None:
    names = ["stock_report_daily", "stock_report_weekly", "stock_report_yearly", "pears"]
    texts = ["Goods that came", "Mice that went", "Taxes", "Fruit"]
    (finding,) = lint("h", [declared(name, text) for name, text in zip(names, texts, strict=True)])
    assert (finding.kind, finding.tools) == ("ambiguity", tuple(names[:3]))
    assert "estimated from the characters" in finding.text


def test_common_beginnings_are_counted_in_the_served_models_tokens() -> None:
    pieces = {"alphabet": ["al", "pha", "bet"], "alphanumeric": ["al", "pha", "numeric"], "almond": ["alm", "ond"]}
    counter = TokenCounter(lambda text: pieces.get(text, [text]), model="m")
    texts = ["Letters", "Figures", "Nuts"]
    found = lint("h", [declared(name, text) for name, text in zip(pieces, texts, strict=True)], counter=counter)
    assert [finding.tools for finding in found] == [("alphabet", "alphanumeric")]
    assert found[0].data["prefix_tokens"] == 2
    assert found[0].data["exact"]


def test_tools_that_say_the_same_in_other_words() -> None:
    same = [declared("find_code", "Search the code for a word"), declared("grep_sources", "Find a word in the code")]
    others = [declared(f"tool{n}", text) for n, text in enumerate(["Bake bread", "Milk cows", "Shear sheep", "Mow grass"])]
    assert kinds(*same, *others) == [("ambiguity", ("find_code", "grep_sources"))]


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (("cur_time", "Get current time"), ("get_current_date", "Get current date")),
        (("read_file", "Read a file"), ("write_file", "Write a file")),
        (("add", "Add two numbers"), ("subtract", "Subtract two numbers")),
        (("start_server", "Start the server"), ("stop_server", "Stop the server")),
        (("encrypt", "Encrypt a message"), ("decrypt", "Decrypt a message")),
    ],
)
def test_tools_that_differ_in_the_word_that_counts(a: tuple[str, str], b: tuple[str, str]) -> None:
    assert kinds(declared(*a), declared(*b)) == []
    others = [declared(f"t{n}", f"Do thing{n} to part{n}") for n in range(20)]
    assert kinds(declared(*a), declared(*b), *others) == []


def test_the_built_in_tools_are_without_a_finding() -> None:
    tools = [each(".") for each in (read_file, write_file, edit_file, list_files, search_text, run_command)]
    assert kinds(*(tool.declaration() for tool in [*tools, submit()])) == []


def test_a_name_that_is_longer_than_needed_gets_a_shorter_one_that_is_free() -> None:
    long = "get_the_current_date_of_today"
    shorter = shorter_name(long, [long, "get_current_date"])
    assert shorter is not None
    assert len(shorter) < len(long)
    assert shorter not in (long, "get_current_date")
    assert shorter_name("get_current_date", ["get_current_date"]) is None


def test_words_of_names_however_they_are_written() -> None:
    assert split_words("getHTTPCode_v2") == ["get", "http", "code", "v", "2"]


def test_nearness_is_at_most_one() -> None:
    tools = [declared("a_b", "x y"), declared("b_a", "y x"), declared("c", "z")]
    assert all(0 < cosine <= 1.0000001 for _, _, cosine, _ in nearness(tools))


def test_a_declaration_with_next_to_nothing_in_it() -> None:
    assert kinds({"type": "function", "function": {"name": "x"}}) == [("description", ("x",))]
    assert kinds({"type": "function", "function": {"name": "x", "parameters": None, "description": None}})
