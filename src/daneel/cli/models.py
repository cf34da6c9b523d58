"""`daneel models`: what models there are, get one, where one is, remove one."""

from __future__ import annotations

import json
import shutil
import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from daneel.errors import UserError

if TYPE_CHECKING:
    from daneel.server.models.catalogue import Entry
    from daneel.server.models.stores import Stored

# where there is no terminal to draw on, a line this often
_QUIET_STEP_S = 5.0


class TerminalProgress:
    """Draws a pull on stderr: a bar on a terminal, else prints a line every few seconds. Use as a context manager."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._label = ""
        self._next_line_s = 0.0

    def __enter__(self) -> TerminalProgress:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(self, label: str, done_bytes: int, total_bytes: int | None) -> None:
        """See `daneel.server.models.progress.Progress`."""
        if self._console.is_terminal:
            self._draw(label, done_bytes, total_bytes)
        else:
            self._print(label, done_bytes, total_bytes)

    def say(self, text: str) -> None:
        """One line on stderr, above the bar."""
        self._console.print(text, markup=False, soft_wrap=True)

    def _draw(self, label: str, done_bytes: int, total_bytes: int | None) -> None:
        if self._bar is None:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                DownloadColumn(),
                TransferSpeedColumn(),
                TimeRemainingColumn(),
            )
            self._bar = Progress(*columns, console=self._console, transient=True)
            self._bar.start()
        if label != self._label or self._task is None:
            self._label = label
            if self._task is not None:
                self._bar.remove_task(self._task)
            # bytes that an earlier call fetched do not count for the speed
            self._task = self._bar.add_task(label, total=total_bytes, completed=done_bytes)
        self._bar.update(self._task, completed=done_bytes, total=total_bytes)

    def _print(self, label: str, done_bytes: int, total_bytes: int | None) -> None:
        now = time.monotonic()
        if now >= self._next_line_s:
            self._next_line_s = now + _QUIET_STEP_S
            self.say(f"{label}: {done_bytes / 1e6:,.1f} of {total_bytes / 1e6:,.1f} MB" if total_bytes else label)


models = typer.Typer(
    help="Find, pull and remove models.\n\nA model is named by the catalogue (`daneel models list`), by the hub "
    "(owner/name or owner/name:file.gguf), by Ollama (ollama:name:tag), or by a path.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def register(app: typer.Typer) -> None:
    """Add this file's commands to `app`."""
    app.add_typer(models, name="models")


@models.command("list")
def list_models(as_json: bool = typer.Option(False, "--json", help="Print one JSON object.")) -> None:
    """List the catalogue, where each model is, and other models found on this machine."""
    from daneel.server.models import catalogue, stores

    found = stores.scan()
    rows = [_row(entry, found) for entry in catalogue.load().values()]
    known = {row["path"] for row in rows}
    others = [stored for stored in found if str(stored.paths[0]) not in known]
    if as_json:
        print(json.dumps({"catalogue": rows, "stored": [_stored_row(stored) for stored in others]}, indent=2))
        return
    cells = [
        [row["name"], _size(row["size_bytes"]), row["quantisation"], row["where"], row["licence"], row["note"]] for row in rows
    ]
    _print_table([["NAME", "SIZE", "TYPE", "WHERE", "LICENCE", "NOTE"], *cells])
    if others:
        print("\nAlso on this machine:")
        _print_table([[stored.name, _size(stored.size_bytes), stored.store] for stored in others])


@models.command("pull")
def pull_model(name: str = typer.Argument(help="A name of the catalogue, or owner/name[:file] of the hub.")) -> None:
    """Fetch a model, verify it, and print its path. An interrupted pull goes on where it stopped."""
    from daneel.server.models import catalogue, find, resolve
    from daneel.server.models.pull import models_dir, pull

    entry = catalogue.load().get(name)
    with TerminalProgress() as progress:
        try:
            found = find(entry) if entry else None
            if entry is None:
                resolved = resolve(name, progress=progress)
                path, where = resolved.path, resolved.origin
            elif found is not None and found.path.parent != models_dir():
                path, where = found.path, found.origin
            else:
                pulled = pull(entry, progress)
                path, where = pulled.path, pulled.origin
                # a file that is what the catalogue says but cannot be loaded should be known now
                resolve(str(path))
        except KeyboardInterrupt:
            progress.say(f"daneel: interrupted; `daneel models pull {name}` goes on where it stopped")
            raise typer.Exit(130) from None
        progress.say(f"{name}: {where}")
    print(path)


@models.command("path")
def model_path(
    name: str = typer.Argument(help="A name of the catalogue, owner/name[:file], ollama:name[:tag] or a file name."),
) -> None:
    """Print the path of a model that is on this machine; fetches nothing."""
    from daneel.server.models import resolve

    print(resolve(name, may_fetch=False).path)


@models.command("rm")
def remove_model(name: str = typer.Argument(help="A name of the catalogue.")) -> None:
    """Remove a model, or what an unfinished pull left, from daneel's cache. Other programs' files are never touched."""
    from daneel.server.models import catalogue, find
    from daneel.server.models.files import disk_errors, size_of
    from daneel.server.models.pull import models_dir, partial_dir

    entries = catalogue.load()
    entry = entries.get(name)
    if entry is None:
        raise UserError(f"no model {name!r} in the catalogue; known names: {', '.join(entries)}")
    own, partial = models_dir() / entry.file_name, partial_dir(entry)
    if not own.exists() and not partial.exists():
        found = find(entry)
        raise UserError(f"{name} is not in daneel's cache" + (f" but in {found.origin}: {found.path}" if found else ""))
    freed = size_of(own) + sum(size_of(path) for path in partial.glob("*"))
    with disk_errors(models_dir()):
        own.unlink(missing_ok=True)
        if partial.exists():
            shutil.rmtree(partial)
    print(f"removed {name}: {_size(freed)}", file=sys.stderr)


def _row(entry: Entry, found: list[Stored]) -> dict[str, Any]:
    """What `list` tells of a catalogue entry; `where` is for people, `state` for programs."""
    from daneel.server.models import stores
    from daneel.server.models.files import size_of
    from daneel.server.models.pull import models_dir, partial_dir

    own = models_dir() / entry.file_name
    stored = stores.matching(entry, found)
    state, where, path = "absent", "-", None
    if own.exists():
        is_whole = size_of(own) == entry.size_bytes
        state, where, path = ("ready", "daneel", str(own)) if is_whole else ("damaged", "damaged: pull again", None)
    elif stored is not None:
        state, where, path = "ready", stored.store, str(stored.paths[0])
    elif partial_bytes := sum(size_of(file) for file in partial_dir(entry).glob("*")):
        state, where = "partial", f"partly ({_size(partial_bytes)})"
    return {
        "name": entry.name,
        "size_bytes": entry.size_bytes,
        "sha256": entry.sha256,
        "licence": entry.licence,
        "context_tokens": entry.context_tokens,
        "quantisation": entry.quantisation,
        "note": entry.note,
        "sources": [source.describe() for source in entry.sources],
        "state": state,
        "where": where,
        "path": path,
    }


def _stored_row(stored: Stored) -> dict[str, Any]:
    paths = [str(path) for path in stored.paths]
    return {
        "name": stored.name,
        "store": stored.store,
        "size_bytes": stored.size_bytes,
        "sha256": stored.sha256,
        "paths": paths,
    }


def _size(num_bytes: int) -> str:
    return f"{num_bytes / 1e9:.1f} GB" if num_bytes >= 1e9 else f"{num_bytes / 1e6:.0f} MB"


def _print_table(rows: list[list[str]]) -> None:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
