"""What one call of a tool would touch: its effects, and the paths and hosts that its arguments name.

Built-in tools say so themselves (`ToolSafety`). Of any other tool with effects it is read off the arguments: those whose names
speak of paths or hosts, and strings that are URLs. What cannot be told is unknown, and only rules without a pattern allow it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from daneel.harness.safety.paths import parts_of
from daneel.harness.tools.registry import Effect, Tool

_PATH_NAMES = re.compile(
    r"(.*_)?(path|paths|file|files|filename|filenames|filepath|folder|folders|directory|dir)", re.IGNORECASE
)
_HOST_NAMES = re.compile(r"(.*_)?(url|urls|uri|link|links|host|hosts|hostname|domain|endpoint|server|address)", re.IGNORECASE)
_URL = re.compile(r"[a-z][a-z0-9+.\-]*://", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ToolSafety:
    """What a built-in tool says of itself: on its function, as the attribute `safety`.

    `preview`: the change a call would make, as a diff, for the person who is asked; it may raise ToolFailure, and then the
    call could not be made at all. `reads_below`: it reads all files of the folder it names, those apart that are private by
    custom. `confined`: what it runs has no way out. `fences`: it marks others' words in its results itself. `unconfined`: the
    same tool without a sandbox, for people who want none.
    """

    workspace: Path | None = None
    preview: Callable[[Mapping[str, Any]], str | None] | None = None
    reads_below: bool = False
    confined: bool = False
    fences: bool = False
    unconfined: Callable[[], Tool] | None = None


@dataclass(frozen=True, slots=True)
class Host:
    name: str
    port: int | None


@dataclass(frozen=True, slots=True)
class Touch:
    """One effect on one thing. `path` is relative to the workspace when inside it, else absolute; `host` for the network.

    Neither: it cannot be told on what.
    """

    effect: Effect
    path: str | None = None
    host: Host | None = None

    @property
    def is_outside(self) -> bool:
        """Whether it is a path outside of the workspace, or may be."""
        return self.path is None or os.path.isabs(self.path)

    def __str__(self) -> str:
        if self.host is not None:
            return f"network, {self.host.name}" + (f":{self.host.port}" if self.host.port else "")
        return f"{self.effect}, {self.path}" if self.path is not None else self.effect


def safety_of(tool: Tool) -> ToolSafety:
    """What a built-in tool says of itself; nothing of any other."""
    said = getattr(tool.function, "safety", None)
    return said if isinstance(said, ToolSafety) else ToolSafety()


def touches(tool: Tool, arguments: Mapping[str, Any]) -> list[Touch]:
    """All that a call would touch. Raises PathRefused for a path that a built-in tool would refuse."""
    found: list[Touch] = []
    for effect in sorted(tool.effects):
        if effect in ("read", "write"):
            paths = list(_paths(tool, arguments))
            found += [Touch(effect, path=path) for path in paths] or [Touch(effect)]
        elif effect == "network":
            hosts = list(_hosts(arguments))
            found += [Touch(effect, host=host) for host in hosts] or [Touch(effect)]
        else:
            found.append(Touch(effect))
    return found


def _paths(tool: Tool, arguments: Mapping[str, Any]) -> Iterator[str]:
    workspace = safety_of(tool).workspace
    named = [text for name, value in arguments.items() if _PATH_NAMES.fullmatch(name) for text in _texts(value)]
    if workspace is not None:
        for text in named or ["."]:
            yield "/".join(parts_of(text)) or "."
        return
    here = os.path.realpath(".")
    for text in named:
        real = os.path.realpath(os.path.expanduser(text.replace("\0", "")))
        yield os.path.relpath(real, here) if real == here or real.startswith(here.rstrip("/") + "/") else real


def _hosts(arguments: Mapping[str, Any]) -> Iterator[Host]:
    for name, value in arguments.items():
        for text in _texts(value):
            if _URL.match(text.strip()) or _HOST_NAMES.fullmatch(name):
                yield host_of(text.strip())


def host_of(text: str) -> Host:
    """Host and port of a URL or a bare host; what cannot be read is a host that no pattern but `*` matches."""
    try:
        split = urlsplit(text if "://" in text else f"//{text}")
        default = {"http": 80, "https": 443}.get(split.scheme)
        return Host(split.hostname or text, split.port or default)
    except ValueError:
        return Host(text, None)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str | os.PathLike):
        yield os.fspath(value) if not isinstance(value, str) else value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from _texts(item)
