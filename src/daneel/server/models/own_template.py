"""A model's own chat template and special tokens, from the heads of its files: no weights are read, no engine is needed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from daneel.errors import UserError
from daneel.server.models.gguf_header import GGUFHeader, read_header
from daneel.server.models.resolve import resolve

_TOKENS = "tokenizer.ggml.tokens"
_CONFIG = "tokenizer_config.json"


@dataclass(frozen=True)
class OwnTemplate:
    """`source` `None`: the model has no template. `bos_text` is empty where the model takes none in front of a prompt.

    `gguf_path` is the GGUF it was read from, if it was one.
    """

    name: str
    source: str | None
    bos_text: str
    eos_text: str
    adds_bos: bool
    num_parameters: int | None = None
    gguf_path: Path | None = None


def own_template(model: str) -> OwnTemplate:
    """Of what a person may write after `daneel serve`, or a folder as Hugging Face and MLX have them. Nothing is fetched.

    Raises `UserError`.
    """
    folder = Path(model).expanduser()
    if folder.is_dir():
        return _from_folder(folder)
    found = resolve(model, may_fetch=False)
    header = read_header(found.path, keep=frozenset({_TOKENS}))
    adds_bos = header.metadata.get("tokenizer.ggml.add_bos_token", header.metadata.get("tokenizer.ggml.model") == "llama")
    return OwnTemplate(
        name=found.name,
        source=header.chat_template,
        bos_text=_token(header, "bos"),
        eos_text=_token(header, "eos"),
        adds_bos=bool(adds_bos),
        num_parameters=header.num_parameters if len(found.shards) == 1 else None,
        gguf_path=found.path,
    )


def _token(header: GGUFHeader, name: str) -> str:
    tokens, token_id = header.metadata.get(_TOKENS), header.metadata.get(f"tokenizer.ggml.{name}_token_id")
    if isinstance(tokens, tuple) and isinstance(token_id, int) and 0 <= token_id < len(tokens):
        return str(tokens[token_id])
    return ""


def _from_folder(folder: Path) -> OwnTemplate:
    """`chat_template.jinja`, else what `chat_template.json` or `tokenizer_config.json` hold, as transformers looks for it."""
    config = _json_object(folder / _CONFIG)
    source = _text(folder / "chat_template.jinja")
    for holder in (_json_object(folder / "chat_template.json"), config):
        source = source if source is not None else _template_in(holder)
    if source is None and not config:
        raise UserError(f"{folder} holds neither chat_template.jinja nor {_CONFIG}: it is no folder of a model")
    bos_text, eos_text = (_special(config.get(f"{name}_token")) for name in ("bos", "eos"))
    return OwnTemplate(folder.resolve().name, source, bos_text, eos_text, config.get("add_bos_token") is True)


def _template_in(holder: dict[str, Any]) -> str | None:
    """The template in a JSON file; of several, the one for tools."""
    given = holder.get("chat_template")
    if isinstance(given, list):
        named = {item.get("name"): item.get("template") for item in given if isinstance(item, dict)}
        given = named.get("tool_use", named.get("default"))
    return given if isinstance(given, str) else None


def _special(given: Any) -> str:
    text = given.get("content") if isinstance(given, dict) else given
    return text if isinstance(text, str) else ""


def _json_object(path: Path) -> dict[str, Any]:
    text = _text(path)
    if text is None:
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not JSON: {error}") from error
    return value if isinstance(value, dict) else {}


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {error}") from error
