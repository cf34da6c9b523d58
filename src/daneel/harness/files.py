"""Loads a harness file: a Python file that a person wrote, with harnesses and goals as its top-level names."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from daneel.errors import UserError
from daneel.harness.definition import Goal, Harness
from daneel.harness.raised import described, forks_end_here, is_interrupt


@dataclass(frozen=True)
class HarnessFile:
    """What a file holds, in the order it was written. Harnesses without a name have the name of their variable."""

    path: Path
    harnesses: dict[str, Harness]
    goals: dict[str, Goal]

    def harness(self, name: str | None = None) -> Harness:
        """The harness of this name; without one, the one called `harness`, or the first. UserError names what there is."""
        if name is not None:
            if name not in self.harnesses:
                raise UserError(f"{self.path}: there is no harness {name}; it has {_listed(self.harnesses)}")
            return self.harnesses[name]
        return self.harnesses.get("harness") or next(iter(self.harnesses.values()))

    def goal(self, name: str) -> Goal:
        """The goal of this name. Raises UserError naming what there is."""
        if name not in self.goals:
            raise UserError(f"{self.path}: there is no goal {name}; it has {_listed(self.goals) or 'no goals'}")
        return self.goals[name]


def load(path: str | Path) -> HarnessFile:
    """Run a harness file and collect its harnesses and goals.

    Raises UserError, in one sentence with the line, when the file is missing, has a syntax error, fails while it is
    imported, or holds no harness.
    """
    path = Path(path)
    module = execute(path)
    harnesses: dict[str, Harness] = {}
    goals: dict[str, Goal] = {}
    for variable, value in vars(module).items():
        if isinstance(value, Harness):
            named = value if value.name else value.with_changes(name=variable)
            if named.name in harnesses and harnesses[named.name] != named:
                raise UserError(f"{path}: two harnesses are called {named.name}")
            harnesses[str(named.name)] = named
        elif isinstance(value, Goal):
            if value.name in goals and goals[value.name] != value:
                raise UserError(f"{path}: two goals are called {value.name}; say goal(name=…) for one of them")
            goals[value.name] = value
    if not harnesses:
        raise UserError(f"{path}: holds no harness; write one as: harness = Harness(tools=[…])")
    return HarnessFile(path, harnesses, goals)


def execute(path: Path) -> ModuleType:
    """Run a Python file that a person wrote. Raises UserError, in one sentence with the line, when that fails."""
    if not path.is_file():
        raise UserError(f"{path}: {'is a folder, not a Python file' if path.is_dir() else 'no such file'}")
    # A name that cannot shadow a real module, and a place in sys.modules while it runs: dataclasses and pydantic look there
    name = f"daneel_harness_file_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UserError(f"{path}: is not a Python file (its name must end in .py)")
    module = importlib.util.module_from_spec(spec)
    with _importable(path.resolve().parent):
        sys.modules[name] = module
        try:
            with forks_end_here():
                spec.loader.exec_module(module)
        except UserError:
            raise
        except SyntaxError as error:
            line = f", line {error.lineno}" if error.lineno else ""  # there is none for a file with null bytes
            raise UserError(f"{error.filename or path}{line}: syntax error: {error.msg}") from error
        except SystemExit as error:
            raise UserError(f"{path}: ended the program while it was imported (exit {error.code})") from error
        except BaseException as error:  # a person's own code may raise anything
            if is_interrupt(error):
                raise
            raise UserError(f"{path}{_last_line_in(error, path)}: {_first_line(described(error))}") from error
    return module


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Files beside the harness file can be imported by it, and no byte code is left beside them."""
    sys.path.insert(0, str(folder))
    wrote_bytecode = sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        sys.dont_write_bytecode = wrote_bytecode
        if str(folder) in sys.path:
            sys.path.remove(str(folder))


def _last_line_in(error: BaseException, path: Path) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f", line {frames[-1].lineno}" if frames else ""


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0]


def _listed(names: dict[str, Harness] | dict[str, Goal]) -> str:
    return ", ".join(names)
