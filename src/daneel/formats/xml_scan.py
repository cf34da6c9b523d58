"""A scanner for `<function=NAME>` blocks with a `<parameter=KEY>` for each argument.

A value is raw text, typed by the tool's schema. Nothing in it is escaped, so what ends it is told by what follows:

- `</parameter>` ends a value only where the next parameter, `</function>` or the call's closing marker follows; anywhere else
  it is part of the text.
- A whole call inside a value, its markers included, is part of the text.
- `</parameter>` may be missing (a repair) where the call's end follows, closing marker included, unless it stands behind that;
  or where a line begins with `<parameter=KEY>` and the tool has an argument of that name that was not given yet. Not if one
  stands in the value already. `</function>` may be missing before the closing marker.
- The arguments may be one JSON object in place of the parameters (a repair).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from daneel.formats.json_scan import WHITE, JsonScanner
from daneel.formats.scan import Head, ScanError, ScannedCall, ScannedFailure
from daneel.formats.typed_value import argument_schema, read_typed
from daneel.formats.validate import ToolSet

FUNCTION, FUNCTION_END = "<function=", "</function>"
PARAMETER, PARAMETER_END = "<parameter=", "</parameter>"

MAX_GAP = 64
"""White space behind a closing marker that is looked ahead over."""

_WHITE_RUN = re.compile(r"[ \t\n\r]*+")
NAME_RUN = re.compile(r"[^<>\n]*+")
_EXPECTED = {
    "open": FUNCTION,
    "name": "the rest of the function's name and '>'",
    "next": f"{PARAMETER} or {FUNCTION_END}",
    "key": "the rest of the parameter's name and '>'",
    "value": PARAMETER_END,
    "ending": FUNCTION_END,
    "done": "nothing more",
}


@dataclass(frozen=True, slots=True)
class Frame:
    """The markers around a block, and the white space on each side of a value that belongs to its tags."""

    open: str
    close: str
    value_pad: str

    @property
    def inner(self) -> tuple[str, ...]:
        """Tags that may mean something inside a value."""
        return (PARAMETER_END, FUNCTION_END, PARAMETER, self.open)

    def follows(self, tag: str) -> tuple[str, ...]:
        """The tags that must follow `tag`, met inside a value, for it not to be text."""
        if tag == PARAMETER_END:
            return (PARAMETER, FUNCTION_END, self.close)
        return (self.close,) if tag == FUNCTION_END else (FUNCTION,)


@lru_cache(maxsize=64)
def _pattern(tags: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, tags)))


class XmlScanner:
    """Scans one `<function=NAME>` block and writes its arguments as JSON while it goes.

    It may leave a few characters unread (the beginning of a tag): they are to be fed again with what follows.
    """

    def __init__(self, frame: Frame, tools: ToolSet) -> None:
        self.offset = 0
        self.error: ScanError | None = None
        self.name: str | None = None
        self._frame = frame
        self._inner = frame.inner
        self._pattern = _pattern(self._inner)
        self._reach = max(map(len, self._inner)) - 1
        self._tools = tools
        self._schema: dict[str, Any] | None = None
        self._state = "open"
        self._part: list[str] = []
        self._part_start = 0
        self._key = ""
        self._members: dict[str, str] = {}
        self._repairs: list[str] = []
        self._tag: list[str] = []
        """A tag inside a value, and what was read behind it while it is open what the tag means."""
        self._nested = 0
        """Calls that are open inside the value."""
        self._ended = False
        """Whether `</parameter>` stands in the value."""
        self._at_close = False
        """Whether what is unread begins with the closing marker behind `</function>`."""
        self._json = JsonScanner()
        self._json_at = 0

    @property
    def done(self) -> bool:
        return self._state == "done"

    @property
    def expected(self) -> str:
        if self._state == "json":
            return self._json.expected
        return _EXPECTED.get(self._state, PARAMETER_END)

    def finish(self) -> None:
        """The text ends: if the call's end stands there, in a value that nothing ends, it is the call's end."""
        if self._state == FUNCTION_END and self._at_close and not self._ended:
            self._end_without_tag(self.offset)
            self._state = "done"

    def calls(self, body: str) -> list[ScannedCall | ScannedFailure]:
        members = ", ".join(f"{json.dumps(key, ensure_ascii=False)}: {value}" for key, value in self._members.items())
        end = self._json_at + self._json.offset
        arguments = body[self._json_at : end] if self._json.done else "{" + members + "}"
        return [ScannedCall(self.name or "", arguments, self.offset, tuple(self._repairs))]

    def feed(self, text: str, pos: int) -> int:
        base = self.offset - pos
        while pos < len(text) and self._state != "done" and self.error is None:
            before = pos, self._state
            pos = self._step(text, pos, base)
            if before == (pos, self._state):
                break
        self.offset = base + pos
        return pos

    def _step(self, text: str, pos: int, base: int) -> int:
        if self._state == "value":
            return self._value(text, pos)
        if self._state in ("name", "key"):
            return self._label(text, pos, base)
        if self._state in ("open", "next", "ending"):
            return self._between(text, pos, base)
        if self._state == "json":
            return self._object(text, pos)
        if self._state == PARAMETER:
            return self._inner_key(text, pos, base)
        return self._behind_tag(text, pos, base)

    # -- the frame --------------------------------------------------------------------------------------------------------

    def _between(self, text: str, pos: int, base: int) -> int:
        """Between tags, where only white space may stand."""
        pos = skip_white(text, pos)
        if pos == len(text):
            return pos
        if self._state == "next" and text[pos] == "{" and not self._members:
            self._repair("json_arguments")
            self._json_at, self._state = base + pos, "json"
            return pos
        tags = (PARAMETER, FUNCTION_END, self._frame.close)
        found = which(text, pos, {"open": (FUNCTION,), "next": tags, "ending": tags[1:]}[self._state])
        if found is None:
            self.error = ScanError(f"expected {self.expected}", base + pos)
        elif not found:
            return pos
        elif found == self._frame.close:
            self._repair("missing_function_end")
            self._state = "done"
            return pos
        else:
            self._state = {FUNCTION: "name", PARAMETER: "key", FUNCTION_END: "done"}[found]
            self._part, self._part_start = [], base + pos
            return pos + len(found)
        return pos

    def _object(self, text: str, pos: int) -> int:
        """The arguments as one JSON object."""
        pos = self._json.feed(text, pos)
        if self._json.error is not None:
            self.error = ScanError(self._json.error.message, self._json_at + self._json.error.offset)
        elif self._json.done:
            self._state = "ending"
        return pos

    def _label(self, text: str, pos: int, base: int) -> int:
        """The name of the function or a parameter, up to '>'."""
        end = self._take(NAME_RUN, text, pos, self._part)
        if end == len(text):
            return end
        label = "".join(self._part).strip(WHITE)
        if text[end] != ">" or not label:
            self.error = ScanError(f"expected {self.expected}", base + end)
        elif self._state == "name":
            self._take_name(label)
            return end + 1
        elif label in self._members:
            self.error = ScanError(f"the parameter '{label[:80]}' stands twice", self._part_start)
        else:
            self._begin_value(label)
            return end + 1
        return end

    def _take_name(self, label: str) -> None:
        """The function's name is read; a tag that closes itself is a whole call."""
        bare = label.removesuffix("/").rstrip(WHITE)
        closed = bool(bare) and bare != label and not (self._tools.known and self._tools.declared(label))
        self.name = bare if closed else label
        self._schema = self._tools.schema(self.name)
        self._state = "done" if closed else "next"

    def _repair(self, kind: str) -> None:
        if kind not in self._repairs:
            self._repairs.append(kind)

    @staticmethod
    def _take(run: re.Pattern[str], text: str, pos: int, into: list[str]) -> int:
        match = run.match(text, pos)
        end = match.end() if match else pos
        if end > pos:
            into.append(text[pos:end])
        return end

    # -- values -----------------------------------------------------------------------------------------------------------

    def _begin_value(self, key: str) -> None:
        self._key, self._part, self._nested, self._state = key, [], 0, "value"
        self._ended = False

    def _end_value(self) -> None:
        text, pad = "".join(self._part), self._frame.value_pad
        text = text.removeprefix(pad).removesuffix(pad)
        self._members[self._key] = read_typed(text, argument_schema(self._schema, self._key))
        self._part, self._state = [], "next"

    def _end_without_tag(self, offset: int) -> None:
        if self._ended:
            self.error = ScanError(f"expected {_EXPECTED['next']} behind {PARAMETER_END}", offset)
            return
        self._repair("missing_parameter_end")
        self._end_value()

    def _value(self, text: str, pos: int) -> int:
        match = self._pattern.search(text, pos)
        if match is None:
            end = text.rfind("<", max(pos, len(text) - self._reach))
            if end < 0 or which(text, end, self._inner) is None:
                end = len(text)
            if end > pos:
                self._part.append(text[pos:end])
            return end
        if match.start() > pos:
            self._part.append(text[pos : match.start()])
        self._meet(match[0])
        return match.end()

    def _meet(self, tag: str) -> None:
        """A tag inside a value: wait for what follows it, if that decides what it means."""
        if tag == FUNCTION_END and self._nested:
            self._nested -= 1
        elif tag == self._frame.open or not (self._nested or (tag == PARAMETER and not self._at_line_start())):
            self._tag, self._state = [tag], tag
            return
        self._part.append(tag)

    def _at_line_start(self) -> bool:
        for part in reversed(self._part):
            shown = part.rstrip(" \t")
            if shown:
                return shown.endswith("\n")
        return True

    def _is_text(self) -> None:
        """The tag and what was read behind it are part of the value."""
        self._ended = self._ended or self._tag[0] == PARAMETER_END
        self._part += self._tag
        self._tag, self._state = [], "value"

    def _behind_tag(self, text: str, pos: int, base: int) -> int:
        """Behind a tag whose meaning depends on the tag that follows."""
        pos = self._take(_WHITE_RUN, text, pos, self._tag)
        if pos == len(text):
            return pos
        found = which(text, pos, self._frame.follows(self._state))
        if found is None:
            self._is_text()
        elif found and self._state == PARAMETER_END:
            self._end_value()
        elif found and self._state == FUNCTION_END:
            return self._behind_end(text, pos, base)
        elif found:
            self._nested += 1
            self._is_text()
        return pos

    def _behind_end(self, text: str, pos: int, base: int) -> int:
        """At the closing marker behind `</function>` in a value: the call ends here, unless the value's end follows."""
        begin = pos + len(self._frame.close)
        at = skip_white(text, begin)
        found = which(text, at, (PARAMETER_END,)) if at - begin <= MAX_GAP else None
        self._at_close = found == ""
        if found == "":
            return pos
        if found:
            self._is_text()
        else:
            self._end_without_tag(base + pos)
            self._state = "done"
        return pos

    def _inner_key(self, text: str, pos: int, base: int) -> int:
        """Behind `<parameter=` at the start of a line of a value."""
        end = self._take(NAME_RUN, text, pos, self._tag)
        if end == len(text):
            return end
        key = "".join(self._tag[1:]).strip(WHITE)
        if text[end] != ">" or not key or not self._may_give(key):
            self._is_text()
            return end
        self._end_without_tag(base + end)
        if self.error is not None:
            return end
        self._begin_value(key)
        return end + 1

    def _may_give(self, key: str) -> bool:
        if key == self._key or key in self._members:
            return False
        return not self._tools.known or argument_schema(self._schema, key) is not None


def skip_white(text: str, pos: int) -> int:
    match = _WHITE_RUN.match(text, pos)
    return match.end() if match else pos


def which(text: str, pos: int, tags: Sequence[str]) -> str | None:
    """The tag that stands at `pos`; "" if it is too early to tell, `None` if none can."""
    for tag in tags:
        if text.startswith(tag, pos):
            return tag
    rest = text[pos : pos + 64]
    return "" if any(tag.startswith(rest) for tag in tags) else None


def head_of_block(text: str, pos: int, close: str, *, sure: bool) -> Head:
    """Whether a block begins at `pos`, white space apart. `sure`: only if a tag follows the function's name."""
    pos = skip_white(text, pos)
    found = which(text, pos, (FUNCTION,))
    if not found or not sure:
        return _as_head(found)
    match = NAME_RUN.match(text, pos + len(FUNCTION))
    end = match.end() if match else pos
    if end == len(text):
        return "more"
    if text[end] != ">" or not text[pos + len(FUNCTION) : end].strip(WHITE):
        return "no"
    return _as_head(which(text, skip_white(text, end + 1), (PARAMETER, FUNCTION_END, close)))


def _as_head(found: str | None) -> Head:
    return "no" if found is None else "yes" if found else "more"
