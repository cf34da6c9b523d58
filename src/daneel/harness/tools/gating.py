"""Gates: when a tool may be called. Declared with `@tool`, judged here from the calls so far, kept by `harness/gatekeeper.py`.

    @tool(only_after=only_after("read_file", same="path"), max_calls=3)
    def edit_file(path: str, old: str, new: str) -> str: ...

How a closed gate looks is the `Gate`'s mode, and each mode has its price. `hidden`: the tool is not declared, so it cannot
tempt the model, but the prompt changes from its first tokens on, and the server has to prefill it anew. `refused`: declared;
that costs a turn whenever the model tries it too early, and the answer says what to do first. `masked`: declared, and whenever
that changes the model is told, at the end of the prompt, which tools it may call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from daneel.errors import UserError
from daneel.harness.raised import described, is_interrupt
from daneel.harness.run_record import CallRecord

if TYPE_CHECKING:
    from daneel.harness.tools.registry import Tool

Mode = Literal["hidden", "refused", "masked"]
MODES = ("hidden", "refused", "masked")
Calls = Sequence[CallRecord]


@dataclass(frozen=True, kw_only=True)
class Gate:
    """How a closed gate looks to the model; `hint` is what it is told when it calls the tool all the same."""

    mode: Mode = "hidden"
    hint: str | None = None

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise UserError(f"gate: mode must be one of {', '.join(MODES)}, not {self.mode!r}")


@dataclass(frozen=True)
class After:
    """Another tool must have been called before. Made by `only_after()`."""

    tool: str
    success: bool = True
    same: tuple[str, ...] = ()


def only_after(tool: str, *, success: bool = True, same: str | Sequence[str] = ()) -> After:
    """Open once `tool` was called; with `success`, only by a call that brought no error.

    `same` names arguments that must have been the same in both calls: `same="path"` opens a file's gate for that file alone.
    """
    return After(tool, success, (same,) if isinstance(same, str) else tuple(same))


@dataclass(frozen=True, kw_only=True)
class Gates:
    """All gates of one tool: it may be called when every one of them is open."""

    after: tuple[After, ...] = ()
    max_calls: int | None = None
    hidden_until: Callable[[Calls], bool] | None = None
    gate: Gate | None = None
    """The tool's own; None: the harness's."""

    def __bool__(self) -> bool:
        return bool(self.after or self.max_calls is not None or self.hidden_until)


NO_GATES = Gates()


def gates_of(
    label: str,
    *,
    requires: str | Sequence[str],
    only_after: After | Sequence[After],
    max_calls: int | None,
    hidden_until: Callable[[Calls], bool] | None,
    gate: Gate | None,
) -> Gates:
    """The gates that `@tool`'s parameters name, checked. Raises UserError; `label` says of which tool."""
    needed = [After(requires)] if isinstance(requires, str) else [After(name) for name in requires]
    needed += [only_after] if isinstance(only_after, After) else list(only_after)
    for after in needed:
        if not isinstance(after, After):
            raise UserError(f"{label}: only_after must be only_after(…), not {after!r}")
        if not isinstance(after.tool, str) or not after.tool:
            raise UserError(f"{label}: requires and only_after take the names of tools, not {after.tool!r}")
    if max_calls is not None and (not isinstance(max_calls, int) or max_calls < 1):
        raise UserError(f"{label}: max_calls must be a whole number of at least 1, not {max_calls!r}")
    if hidden_until is not None and not callable(hidden_until):
        raise UserError(f"{label}: hidden_until must be a function of the calls so far, not {hidden_until!r}")
    if gate is not None and not isinstance(gate, Gate):
        raise UserError(f"{label}: gate must be a Gate(mode=…), not {gate!r}")
    return Gates(after=tuple(needed), max_calls=max_calls, hidden_until=hidden_until, gate=gate)


def check(tools: Sequence[Tool], label: str) -> None:
    """Raises UserError when a gate waits for a tool or an argument that is not there, or could never open."""
    by_name = {tool.name: tool for tool in tools}
    for tool in tools:
        for after in tool.gates.after:
            if after.tool not in by_name:
                raise UserError(f"{label}: tool {tool.name} comes after {after.tool}, which is no tool of this harness")
            for argument in after.same:
                for each in (tool, by_name[after.tool]):
                    if argument not in each.parameters.get("properties", {}):
                        raise UserError(f"{label}: tool {tool.name}: same={argument!r}: {each.name} has no such argument")
    reachable: set[str] = set()
    waiting = dict(by_name)
    while opened := [name for name, tool in waiting.items() if all(after.tool in reachable for after in tool.gates.after)]:
        reachable.update(opened)
        for name in opened:
            del waiting[name]
    if waiting:
        raise UserError(f"{label}: no order of calls ever opens {', '.join(waiting)}: each waits for another one")


@dataclass(frozen=True, slots=True)
class Closed:
    """Why a tool may not be called. One of: `needed` has to be called first; `limit` calls were made; the predicate says no."""

    needed: str | None = None
    same: dict[str, Any] = field(default_factory=dict)
    """Arguments that the call of `needed` must have."""
    limit: int | None = None
    error: str | None = None
    """What the predicate raised: the gate stays closed then."""


@dataclass(frozen=True, slots=True)
class Shown:
    """One tool in one turn."""

    tool: Tool
    mode: Mode
    closed: Closed | None = None

    @property
    def declared(self) -> bool:
        return self.closed is None or self.mode != "hidden"


def visible(tools: Sequence[Tool], calls: Calls, default: Gate) -> list[Shown]:
    """Every tool as it stands before a turn, after `calls`."""
    return [Shown(tool, (tool.gates.gate or default).mode, closed(tool, calls)) for tool in tools]


def closed(tool: Tool, calls: Calls, arguments: dict[str, Any] | None = None) -> Closed | None:
    """Why `tool` may not be called after `calls`, or None when it may.

    Without `arguments`, whether any call of it could be allowed: a gate for the same path is open once some path was read.
    """
    gates = tool.gates
    if not gates:
        return None
    for after in gates.after:
        if not any(_satisfies(call, after, arguments) for call in reversed(calls)):
            same = {name: arguments[name] for name in after.same if name in arguments} if arguments is not None else {}
            return Closed(needed=after.tool, same=same)
    if gates.max_calls is not None and sum(call.name == tool.name and _made(call) for call in calls) >= gates.max_calls:
        return Closed(limit=gates.max_calls)
    if gates.hidden_until is not None:
        try:
            return None if gates.hidden_until(calls) else Closed()
        except BaseException as error:  # a person's own code
            if is_interrupt(error):
                raise
            return Closed(error=described(error))
    return None


def _made(call: CallRecord) -> bool:
    return call.result is not None


def _satisfies(call: CallRecord, after: After, arguments: dict[str, Any] | None) -> bool:
    if call.name != after.tool or not _made(call) or (after.success and call.error is not None):
        return False
    if arguments is None or not after.same:
        return True
    earlier = call.arguments if isinstance(call.arguments, dict) else {}
    return all(_plain(earlier.get(name)) == _plain(arguments.get(name)) for name in after.same)


def _plain(value: Any) -> Any:
    """`./notes.txt` is `notes.txt`, however the model wrote it. True is not 1."""
    if isinstance(value, str):
        return value.strip().removeprefix("./")
    return (type(value), value)
