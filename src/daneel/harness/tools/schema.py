"""A Python function's signature and docstring, as the JSON schema a model reads.

Pydantic knows the types; this file makes its schema small: no titles, no `$ref` unless a type refers to itself, no
`anyOf` where a list of types says the same. Every token of it is in every prompt, and small models lose their way in it.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Annotated, Any

import docstring_parser
from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic.fields import FieldInfo

from daneel.errors import UserError

JsonSchema = dict[str, Any]


def where(function: Callable[..., Any]) -> str:
    """`file.py:12` of a function, for messages; its name when the source is not known."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else repr(function)


def describe(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """The docstring's description and what it says of each parameter (Google, NumPy or reST style)."""
    parsed = docstring_parser.parse(inspect.getdoc(function) or "")
    parts = [part.strip() for part in (parsed.short_description, parsed.long_description) if part and part.strip()]
    per_parameter = {param.arg_name: " ".join((param.description or "").split()) for param in parsed.params}
    return "\n\n".join(parts), {name: text for name, text in per_parameter.items() if text}


def arguments_model(function: Callable[..., Any], name: str, descriptions: dict[str, str]) -> type[BaseModel]:
    """A pydantic model of the function's parameters; field `p0` has the alias of the first one, and so on.

    (Aliases, because a parameter may have a name that a pydantic model keeps for itself, such as `copy` or `schema`.)
    Raises UserError for a parameter without a type, `*args`, `**kwargs`, positional-only ones, and types unknown to pydantic.
    """
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError) as error:
        raise UserError(f"{where(function)}: tool {name}: cannot read its type annotations: {error}") from error
    fields: dict[str, Any] = {}
    for number, parameter in enumerate(inspect.signature(function).parameters.values()):
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise UserError(f"{where(function)}: tool {name}: parameter {parameter.name} must be one that a keyword can give")
        if parameter.name not in hints:
            raise UserError(f"{where(function)}: tool {name}: parameter {parameter.name} has no type")
        default = ... if parameter.default is parameter.empty else parameter.default
        description = descriptions.get(parameter.name)
        fields[f"p{number}"] = _field(hints[parameter.name], parameter.name, default, description)
    try:
        model: type[BaseModel] = create_model(f"{name}_arguments", __config__=ConfigDict(extra="forbid"), **fields)
        model.model_json_schema()
    except (PydanticSchemaGenerationError, PydanticUserError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{where(function)}: tool {name}: a parameter's type has no JSON form: {reason}") from error
    return model


def _field(hint: Any, name: str, default: Any, description: str | None) -> tuple[Any, Any]:
    """Type and field of one parameter. What `Annotated` says of it wins over the docstring; a bare string is a description."""
    if typing.get_origin(hint) is Annotated:
        base, *notes = typing.get_args(hint)
        for note in notes:
            if isinstance(note, str):
                description = note
            elif isinstance(note, FieldInfo) and note.description:
                description = note.description
            if isinstance(note, FieldInfo) and default is ... and not note.is_required():
                default = note.get_default(call_default_factory=True, validated_data={})
        kept = tuple(note for note in notes if not isinstance(note, str))
        hint = Annotated[(base, *kept)] if kept else base
    return hint, Field(default, alias=name, description=description)


def compact_schema(model: type[BaseModel]) -> JsonSchema:
    """The model's JSON schema, made small. `additionalProperties` stays false: constrained decoding needs to know."""
    full = model.model_json_schema(by_alias=True)
    compactor = _Compactor(full.pop("$defs", {}))
    schema = compactor.compact(full, ())
    schema = {"type": "object", "properties": schema.get("properties", {}), **schema}
    schema.pop("description", None)
    if compactor.kept:
        schema["$defs"] = compactor.kept
    return _in_order(schema)


def _in_order(schema: JsonSchema) -> JsonSchema:
    """Keys as a reader expects them: what it is, then what it means, then the details."""
    first = [key for key in ("type", "description", "enum", "properties", "required") if key in schema]
    return {key: schema[key] for key in (*first, *(key for key in schema if key not in first))}


class _Compactor:
    """Walks schema positions only: a property that is called `title` or `default` keeps its name."""

    def __init__(self, definitions: dict[str, JsonSchema]) -> None:
        self.definitions = definitions
        self.kept: dict[str, JsonSchema] = {}

    def compact(self, schema: JsonSchema, open_refs: tuple[str, ...]) -> JsonSchema:
        schema = {key: value for key, value in schema.items() if key not in ("title", "discriminator")}
        if "$ref" in schema:
            return self._inline(schema, open_refs)
        if schema.get("default", ...) is None:
            del schema["default"]
        if "const" in schema:
            schema["enum"] = [schema.pop("const")]
        if "properties" in schema:
            schema["properties"] = {key: self.compact(value, open_refs) for key, value in schema["properties"].items()}
        for key in ("items", "additionalProperties", "propertyNames"):
            if isinstance(schema.get(key), dict):
                schema[key] = self.compact(schema[key], open_refs)
        for key in ("anyOf", "oneOf", "allOf", "prefixItems"):
            if key in schema:
                schema[key] = [self.compact(value, open_refs) for value in schema[key]]
        return _in_order(_merge_branches(schema))

    def _inline(self, schema: JsonSchema, open_refs: tuple[str, ...]) -> JsonSchema:
        name = schema.pop("$ref").rsplit("/", 1)[-1]
        if name in open_refs:  # a type that refers to itself has to stay a reference
            if name not in self.kept:
                self.kept[name] = {}
                self.kept[name] = self.compact(self.definitions[name], (name,))
            return {"$ref": f"#/$defs/{name}", **schema}
        target = self.compact(self.definitions[name], (*open_refs, name))
        beside = self.compact(schema, open_refs)
        return _in_order({**target, **beside})


def _merge_branches(schema: JsonSchema) -> JsonSchema:
    """`anyOf` of plain types becomes a list of types; of something and null, the something (null is accepted all the same)."""
    branches = schema.get("anyOf")
    if branches is None:
        return schema
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    solid = [branch for branch in branches if branch != {"type": "null"}]
    if len(solid) == 1:
        return {**solid[0], **rest}
    if all(set(branch) == {"type"} and isinstance(branch["type"], str) for branch in solid):
        return {"type": [branch["type"] for branch in solid], **rest}
    return {"anyOf": solid, **rest}
