"""Only the vocabulary of a GGUF, with llama.cpp: to count tokens where no model is served."""

from __future__ import annotations

import os
from pathlib import Path

import llama_cpp.llama_cpp as native

from daneel.server.engines.llama_model import LogLines, check_files, explain_load_failure, tokenize


def count_tokens(path: Path, text: str) -> int:
    """How many tokens `text` has for this model. No weights are read. Raises `EngineLoadError`."""
    check_files(path)
    log = LogLines()
    try:
        params = native.llama_model_default_params()
        params.vocab_only = True
        model = native.llama_model_load_from_file(os.fsencode(path), params)
        if not model:
            raise explain_load_failure(path, log.errors())
        try:
            return len(tokenize(native.llama_model_get_vocab(model), text))
        finally:
            native.llama_model_free(model)
    finally:
        log.close()
