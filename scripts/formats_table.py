"""Writes docs/formats.md: what daneel knows of each family, and how it fares with real chat templates.

    python scripts/formats_table.py TEMPLATES_DIR [--out docs/formats.md]

TEMPLATES_DIR holds chat templates as `*.jinja`. Each is detected, probed and self-tested as `daneel serve` does on loading.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from daneel.errors import UserError
from daneel.formats import registry
from daneel.formats.base import Tool
from daneel.formats.family import Family
from daneel.formats.self_test import SelfTest
from daneel.formats.template_traits import TemplateTraits
from daneel.server.format_report import choose
from daneel.server.self_test import self_test
from daneel.server.template import TemplateRenderer
from daneel.server.template_probe import probe

AT_ONCE = 3

HEAD = """# Formats

How daneel reads and writes each family's calls. Written by `scripts/formats_table.py`; do not edit it by hand.

**Detected**: real chat templates that are recognised as the family's, by what stands in them. **Self-test**: known calls
(types, nesting, no arguments, quotes, line breaks, markers, unicode, several calls, text and thoughts beside them) rendered by
the template and read back, as on loading a model; what does not come back is listed below. **Streaming**: the parser gives the
same message at any cut of the text, with constant work per piece; tests try every family. **Constrained**: whether
`tool_choice` can force a call of that family while decoding.

A row of `families/` describes each family; what its fields mean stands in `formats/family.py`. `daneel serve --format NAME`
overrides detection, `--format-file FILE` takes a parser of your own (`examples/my_format.py`).

## Families

| family | also called | arguments | reasoning | detected | self-test | streaming | constrained |
|---|---|---|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Tried:
    """One template: what it was detected as, and what came of it."""

    name: str
    family: Family
    source: str
    traits: TemplateTraits
    test: SelfTest


async def try_template(path: Path) -> Tried:
    """Detect, probe and self-test one template, as on loading a model."""
    text = path.read_text(encoding="utf-8")
    family, source = choose(None, text, num_parameters=None)
    renderer = await TemplateRenderer.start(text, bos_text="<s>", eos_text="</s>", timeout_s=20)
    try:
        traits = await probe(renderer, split_role=family.split_role)
        if family.tool_prompt.preferred:
            traits = replace(traits, knows_tools=False)
        return Tried(path.name, family, source, traits, await self_test(renderer, family, traits))
    finally:
        await renderer.close()


async def try_all(folder: Path) -> list[Tried]:
    """All templates of a folder, a few at a time, by name."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(path: Path) -> Tried:
        async with gate:
            print(path.name, file=sys.stderr)
            return await try_template(path)

    return await asyncio.gather(*(one(path) for path in sorted(folder.glob("*.jinja"))))


def page(tried: list[Tried]) -> str:
    """The whole page."""
    names = sorted(registry.FAMILIES)
    rows = [_family_row(registry.get(name), [item for item in tried if item.family.name == name]) for name in names]
    return HEAD + "\n".join(rows) + "\n\n" + _templates(tried) + "\n" + _quirks(names)


def _family_row(family: Family, tried: list[Tried]) -> str:
    reasoning = f"`{family.reasoning.open.strip()}` … `{family.reasoning.close.strip()}`" if family.reasoning else "–"
    tests = [item.test for item in tried]
    passed, all_cases = sum(len(test.passed) for test in tests), sum(len(test.passed) + len(test.failed) for test in tests)
    return _row(
        f"`{family.name}`",
        ", ".join(f"`{alias}`" for alias in family.aliases) or "–",
        "framed messages" if family.framing else family.grammar.key,
        reasoning,
        str(len(tried)) if tried else "no template here",
        f"{passed} of {all_cases}" if tried else "–",
        "yes",
        _constrained(family),
    )


def _constrained(family: Family) -> str:
    tool = Tool("get_weather", "", {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]})
    try:
        family.call_grammar([tool], choice="required", parallel=True, marker=json.dumps)
    except ValueError:
        return "no"
    return "yes"


def _templates(tried: list[Tried]) -> str:
    lines = [
        "## Templates",
        "",
        "`generic` is what an unknown template, or one that knows no tools, is served as.",
        "",
        "| template | detected as | tools told by | self-test | what does not come back |",
        "|---|---|---|---|---|",
    ]
    for item in tried:
        failures = "; ".join(f"{failure.case}: {failure.reason}" for failure in item.test.failed)
        told = "the template" if item.traits.knows_tools else "daneel"
        count = f"{len(item.test.passed)} of {len(item.test.passed) + len(item.test.failed)}"
        lines.append(_row(item.name, f"`{item.family.full_name}`", told, count, failures or "–"))
    return "\n".join(lines) + "\n"


def _quirks(names: list[str]) -> str:
    lines = ["## What to know of each", ""]
    for name in names:
        quirks = registry.get(name).quirks
        if quirks:
            lines.append(f"- `{name}`: {'; '.join(quirks)}.")
    return "\n".join(lines) + "\n"


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", "↵") for cell in cells) + " |"


def main() -> None:
    options = argparse.ArgumentParser(description="Write docs/formats.md.")
    options.add_argument("templates", type=Path, metavar="TEMPLATES_DIR")
    options.add_argument("--out", type=Path, default=Path(__file__).parent.parent / "docs" / "formats.md")
    chosen = options.parse_args()
    if not any(chosen.templates.glob("*.jinja")):
        raise SystemExit(f"{chosen.templates} holds no *.jinja")
    try:
        text = page(asyncio.run(try_all(chosen.templates)))
    except UserError as error:
        raise SystemExit(str(error)) from error
    chosen.out.write_text(text, encoding="utf-8")
    print(f"wrote {chosen.out}")


if __name__ == "__main__":
    main()
