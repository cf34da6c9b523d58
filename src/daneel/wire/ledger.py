"""The ledger: which fields of a request are not honoured, and what becomes of them.

Nothing is dropped in silence. A field that daneel does not honour is one entry in the reply's `warnings`, or, with
`strict_fields`, a 400. Only a value that asks for what daneel does anyway (`"store": false`) needs no entry: it is honoured.
"""

from __future__ import annotations

from typing import Any

import msgspec

from daneel.wire.errors import BadRequest
from daneel.wire.messages import Warning

_NO_STORE = "nothing is kept on the server"
_NO_EFFORT = "pass what the model's template reads in chat_template_kwargs"

NOT_HONOURED: dict[str, tuple[str, tuple[Any, ...]]] = {
    "audio": ("the models served write text only", ()),
    "best_of": ("one reply is generated", (1,)),
    "echo": ('the prompt is not repeated; ask for it with include: ["prompt_text"]', (False,)),
    "function_call": ("superseded by tool_choice", ("auto", "none")),
    "functions": ("superseded by tools", ([],)),
    "metadata": (_NO_STORE, ({},)),
    "modalities": ("the models served write text only", (["text"],)),
    "moderation": ("there is no moderation", ()),
    "prediction": ("there is no predicted output", ()),
    "prompt_cache_key": ("the cache finds the longest common prefix by itself; see cache", ()),
    "prompt_cache_retention": ("see cache", ()),
    "reasoning_effort": (_NO_EFFORT, ()),
    "safety_identifier": (_NO_STORE, ()),
    "service_tier": ("there is one tier", ("auto", "default")),
    "store": (_NO_STORE, (False,)),
    "user": (_NO_STORE, ()),
    "verbosity": (_NO_EFFORT, ("medium",)),
    "web_search_options": ("there is no web search", ()),
}
"""Fields of the dialect that daneel knows and does not honour: why, and the values that ask for nothing else."""


class Ledger:
    """Collects the entries of one request, in the order of its keys."""

    def __init__(self, *, strict: bool) -> None:
        self.warnings: list[Warning] = []
        self._strict = strict

    def ignored(self, field: str, detail: str) -> None:
        """Note that `field` is ignored. Raises `BadRequest` if the request wants its fields honoured."""
        if self._strict:
            raise BadRequest(f"{field} would be ignored ({detail}), and strict_fields is true", param=field)
        self.warnings.append(Warning(field=field, action="ignored", detail=detail))

    def top_level(self, request: dict[str, Any], known: frozenset[str]) -> None:
        """Every top-level key that is not `known`. A null asks for nothing, of a field that exists."""
        for name, value in request.items():
            if name in known:
                continue
            if name not in NOT_HONOURED:
                self.ignored(name, "unknown field")
                continue
            detail, neutral = NOT_HONOURED[name]
            if value is not None and not any(type(value) is type(same) and value == same for same in neutral):
                self.ignored(name, detail)

    def nested(self, value: Any, kind: type[msgspec.Struct] | frozenset[str], path: str) -> None:
        """Every key of the object at `path` that `kind` does not know."""
        known = kind if isinstance(kind, frozenset) else frozenset(kind.__struct_fields__)
        for name in value if isinstance(value, dict) else ():
            if name not in known:
                self.ignored(f"{path}.{name}", "unknown field")
