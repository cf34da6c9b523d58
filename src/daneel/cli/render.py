"""`daneel render`: messages to the prompt that a model is given, as the server writes it."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from daneel.cli.values import STDIN, print_json, read_json, read_text, read_tools, template_variables
from daneel.errors import UserError
from daneel.formats import registry
from daneel.formats.family import Family
from daneel.wire.errors import WireError
from daneel.wire.requests import ChatRequest, parse_chat_request

if TYPE_CHECKING:
    from daneel.server.models.own_template import OwnTemplate


def register(app: typer.Typer) -> None:
    """Add this file's commands to `app`."""
    app.command()(render)


def render(
    messages: Annotated[
        Path,
        typer.Argument(metavar="[MESSAGES_FILE]", help="A JSON array of messages, or a whole request; - is standard input."),
    ] = STDIN,
    template: Annotated[Path | None, typer.Option(metavar="FILE", help="The chat template, as jinja text.")] = None,
    model: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Take the template out of this model's files; no weights are loaded.")
    ] = None,
    family: Annotated[
        str | None, typer.Option(metavar="NAME", help="The format's name, if it is not to be told from the template.")
    ] = None,
    tools: Annotated[Path | None, typer.Option(metavar="FILE", help="Declared tools, a JSON array.")] = None,
    no_generation_prompt: Annotated[
        bool, typer.Option("--no-generation-prompt", help="Do not open the model's turn at the end.")
    ] = False,
    template_args: Annotated[str, typer.Option(metavar="JSON", help="Variables for the template.")] = "{}",
    as_json: Annotated[
        bool, typer.Option("--json", help="The prompt with its format, whether it ends in a thought, and its tokens' number.")
    ] = False,
) -> None:
    """Print the prompt that a model is given for messages, exactly, as the server would write it.

    Nothing is added behind the prompt, not even a line break. Tools and results are told as the server tells them to such a
    model: where its template has no words for them, in daneel's.
    """
    try:
        from daneel.server import prompt_writer
    except ModuleNotFoundError as error:
        raise UserError(
            f"rendering needs a package that is not installed ({error.name}): pip install 'daneel[serve]'"
        ) from error
    own = _template(template, model)
    source = own.source if own.source is not None else prompt_writer.PLAIN_TEMPLATE
    chosen = registry.resolve(family, source, num_parameters=own.num_parameters)
    request = _request(messages, tools, template_args, no_generation_prompt)
    try:
        text = asyncio.run(_write(source, own, chosen, request))
    except WireError as error:
        raise UserError(str(error)) from error
    if not as_json:
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()
        return
    report = {"prompt": text, "format": chosen.name, "starts_in_reasoning": chosen.starts_in_reasoning(text)}
    num_tokens = _num_tokens(own, text)
    print_json(report if num_tokens is None else {**report, "num_tokens": num_tokens})


async def _write(source: str, own: OwnTemplate, family: Family, request: ChatRequest) -> str:
    from daneel.server.prompt_writer import PromptWriter, find_traits
    from daneel.server.template import TemplateRenderer

    renderer = await TemplateRenderer.start(source, bos_text=own.bos_text, eos_text=own.eos_text)
    try:
        traits = await find_traits(renderer, family, {})
        writer = PromptWriter(renderer, family, traits, {}, own.bos_text if own.adds_bos else "")
        return (await writer.write(request)).text
    finally:
        await renderer.close()


def _template(path: Path | None, model: str | None) -> OwnTemplate:
    if (path is None) == (model is None):
        raise UserError("give the chat template with --template FILE, or the model that has it with --model MODEL")
    from daneel.server.models.own_template import OwnTemplate, own_template

    if path is not None:
        return OwnTemplate(path.name, read_text("--template", path), "", "", adds_bos=False)
    own = own_template(str(model))
    if own.source is None:
        print(f"daneel: {own.name} holds no chat template: ChatML is used, as the server would", file=sys.stderr)
    return own


def _request(messages: Path, tools: Path | None, template_args: str, no_generation_prompt: bool) -> ChatRequest:
    """The request that a client would send. Raises `UserError`; what of it has no effect here is said on standard error."""
    if messages == STDIN and sys.stdin.isatty():
        print("Type or paste the messages as JSON; Ctrl-D ends them.", file=sys.stderr)
    given = read_json("MESSAGES_FILE", messages)
    body: dict[str, Any] = dict(given) if isinstance(given, dict) else {"messages": given}
    if tools is not None:
        body["tools"] = read_tools(tools)
    variables = template_variables("--template-args", template_args)
    if variables:
        body["chat_template_kwargs"] = {**(body.get("chat_template_kwargs") or {}), **variables}
    if no_generation_prompt:
        body["add_generation_prompt"] = False
    try:
        request, warnings = parse_chat_request(json.dumps(body).encode())
    except WireError as error:
        raise UserError(str(error)) from error
    for warning in warnings:
        print(f"daneel: {warning.field} is {warning.action}: {warning.detail}", file=sys.stderr)
    return request


def _num_tokens(own: OwnTemplate, text: str) -> int | None:
    """With the model's own vocabulary, where llama.cpp is installed and the model is a GGUF."""
    if own.gguf_path is None:
        return None
    try:
        from daneel.server.engines.llama_vocabulary import count_tokens
    except ModuleNotFoundError:
        return None
    return count_tokens(own.gguf_path, text)
