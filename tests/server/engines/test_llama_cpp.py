"""The llama.cpp engine on the small real model: same tokens as llama.cpp's own greedy loop, cold and warm."""

from __future__ import annotations

import itertools
import math
import os
import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from daneel.server.engines import llama_cpp as engine_module
from daneel.server.engines.base import EngineLoadError, EngineSpec, Generate, Sampling, StepOutput
from daneel.server.engines.grammar import GrammarError
from daneel.server.engines.llama_cpp import LlamaCppEngine

pytestmark = pytest.mark.model

GREEDY = Sampling(temperature=0.0)
PROMPTS = (
    "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n",
    "<|im_start|>user\nSay hello in Spanish.<|im_end|>\n<|im_start|>assistant\n",
    "Once upon a time, in a café by the sea,",
)
_ids = itertools.count(1)


def load(path: Path | str, **spec: Any) -> LlamaCppEngine:
    return engine_module.load(EngineSpec("llama.cpp", model_path=str(path), num_threads=1, **spec), lambda fraction: None)


@pytest.fixture(scope="module")
def engine(smollm2_path: Path) -> Iterator[LlamaCppEngine]:
    engine = load(smollm2_path, context_tokens=512, prefill_chunk_tokens=16)
    yield engine
    engine.close()


def generate(engine: LlamaCppEngine, prompt: str = PROMPTS[0], **request: Any) -> list[StepOutput]:
    fields = {"prompt_ids": engine.tokenize(prompt), "max_tokens": 8, "sampling": GREEDY, **request}
    generate = Generate(request_id=next(_ids), **fields)
    engine.check(generate)
    engine.admit(generate)
    outputs = []
    while step := engine.step():
        outputs += step
    return outputs


def ids_of(outputs: list[StepOutput]) -> list[int]:
    return [token_id for output in outputs for token_id in output.token_ids]


def text_of(engine: LlamaCppEngine, outputs: list[StepOutput]) -> str:
    return b"".join(engine.info.pieces[token_id] for token_id in ids_of(outputs)).decode()


def test_what_the_model_says_of_itself(engine: LlamaCppEngine) -> None:
    info = engine.info
    assert (info.engine, info.context_tokens, len(info.pieces)) == ("llama.cpp", 512, 49152)
    assert (info.quantisation, info.num_parameters) == ("Q4_1", 134_515_008)
    assert info.eos_text == "<|im_end|>"
    assert info.pieces[info.eog_ids[-1]] in (b"<|im_end|>", b"<|endoftext|>", b"<reponame>")
    assert engine.tokenize("<|im_end|>")[0] in info.eog_ids
    assert engine.tokenize("<|im_start|>")[0] in info.special_ids
    assert info.chat_template is not None
    assert "messages" in info.chat_template


@pytest.mark.parametrize(
    "text", ["", "plain text", "<|im_start|>user\n\tcafé 🙂 日本<|im_end|>", "\x00\x01  two  spaces ", "e\u0301"]
)
def test_pieces_of_the_tokens_joined_are_the_text(engine: LlamaCppEngine, text: str) -> None:
    assert b"".join(engine.info.pieces[token_id] for token_id in engine.tokenize(text)).decode() == text


def test_greedy_is_llama_cpps_own_greedy(engine: LlamaCppEngine, smollm2_path: Path) -> None:
    import llama_cpp

    # the same reason as in the engine: llama.cpp's path for Intel's AMX crashes on some machines, so a bare
    # llama_cpp.Llama may not be used here; its low-level calls, as its own examples make them, are the reference
    native = llama_cpp.llama_cpp
    params = native.llama_model_default_params()
    params.use_extra_bufts = False
    model = native.llama_model_load_from_file(str(smollm2_path).encode(), params)
    context_params = native.llama_context_default_params()
    context_params.n_ctx, context_params.n_threads, context_params.n_threads_batch = 512, 1, 1
    context = native.llama_init_from_model(model, context_params)
    sampler = native.llama_sampler_init_greedy()
    for prompt in PROMPTS:
        native.llama_memory_clear(native.llama_get_memory(context), True)
        pending, expected = engine.tokenize(prompt), []
        while len(expected) < 8 and not (expected and expected[-1] in engine.info.eog_ids):
            array = (native.llama_token * len(pending))(*pending)
            assert native.llama_decode(context, native.llama_batch_get_one(array, len(pending))) == 0
            pending = [native.llama_sampler_sample(sampler, context, -1)]
            expected += pending
        assert ids_of(generate(engine, prompt, use_cache=False)) == expected
    native.llama_sampler_free(sampler)
    native.llama_free(context)
    native.llama_model_free(model)


