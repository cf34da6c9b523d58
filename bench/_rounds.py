"""Rounds of a bench: finished parts can be kept in a file, so that a bench that was stopped goes on where it was."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from _servers import ArmFailed

T = TypeVar("T")


class Kept:
    """Results by key, JSON lines in a file (or nowhere, with no path). Those of another setup are left alone and not used."""

    def __init__(self, path: Path | None, setup: dict[str, Any]) -> None:
        self._path, self._setup = path, json.loads(json.dumps(setup))
        self._known: dict[str, Any] = {}
        if path is not None and path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                self._take(line)

    def _take(self, line: str) -> None:
        try:
            row = json.loads(line)
            if row["setup"] == self._setup:
                self._known[json.dumps(row["key"])] = row["result"]
        except (ValueError, KeyError, TypeError):
            print(f"a line of the kept results cannot be read and is not used: {line[:60]}", file=sys.stderr)

    def get(self, key: Sequence[Any], work: Callable[[], Any]) -> Any:
        """The kept result (JSON), or that of `work()`, which is then kept."""
        name = json.dumps(list(key))
        if name in self._known:
            print(f"{' '.join(map(str, key))}: kept from before", file=sys.stderr)
            return self._known[name]
        result = self._known[name] = work()
        if self._path is not None:
            with self._path.open("a+b") as file:
                file.seek(0, os.SEEK_END)
                if file.tell():
                    file.seek(-1, os.SEEK_END)
                    if file.read() != b"\n":  # a line that was cut off must not take this one with it
                        file.write(b"\n")
                file.write(json.dumps({"setup": self._setup, "key": list(key), "result": result}).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
        return result


def add_keep_option(options: argparse.ArgumentParser) -> None:
    options.add_argument("--keep", type=Path, metavar="FILE", help="keep finished parts there, and do not repeat those it has")


def turns(items: Sequence[T], number: int) -> list[T]:
    """The items in the order of round `number`: each is first as often as any other."""
    start = number % len(items)
    return [*items[start:], *items[:start]]


def ratio_of(numerators: Sequence[float], denominators: Sequence[float]) -> float:
    """The median of the ratios round by round, so that a slow moment meets both sides."""
    return median(a / b for a, b in zip(numerators, denominators, strict=True))


def judged(name: str, value: float, bound: float, *, at_most: bool) -> dict[str, Any]:
    """A figure against what is aimed at, printed and for the JSON."""
    within = value <= bound if at_most else value >= bound
    print(f"{name}: {value:.3f} ({'at most' if at_most else 'at least'} {bound:g}: {'yes' if within else 'NO'})")
    return {"value": round(value, 4), "at_most" if at_most else "at_least": bound, "within": within}


def machine() -> dict[str, Any]:
    return {"python": platform.python_version(), "machine": platform.machine(), "cpus": os.cpu_count()}


def run_bench(main: Callable[[], None]) -> None:
    """`main()`, with failures as one sentence and exit code 1, Ctrl-C as 130."""
    try:
        main()
    except ArmFailed as error:
        raise SystemExit(f"no figure: {error}") from error
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        raise SystemExit(130) from None
