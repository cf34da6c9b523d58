"""From a function to the schema a model reads."""

from __future__ import annotations

import enum
import inspect
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from daneel import Tool, tool
from daneel.errors import UserError


class Unit(enum.StrEnum):
    celsius = "celsius"
    kelvin = "kelvin"


@dataclass
class Point:
    x: int
    title: str = "here"


class Node(BaseModel):
    """A tree."""

    value: int
    children: list[Node] = []


def properties(made: Tool) -> dict[str, Any]:
    found: dict[str, Any] = made.parameters["properties"]
    return found


def test_a_function_without_parameters() -> None:
    @tool
    def now() -> str:
        """Get current time"""
        return ""

    assert now.declaration() == {
        "type": "function",
        "function": {
            "name": "now",
            "description": "Get current time",
            "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
        },
    }
    assert now() == ""


def test_types_defaults_and_choices() -> None:
    @tool
    def search(
        text: str,
        limit: int = 10,
        exact: bool = False,
        weight: float = 0.5,
        mode: Literal["fast", "slow"] = "fast",
        only: Literal["x"] = "x",
        unit: Unit = Unit.celsius,
        tags: list[str] | None = None,
        either: int | str = 1,
        after: str | None = None,
        counts: dict[str, int] = {},  # noqa: B006
    ) -> str:
        """Search."""
        return text

    assert search.parameters["required"] == ["text"]
    assert properties(search) == {
        "text": {"type": "string"},
        "limit": {"type": "integer", "default": 10},
        "exact": {"type": "boolean", "default": False},
        "weight": {"type": "number", "default": 0.5},
        "mode": {"type": "string", "enum": ["fast", "slow"], "default": "fast"},
        "only": {"type": "string", "enum": ["x"], "default": "x"},
        "unit": {"type": "string", "enum": ["celsius", "kelvin"], "default": "celsius"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "either": {"type": ["integer", "string"], "default": 1},
        "after": {"type": "string"},
        "counts": {"type": "object", "default": {}, "additionalProperties": {"type": "integer"}},
    }


def test_nested_types_stand_where_they_are_used() -> None:
    @tool
    def draw(points: list[Point], title: str, default: int = 0) -> None:
        """Draw."""

    assert properties(draw)["points"]["items"]["properties"] == {
        "x": {"type": "integer"},
        "title": {"type": "string", "default": "here"},
    }
    assert set(properties(draw)) == {"points", "title", "default"}
    assert draw.validate('{"points": [{"x": 1}], "title": "t"}') == {"points": [Point(1)], "title": "t"}


def test_a_type_that_refers_to_itself() -> None:
    @tool
    def grow(tree: Node) -> None:
        """Grow."""

    schema = grow.parameters
    jsonschema_rs.validator_for(schema).validate({"tree": {"value": 1, "children": [{"value": 2, "children": []}]}})
    assert not jsonschema_rs.validator_for(schema).is_valid({"tree": {"value": 1, "children": [{"value": "x"}]}})


GOOGLE = """Move a file.

It stays what it is.

Args:
    source: where it is,
        as a path
    target (str): where it goes

Returns:
    what happened
"""
NUMPY = """Move a file.

It stays what it is.

Parameters
----------
source : str
    where it is,
    as a path
target : str
    where it goes
"""
REST = """Move a file.

It stays what it is.

:param source: where it is,
    as a path
:param target: where it goes
:returns: what happened
"""


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, REST])
def test_descriptions_from_the_docstring(docstring: str) -> None:
    def move(source: str, target: str) -> None: ...

    move.__doc__ = docstring
    made = tool(move)
    assert made.description == "Move a file.\n\nIt stays what it is."
    assert properties(made)["source"]["description"] == "where it is, as a path"
    assert properties(made)["target"]["description"] == "where it goes"


def test_annotated_wins_over_the_docstring() -> None:
    @tool
    def f(
        a: Annotated[int, "the a"],
        b: Annotated[int, Field(description="the b", ge=1, le=9)],
        c: Annotated[int, Field(ge=1)] = 2,
    ) -> None:
        """F.

        Args:
            a: not this
            b: nor this
            c: but this
        """

    assert properties(f) == {
        "a": {"type": "integer", "description": "the a"},
        "b": {"type": "integer", "description": "the b", "maximum": 9, "minimum": 1},
        "c": {"type": "integer", "description": "but this", "default": 2, "minimum": 1},
    }


def test_name_and_description_can_be_given() -> None:
    @tool(name="my_date", description="TODO")
    def today() -> str:
        return ""

    assert (today.name, today.description) == ("my_date", "TODO")


def no_docstring() -> str:
    return ""


def no_type(a) -> str:  # type: ignore[no-untyped-def]
    """Doc."""
    return ""


def star(*args: int) -> str:
    """Doc."""
    return ""


def unknown_type(a: NoSuchType) -> str:  # type: ignore[name-defined]  # noqa: F821
    """Doc."""
    return ""


class Opaque:
    pass


def opaque(a: Opaque) -> str:
    """Doc."""
    return ""


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (no_docstring, "no docstring"),
        (no_type, "parameter a has no type"),
        (star, "parameter args"),
        (unknown_type, "NoSuchType"),
        (opaque, "no JSON form"),
    ],
)
def test_a_tool_that_cannot_be_made_names_itself_and_its_line(function: Any, said: str) -> None:
    with pytest.raises(UserError) as caught:
        tool(function)
    assert said in str(caught.value)
    assert function.__name__ in str(caught.value)
    assert f"test_schema.py:{function.__code__.co_firstlineno}" in str(caught.value)


def test_a_name_that_servers_refuse() -> None:
    with pytest.raises(UserError, match="tool name 'two words'"):
        tool(name="two words")(no_docstring)


def test_parameters_may_have_names_that_pydantic_keeps() -> None:
    @tool
    def odd(copy: int, schema: str, model_config: int, json: str, _hidden: int = 1) -> str:
        """Odd names."""
        return f"{copy} {schema} {model_config} {json} {_hidden}"

    kwargs = odd.validate('{"copy": 1, "schema": "s", "model_config": 2, "json": "j", "_hidden": 3}')
    assert odd.run(kwargs) == "1 s 2 j 3"


KINDS = st.recursive(
    st.sampled_from([int, str, bool, float, None, Point, Unit, Literal["a", "b"]]),
    lambda inner: st.one_of(
        inner.map(lambda kind: list[kind]),  # type: ignore[valid-type]
        inner.map(lambda kind: dict[str, kind]),  # type: ignore[valid-type]
        st.tuples(inner, inner).map(lambda pair: pair[0] | pair[1] if pair != (None, None) else int),
    ),
    max_leaves=4,
)


@given(st.lists(KINDS, max_size=4))
def test_every_schema_is_valid_and_small(kinds: list[Any]) -> None:
    def f(**kwargs: Any) -> None:
        """F."""

    names = [f"a{number}" for number in range(len(kinds))]
    f.__annotations__ = {name: kind if kind is not None else type(None) for name, kind in zip(names, kinds, strict=True)}
    f.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in names]
    )
    schema = tool(f).parameters
    jsonschema_rs.validator_for(schema)
    assert '"$ref"' not in str(schema)
    assert "$defs" not in schema
