"""Calls written as JSON objects: `{"name": N, "arguments": {...}}`, alone or in an array.

What the keys are called is data. Accepted besides: any order of the keys, another spelling of them, arguments given as a string
that holds an object, other keys beside these, an array for a single object and the other way round, an array without its end.
Each of those is a repair, listed by name; nothing else is put right. The arguments are the model's own text: numbers and white
space stay as written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from daneel.formats.base import Tool
from daneel.formats.json_scan import WHITE, JsonScanner, scan_object
from daneel.formats.lark import join, object_schema, quote
from daneel.formats.scan import Head, ScanError, ScannedCall, ScannedFailure
from daneel.formats.validate import ToolSet

ARGUMENT_KEYS = ("arguments", "parameters")


@dataclass(frozen=True, slots=True)
class CallKeys:
    """What the keys of a call object are called; the first of each is how the family writes it.

    `name_is_key`: an object has one key, the tool's name, whose value are the arguments. An object with the other keys is read
    as well: there the name is a string, so they cannot be taken for each other.
    """

    names: tuple[str, ...] = ("name",)
    arguments: tuple[str, ...] = ARGUMENT_KEYS
    ids: tuple[str, ...] = ("id",)
    name_is_key: bool = False

    @property
    def quiet(self) -> set[str]:
        """Keys that are no repair."""
        return {self.names[0], self.arguments[0], *self.ids, "type"}


KEYS = CallKeys()

_PLACE = re.compile(r"(\{(?:name|id|arguments)\})")
_SEAM = re.compile(r"\}[ \t\n\r]*+,[ \t\n\r]*+(?=\{)")
"""What stands between two objects of an array."""


@dataclass(slots=True)
class Member:
    """One key of a call object: where its value lies in the body, its first character, and its text if it is a string."""

    key: str
    key_start: int
    start: int
    end: int
    kind: str
    text: str | None


@dataclass(slots=True)
class CallObject:
    start: int
    end: int = 0
    members: dict[str, Member] = field(default_factory=dict)


class JsonCallScanner(JsonScanner):
    """Scans an object, or an array of objects, and notes the members of each object."""

    def __init__(self, keys: CallKeys = KEYS, *, array: bool = False) -> None:
        super().__init__(track_depth=2)
        self.objects: list[CallObject] = []
        self.is_array = False
        self.name: str | None = None
        self._keys_of_call = keys
        self._array = array
        self._open: CallObject | None = None
        self._key = ("", 0)
        self._unclosed = False

    def on_key(self, depth: int, key: str, start: int) -> None:
        if not self._is_member(depth):
            return
        self.track_depth = depth  # strings inside the arguments need not be kept
        if self._open is None:
            self._open, self.name = CallObject(self._starts[depth - 1]), None
            if self._keys_of_call.name_is_key and key not in self._keys_of_call.names:
                self.name = key
        self._key = (key, start)

    def on_value(self, depth: int, start: int, end: int, kind: str, text: str | None) -> None:
        if self._is_member(depth) and self._open is not None:
            key, key_start = self._key
            self._open.members[key] = Member(key, key_start, start, end, kind, text)
            if key in self._keys_of_call.names and kind == '"' and text is not None:
                self.name = str(json.loads(text))
        elif depth == 0 and kind == "[":
            self.is_array = True
        elif kind == "{" and (depth == 0 or (depth == 1 and self._closers[0] == "]")):
            call = self._open or CallObject(start)
            call.end, self._open = end, None
            self.objects.append(call)
            if depth == 1:
                self.name = None  # what follows in the array has a name of its own
        elif depth == 1 and self._closers[0] == "]":
            super()._fail("expected an object with 'name' and 'arguments'", start)

    def _is_member(self, depth: int) -> bool:
        return (depth == 1 and self._closers[0] == "}") or (depth == 2 and self._closers[0] == "]" and self._closers[1] == "}")

    def _fail(self, message: str, offset: int) -> None:
        if not self.end_array():
            super()._fail(message, offset)

    def end_array(self) -> bool:
        """End an array that lacks nothing but its bracket; whether it does."""
        if self.error is not None or self._state != "next" or self._closers != ["]"] or not self.objects:
            return False
        self._state, self.is_array, self._unclosed = "done", True, True
        return True

    def holds_none(self) -> bool:
        """Whether it is an empty array."""
        return self.done and self.is_array and not self.objects

    def finish(self) -> None:
        """An object without its last bracket is not complete; an array of complete objects is."""
        self.end_array()

    def calls(self, body: str) -> list[ScannedCall | ScannedFailure]:
        if not self.objects:
            return [ScannedFailure(None, ScanError("the array holds no call", 0), self.offset)]
        items = self.calls_so_far(body)
        last = items[-1]
        if self._unclosed and isinstance(last, ScannedCall):
            items[-1] = replace(last, repairs=(*last.repairs, "missing_array_end"))
        return items

    def calls_so_far(self, body: str) -> list[ScannedCall | ScannedFailure]:
        """What the objects hold that are complete, whatever becomes of the body."""
        is_array = self.is_array or self._closers[:1] == ["]"]
        repairs = () if is_array == self._array else ("array_body",) if is_array else ("object_body",)
        return [_read(item, body, self._keys_of_call, repairs) for item in self.objects]

    def calls_behind(self, body: str) -> tuple[int, list[ScannedCall | ScannedFailure]] | None:
        """The calls behind a broken object of an array, where they and the array's end are faultless."""
        if self._closers[:1] != ["]"]:
            return None
        at = body.find("{") + 1
        while (seam := _SEAM.search(body, at)) is not None:
            rest = JsonCallScanner(self._keys_of_call, array=self._array)
            rest.feed("[", 0)
            at = max(rest.feed(body, seam.end()), seam.end())
            if rest.done and not rest._unclosed and not body[at:].strip(WHITE):
                shift = seam.end() - 1
                items = [replace(item, end=item.end + shift) for item in rest.calls("[" + body[seam.end() :])]
                whole = all(isinstance(item, ScannedCall) and item.arguments is not None for item in items)
                return (seam.start() + 1, items) if whole else None
        return None


