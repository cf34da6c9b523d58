"""`daneel serve`: a model over HTTP, in OpenAI's chat dialect."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shlex
import socket
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, cast

import msgspec
import typer

from daneel.cli.format_file import customiser
from daneel.cli.models import TerminalProgress
from daneel.cli.serve_keys import KEY_VARIABLE, read_key_ring
from daneel.cli.values import byte_size, read_text, template_variables
from daneel.errors import UserError

if TYPE_CHECKING:
    from daneel.server.auth import KeyRing
    from daneel.server.engines.base import EngineSpec
    from daneel.server.served_model import ServedModel, ServeOptions

ENGINES = ("auto", "llama.cpp", "mlx", "scripted")
KV_TYPES = ("f16", "q8_0", "q4_0")
REASONING_FIELDS = ("reasoning", "reasoning_content", "both")
_FIT_CONTEXT_TOKENS = 2048

GpuLayers = int | Literal["all"]


def register(app: typer.Typer) -> None:
    """Add this file's commands to `app`."""
    app.command()(serve)


class _Source(NamedTuple):
    """What to load, the names clients may call it by (the first is shown), and its digest if known."""

    spec: EngineSpec
    names: tuple[str, ...]
    weights_sha256: str | None = None


def serve(
    model: Annotated[
        str | None,
        typer.Argument(metavar="MODEL", help="A GGUF file, a name from `daneel models list`, or OWNER/NAME[:FILE] of the hub."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on; any but loopback needs a key.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free port.")] = 8080,
    engine: Annotated[str, typer.Option(help="One of: " + ", ".join(ENGINES) + ".")] = "auto",
    gpu_layers: Annotated[str, typer.Option(metavar="all|N", help="Layers to put on the GPU, if there is one.")] = "all",
    context: Annotated[int | None, typer.Option(min=128, metavar="N", help="Context in tokens; by default what fits.")] = None,
    chat_template: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Jinja template in place of the model's own.")
    ] = None,
    chat_template_args: Annotated[
        str, typer.Option(metavar="JSON", help="Variables for the template, for every request; a request's own win.")
    ] = "{}",
    api_key: Annotated[
        str | None,
        typer.Option(metavar="KEY", envvar=KEY_VARIABLE, show_envvar=True, help="What clients must send as bearer token."),
    ] = None,
    key_file: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="More keys, one in each line; may be repeated. Each key has a cache of its own."),
    ] = None,
    admin_key_file: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Keys, one in each line, that may also change the cache's limits at /v1/cache."),
    ] = None,
    format_name: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="NAME",
            help="How the model writes calls, NAME or NAME/VARIANT; by default told from the template and the size.",
        ),
    ] = None,
    format_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Python file with a format of your own; see examples/my_format.py."),
    ] = None,
    reasoning_field: Annotated[
        str, typer.Option(help="Where reasoning goes, unless a request says: " + ", ".join(REASONING_FIELDS) + ".")
    ] = "reasoning",
    parallel: Annotated[int, typer.Option(min=1, max=64, metavar="N", help="Requests that generate at the same time.")] = 8,
    kv_tokens: Annotated[
        int | None,
        typer.Option(min=128, metavar="N", help="Tokens in the KV cache, for all requests and what is kept of earlier ones."),
    ] = None,
    kv_type: Annotated[str, typer.Option(help="Numbers of the KV cache: " + ", ".join(KV_TYPES) + ".")] = "f16",
    threads: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Threads of the engine; by default the physical cores.")
    ] = None,
    prefill_step_size: Annotated[
        int, typer.Option(min=16, max=4096, metavar="N", help="Prompt tokens evaluated beside the running requests in a step.")
    ] = 256,
    prompt_cache_size: Annotated[
        int, typer.Option(min=0, metavar="N", help="Conversations kept in memory that left the KV cache; 0: none.")
    ] = 256,
    prompt_cache_bytes: Annotated[str, typer.Option(metavar="SIZE", help="Memory for them.")] = "1GiB",
    prompt_cache_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder where they outlive a restart; without one they do not.")
    ] = None,
    prompt_cache_disk: Annotated[str, typer.Option(metavar="SIZE", help="Room for them in that folder.")] = "8GiB",
    script: Annotated[Path | None, typer.Option(metavar="FILE", help="Scripted engine: the JSON lines to replay.")] = None,
    served_model_name: Annotated[str | None, typer.Option(metavar="NAME", help="The name clients see.")] = None,
    until_stdin_closes: Annotated[bool, typer.Option(hidden=True)] = False,
) -> None:
    """Serve MODEL over HTTP in OpenAI's chat dialect."""
    os.environ.pop(KEY_VARIABLE, None)  # the children have no business with it
    try:
        from daneel.server import serve as hosting
        from daneel.server.engines.base import PromptCache
        from daneel.server.served_model import ServeOptions
    except ModuleNotFoundError as error:
        raise _missing(error) from error
    keys = read_key_ring(api_key, key_file or [], admin_key_file or [])
    if not hosting.is_loopback(host) and not keys.required:
        ways = f"--api-key, --key-file or {KEY_VARIABLE}"
        raise UserError(f"--host {host} can be reached by other machines: give a key with {ways}")
    with hosting.bind(host, port) as sock:
        if _one_of("--engine", engine, ENGINES) == "scripted":
            source = _scripted(model, script, context)
        else:
            source = _from_model(engine, model, script, _gpu_layers(gpu_layers), context)
        names = (served_model_name, *source.names) if served_model_name else source.names
        options = ServeOptions(
            name=names[0],
            aliases=names[1:],
            template_source=read_text("--chat-template", chat_template) if chat_template else None,
            template_variables=template_variables("--chat-template-args", chat_template_args),
            family_name=format_name,
            customise=customiser(format_file) if format_file else None,
            reasoning_field=cast(Any, _one_of("--reasoning-field", reasoning_field, REASONING_FIELDS)),
            weights_sha256=source.weights_sha256,
        )
        spec = msgspec.structs.replace(
            source.spec,
            num_sequences=parallel,
            kv_tokens=kv_tokens,
            kv_type=cast(Any, _one_of("--kv-type", kv_type, KV_TYPES)),
            num_threads=threads,
            prefill_chunk_tokens=prefill_step_size,
            prompt_cache=PromptCache(
                max_entries=prompt_cache_size,
                max_bytes=byte_size("--prompt-cache-bytes", prompt_cache_bytes),
                folder=str(prompt_cache_dir.absolute()) if prompt_cache_dir else None,
                max_disk_bytes=byte_size("--prompt-cache-disk", prompt_cache_disk),
                scope=hashlib.sha256((options.template_source or "").encode()).hexdigest(),
            ),
        )
        asyncio.run(_serve(spec, options, sock, host, keys, until_stdin_closes))


