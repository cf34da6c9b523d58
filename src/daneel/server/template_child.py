"""The process that renders chat templates: it may be killed at any moment, so it holds nothing that is not sent again.

A chat template is a program that came with the model's file. It runs in jinja2's immutable sandbox, which keeps it from the
interpreter but bounds neither time nor memory; so it also runs here, in a child with limits of its own (`template.py` is the
parent, which holds the timer).

What a template may use is what the transformers library gives it, since templates are written against that: `trim_blocks`,
`lstrip_blocks`, loop controls, the `generation` tag, `tojson` without HTML escaping, `raise_exception` and `strftime_now`.
"""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import sys
from datetime import datetime
from typing import Any, Literal, NoReturn

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.parser
import jinja2.sandbox
from msgspec import Struct

from daneel.server.child_process import die_with_parent
from daneel.server.framing import Frames

MAX_RENDERED_CHARS = 16_000_000
"""A prompt longer than this fits no model; it is refused before it costs the parent memory."""


class Load(Struct, tag=True):
    """The template to render from now on, and the memory it may take above what the child itself needs."""

    source: str
    memory_bytes: int
    cpu_s: int


class Render(Struct, tag=True):
    """Variables as JSON text: it carries integers of any size and whatever strings a client may send."""

    variables: str


class Rendered(Struct, tag=True):
    text: str


class Failed(Struct, tag=True):
    """`refused`: the template called `raise_exception`. `broken`: it failed by itself. `memory`: the child must be replaced."""

    kind: Literal["refused", "broken", "memory"]
    message: str


Request = Load | Render
Reply = Rendered | Failed


class TemplateRefusal(jinja2.TemplateError):
    """The template called `raise_exception(message)`."""


def _raise_exception(message: str) -> NoReturn:
    raise TemplateRefusal(str(message))


def _strftime_now(pattern: str) -> str:
    return datetime.now().strftime(pattern)


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    # jinja2's own filter escapes <, >, & and ' for HTML, which would change the text that models were trained on
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


class _GenerationTag(jinja2.ext.Extension):
    """`{% generation %}…{% endgeneration %}` marks what a model writes, for training; when rendering it is a plain block."""

    tags = {"generation"}

    def parse(self, parser: jinja2.parser.Parser) -> jinja2.nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.Scope(body, lineno=line)


class _Environment(jinja2.sandbox.ImmutableSandboxedEnvironment):
    """What the sandbox forbids stays forbidden, but for a list's `append` and `pop`: Kimi K2's template keeps a queue.

    Nothing outlives a rendering that a template could change: its variables are read afresh from JSON each time.
    """

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        return (attr in ("append", "pop") and type(obj) is list) or super().is_safe_attribute(obj, attr, value)


def compile_template(source: str) -> jinja2.Template:
    """The template, compiled for the sandbox. Raises `jinja2.TemplateSyntaxError`."""
    environment = _Environment(trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, jinja2.ext.loopcontrols])
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment.from_string(source)


def render(template: jinja2.Template, variables: dict[str, Any]) -> Reply:
    """Render, and say what went wrong as a value: a template may raise anything."""
    try:
        text = template.render(variables)
        if len(text) > MAX_RENDERED_CHARS:
            return Failed("broken", f"it wrote {len(text)} characters, over the limit of {MAX_RENDERED_CHARS}")
        text.encode()  # a lone surrogate cannot be a model's input
    except TemplateRefusal as refusal:
        return Failed("refused", str(refusal))
    except MemoryError:
        return Failed("memory", "it needs more memory than it may have")
    except Exception as error:  # noqa: BLE001 - whatever the template's expressions raise
        return Failed("broken", f"{type(error).__name__}: {error}")
    return Rendered(text)


def _limit_memory(memory_bytes: int) -> None:
    # address space, the only memory limit a process can set itself; macOS has the constant but does not enforce it
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        with open("/proc/self/statm", encoding="ascii") as statm:
            base_bytes = int(statm.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (base_bytes + memory_bytes, base_bytes + memory_bytes))


def _limit_cpu(cpu_s: int) -> None:
    """From now on at most `cpu_s` seconds of CPU: the end of a child whose parent died while a template loops."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        used_s = resource.getrusage(resource.RUSAGE_SELF)
        limit_s = int(used_s.ru_utime + used_s.ru_stime) + cpu_s + 1
        resource.setrlimit(resource.RLIMIT_CPU, (limit_s, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def _load(request: Load) -> tuple[jinja2.Template | None, Reply]:
    # limits first: the compiler computes constant expressions
    _limit_memory(request.memory_bytes)
    try:
        template = compile_template(request.source)
    except jinja2.TemplateSyntaxError as error:
        return None, Failed("broken", f"line {error.lineno}: {error.message}")
    except MemoryError:
        return None, Failed("memory", "it needs more memory than it may have")
    except Exception as error:  # noqa: BLE001 - the compiler meets text from a file
        return None, Failed("broken", f"{type(error).__name__}: {error}")
    return template, Rendered("")


def serve(sock: socket.socket) -> None:
    """Answer frames until the parent is gone. The first must be `Load`."""
    frames = Frames(sock, Request)
    template: jinja2.Template | None = None
    cpu_s = 1
    while True:
        try:
            request = frames.recv()
        except EOFError:
            return
        if isinstance(request, Load):
            cpu_s = request.cpu_s
            template, reply = _load(request)
        elif template is None:
            reply = Failed("broken", "no template is loaded")
        else:
            _limit_cpu(cpu_s)
            reply = render(template, json.loads(request.variables))
        try:
            frames.send(reply)
        except OSError:
            return


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent()
    serve(socket.socket(fileno=int(sys.argv[1])))