def _read(item: CallObject, body: str, keys: CallKeys, repairs: tuple[str, ...]) -> ScannedCall | ScannedFailure:
    if keys.name_is_key and not _has_named(item, keys):
        return _read_name_is_key(item, body, repairs)
    if keys.name_is_key:
        repairs = (*repairs, "named_keys")
    name = name_of(item, keys)
    if isinstance(name, ScanError):
        return ScannedFailure(None, name, item.end)
    given = [item.members[key] for key in keys.arguments if key in item.members]
    if len(given) > 1:
        error = ScanError(f"both {given[0].key!r} and {given[1].key!r} are given", given[1].key_start)
        return ScannedFailure(name, error, item.end)
    call_id = next((text for key in keys.ids if (text := _string_of(item.members.get(key))) is not None), None)
    others = [member for key, member in item.members.items() if key not in (*keys.quiet, *keys.names, *keys.arguments)]
    if keys.names[0] not in item.members:
        repairs = (*repairs, "name_key")
    if not given or given[0].text == "null":
        if others:
            return ScannedFailure(name, ScanError(f"expected the key '{keys.arguments[0]}'", others[0].key_start), item.end)
        return ScannedCall(name, None, item.end, (*repairs, "no_arguments"), call_id)
    if given[0].key != keys.arguments[0]:
        repairs = (*repairs, f"{given[0].key}_key")
    return _call(name, given[0], body, item.end, repairs, call_id, extra=bool(others))


def _has_named(item: CallObject, keys: CallKeys) -> bool:
    """Whether a call's name is given as a string, under a key of its own."""
    return any(key in item.members and item.members[key].kind == '"' for key in keys.names)


def _read_name_is_key(item: CallObject, body: str, repairs: tuple[str, ...]) -> ScannedCall | ScannedFailure:
    members = list(item.members.values())
    if len(members) != 1:
        at = members[1].key_start if members else item.end - 1
        return ScannedFailure(None, ScanError("expected one key, the tool's name", at), item.end)
    (member,) = members
    if not member.key or not _is_text(member.key):
        return ScannedFailure(None, ScanError("the name is empty or not text", member.key_start), item.end)
    if member.text == "null":
        return ScannedCall(member.key, None, item.end, (*repairs, "no_arguments"))
    return _call(member.key, member, body, item.end, repairs, None)


def _call(
    name: str,
    given: Member,
    body: str,
    end: int,
    repairs: tuple[str, ...],
    call_id: str | None,
    *,
    extra: bool = False,
) -> ScannedCall | ScannedFailure:
    arguments = arguments_of(given, body)
    if isinstance(arguments, ScanError):
        return ScannedFailure(name, arguments, end)
    if given.kind == '"':
        repairs = (*repairs, "string_arguments")
    if extra:
        repairs = (*repairs, "extra_keys")
    return ScannedCall(name, arguments, end, repairs, call_id)