async def _serve(
    spec: EngineSpec, options: ServeOptions, sock: socket.socket, host: str, keys: KeyRing, until_stdin_closes: bool
) -> None:
    from daneel.server import serve as hosting
    from daneel.server.served_model import ServedModel

    tell = _LoadProgress(options.name)

    async def load() -> ServedModel:
        return await ServedModel.load(spec, options, version=version("daneel"), on_progress=tell)

    def on_ready(model: ServedModel, url: str) -> None:
        if model.family.variant:
            told = "; ".join(("served in the words that got such models to finish", *model.family.quirks))
            print(f"{model.name}: {told}; --format {model.family.name} serves it as the family is", file=sys.stderr)
        for line in model.format_report.lines(model.family.full_name):
            print(f"{model.name}: {line}", file=sys.stderr)
        print(f"Serving {model.name} at {url}")
        print(f"Try: {_curl(url, keys.required)}", flush=True)

    until = _stdin_closed() if until_stdin_closes else None
    await hosting.serve(load, sock=sock, host=host, keys=keys, on_ready=on_ready, until=until)


def _scripted(model: str | None, script: Path | None, context: int | None) -> _Source:
    from daneel.server.engines.base import EngineSpec

    if model is not None and script is not None:
        raise UserError(f"give the script once: as MODEL ({model}) or with --script ({script})")
    path = Path(model) if model is not None else script
    if path is not None and not path.is_file():
        raise UserError(f"no such script file: {path}")
    return _Source(EngineSpec("scripted", context_tokens=context, script_path=str(path) if path else None), ("scripted",))