def test_a_reused_prefix_gives_the_tokens_of_a_cold_run(engine: LlamaCppEngine) -> None:
    first = PROMPTS[0]
    engine.cache.clear()
    cold = generate(engine, first, use_cache=False)
    assert (cold[-1].cached_tokens, cold[-1].cache_miss) == (0, "off")
    assert generate(engine, first)[-1].cache_miss == "cold"  # a run with the cache off leaves nothing behind
    again = generate(engine, first)
    assert again[-1].cached_tokens == len(engine.tokenize(first)) - 1  # one token is left to evaluate
    assert again[-1].cache_miss is None
    assert ids_of(again) == ids_of(cold)
    # the next turn of the conversation reuses the answer too
    following = first + text_of(engine, cold) + "\n<|im_start|>user\nAnd of Italy?<|im_end|>\n<|im_start|>assistant\n"
    warm = generate(engine, following)
    assert warm[-1].cached_tokens >= len(engine.tokenize(first)) + len(ids_of(cold)) - 1
    assert ids_of(warm) == ids_of(generate(engine, following, use_cache=False))


def test_a_miss_names_the_first_token_that_differs(engine: LlamaCppEngine) -> None:
    engine.cache.clear()
    generate(engine, "one two three")
    outputs = generate(engine, "one two four five")
    assert outputs[-1].cached_tokens == 2
    assert outputs[-1].cache_miss == "token 2 differs: ' three' before, ' four' now"


def test_a_long_prompt_is_evaluated_in_chunks(engine: LlamaCppEngine) -> None:
    prompt_ids = engine.tokenize("word " * 40)
    outputs = generate(engine, prompt_ids=prompt_ids, use_cache=False, max_tokens=1)
    expected = [(done, len(prompt_ids)) for done in range(16, len(prompt_ids), 16)] + [(len(prompt_ids), len(prompt_ids))]
    assert [(output.prefill_done, output.prefill_total) for output in outputs] == expected
    assert [len(output.token_ids) for output in outputs] == [0] * (len(outputs) - 1) + [1]


def test_a_cancel_in_prefill_and_in_decode_leaves_the_engine_usable(engine: LlamaCppEngine) -> None:
    expected = ids_of(generate(engine, use_cache=False))
    for num_steps in (0, 1, 4):
        request = Generate(next(_ids), engine.tokenize("word " * 40 + PROMPTS[0]), 20, GREEDY)
        engine.admit(request)
        for _ in range(num_steps):
            engine.step()
        engine.cancel(request.request_id)
        assert engine.step() == []
        assert ids_of(generate(engine)) == expected


