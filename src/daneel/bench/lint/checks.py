"""The static part of diagnosis: what is wrong with a harness's tools as the model is told of them. No trials, no model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from daneel.bench.finding import Finding, Gain, trials_needed
from daneel.bench.lint.descriptions import contradictions, nothing_said
from daneel.bench.lint.names import common_prefixes, near_in_meaning, shorter_name
from daneel.bench.lint.tokens import TokenCounter

GainOf = Callable[[Sequence[str]], Gain]


def lint(
    harness: str,
    declarations: Sequence[dict[str, Any]],
    *,
    counter: TokenCounter | None = None,
    gain_of: GainOf | None = None,
    sd_of_pair: float | None = None,
) -> list[Finding]:
    """Findings about declarations (the `tools` of a request): `description`, `name`, `ambiguity`.

    With trials, `gain_of` estimates what there is to gain with some tools, and `sd_of_pair` says how values vary.
    """
    counter = counter or TokenCounter()
    functions = [declaration.get("function") or {} for declaration in declarations]
    names = [str(function.get("name")) for function in functions]
    found: list[tuple[str, tuple[str, ...], str, str, dict[str, Any]]] = []
    for name, function in zip(names, functions, strict=True):
        found += [("description", (name,), *rest) for rest in _descriptions(name, function)]
        shorter = shorter_name(name, names)
        if shorter is not None:
            tokens = counter.count(name)
            text = f"{name} is longer than needed: {tokens} tokens ({counter.how}) in its declaration and in each call."
            found.append(("name", (name,), text, f"Call it {shorter}.", {"shorter": shorter, "tokens": tokens}))
    near = [*common_prefixes(names, counter), *near_in_meaning(declarations, names)]
    for each in near:
        text = f"{' and '.join(each.tools)} are easily taken for one another: {each.why}."
        found.append(
            ("ambiguity", each.tools, text, "Give them names and descriptions that differ early, or merge them.", each.data)
        )
    return [
        _finding(harness, *parts, gain=gain_of(parts[1]) if gain_of else Gain(None, "no trials"), sd=sd_of_pair)
        for parts in found
    ]


def _descriptions(name: str, function: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    description = str(function.get("description") or "")
    why = nothing_said(name, description)
    if why is not None:
        text = f"{name}'s description {why}: the model has only the name to go by."
        yield text, "Say in a short sentence what it gives.", {"way": "empty", "description": description}
    for problem in contradictions(function):
        text = f"{name}'s description contradicts its schema: {problem}."
        yield text, "Make the two say the same.", {"way": "contradiction", "problem": problem, "description": description}


def _finding(
    harness: str,
    kind: str,
    tools: tuple[str, ...],
    text: str,
    advice: str,
    data: dict[str, Any],
    *,
    gain: Gain,
    sd: float | None,
) -> Finding:
    return Finding(
        kind=kind,
        harness=harness,
        tools=tools,
        text=text,
        advice=advice,
        expected_gain=gain,
        trials_needed=trials_needed(gain.value, sd),
        data=data,
    )
