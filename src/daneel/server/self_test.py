"""The self-test of a model's format: known calls, rendered by the model's own template and read back."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from daneel.formats import history
from daneel.formats.family import Family
from daneel.formats.self_test import (
    ANSWER,
    QUESTION,
    RESULT,
    TOOLS,
    Failure,
    KnownCase,
    SelfTest,
    Turn,
    judge,
    known_cases,
    split,
)
from daneel.formats.template_traits import TemplateTraits
from daneel.server.prompt_writer import without_flags
from daneel.server.template import TemplateRenderer
from daneel.wire.errors import WireError

MAX_S = 10.0
"""No case is begun later: a template that hangs must not keep a model from being served."""

_DECLARED = [
    {"type": "function", "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters}}
    for tool in TOOLS
]


async def self_test(
    renderer: TemplateRenderer, family: Family, traits: TemplateTraits, *, variables: Mapping[str, Any] | None = None
) -> SelfTest:
    """Try every known case, as a request would have it. Never fails: what goes wrong is its result."""
    histories = _Histories(renderer, family, traits, variables or {})
    passed: list[str] = []
    failed: list[Failure] = []
    end = time.monotonic() + MAX_S
    for case in known_cases(family):
        if time.monotonic() < end:
            failure = await _try(case, family, histories)
        else:
            failure = Failure(case.name, "rendering", "not tried: the template is too slow")
        if failure is None:
            passed.append(case.name)
        else:
            failed.append(failure)
    return SelfTest(tuple(passed), tuple(failed))


async def _try(case: KnownCase, family: Family, histories: _Histories) -> Failure | None:
    try:
        prompt, answered = await histories.prompt(), await histories.answered()
        rendered = await histories.rendered([case.message()])
        whole = rendered is not None
        if rendered is None:
            # some templates refuse calls without results
            rendered = await histories.render([case.message(), *case.results()])
    except WireError as error:
        return Failure(case.name, "rendering", str(error))
    turn = split(prompt, rendered, answered, family.markers)
    if turn is None:
        return Failure(case.name, "rendering", "the template does not write the user's message")
    if not whole:
        turn = Turn(turn.prompt, turn.text.partition(RESULT)[0])
    return judge(case, family, turn, whole=whole)


class _Histories:
    """Histories that begin with the question, rendered."""

    def __init__(
        self, renderer: TemplateRenderer, family: Family, traits: TemplateTraits, variables: Mapping[str, Any]
    ) -> None:
        self._renderer = renderer
        self._family = family
        self._traits = traits
        self._variables = without_flags(variables)
        self._prompt: str | None = None
        self._answered: str | None = None

    async def prompt(self) -> str:
        if self._prompt is None:
            self._prompt = await self.render([], opens_turn=True)
        return self._prompt

    async def answered(self) -> str:
        if self._answered is None:
            self._answered = await self.rendered([{"role": "assistant", "content": ANSWER}]) or ""
        return self._answered

    async def rendered(self, messages: Sequence[Mapping[str, Any]]) -> str | None:
        """`None` when the template refuses or fails."""
        try:
            return await self.render(messages)
        except WireError:
            return None

    async def render(self, messages: Sequence[Mapping[str, Any]], *, opens_turn: bool = False) -> str:
        """Raises `WireError` when the template refuses or fails."""
        family, traits = self._family, self._traits
        told = history.for_template(
            history.check([{"role": "user", "content": QUESTION}, *messages]),
            family=family,
            tools=TOOLS,
            style=family.result_style,
            traits=traits,
        )
        return await self._renderer.render(
            told,
            tools=_DECLARED if traits.knows_tools else (),
            variables=self._variables,
            add_generation_prompt=opens_turn,
        )
