"""Commands that are imported when they are asked for: a quick one does not wait for the imports of all the others."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command


class _Commands(dict[str, Any]):
    """Commands by name; those of `modules` (name -> module with a `register`) are `None` until they are looked at."""

    def __init__(self, ready: Mapping[str, Any], modules: Mapping[str, str]) -> None:
        super().__init__({**ready, **dict.fromkeys(modules)})
        self._modules = modules

    def __getitem__(self, name: str) -> Any:
        command = super().__getitem__(name)
        if command is None:
            command = self[name] = _imported(name, self._modules[name])
        return command

    def get(self, name: str, default: Any = None) -> Any:
        try:
            return self[name]
        except KeyError:
            return default

    def values(self) -> Any:
        return {name: self[name] for name in self}.values()

    def items(self) -> Any:
        return {name: self[name] for name in self}.items()


def lazy_group(modules: Mapping[str, str]) -> type[TyperGroup]:
    """A class for `typer.Typer(cls=…)`: its own commands first, then one for each name, from the module that registers it."""

    class LazyGroup(TyperGroup):
        def __init__(self, **given: Any) -> None:
            super().__init__(**given)
            self.commands = _Commands(self.commands, modules)

        def list_commands(self, ctx: Any) -> list[str]:
            return list(self.commands)

    return LazyGroup


def _imported(name: str, module: str) -> Any:
    holder = typer.Typer(rich_markup_mode=None)
    holder.callback()(lambda: None)  # a group, also with a single command in it
    import_module(module).register(holder)
    group: Any = get_command(holder)
    return group.commands[name]
