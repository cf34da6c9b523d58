"""Reads one call that is written as a name and pairs of tags; how they are spelled is in `pair_tags.py`.

Read besides, each listed as a repair, where it is certain: a value or a key without its closing tag, a missing end of the call
when the arguments are complete, and the other ways in which such models write calls: a JSON object with `name` and
`arguments`, or one with the arguments behind the name.
"""

from __future__ import annotations

import json
from dataclasses import replace

from daneel.formats.json_args import JsonCallScanner
from daneel.formats.json_scan import JsonScanner
from daneel.formats.pair_tags import MAX_NAME, Role, Spelling, behind_white, name_at
from daneel.formats.scan import ScanError, ScannedCall, ScannedFailure
from daneel.formats.typed_value import argument_schema, read_typed
from daneel.formats.validate import ToolSet

MAX_GAP = 64
"""White space between two tags that are looked ahead for inside a value."""

MISSING_END = "missing_end_marker"


class PairScanner:
    """Implements `BodyScanner`. A state is a method that reads what it can; it leaves unread what it cannot tell yet."""

    def __init__(self, spelling: Spelling, tools: ToolSet, *, json_repair: bool) -> None:
        self._spelling = spelling
        self._tools = tools
        self._json_repair = json_repair
        self._json: JsonScanner | None = None
        self._json_at = 0
        self._state = self._start
        self._offset = 0
        self._waiting = False
        self._left = ""
        self._key = ""
        self._key_at = 0
        self._pieces: list[str] = []
        self._call_inside = False
        self._arguments: dict[str, str] = {}
        self._repairs: list[str] = []
        self._name: str | None = None
        self.done = False
        self.error: ScanError | None = None

    @property
    def name(self) -> str | None:
        return self._json.name if isinstance(self._json, JsonCallScanner) else self._name

    @property
    def expected(self) -> str:
        tags, state = self._spelling.tags, self._state
        if self._json is not None and not self._json.done:
            return self._json.expected
        words = {
            self._start: "a tool's name",
            self._read_name: f"a tool's name and {tags.name_end or tags.key_open!r}",
            self._pairs: f"{tags.key_open!r} or {self._spelling.close!r}",
            self._in_key: repr(tags.key_close),
            self._behind_key: repr(tags.value_open),
            self._value: repr(tags.value_close),
        }
        return words.get(state, repr(self._spelling.close))

    def feed(self, text: str, pos: int) -> int:
        base = self._offset - pos
        self._waiting = False
        while not (self._waiting or self.done or self.error is not None):
            pos = self._state(text, pos, base)
        self._offset = base + pos
        self._left = text[pos:] if self._waiting else ""
        return pos

    def finish(self) -> None:
        spelling, left = self._spelling, self._left
        if self._state == self._value and self._closed_here(left) and not self._call_inside:
            self._end_value("missing_value_end")
            self.done = True
        elif self._state == self._tail and not left:
            self._repairs.append(MISSING_END)
            self.done = True
        elif self._state == self._pairs and self._arguments and self._is_certain():
            begun = not spelling.ends_itself and spelling.close.startswith(left) and left != "<"
            if not left or begun:
                self._repairs += [MISSING_END] if spelling.ends_itself else []
                self.done = True

    def calls(self, body: str) -> list[ScannedCall | ScannedFailure]:
        at, repairs = self._json_at, tuple(self._repairs)
        if isinstance(self._json, JsonCallScanner):
            added = (*(["json_body"] if self._json_repair else []), *repairs)
            return [self._shifted(item, added) for item in self._json.calls(body[at:])]
        if self._json is not None:
            return [ScannedCall(self._name or "", body[at : at + self._json.offset], self._offset, repairs)]
        return [ScannedCall(self._name or "", self._arguments_json(), self._offset, repairs)]

    def holds_none(self) -> bool:
        """Whether it is an empty array in place of a call."""
        return isinstance(self._json, JsonCallScanner) and self._json.holds_none()

    def _shifted(self, item: ScannedCall | ScannedFailure, repairs: tuple[str, ...]) -> ScannedCall | ScannedFailure:
        if isinstance(item, ScannedFailure):
            error = replace(item.error, offset=item.error.offset + self._json_at)
            return replace(item, error=error, end=item.end + self._json_at)
        return replace(item, end=item.end + self._json_at, repairs=(*repairs, *item.repairs))

    def _arguments_json(self) -> str:
        members = (f"{json.dumps(key, ensure_ascii=False)}: {value}" for key, value in self._arguments.items())
        return "{" + ", ".join(members) + "}"

    def _is_certain(self) -> bool:
        """Whether the call is complete as it stands, though nothing closes it: the tool wants no more."""
        name = self._name or ""
        return self._tools.declared(name) and not self._tools.issues(name, self._arguments_json())

    def _wait(self, pos: int) -> int:
        self._waiting = True
        return pos

    def _fail(self, message: str, pos: int, base: int) -> int:
        self.error = ScanError(message, base + pos)
        return pos

    # -- the name -----------------------------------------------------------------------------------------------------

    def _start(self, text: str, pos: int, base: int) -> int:
        pos = behind_white(text, pos)
        opened = self._spelling.start.match(text, pos)
        if opened is None and self._spelling.start.may_follow(text, pos):
            return self._wait(pos)
        if opened is None and self._spelling.ends_itself and text[pos] not in "{[":
            return self._fail(f"expected {self._spelling.tags.body_open!r}", pos, base)
        self._state = self._read_name
        return opened[0] if opened is not None else pos

    def _read_name(self, text: str, pos: int, base: int) -> int:
        """The name stays unread until what follows it is there."""
        pos = behind_white(text, pos)
        if pos == len(text):
            return self._wait(pos)
        if text[pos] in "{[":
            return self._begin_json(JsonCallScanner(), pos, base)
        name = name_at(text, pos)
        at = behind_white(text, pos + len(name))
        if not name or len(name) == MAX_NAME:
            return self._fail("expected a tool's name", pos, base)
        if at < len(text) and text[at] == "{":
            self._name = name
            self._repairs.append("json_arguments")
            return self._begin_json(JsonScanner(), at, base)
        found = self._spelling.behind_name.match(text, at)
        if found is None:
            if self._spelling.behind_name.may_follow(text, at):
                return self._wait(pos)
            return self._fail(f"expected {self._spelling.tags.key_open!r} or {self._spelling.close!r}", at, base)
        self._name, self._state = name, self._pairs
        if found[1] == "name_end":
            return found[0]
        if self._spelling.names_end:
            self._repairs.append("missing_name_end")
        return at

    # -- JSON in place of pairs -----------------------------------------------------------------------------------------

    def _begin_json(self, scanner: JsonScanner, pos: int, base: int) -> int:
        self._json, self._json_at, self._state = scanner, base + pos, self._read_json
        return pos

    def _read_json(self, text: str, pos: int, base: int) -> int:
        scanner = self._json
        if scanner is None:
            return pos
        pos = scanner.feed(text, pos)
        if scanner.error is not None:
            self.error = ScanError(scanner.error.message, scanner.error.offset + self._json_at)
        elif not scanner.done:
            self._waiting = True
        elif self._spelling.ends_itself:
            self._state = self._tail
        else:
            self.done = True
        return pos

    def _tail(self, text: str, pos: int, base: int) -> int:
        """Behind the JSON: the call's own closing tag."""
        return self._end(text, behind_white(text, pos), base)

    # -- pairs ----------------------------------------------------------------------------------------------------------

    def _pairs(self, text: str, pos: int, base: int) -> int:
        pos = behind_white(text, pos)
        found = self._spelling.behind_pair.match(text, pos)
        if found is not None and found[1] == "key_open":
            self._begin_key(base + pos)
            return found[0]
        if found is not None and self._is_open_end(found[1]) and not self._is_certain():
            return self._fail(f"expected {self.expected}", pos, base)
        return self._end(text, pos, base)

    def _end(self, text: str, pos: int, base: int) -> int:
        """Where the call should end: its own closing tag is read, a marker outside the body is left."""
        found = self._spelling.behind_pair.match(text, pos)
        if found is None or found[1] == "key_open":
            if found is None and self._spelling.behind_pair.may_follow(text, pos):
                return self._wait(pos)
            return self._fail(f"expected {self.expected}", pos, base)
        self.done = True
        if found[1] == "body_close":
            return found[0]
        if self._spelling.ends_itself:
            self._repairs.append(MISSING_END)
        return pos

    def _is_open_end(self, role: Role) -> bool:
        """Whether the marker shows that the call's own end is missing."""
        return role == "other" or (role == "close" and self._spelling.ends_itself)

    def _begin_key(self, at: int) -> None:
        self._state, self._key_at, self._pieces = self._in_key, at, []

    def _in_key(self, text: str, pos: int, base: int) -> int:
        found = self._spelling.in_key.search(text, pos)
        if found is None:
            end = len(text) - self._spelling.in_key.partial(text, pos)
            self._pieces.append(text[pos:end])
            return self._wait(end)
        start, end, role = found
        self._pieces.append(text[pos:start])
        if role not in ("key_close", "value_open"):
            return self._fail(f"expected {self._spelling.tags.key_close!r}", start, base)
        key = self._declared_key("".join(self._pieces))
        if key in self._arguments:
            self.error = ScanError(f"the key {json.dumps(key, ensure_ascii=False)[:80]} stands twice", self._key_at)
            return start
        self._key, self._state = key, self._behind_key
        if role == "key_close":
            return end
        self._repairs.append("missing_key_end")
        return start

    def _declared_key(self, key: str) -> str:
        """White space around a key that is declared without it is none of its own."""
        bare = key.strip()
        if bare == key or self._schema(key) is not None or self._schema(bare) is None:
            return key
        self._repairs.append("key_white_space")
        return bare

    def _behind_key(self, text: str, pos: int, base: int) -> int:
        pos = behind_white(text, pos)
        found = self._spelling.behind_key.match(text, pos)
        if found is not None:
            self._state, self._pieces, self._call_inside = self._value, [], False
            return found[0]
        if self._spelling.behind_key.may_follow(text, pos):
            return self._wait(pos)
        return self._fail(f"expected {self._spelling.tags.value_open!r}", pos, base)

    def _schema(self, key: str) -> dict[str, object] | None:
        return argument_schema(self._tools.schema(self._name or ""), key)

    # -- values -----------------------------------------------------------------------------------------------------------

    def _value(self, text: str, pos: int, base: int) -> int:
        found = self._spelling.in_value.search(text, pos)
        if found is None:
            end = len(text) - self._spelling.in_value.partial(text, pos)
            self._pieces.append(text[pos:end])
            return self._wait(end)
        start, end, role = found
        self._pieces.append(text[pos:start])
        if role == "value_close":
            self._end_value("")
            return end
        if role == "key_open":
            key = self._next_key(text, end)
            if key and not self._may_go_on(key):
                return self._fail(f"expected {self._spelling.tags.value_close!r}", start, base)
            is_next = None if key is None else bool(key)
        else:
            is_next = self._is_closed(text, end, role)
        if is_next is None:
            return self._wait(start)
        if is_next:
            self._end_value("missing_value_end")
            return start
        self._call_inside = self._call_inside or role == "other"
        self._pieces.append(text[start:end])
        return end

    def _end_value(self, repair: str) -> None:
        self._arguments[self._key] = read_typed("".join(self._pieces), self._schema(self._key))
        self._repairs += [repair] if repair else []
        self._state, self._pieces = self._pairs, []

    def _next_key(self, text: str, pos: int) -> str | None:
        """Behind the opening of a key inside a value: the key, if a value follows it; "" if none does; `None`: too short."""
        spelling = self._spelling
        end = text.find("<", pos, pos + MAX_NAME)
        if end < 0:
            return None if len(text) - pos < MAX_NAME else ""
        closed = spelling.key_close.match(text, end)
        if closed is None:
            return None if spelling.key_close.may_follow(text, end) else ""
        at = behind_white(text, closed[0])
        if at - closed[0] > MAX_GAP:
            return ""
        if spelling.behind_key.match(text, at) is not None:
            return text[pos:end]
        return None if spelling.behind_key.may_follow(text, at) else ""

    def _may_go_on(self, key: str) -> bool:
        """Whether `key` can only be the next argument, so that the value's closing tag is what is missing.

        Not if the value opens a call: what is written there may be about such calls.
        """
        declared = self._schema(key) is not None or not self._tools.known
        return declared and key not in (*self._arguments, self._key) and not self._call_inside

    def _is_closed(self, text: str, pos: int, role: Role) -> bool | None:
        """Whether the end of the call inside a value is one: where nothing but another marker follows. `None`: too short."""
        if role != ("body_close" if self._spelling.ends_itself else "close") or self._call_inside:
            return False
        at = behind_white(text, pos)
        if at - pos > MAX_GAP:
            return False
        if self._spelling.behind_call.match(text, at) is not None:
            return True
        return None if self._spelling.behind_call.may_follow(text, at) else False

    def _closed_here(self, left: str) -> bool:
        """Whether the text ends in the end of the call."""
        found = self._spelling.behind_call.match(left, 0)
        return found is not None and found[1] == "close" and not self._spelling.ends_itself and not left[found[0] :].strip()
