"""Templates and special tokens from the heads of models' files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.gguf_writer import SMALL_METADATA, gguf

from daneel.errors import UserError
from daneel.server.models.own_template import own_template


def write_gguf(folder: Path, **metadata: Any) -> str:
    path = folder / "model.gguf"
    path.write_bytes(gguf({**SMALL_METADATA, **{f"tokenizer.{key}": value for key, value in metadata.items()}}))
    return str(path)


def write_folder(folder: Path, **files: Any) -> str:
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / name.replace("__", ".")).write_text(text, encoding="utf-8")
    return str(folder)


def test_of_a_gguf(tmp_path: Path) -> None:
    tokens = {"ggml.tokens": ["<s>", "</s>"], "ggml.bos_token_id": 0, "ggml.eos_token_id": 1}
    own = own_template(write_gguf(tmp_path, **tokens, **{"ggml.model": "llama", "chat_template": "{{ messages }}"}))
    assert (own.source, own.bos_text, own.eos_text, own.adds_bos) == ("{{ messages }}", "<s>", "</s>", True)
    assert own.num_parameters
    assert own.gguf_path == tmp_path / "model.gguf"
    own = own_template(write_gguf(tmp_path, **tokens, **{"ggml.model": "gpt2"}))
    assert (own.source, own.adds_bos) == (None, False)
    own = own_template(write_gguf(tmp_path, **tokens, **{"ggml.model": "gpt2", "ggml.add_bos_token": True}))
    assert own.adds_bos


@pytest.mark.parametrize("metadata", [{}, {"ggml.tokens": ["a"], "ggml.bos_token_id": 7}, {"ggml.bos_token_id": 0}])
def test_of_a_gguf_that_lacks_them(tmp_path: Path, metadata: dict[str, Any]) -> None:
    own = own_template(write_gguf(tmp_path, **metadata))
    assert (own.source, own.bos_text, own.eos_text) == (None, "", "")


@pytest.mark.parametrize(
    ("files", "source"),
    [
        ({"tokenizer_config__json": {"chat_template": "config"}}, "config"),
        ({"tokenizer_config__json": {"chat_template": "config"}, "chat_template__json": {"chat_template": "json"}}, "json"),
        ({"tokenizer_config__json": {"chat_template": "config"}, "chat_template__jinja": "jinja"}, "jinja"),
        ({"chat_template__jinja": "jinja"}, "jinja"),
        ({"tokenizer_config__json": {"bos_token": "<s>"}}, None),
        (
            {
                "tokenizer_config__json": {
                    "chat_template": [{"name": "default", "template": "d"}, {"name": "tool_use", "template": "t"}]
                }
            },
            "t",
        ),
        ({"tokenizer_config__json": {"chat_template": [{"name": "default", "template": "d"}, 5]}}, "d"),
    ],
)
def test_of_a_folder(tmp_path: Path, files: dict[str, Any], source: str | None) -> None:
    assert own_template(write_folder(tmp_path, **files)).source == source


def test_special_tokens_of_a_folder_in_both_spellings(tmp_path: Path) -> None:
    config = {"bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": False}, "add_bos_token": True}
    own = own_template(write_folder(tmp_path, tokenizer_config__json=config))
    assert (own.bos_text, own.eos_text, own.adds_bos) == ("<s>", "</s>", True)
    own = own_template(write_folder(tmp_path, tokenizer_config__json={"bos_token": None}))
    assert (own.bos_text, own.adds_bos) == ("", False)


def test_what_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no folder of a model"):
        own_template(str(tmp_path))
    with pytest.raises(UserError, match="is not JSON"):
        own_template(write_folder(tmp_path, tokenizer_config__json="{"))
    with pytest.raises(UserError, match="no model 'no-such-model'"):
        own_template("no-such-model")


def test_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    with pytest.raises(UserError, match="is not on this machine; `daneel models pull"):
        own_template("someone/nothing:model.gguf")