def name_of(item: CallObject, keys: CallKeys = KEYS) -> str | ScanError:
    given = [item.members[key] for key in keys.names if key in item.members]
    if not given:
        return ScanError(f"expected the key '{keys.names[0]}'", item.end - 1)
    if len(given) > 1:
        return ScanError(f"both {given[0].key!r} and {given[1].key!r} are given", given[1].key_start)
    name = _string_of(given[0])
    if name is None:
        return ScanError(f"expected a string as '{given[0].key}'", given[0].start)
    return name or ScanError(f"'{given[0].key}' is empty", given[0].start)


def _string_of(member: Member | None) -> str | None:
    if member is None or member.kind != '"' or member.text is None:
        return None
    text = str(json.loads(member.text))
    return text if _is_text(text) else None


def _is_text(text: str) -> bool:
    """Whether UTF-8 can hold it: JSON escapes can write half of a surrogate pair."""
    return not any("\ud800" <= char <= "\udfff" for char in text)


def arguments_of(member: Member, body: str) -> str | ScanError:
    if member.kind == "{":
        return body[member.start : member.end]
    if member.kind != '"' or member.text is None:
        return ScanError("expected an object as the arguments", member.start)
    text = str(json.loads(member.text))
    problem = scan_object(text) if _is_text(text) else ScanError("not text", 0)
    if problem is None:
        return text.strip(WHITE)
    return ScanError(f"expected an object as the arguments; the string given holds none ({problem.message})", member.start)


@dataclass(frozen=True, slots=True)
class JsonGrammar:
    """`{"name": N, "arguments": {...}}`, or another object as `keys` and `written` say; with `joints` an array of them.

    `written`: one call, with `{name}` (a JSON string), `{arguments}` and, where it has one, `{id}`.
    `joints`: what the family writes before, between and behind the calls where one body is an array that holds all of them.
    `id_size`: digits of the id that is written; `id_pattern` is what may be decoded in its place.
    """

    keys: CallKeys = KEYS
    written: str = '{"name": {name}, "arguments": {arguments}}'
    joints: tuple[str, str, str] = ("", "", "")
    id_size: int = 1
    id_pattern: str = "[0-9]{1,2}"
    key: str = "json"
    slack: str = "}"

    @property
    def holds_several(self) -> bool:
        return bool(self.joints[0])

    @property
    def expected_head(self) -> str:
        return "'['" if self.holds_several else "'{'"

    def head(self, text: str, pos: int) -> Head:
        while pos < len(text) and text[pos] in WHITE:
            pos += 1
        if pos == len(text):
            return "more"
        return "yes" if text[pos] in "{[" else "no"

    def scanner(self, tools: ToolSet) -> JsonCallScanner:
        return JsonCallScanner(self.keys, array=self.holds_several)

    def write(self, name: str, arguments: str) -> str:
        return self.write_several([(name, arguments)]) if self.holds_several else self._written(name, arguments, 0)

    def write_several(self, calls: Sequence[tuple[str, str]]) -> str:
        before, between, after = self.joints if self.holds_several else ("[", ", ", "]")
        items = [self._written(name, arguments, number) for number, (name, arguments) in enumerate(calls)]
        return before + between.join(items) + after

    def _written(self, name: str, arguments: str, number: int) -> str:
        parts = {"{name}": quote(name), "{arguments}": arguments, "{id}": f"{number:0{self.id_size}d}"}
        return "".join(parts.get(part, part) for part in _PLACE.split(self.written))

    def lark_body(
        self,
        tool: Tool,
        number: int,
        *,
        open_pad: str,
        close_pad: str,
        marker: Callable[[str], str],
    ) -> tuple[str, list[str]]:
        """One call; what `joints` holds stands around it."""
        terms, text = [], open_pad
        for part in _PLACE.split(self.written):
            special = {"{arguments}": f"arguments_{number}", "{id}": f"/{self.id_pattern}/"}.get(part)
            if special is None:
                text += quote(tool.name) if part == "{name}" else part
            else:
                terms += [quote(text), special]
                text = ""
        schema = json.dumps(object_schema(tool), ensure_ascii=False)
        return join(*terms, quote(text + close_pad)), [f"arguments_{number}: %json {schema}"]
