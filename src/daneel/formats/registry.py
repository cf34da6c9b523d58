"""The families daneel knows, and which of them a chat template belongs to.

Each row is read off the family's own chat templates and lives in a file of `families/`; what a field means stands in
`family.py`. Evidence is looked for in the order of the table, so a family whose markers are part of another's stands above it.
"""

from __future__ import annotations

import sys

from daneel.errors import UserError
from daneel.formats.families import (
    bare_json,
    deepseek,
    framed,
    gemma,
    generic,
    hermes,
    invoke,
    json_marked,
    kimi,
    mistral,
    pairs,
    pythonic,
    xml,
)
from daneel.formats.family import Family

GENERIC = generic.GENERIC

_GROUPS = (gemma, framed, deepseek, kimi, invoke, xml, pairs, mistral, json_marked, pythonic, bare_json, hermes, generic)

_ROWS: tuple[Family, ...] = tuple(row for group in _GROUPS for row in group.ROWS)

FAMILIES: dict[str, Family] = {family.name: family for family in _ROWS if not family.variant}
"""The families as they are, by name, in the order of detection."""

_NAMED = {name: family for family in reversed(_ROWS) for name in (*family.aliases, family.full_name)}


def get(name: str) -> Family:
    """The family called `name`, or its variant `name/variant`. `UserError` lists the names there are."""
    if name not in _NAMED:
        raise UserError(f"no format is called {name!r}; there are: {', '.join(sorted(family.full_name for family in _ROWS))}")
    return _NAMED[name]


def detect(template: str | None, *, num_parameters: int | None = None) -> Family:
    """The row whose evidence the chat template holds; the generic family when there is none.

    `num_parameters` of the model, if known: small models of some families are best served in a way of their own.
    """
    for family in _ROWS:
        small_enough = family.max_parameters is None or (num_parameters or sys.maxsize) <= family.max_parameters
        if template and family.evidence and small_enough and _fits(template, family):
            return family.for_template(template)
    return FAMILIES[GENERIC]


def resolve(name: str | None, template: str | None, *, num_parameters: int | None = None) -> Family:
    """The family of that name, else the one the template shows, its details read off the template. `UserError` as `get`."""
    return get(name).for_template(template or "") if name else detect(template, num_parameters=num_parameters)


def _fits(template: str, family: Family) -> bool:
    return all(text in template for text in family.evidence) and not any(text in template for text in family.counter_evidence)
