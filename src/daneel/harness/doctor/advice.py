"""From findings to what follows: the profile that runs use, and in sentences what the harness will do with this server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from daneel.harness.doctor.lab import Finding
from daneel.harness.server_profile import ServerProfile


class _Found:
    def __init__(self, findings: Sequence[Finding]) -> None:
        self._values = {(found.topic, found.name): found.value for found in findings}

    def __call__(self, topic: str, name: str) -> Any:
        return self._values.get((topic, name))


def profile(server: str, model: str, probed_at: str, findings: Sequence[Finding]) -> ServerProfile:
    """What runs use of the findings. What could not be found out stays unknown."""
    found = _Found(findings)
    choices = {name: found("tool_choice", name) for name in ("none", "required", "named")}
    style, variables = found("results", "style"), found("template", "chat_template_kwargs")
    is_daneel = found("server", "owned_by") == "daneel"
    return ServerProfile(
        server=server,
        model=model,
        probed_at=probed_at,
        # our own server knows its model, and is left to choose
        result_style=style if style in ("native", "plain") and not is_daneel else None,
        tool_choice={name: value == "honoured" for name, value in choices.items() if value is not None},
        template_variables={"honoured": True, "refused": False, "reported": False}.get(str(variables)),
        reasoning_field=found("replies", "reasoning_field"),
        context_tokens=found("server", "context"),
    )


def recovery(findings: Sequence[Finding]) -> list[str]:
    """One sentence for each way a turn can go wrong here."""
    found = _Found(findings)
    sentences = [_RESULTS.get(found("results", "style"), _RESULTS[None])]
    sentences += [_fate("A malformed call", found("calls", "malformed"))]
    sentences += [_fate("A call that is cut off", found("calls", "truncated"))]
    if found("calls", "as_text") == "text":
        sentences.append("A call written as text stays text here: the harness finds it and makes it, if it fits a tool.")
    elif found("calls", "as_text") in ("call", "repaired"):
        sentences.append("A call in <tool_call> tags is read by the server; other forms are found by the harness.")
    forced = [found("tool_choice", name) for name in ("required", "named")]
    if "honoured" in forced:
        sentences.append("A call that is announced and not made is asked for with tool_choice.")
    elif None not in forced:
        sentences.append("A call that is announced and not made is asked for in words alone: tool_choice is not honoured.")
    if found("history", "broken_arguments") == "refused":
        sentences.append("Arguments that are no JSON would break every later request here; the harness never sends them back.")
    thoughts = found("replies", "reasoning_field")
    if thoughts == "content":
        sentences.append("Thoughts are taken out of the content by the harness.")
    elif thoughts:
        sentences.append(f"Thoughts go back as {thoughts}.")
    if found("context", "overflow") == "cut":
        sentences.append("A prompt that is too long is cut without a word: a run in which that shows is invalid.")
    return sentences


_RESULTS = {
    "native": "Results go back as `tool` messages.",
    "plain": "Results go back as plain messages: the model does not finish with `tool` messages.",
    None: "Results go back as the harness says; no form of them was seen to work better.",
}
_FATES = {
    "reported": "{what} is reported by the server, and the model is told what was wrong.",
    "error": "{what} fails the whole request; the run ends as invalid, because nothing of it can be seen.",
    "text": "{what} stays text, in which the harness looks for it; what cannot be repaired is told to the model.",
    "call": "{what} arrives as a call, if at all; the harness repairs what is certain, and tells the model the rest.",
    "repaired": "{what} is repaired by the server, which says so.",
    "lost": "{what} is lost by the server; the harness sees an empty reply and asks again.",
}


def _fate(what: str, value: Any) -> str:
    return _FATES.get(str(value), "{what}: not found out; the harness takes it as it comes.").format(what=what)
