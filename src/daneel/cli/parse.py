"""`daneel parse`: a model's raw output to the message a client would get, as the server reads it."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import msgspec
import typer

from daneel.cli.format_file import customiser
from daneel.cli.values import STDIN, print_json, read_text, read_tools
from daneel.errors import UserError
from daneel.formats import registry
from daneel.formats.family import Family
from daneel.server.reading import ParseReply, read
from daneel.wire.errors import WireError
from daneel.wire.messages import Warning
from daneel.wire.strict_json import decode_object
from daneel.wire.text_requests import parse_fields

_HOW = "say how the model writes: --family NAME, --template FILE, --model MODEL or --format-file FILE"


def register(app: typer.Typer) -> None:
    """Add this file's commands to `app`."""
    app.command()(parse)


def parse(
    output: Annotated[
        Path, typer.Argument(metavar="[FILE]", help="The model's output, as it wrote it; - is standard input.")
    ] = STDIN,
    family: Annotated[
        str | None, typer.Option(metavar="NAME", help="The format's name, as in `daneel serve --format`.")
    ] = None,
    template: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The model's chat template: tells the format, or its details.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Take the template out of this model's files; no weights are loaded.")
    ] = None,
    format_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Python file with a format of your own; see examples/my_format.py.")
    ] = None,
    tools: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Declared tools, a JSON array; without it every name counts as declared."),
    ] = None,
    gen_prompt: Annotated[
        str, typer.Option(metavar="TEXT", help="The end of the prompt: a thought that it opened is open.")
    ] = "",
    starts_in_reasoning: Annotated[
        bool | None,
        typer.Option("--starts-in-reasoning/--starts-outside", help="Whether the prompt opened a thought.", show_default=False),
    ] = None,
    truncated: Annotated[bool, typer.Option("--truncated", help="A length limit ended the output, not the model.")] = False,
    spans: Annotated[
        bool, typer.Option("--spans", help="Also tell what each character was: the whole report in place of the message.")
    ] = False,
    batch: Annotated[
        bool,
        typer.Option("--batch", help="JSON lines in, one JSON line out for each: see above."),
    ] = False,
    templates: Annotated[
        Path | None, typer.Option(metavar="DIR", help="With --batch: where the templates lie that lines name.")
    ] = None,
) -> None:
    """Read a model's raw output and print the message a client would get, as JSON.

    Calls that cannot be read stand in `failed_tool_calls`, with raw text, reason and offset; nothing is left out.

    With --batch each line in is an object with `raw` and, where it needs them, `id`, `family`, `template` (a file below
    --templates), `tools`, `gen_prompt`, `starts_in_reasoning`, `truncated`, `spans` and `cuts` (positions at which `raw` is
    fed in pieces). Each line out is {"id", "format", "message", "conserved"}, or {"id", "error": {"message"}} when that line
    could not be used; then the exit code is 1. The options above hold for lines that leave a field out.
    """
    formats = Formats(family=family, template=_template(template, model), folder=templates)
    if format_file is not None:
        formats.customise = customiser(format_file)
    declared = read_tools(tools) if tools else None
    if batch:
        with _binary(output) as lines:
            num_failed = write_batch(lines, formats, declared)
        raise typer.Exit(1 if num_failed else 0)
    if templates is not None:
        raise UserError("--templates is for --batch; give one template with --template FILE")
    fields = {
        "raw": _output(output),
        "tools": declared,
        "gen_prompt": gen_prompt,
        "starts_in_reasoning": starts_in_reasoning,
        "truncated": truncated,
        "spans": spans,
    }
    reply = _read_one(fields, formats)
    print_json(msgspec.to_builtins(reply if spans else reply.message))
    if not reply.conserved:
        raise UserError("the parts do not add up to the output: a bug of daneel, please report it with this output")


class TemplateMissing(UserError):
    """A line names its family, and a template that is not there."""