def test_a_failed_evaluation_ends_with_an_error_and_leaves_nothing(
    engine: LlamaCppEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    generate(engine)
    with monkeypatch.context() as patched:
        patched.setattr(engine_module.native, "llama_decode", lambda *arguments: 1)
        outputs = generate(engine)
    assert outputs[-1].finish == "error"
    assert "code 1" in (outputs[-1].error or "")
    assert generate(engine)[-1].cache_miss == "cold"


def test_tokenizing_during_steps(engine: LlamaCppEngine) -> None:
    text = "some words to tokenize, again and again. " * 20
    expected = engine.tokenize(text)
    results: list[bool] = []
    thread = threading.Thread(target=lambda: results.extend(engine.tokenize(text) == expected for _ in range(200)))
    thread.start()
    generate(engine, max_tokens=12)
    thread.join()
    assert results == [True] * 200


def test_lengths(engine: LlamaCppEngine, smollm2_path: Path) -> None:
    outputs = generate(engine, max_tokens=3)
    assert (len(ids_of(outputs)), outputs[-1].finish) == (3, "length")
    stopped = generate(engine, max_tokens=20)
    assert stopped[-1].finish == "stop"
    assert ids_of(stopped)[-1] in engine.info.eog_ids
    with pytest.raises(ValueError, match="the prompt has 512 tokens, but the context holds 512"):
        generate(engine, prompt_ids=[5] * 512)
    small = load(smollm2_path, context_tokens=24)
    prompt_ids = small.tokenize("Once upon a time there was")
    full = generate(small, prompt_ids=prompt_ids, max_tokens=1000)
    assert full[-1].finish == "length"
    assert len(ids_of(full)) == 24 - len(prompt_ids) + 1  # the last token is drawn but needs no room
    small.close()


def test_stop_ids_end_a_generation(engine: LlamaCppEngine) -> None:
    first = ids_of(generate(engine))
    outputs = generate(engine, stop_ids=[first[2]])
    assert (ids_of(outputs), outputs[-1].finish) == (first[:3], "stop")


def test_logprobs_are_the_models_own_whatever_the_mask(engine: LlamaCppEngine) -> None:
    free = generate(engine, sampling=Sampling(temperature=0.0, logprobs=3), max_tokens=2)
    plain = [alternative for output in free for alternative in output.logprobs or []]
    assert len(plain) == 2
    for token_id, alternatives in zip(ids_of(free), plain, strict=True):
        assert alternatives.top[0] == (token_id, alternatives.logprob)
        assert [logprob for _, logprob in alternatives.top] == sorted(
            (logprob for _, logprob in alternatives.top), reverse=True
        )
        assert sum(math.exp(logprob) for _, logprob in alternatives.top) <= 1.0
    banned = generate(
        engine, sampling=Sampling(temperature=0.0, logprobs=3, logit_bias={ids_of(free)[0]: -1000.0}), max_tokens=1
    )
    other = (banned[0].logprobs or [])[0]
    assert [token_id for token_id, _ in other.top] == [token_id for token_id, _ in plain[0].top]
    assert other.top[0][1] == pytest.approx(plain[0].logprob, abs=1e-3)
    assert ids_of(banned) == [plain[0].top[1][0]]
    assert other.logprob == other.top[1][1]
    assert [output.logprobs for output in generate(engine, max_tokens=1)] == [None]
    only_own = generate(engine, sampling=Sampling(temperature=0.0, logprobs=0), max_tokens=1)[0].logprobs
    assert only_own is not None
    assert only_own[0].top == []


def test_sampling_knobs(engine: LlamaCppEngine) -> None:
    hot = Sampling(temperature=5.0, seed=7)
    assert ids_of(generate(engine, sampling=hot)) == ids_of(generate(engine, sampling=hot))
    assert ids_of(generate(engine, sampling=hot)) != ids_of(generate(engine, sampling=Sampling(temperature=5.0, seed=8)))
    assert ids_of(generate(engine, sampling=Sampling(temperature=5.0))) != ids_of(
        generate(engine, sampling=Sampling(temperature=5.0))
    )
    greedy = ids_of(generate(engine))
    for narrow in (Sampling(temperature=1e-40), Sampling(top_k=1), Sampling(top_p=0.0), Sampling(min_p=1.0)):
        assert ids_of(generate(engine, sampling=narrow)) == greedy
    forced = generate(engine, sampling=Sampling(temperature=0.0, logit_bias={1000: 1000.0}), max_tokens=2)
    assert ids_of(forced) == [1000, 1000]
    for seed in (-1, 0, 2**32 - 1, 2**63 - 1):
        assert ids_of(generate(engine, sampling=Sampling(seed=seed), max_tokens=1))


def test_penalties_see_what_they_should(engine: LlamaCppEngine) -> None:
    word = engine.tokenize(" one")[0]

    def drawn(prompt: str, **penalty: float) -> list[int]:
        sampling = Sampling(temperature=0.0, logit_bias={word: 50.0}, **penalty)
        return ids_of(generate(engine, prompt, sampling=sampling, max_tokens=3))

    assert drawn("This is one") == [word] * 3
    # the prompt counts for the repetition penalty, and for it only
    assert word not in drawn("This is one", repetition_penalty=1000.0)
    assert drawn("This is", repetition_penalty=1000.0).count(word) == 1
    assert drawn("This is one", frequency_penalty=100.0)[0] == word
    assert drawn("This is one", frequency_penalty=100.0).count(word) == 1
    assert drawn("This is one", presence_penalty=100.0)[0] == word
    assert drawn("This is one", presence_penalty=100.0).count(word) == 1


def test_a_grammar_is_followed_and_ends_the_generation(engine: LlamaCppEngine) -> None:
    outputs = generate(engine, grammar='start: "{" NAME "}" "{" NAME "}"\nNAME: /[a-z]{1,4}/', max_tokens=40)
    assert outputs[-1].finish == "stop"
    text = text_of(engine, outputs)
    assert text.count("{") == text.count("}") == 2
    assert text.endswith("}")
    special = engine.tokenize("<file_sep>")
    assert len(special) == 1
    marked = generate(engine, grammar=f'start: <[{special[0]}]> "yes"', max_tokens=10)
    assert text_of(engine, marked) == "<file_sep>yes"
    optional = generate(engine, grammar='start: "yes" "no"?', max_tokens=10)
    assert text_of(engine, optional) in ("yes<|im_end|>", "yesno", "yes<|endoftext|>")


@pytest.mark.parametrize("grammar", ["", "start: missing", "start: /[/", "start: <[49152]>", "start: " + "x" * 600_000])
def test_a_bad_grammar_is_refused_before_it_runs(engine: LlamaCppEngine, grammar: str) -> None:
    with pytest.raises(ValueError, match="the grammar"):
        engine.check(Generate(1, [1], 1, GREEDY, grammar=grammar))


def test_a_grammar_that_fails_while_decoding_ends_with_an_error(
    engine: LlamaCppEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failing:
        done = False

        def mask(self, logits: object) -> None:
            raise GrammarError("the grammar failed while decoding: too complex")

    monkeypatch.setattr(engine._grammars, "matcher", lambda grammar: Failing())
    outputs = generate(engine, grammar="start: 'x'")
    assert (outputs[-1].finish, outputs[-1].error) == ("error", "the grammar failed while decoding: too complex")
    assert engine.step() == []


def test_files_that_cannot_be_loaded(tmp_path: Path, smollm2_path: Path) -> None:
    text = tmp_path / "text.gguf"
    text.write_text("not a model")
    truncated = tmp_path / "truncated.gguf"
    with smollm2_path.open("rb") as source:
        data = source.read(8 * 2**20)
    truncated.write_bytes(data)
    header_only = tmp_path / "header.gguf"
    header_only.write_bytes(data[:1000])
    strange = tmp_path / "strange.gguf"
    strange.write_bytes(re.sub(rb"(general\.architecture.{12})llama", rb"\1lxama", data, count=1, flags=re.DOTALL))
    os.truncate(strange, smollm2_path.stat().st_size)  # as long as it should be, so that only its architecture is wrong
    shard = tmp_path / "big-00001-of-00002.gguf"
    shutil.copy(truncated, shard)
    expected = {
        text: "is not a GGUF file",
        truncated: "truncated or damaged",
        header_only: "truncated or damaged",
        strange: "architecture 'lxama'",
        shard: "there is no model file .*big-00002-of-00002.gguf",
        tmp_path / "big-00002-of-00002.gguf": "give the first one, -00001-of-00002.gguf",
        tmp_path: "cannot be read",
        tmp_path / "missing.gguf": "there is no model file",
    }
    for path, message in expected.items():
        with pytest.raises(EngineLoadError, match=message) as failed:
            load(path)
        assert "\n" not in str(failed.value)
    with pytest.raises(EngineLoadError, match="this model was trained for 8192"):
        load(smollm2_path, context_tokens=10_000)
