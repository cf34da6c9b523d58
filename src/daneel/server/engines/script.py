"""The script of the scripted engine: what to say, in which order, JSON lines.

A line is a string, or an object with these fields, all optional but one of `text`, `pieces`, `crash`:

- `text`: what the model says, or `pieces`: a list of strings, each coming in one step;
- `finish`: `"stop"` (default; an end token is added) or `"length"` (cut off there, no end token);
- `match`: used only for a prompt whose last message holds this text; until then the line waits;
- `repeat`: true: the line is never used up;
- `delay_ms`, `prefill_delay_ms`: for each step of decoding, for each chunk of prefill;
- `crash`: true: the engine's process dies where the text ends. A restarted engine begins its script again, so a line that
  crashes wants a `match`.

Empty lines and lines that begin with `#` are skipped.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from daneel.server.engines import byte_tokenizer
from daneel.server.engines.base import EngineLoadError


class ScriptEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of a script."""

    text: str | None = None
    pieces: list[str] | None = None
    finish: Literal["stop", "length"] = "stop"
    match: str | None = None
    repeat: bool = False
    delay_ms: float = 0.0
    prefill_delay_ms: float = 0.0
    crash: bool = False

    def steps(self) -> list[list[int]]:
        """Token ids of each decoding step, the end token included."""
        if self.pieces is not None:
            steps = [byte_tokenizer.encode(piece) for piece in self.pieces]
        else:
            steps = [[token_id] for token_id in byte_tokenizer.encode(self.text or "")]
        return steps if self.finish == "length" or self.crash else [*steps, [byte_tokenizer.END_ID]]


def load_script(path: Path) -> list[ScriptEntry]:
    """Raises `EngineLoadError` naming the file and the line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise EngineLoadError(f"the script {path} cannot be read: {error}") from error
    entries = []
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            entry = msgspec.json.decode(line, type=str | ScriptEntry)
        except msgspec.MsgspecError as error:
            raise EngineLoadError(f"line {number} of the script {path} is wrong: {error}") from error
        entries.append(ScriptEntry(text=entry) if isinstance(entry, str) else entry)
    return entries


class Script:
    """Hands out entries in order."""

    def __init__(self, entries: list[ScriptEntry]) -> None:
        self._waiting = list(entries)

    def take(self, prompt: str) -> ScriptEntry | None:
        """The first waiting entry that fits the prompt; `None` when the script is exhausted or nothing fits."""
        last_message = _last_message(prompt)
        for index, entry in enumerate(self._waiting):
            if entry.match is None or entry.match in last_message:
                return entry if entry.repeat else self._waiting.pop(index)
        return None


def _last_message(prompt: str) -> str:
    """The last finished message of a ChatML prompt; of any other prompt, all of it."""
    messages = prompt.split("<|im_start|>")
    return messages[-2] if len(messages) > 2 else prompt