def _from_model(engine: str, model: str | None, script: Path | None, gpu_layers: GpuLayers, context: int | None) -> _Source:
    from daneel.server.engines.base import EngineSpec
    from daneel.server.models.digest import weights_digest
    from daneel.server.models.fit import check_fit
    from daneel.server.models.resolve import resolve

    if script is not None:
        raise UserError("--script is for --engine scripted")
    if engine == "mlx" or (model is not None and Path(model, "config.json").is_file()):
        raise UserError("the engine mlx is not in this version of daneel; serve a GGUF file with llama.cpp")
    if model is None:
        raise UserError("which MODEL? A GGUF file, a name from `daneel models list`, or OWNER/NAME[:FILE] of the hub")
    with TerminalProgress() as progress:
        found = resolve(model, progress=progress)
        sha256 = found.sha256 or weights_digest(found.shards, progress)
    # without --context the engine takes what fits, so only the smallest useful one must
    tokens = context or min(found.header.context_tokens or _FIT_CONTEXT_TOKENS, _FIT_CONTEXT_TOKENS)
    report = check_fit(found.header, tokens, weights_bytes=found.weights_bytes)
    if report.verdict != "fits":
        print(f"{found.name}: {report.message}", file=sys.stderr)
    spec = EngineSpec("llama.cpp", model_path=str(found.path), gpu_layers=gpu_layers, context_tokens=context)
    names = dict.fromkeys((found.name, model, found.path.name, found.path.stem))
    return _Source(spec, tuple(names), sha256)


def _gpu_layers(text: str) -> GpuLayers:
    if text == "all":
        return "all"
    if not (text.isascii() and text.isdigit()):
        raise UserError(f'--gpu-layers is {text!r}, but must be "all" or a number of layers')
    return int(text)


def _one_of(option: str, value: str, known: Sequence[str]) -> str:
    if value not in known:
        raise UserError(f"{option} is {value!r}, but must be one of {', '.join(known)}")
    return value


class _LoadProgress:
    """Says on standard error how far loading is: at each quarter, and overwriting itself on a terminal."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._shown = -1

    def __call__(self, fraction: float) -> None:
        percent = int(fraction * 100)
        if sys.stderr.isatty():
            end = "\n" if percent >= 100 else ""
            print(f"\rLoading {self._name}: {percent} %", end=end, file=sys.stderr, flush=True)
        elif percent // 25 > self._shown:
            self._shown = percent // 25
            print(f"Loading {self._name}: {percent} %", file=sys.stderr, flush=True)


def _curl(url: str, needs_key: bool) -> str:
    parts = ["curl", f"{url}/chat/completions", "-H", "'Content-Type: application/json'"]
    if needs_key:
        parts += ["-H", f'"Authorization: Bearer ${KEY_VARIABLE}"']
    body = json.dumps({"messages": [{"role": "user", "content": "Hello!"}]})
    return " ".join([*parts, "-d", shlex.quote(body)])


async def _stdin_closed() -> None:
    """Returns when whoever started us closes our standard input, or is gone."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while await reader.read(1024):
        pass


def _missing(error: ModuleNotFoundError) -> UserError:
    return UserError(f"serving needs a package that is not installed ({error.name}): pip install 'daneel[llama]'")
