"""The incremental scanner of `<invoke name="NAME">` calls; what they look like stands in `invoke_args.py`."""

from __future__ import annotations

import re
from typing import Literal

from daneel.formats.invoke_tags import InvokeTags, Tag, begins, delimiters, nesting, tag_reader
from daneel.formats.invoke_values import Arguments
from daneel.formats.json_scan import JsonScanner
from daneel.formats.scan import ScanError, ScannedCall, ScannedFailure
from daneel.formats.validate import ToolSet

CDATA_OPEN, CDATA_END = "<![CDATA[", "]]>"
_WHITE_RUN = re.compile(r"[ \t\n\r]*+")
_Next = Literal["parameter", "end", "outer", "more", "other"]


class InvokeScanner:
    """Scans one call. It may leave the beginning of a tag unread: that is to be fed again with what follows."""

    def __init__(self, tags: InvokeTags, tools: ToolSet) -> None:
        self.offset = 0
        self.error: ScanError | None = None
        self.name: str | None = None
        self._tags, self._tools = tags, tools
        self._call_tag = tag_reader("", "name") if tags.marker else tag_reader(tags.call_open)
        self._value_tag = tag_reader(tags.value_open)
        self._nesting = nesting(tags.value_open)
        self._text_ends = delimiters((tags.value_open, tags.value_end))
        self._all_ends = delimiters((tags.value_open, tags.value_end, tags.call_open, tags.call_end, *tags.ended_by))
        self._step = self._before if tags.before else self._call_open
        self.expected = "the call's opening tag"
        self._part: list[str] = []
        self._part_start = 0
        self._gap: list[str] = []
        self._depth = 0  # tags inside the value that are still open
        self._loose: int | None = None  # where text stands behind a closing tag, which is the value's then
        self._in_cdata = False
        self._key = self._kind = ""
        self._arguments = Arguments(tools, "")
        self._json: JsonScanner | None = None
        self._body: str | None = None
        self._repairs: list[str] = []
        self.done = False

    def feed(self, text: str, pos: int) -> int:
        base = self.offset - pos
        while pos < len(text) and not self.done and self.error is None:
            step = self._step
            at = step(text, pos, base)
            if at == pos and step == self._step:
                break
            pos = at
        self.offset = base + pos
        return pos

    def finish(self) -> None:
        if self._step == self._after and self.error is None:
            self._repair("missing_end_marker")
            self.done = True

    def calls(self, body: str) -> list[ScannedCall | ScannedFailure]:
        arguments = self._body
        if arguments is None:
            arguments = self._arguments.unwrapped()
            if arguments is None:
                arguments = self._arguments.json()
            else:
                self._repair("wrapped_arguments")
        return [ScannedCall(self.name or "", arguments, self.offset, tuple(self._repairs))]

    # -- helpers ----------------------------------------------------------------------------------------------------------

    def _fail(self, message: str, offset: int) -> None:
        self.error = ScanError(message, offset)

    def _repair(self, name: str) -> None:
        if name not in self._repairs:
            self._repairs.append(name)

    def _white(self, text: str, pos: int) -> int:
        match = _WHITE_RUN.match(text, pos)
        return match.end() if match else pos

    def _next(self, text: str, pos: int) -> _Next:
        """What stands between two parameters."""
        tags = self._tags
        if text.startswith(tags.value_open, pos):
            return "parameter"
        if text.startswith(tags.call_end, pos):
            return "end"
        if any(text.startswith(end, pos) for end in tags.ended_by):
            return "outer"
        expected = (tags.value_open, tags.call_end, *tags.ended_by)
        return "more" if any(begins(text, pos, literal) for literal in expected) else "other"

    # -- the call's opening -----------------------------------------------------------------------------------------------

    def _before(self, text: str, pos: int, base: int) -> int:
        """What stands before each call, and the word behind it: both may be missing."""
        at, tags = self._white(text, pos), self._tags
        if text.startswith(tags.before, at):
            self._step = self._word
            return at + len(tags.before)
        if not begins(text, at, tags.before):
            self._repair("missing_begin_marker")
            self._step = self._call_open
        return at

    def _word(self, text: str, pos: int, base: int) -> int:
        at, word = self._white(text, pos), self._tags.before_word
        if not begins(text, at, word):
            self._step = self._call_open
            return at + len(word) if text.startswith(word, at) else at
        return at

    def _call_open(self, text: str, pos: int, base: int) -> int:
        at = self._white(text, pos)
        if at == len(text):
            return at
        tag = self._call_tag.read(text, at)
        if tag == "more":
            return at
        name = tag.attributes.get("name") if tag is not None else None
        if tag is None or not name:
            self._fail("expected the tool's name in the call's opening tag", base + at)
            return at
        self.name, self._arguments = name, Arguments(self._tools, name)
        self._note_gap(tag)
        self._part_start = base + tag.end
        self.expected = f"a parameter or {self._tags.call_end}"
        if tag.closed:
            self._end()
        else:
            self._step = self._first
        return tag.end

    def _note_gap(self, tag: Tag) -> None:
        if tag.odd_gap:
            self._repair("missing_space")

    def _first(self, text: str, pos: int, base: int) -> int:
        """Behind the opening tag: the first parameter, or all arguments as one JSON object."""
        at = self._white(text, pos)
        if at < len(text):
            self._step = self._between
            if text[at] == "{":
                self._step, self._json, self._part_start = self._json_body, JsonScanner(), base + at
        return at

    def _json_body(self, text: str, pos: int, base: int) -> int:
        scanner = self._json or JsonScanner()
        end = scanner.feed(text, pos)
        self._part.append(text[pos:end])
        if scanner.error is not None:
            self._fail(scanner.error.message, self._part_start + scanner.error.offset)
        elif scanner.done:
            self._body = "".join(self._part)
            self._repair("json_body")
            self._step, self.expected = self._between, self._tags.call_end
        else:
            self.expected = scanner.expected
        return end

    # -- parameters -------------------------------------------------------------------------------------------------------

    def _between(self, text: str, pos: int, base: int) -> int:
        at = self._white(text, pos)
        if at == len(text):
            return at
        found = self._next(text, at)
        if found == "parameter" and self._body is None:
            return self._open_value(text, at, base)
        if found == "end":
            self._end()
            return at if self._tags.marker else at + len(self._tags.call_end)
        if found == "outer":
            self._repair("missing_end_tag")
            self.done = True
        elif found != "more":
            self._fail(f"expected {self.expected}", base + at)
        return at

    def _end(self) -> None:
        if self._tags.after:
            self._step, self.expected = self._after, self._tags.after
        else:
            self.done = True

    def _after(self, text: str, pos: int, base: int) -> int:
        at, after = self._white(text, pos), self._tags.after
        if at == len(text) or begins(text, at, after):
            return at
        self.done = True
        if text.startswith(after, at):
            return at + len(after)
        self._repair("missing_end_marker")
        return at

    def _open_value(self, text: str, pos: int, base: int) -> int:
        tag = self._value_tag.read(text, pos)
        if tag == "more":
            return pos
        if tag is None or "name" not in tag.attributes:
            self._fail("expected the parameter's name in its opening tag", base + pos)
            return pos
        self._key, self._kind = tag.attributes["name"], ""
        if self._tags.typed:
            self._kind = {"true": "string", "false": "json"}.get(tag.attributes.get("string", ""), "")
        if self._key in self._arguments:
            self._fail(f"the parameter '{self._key[:80]}' stands twice", base + pos)
            return pos
        self._note_gap(tag)
        self._part, self._gap, self._part_start = [], [], base + tag.end
        self._depth, self._loose, self._in_cdata = 0, None, False
        self.expected = self._tags.value_end
        self._step = self._value_start if self._tags.cdata else self._value
        if tag.closed:
            self._commit()
            self._step = self._between
        return tag.end

    def _value_start(self, text: str, pos: int, base: int) -> int:
        """Where values may stand in CDATA: white space around it is no part of the value."""
        at = self._white(text, pos)
        self._part.append(text[pos:at])
        if at == len(text) or begins(text, at, CDATA_OPEN):
            return at
        if text.startswith(CDATA_OPEN, at):
            self._part, self._in_cdata = [], True
            self._step, self.expected = self._cdata, CDATA_END
            return at + len(CDATA_OPEN)
        self._step = self._value
        return at

    def _cdata(self, text: str, pos: int, base: int) -> int:
        end = text.find(CDATA_END, pos)
        if end >= 0:
            self._part.append(text[pos:end])
            self._gap, self._step = [CDATA_END], self._cdata_end
            return end + len(CDATA_END)
        end = len(text) - (2 if text.endswith("]]", pos) else 1 if text.endswith("]", pos) else 0)
        self._part.append(text[pos:end])
        return end

    def _cdata_end(self, text: str, pos: int, base: int) -> int:
        at, end = self._white(text, pos), self._tags.value_end
        self._gap.append(text[pos:at])
        if at == len(text) or begins(text, at, end):
            return at
        if text.startswith(end, at):
            self._gap.append(end)
            self._step = self._after_value
            return at + len(end)
        self._part += self._gap
        self._step = self._cdata
        return at

    def _value(self, text: str, pos: int, base: int) -> int:
        ends = self._text_ends if self._loose is None else self._all_ends
        found = ends.search(text, pos)
        if found is None:
            end = ends.whole_before(text, pos)
            self._part.append(text[pos:end])
            return end
        start, tag = found.start(), found[0]
        self._part.append(text[pos:start])
        if tag == self._tags.value_end and self._depth == 0:
            self._gap, self._step = [tag], self._after_value
            self.expected = f"a parameter or {self._tags.call_end}"
            return found.end()
        if self._loose is not None:
            self._fail(f"expected a parameter or {self._tags.call_end}", self._loose)
            return start
        if tag == self._tags.value_open:
            opens = self._nesting.opens(text, start)
            if opens == "more":
                return start
            self._depth += opens
        else:
            self._depth -= 1
        self._part.append(tag)
        return found.end()

    def _after_value(self, text: str, pos: int, base: int) -> int:
        """Behind a closing tag: is it the value's? What follows tells."""
        at = self._white(text, pos)
        self._gap.append(text[pos:at])
        if at == len(text):
            return at
        found = self._next(text, at)
        if found == "other":
            self._part += self._gap
            self._step, self.expected = (self._cdata if self._in_cdata else self._value), self._tags.value_end
            if not self._in_cdata and self._loose is None:
                self._loose = base + at
        elif found != "more":
            self._commit()
            self._step = self._between
        return at

    def _commit(self) -> None:
        text, self._part, self._gap = "".join(self._part), [], []
        self.expected = f"a parameter or {self._tags.call_end}"
        bad = self._arguments.add(self._key, text, self._kind)
        if bad is not None:
            self._fail(f"the value of '{self._key[:80]}' is no JSON", self._part_start + bad)
