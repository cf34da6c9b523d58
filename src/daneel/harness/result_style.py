"""In which form tool results go to a server that is not daneel's, where the harness leaves that open.

daneel's own server knows the model and decides by itself. Elsewhere, in this order: what `daneel doctor` has seen of the
server; what is known of the family by the model's name; the dialect's own `tool` messages. Some small models, given those, call
again instead of answering, and finish when the same results come as a plain message (the figures are in `docs/log.md`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from daneel.formats.family import Family
from daneel.formats.registry import GENERIC, get
from daneel.harness.server_profile import ServerProfile


@dataclass(frozen=True, slots=True)
class _Known:
    """Models of this name, up to this size, finish when results are told as this family's row tells them."""

    name: re.Pattern[str]
    max_parameters: float
    family: str


_KNOWN = (
    _Known(re.compile(r"qwen-?2\.5"), 1e9, "hermes/example"),
    _Known(re.compile(r"qwen-?2\.5"), 4e9, "hermes/array"),
    _Known(re.compile(r"smol-?lm-?2?(?!\d)"), 2e9, "generic/example"),
    _Known(re.compile(r"gemma-?2(?!\d)"), 4e9, "gemma2"),
)
_SIZE = re.compile(r"(?<![\dx.])(\d{1,4}(?:\.\d{1,3})?)\s?([bm])(?![a-z0-9])")


def plain_family(style: str, profile: ServerProfile, model: str | None) -> Family | None:
    """The family in whose plain words results are told; None: as `tool` messages. `style` is what the harness says."""
    known = family_by_name(model or "")
    if style == "native" or (style == "auto" and profile.result_style == "native"):
        return None
    if style == "plain" or profile.result_style == "plain":
        return known or get(GENERIC)
    return known


def family_by_name(model: str) -> Family | None:
    """The row of a model that was seen to need plain results, by its name; None for every other."""
    lowered = model.lower().replace("_", "-")
    size = num_parameters(lowered)
    for known in _KNOWN:
        if size is not None and size <= known.max_parameters and known.name.search(lowered):
            return get(known.family)
    return None


def num_parameters(model: str) -> float | None:
    """The size that a model's name tells, as in `0.5b` and `135M`; None if it tells none."""
    sizes = [float(number) * (1e9 if unit == "b" else 1e6) for number, unit in _SIZE.findall(model.lower())]
    return sizes[0] if sizes else None