@dataclass
class Formats:
    """Which format an output is in: by name, by the template of its model, or both; `folder` holds the templates of a batch.

    What a line says comes first; `family` and `template` (its text) hold for lines that leave them out. `customise` puts a
    format of the person's own into whatever is chosen.
    """

    family: str | None = None
    template: str | None = None
    folder: Path | None = None
    customise: Callable[[Family], Family] | None = None
    _known: dict[tuple[str | None, str | None], Family] = field(default_factory=dict)

    def of(self, family: str | None = None, template_name: str | None = None) -> Family:
        """Raises `UserError`."""
        key = family, template_name
        if key not in self._known:
            name = family or self.family
            template = self._text(template_name, needed=name is None) if template_name else self.template
            if name is None and template is None and self.customise is None:
                raise UserError(f"the format is not known: {_HOW}")
            found = registry.resolve(name, template)
            self._known[key] = found if self.customise is None else self.customise(found)
        return self._known[key]

    def _text(self, name: str, *, needed: bool) -> str:
        if self.folder is None and not needed:
            raise TemplateMissing(f"no --templates DIR to look for the template {name} in: the family is taken as it is")
        if self.folder is None:
            raise UserError(f"the template {name!r} is a file in a folder: name it with --templates DIR")
        folder = self.folder.resolve()
        try:
            path = (folder / name).resolve()
        except (ValueError, OSError) as error:
            raise UserError(f"the template {name!r} is no file name: {error}") from error
        if not path.is_relative_to(folder):
            raise UserError(f"the template {name!r} lies outside of {self.folder}")
        if not needed and not path.exists():
            raise TemplateMissing(f"{self.folder} holds no template {name}: the family is taken as it is")
        return read_text("--templates", path)


def write_batch(lines: Iterable[bytes], formats: Formats, tools: list[Any] | None) -> int:
    """Answer each line with a line on standard output, at once. Returns how many could not be used."""
    num_failed = 0
    for answer in answers(lines, formats, tools):
        num_failed += "error" in answer
        sys.stdout.buffer.write(_encoded(answer) + b"\n")
        sys.stdout.buffer.flush()
    return num_failed


def answers(lines: Iterable[bytes], formats: Formats, tools: list[Any] | None) -> Iterator[dict[str, Any]]:
    """The answer to each line, in order, whatever the lines hold."""
    for line in lines:
        try:
            given = decode_object(line, what="the line")
            reply = _read_one(_with_defaults(given, tools), formats)
        except (WireError, UserError) as error:
            yield {"id": _id(line), "error": {"message": str(error)}}
        except Exception as error:  # noqa: BLE001 - the lines behind it have nothing to do with it
            traceback.print_exception(error, file=sys.stderr)
            yield {"id": _id(line), "error": {"message": f"a bug of daneel: {type(error).__name__}: {error}"}}
        else:
            yield {"id": given.get("id"), **msgspec.to_builtins(reply)}


def _id(line: bytes) -> Any:
    """The id of a line that may be refused for other reasons."""
    try:
        given = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return given.get("id") if isinstance(given, dict) else None


def _encoded(answer: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(answer)
    except UnicodeEncodeError:  # an id may hold half of a surrogate pair
        return json.dumps(answer).encode()


def _with_defaults(given: dict[str, Any], tools: list[Any] | None) -> dict[str, Any]:
    """The line's fields. Collections of cases hold the tools of a test that declared none as `tools_suggested`."""
    if given.get("tools") is None and given.get("tools_suggested") is not None:
        return {**given, "tools": given["tools_suggested"]}
    return given if "tools" in given else {**given, "tools": tools}


def _read_one(fields: dict[str, Any], formats: Formats) -> ParseReply:
    template_name = fields.get("template")
    if template_name is not None and not isinstance(template_name, str):
        raise UserError(f"template: expected a file's name, got {json.dumps(template_name)[:80]}")
    request = parse_fields(fields)
    try:
        return read(request, formats.of(request.family, template_name))
    except TemplateMissing as error:
        # the family says how the output is read; its template would only have told how that template spells it
        reply = read(request, formats.of(request.family))
        reply.warnings.append(Warning("template", "ignored", str(error)))
        return reply


def _template(path: Path | None, model: str | None) -> str | None:
    if path is not None and model is not None:
        raise UserError("--template and --model both bring a template: give one of them")
    if path is not None:
        return read_text("--template", path)
    if model is None:
        return None
    from daneel.server.models.own_template import own_template

    own = own_template(model)
    if own.source is None:
        raise UserError(f"{own.name} holds no chat template: give one with --template FILE, or the format with --family NAME")
    return own.source


@contextmanager
def _binary(path: Path) -> Iterator[BinaryIO]:
    if path == STDIN:
        yield sys.stdin.buffer
        return
    try:
        file = path.open("rb")
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    with file:
        yield file


def _output(path: Path) -> str:
    """As the server makes text of what a model wrote: bytes that are no UTF-8 become U+FFFD."""
    if path == STDIN and sys.stdin.isatty():
        print("Type or paste the model's output; Ctrl-D ends it.", file=sys.stderr)
    with _binary(path) as file:
        data = file.read()
    text = data.decode("utf-8", "replace")
    if text.encode() != data:
        print("daneel: the output is not UTF-8: what is not was read as U+FFFD", file=sys.stderr)
    return text
