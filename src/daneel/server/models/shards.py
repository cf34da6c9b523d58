"""Names of sharded GGUF files: `NAME-00001-of-00003.gguf`, as llama.cpp writes and reads them."""

from __future__ import annotations

import re
from pathlib import Path

from daneel.server.models.gguf_header import GGUFError

_SHARD = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})(?P<ending>\.gguf)", re.IGNORECASE | re.DOTALL)
_MAX_SHARDS = 1000


def shard_names(name: str) -> list[str]:
    """All names of the model that the file `name` belongs to, in order; just `name` when it is no shard's name."""
    match = _SHARD.fullmatch(name)
    if match is None:
        return [name]
    number, count = int(match["number"]), int(match["count"])
    if not 1 <= number <= count <= _MAX_SHARDS:
        return [name]
    return [f"{match['stem']}-{i:05d}-of-{match['count']}{match['ending']}" for i in range(1, count + 1)]


def shard_paths(path: Path) -> tuple[Path, ...]:
    """All files of the model that `path` belongs to, in order. Raises `GGUFError` naming a missing one."""
    paths = tuple(path.with_name(name) for name in shard_names(path.name))
    if len(paths) > 1:
        for number, shard in enumerate(paths, start=1):
            if not shard.exists():
                raise GGUFError(f"shard {number} of {len(paths)} is missing: {shard}")
    return paths
