"""From findings to candidates: the edits that may put right what was found. Which of them do, only trials say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from daneel.bench.finding import UNKNOWN_GAIN, Finding
from daneel.bench.tune.edits import (
    Describe,
    Drop,
    Edit,
    GateAfter,
    Merge,
    Rename,
    Reorder,
    Sentence,
    Shorten,
    edited,
    told,
)
from daneel.bench.tune.sentences import template_for
from daneel.bench.tune.wording import Wording, description_like, descriptions_for, names_for
from daneel.errors import UserError
from daneel.harness.definition import Harness

SHORT_RESULT_CHARS = 500
MAX_WORDINGS = 3
"""Names, and descriptions, that are tried for one tool at a time."""


class Candidate(Struct, frozen=True, kw_only=True):
    """Edits that are tried together. `kind`, `why`: the finding they come from; `source`: "rule", or the model's name.

    `simplifies`: worth keeping where it is no worse. `expected_gain`: the finding's, in E.
    """

    edits: tuple[Edit, ...]
    kind: str
    why: str
    source: str = "rule"
    simplifies: bool = False
    expected_gain: float = UNKNOWN_GAIN

    @property
    def key(self) -> str:
        """The same for the same edits."""
        return told(self.edits)


Propose = Callable[[Harness, str, str], Sequence[Wording]]
"""(harness, tool, "name" or "description") to wordings that somebody proposes."""


def no_proposals(harness: Harness, tool: str, what: str) -> Sequence[Wording]:
    """Rules alone."""
    return ()


def candidates(
    harness: Harness, findings: Sequence[Finding], propose: Propose = no_proposals
) -> tuple[list[Candidate], list[tuple[Candidate, str]]]:
    """Those that can be tried, the largest expected gain first, each once; and those that cannot be made, with the reason."""
    made: list[Candidate] = []
    refused: list[tuple[Candidate, str]] = []
    seen = {harness.fingerprint()}
    for finding in findings:
        if any(harness.tool(name) is None for name in finding.tools):
            continue
        gain = finding.expected_gain.value
        for edits, source, simplifies in _MAKERS.get(finding.kind, _nothing)(harness, finding, propose):
            candidate = Candidate(
                edits=tuple(edits),
                kind=finding.kind,
                why=finding.text,
                source=source,
                simplifies=simplifies,
                expected_gain=UNKNOWN_GAIN if gain is None else gain,
            )
            try:
                behaviour = edited(harness, edits).fingerprint()
            except UserError as error:
                refused.append((candidate, str(error)))
                continue
            if behaviour not in seen:
                seen.add(behaviour)
                made.append(candidate)
    return sorted(made, key=lambda each: -each.expected_gain), refused


Made = tuple[Sequence[Edit], str, bool]


def _nothing(harness: Harness, finding: Finding, propose: Propose) -> Iterator[Made]:
    yield from ()


def _unused(harness: Harness, finding: Finding, propose: Propose) -> Iterator[Made]:
    """Dropped; or, where it was shown, told of better, or declared first."""
    (name, *_) = finding.tools
    yield [Drop(tools=(name,))], "rule", True
    if finding.kind == "never_called":
        yield from _worded(harness, name, propose)
        if harness.tools[0].name != name:
            yield [Reorder(first=(name,))], "rule", False


def _failing(harness: Harness, finding: Finding, propose: Propose) -> Iterator[Made]:
    yield [Drop(tools=finding.tools[:1])], "rule", True
    yield from _described(harness, finding.tools[0], propose)


def _overlap(harness: Harness, finding: Finding, propose: Propose) -> Iterator[Made]:
    if finding.data.get("way") == "retry":
        yield [Drop(tools=finding.tools[:1])], "rule", True
        yield [Reorder(first=(finding.tools[1],))], "rule", False
        return
    keep = str(finding.data.get("keep") or finding.tools[-1])
    others = tuple(name for name in finding.tools if name != keep)
    yield [Drop(tools=others)], "rule", True
    if harness.tools[0].name != keep:
        yield [Reorder(first=(keep,))], "rule", False
    if len(others) == 1:
        yield [Drop(tools=(keep,))], "rule", True


def _succession(harness: Harness, finding: Finding, propose: Propose) -> Iterator[Made]:
    first, second = finding.tools[:2]
    tool = harness.tool(second)
    arguments = list(tool.parameters.get("properties", {})) if tool is not None else []
    for link in arguments:
        yield [_merge(harness, first, second, link)], "rule", True


def _verification(harness: Harness, finding: Finding, propose: Propose) -> Iterator[Made]:
    asked, before = finding.tools[:2]
    way = finding.data.get("way")
    if way == "after_write":
        return  # the tool's own code would have to say more
    yield [Drop(tools=(asked if way == "fact" else before,))], "rule", True
    yield [_merge(harness, before, asked, None)], "rule", True


def _merge(harness: Harness, first: str, second: str, link: str | None) -> Merge:
    ours, theirs = (harness.tool(name) for name in (first, second))
    said = [tool.description.strip().rstrip(".") for tool in (ours, theirs) if tool is not None]
    joined = (
        f"{said[0]}; then {said[1][:1].lower()}{said[1][1:]}."
        if link
        else f"{said[0]}, and {said[1][:1].lower()}{said[1][1:]}."
    )
    taken = {tool.name for tool in harness.tools} - {first, second}
    words = second.split("_")
    shared = first.split("_")[0] == words[0] and len(words) > 1
    name = f"{first}_and_{'_'.join(words[1:]) if shared else second}"[:64]
    return Merge(first=first, second=second, name=name if name not in taken else first, description=joined, link=link)


def _ambiguity(harness: Harness, finding: Finding, propose: Propose) -> Iterator[Made]:
    if finding.data.get("way") == "meaning":
        for name in finding.tools:
            yield [Drop(tools=(name,))], "rule", True
    for name in finding.tools[:3]:
        for wording in [*names_for(harness, name), *propose(harness, name, "name")][:MAX_WORDINGS]:
            yield [Rename(tool=name, name=wording.text)], wording.source, False
        for wording in list(propose(harness, name, "description"))[:MAX_WORDINGS]:
            yield [Describe(tool=name, text=wording.text)], wording.source, False


def _description(harness: Harness, finding: Finding, propose: Propose) -> Iterator[Made]:
    yield from _worded(harness, finding.tools[0], propose)


def _worded(harness: Harness, name: str, propose: Propose) -> Iterator[Made]:
    """Another description; another name; and both, for what is said of a tool is read together."""
    yield from _described(harness, name, propose)
    for wording in names_for(harness, name)[:1]:
        renamed = Rename(tool=name, name=wording.text)
        yield [renamed], wording.source, False
        for other in [*description_like(harness, name), *descriptions_for(harness, name)][:1]:
            yield [renamed, Describe(tool=wording.text, text=other.text)], wording.source, False


def _described(harness: Harness, name: str, propose: Propose) -> Iterator[Made]:
    wordings = [*descriptions_for(harness, name)[:MAX_WORDINGS], *list(propose(harness, name, "description"))[:MAX_WORDINGS]]
    for wording in wordings:
        yield [Describe(tool=name, text=wording.text)], wording.source, False


def _name(harness: Harness, finding: Finding, propose: Propose) -> Iterator[Made]:
    name = finding.tools[0]
    shorter = finding.data.get("shorter")
    if isinstance(shorter, str):
        yield [Rename(tool=name, name=shorter)], "rule", True
    for wording in list(propose(harness, name, "name"))[:MAX_WORDINGS]:
        yield [Rename(tool=name, name=wording.text)], wording.source, False


def _long(harness: Harness, finding: Finding, propose: Propose) -> Iterator[Made]:
    yield [Shorten(tool=finding.tools[0], max_result_chars=SHORT_RESULT_CHARS)], "rule", True


def _formal(harness: Harness, finding: Finding, propose: Propose) -> Iterator[Made]:
    template = template_for(str(finding.data.get("example") or ""))
    if template is not None:
        yield [Sentence(tool=finding.tools[0], template=template)], "rule", False


def _gate(harness: Harness, finding: Finding, propose: Propose) -> Iterator[Made]:
    requires = str(finding.data.get("requires") or finding.tools[-1])
    yield [GateAfter(tool=finding.tools[0], requires=requires)], "rule", False


_MAKERS: dict[str, Callable[[Harness, Finding, Propose], Iterator[Made]]] = {
    "never_shown": _unused,
    "never_called": _unused,
    "always_failing": _failing,
    "overlap": _overlap,
    "succession": _succession,
    "verification": _verification,
    "ambiguity": _ambiguity,
    "description": _description,
    "name": _name,
    "long_result": _long,
    "formal_result": _formal,
    "gate": _gate,
}
