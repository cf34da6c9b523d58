"""JSON calls that stand without markers: a scanner that gives up at the first character that cannot belong to one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from daneel.formats.json_args import KEYS, CallKeys, JsonCallScanner, JsonGrammar
from daneel.formats.json_scan import WHITE
from daneel.formats.named_json import NamedJsonGrammar
from daneel.formats.scan import Head, ScannedCall, ScannedFailure
from daneel.formats.validate import ToolSet


class StrictJsonScanner(JsonCallScanner):
    """Only keys of a call, and the name of a declared tool.

    `trusting`: this is how the family writes calls. So behind a declared tool's name and arguments, other keys and the names
    of other tools are admitted, and an array may lack its end.
    """

    def __init__(self, tools: ToolSet, keys: CallKeys = KEYS, *, array: bool = False, trusting: bool = False) -> None:
        super().__init__(keys, array=array)
        self._tools = tools
        self._trusting = trusting
        self._argument_keys = frozenset(keys.arguments)
        self._call_keys = frozenset((*keys.names, *keys.arguments, *keys.ids, "type"))
        self._has_arguments = False
        self.is_meant = False
        """Whether a declared tool's name and the key of its arguments were read: then it is a call, well or badly written."""

    def on_key(self, depth: int, key: str, start: int) -> None:
        super().on_key(depth, key, start)
        if not self._is_member(depth):
            return
        if self._open is not None and not self._open.members:
            self._has_arguments = False
        self._has_arguments = self._has_arguments or key in self._argument_keys
        if key not in self._call_keys and not (self._trusting and self.is_meant):
            self._fail("no key of a call", start)
        self._mean()

    def on_value(self, depth: int, start: int, end: int, kind: str, text: str | None) -> None:
        super().on_value(depth, start, end, kind, text)
        if not self._is_member(depth) or self._key[0] not in self._keys_of_call.names:
            return
        declared = kind == '"' and self._tools.declared(self.name or "")
        if not declared and not (kind == '"' and self._trusting and self.objects):
            self._fail("no declared tool", start)
        self._mean()

    def _mean(self) -> None:
        self.is_meant = self.is_meant or (self.error is None and self.name is not None and self._has_arguments)

    def end_array(self) -> bool:
        """An array without its end is certain only where arrays of calls are expected."""
        return self._trusting and super().end_array()

    @property
    def may_be_meant(self) -> bool:
        """Inside an object that can only become a call: a key was read, or what there is of one begins one of a call."""
        closers = self._closers
        in_call = closers[:1] == ["}"] or closers[:2] == ["]", "}"]
        return in_call and (self._open is not None or (self._array and self._may_be_key))

    @property
    def _may_be_key(self) -> bool:
        """In an array, a key is being read, and what there is of it begins one of a call."""
        return (
            self._closers[:1] == ["]"]
            and self._is_key
            and self._state == "string"
            and any(key.startswith("".join(self._token)) for key in self._call_keys)
        )


@dataclass(frozen=True, slots=True)
class BareJsonGrammar(JsonGrammar):
    """JSON calls that need no marker. `odd_shape`: the repair listed for an array where the family writes objects, or the
    other way round.
    """

    odd_shape: str = ""

    def scanner(self, tools: ToolSet) -> BareJsonScanner:
        return BareJsonScanner(self, tools)


class BareJsonScanner(StrictJsonScanner):
    """Finds no calls where one has no arguments: that is JSON of another kind."""

    def __init__(self, grammar: BareJsonGrammar, tools: ToolSet) -> None:
        super().__init__(tools, grammar.keys, array=grammar.holds_several, trusting=True)
        self._odd_shape = grammar.odd_shape

    def calls(self, body: str) -> list[ScannedCall | ScannedFailure]:
        found = super().calls(body)
        whole = all(isinstance(item, ScannedCall) and item.arguments is not None for item in found)
        return list(self._named(found)) if whole or self.is_meant else []

    def calls_so_far(self, body: str) -> list[ScannedCall | ScannedFailure]:
        return list(self._named(super().calls_so_far(body)))

    def _named(self, found: list[ScannedCall | ScannedFailure]) -> Iterable[ScannedCall | ScannedFailure]:
        for item in found:
            if isinstance(item, ScannedCall) and self._odd_shape:
                shapes = ("array_body", "object_body")
                repairs = tuple(self._odd_shape if repair in shapes else repair for repair in item.repairs)
                yield replace(item, repairs=repairs)
            else:
                yield item


@dataclass(frozen=True, slots=True)
class BegunTagGrammar(NamedJsonGrammar):
    """A tag that holds a tool's name, and JSON behind it, where the JSON begins too: text may speak of such tags."""

    def head(self, text: str, pos: int) -> Head:
        before, after = self.heads[0].split("{name}")
        rest = text[pos:].lstrip(WHITE)
        if not rest.startswith(before):
            return "more" if before.startswith(rest) else "no"
        name, _, behind = rest[len(before) :].partition(after)
        if any(char in name for char in "<{\n"):
            return "no"
        begun = behind.lstrip(WHITE)[:1]
        return "more" if not begun else "yes" if name and begun == "{" else "no"
