"""The scripted engine says what its script says, by the rules of a real engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daneel.server.engines import byte_tokenizer
from daneel.server.engines.base import EngineLoadError, EngineSpec, Generate, Sampling, StepOutput
from daneel.server.engines.script import load_script
from daneel.server.engines.scripted import ScriptedEngine, load


def engine_for(tmp_path: Path, *lines: Any, **spec: Any) -> ScriptedEngine:
    path = tmp_path / "script.jsonl"
    path.write_text("# a comment\n\n" + "".join(json.dumps(line) + "\n" for line in lines))
    return load(EngineSpec("scripted", script_path=str(path), **spec), lambda fraction: None)


def run(engine: ScriptedEngine, prompt: str = "hello", **request: Any) -> list[StepOutput]:
    prompt_ids = engine.tokenize(prompt)
    generate = Generate(**{"request_id": 1, "prompt_ids": prompt_ids, "max_tokens": 1000, "sampling": Sampling(), **request})
    engine.check(generate)
    engine.admit(generate)
    outputs = []
    while step := engine.step():
        outputs += step
    return outputs


def said(outputs: list[StepOutput]) -> str:
    return byte_tokenizer.decode([token_id for output in outputs for token_id in output.token_ids])


@given(st.text() | st.lists(st.sampled_from(byte_tokenizer.MARKERS) | st.text(max_size=3)).map("".join))
def test_tokens_joined_are_the_text(text: str) -> None:
    assert byte_tokenizer.decode(byte_tokenizer.encode(text)) == text


@pytest.mark.parametrize("marker", byte_tokenizer.MARKERS)
def test_a_marker_is_one_special_token(marker: str) -> None:
    token_ids = byte_tokenizer.encode(f"<{marker}>")
    assert len(token_ids) == 3
    assert token_ids[1] in byte_tokenizer.SPECIAL_IDS


def test_lines_in_order_then_exhausted(tmp_path: Path) -> None:
    engine = engine_for(tmp_path, "é", {"text": "second", "finish": "length"})
    first = run(engine)
    assert said(first) == "é<|end|>"
    assert first[-1].finish == "stop"
    second = run(engine)
    assert (said(second), second[-1].finish) == ("second", "length")
    third = run(engine)
    assert (said(third), third[-1].finish) == ("", "error")
    assert "exhausted" in (third[-1].error or "")


def test_max_tokens_cuts(tmp_path: Path) -> None:
    engine = engine_for(tmp_path, {"text": "abcdef", "repeat": True}, {"pieces": ["abc", "def"]})
    outputs = run(engine, max_tokens=4)
    assert (said(outputs), outputs[-1].finish) == ("abcd", "length")
    exact = run(engine, max_tokens=7)
    assert (said(exact), exact[-1].finish) == ("abcdef<|end|>", "stop")


def test_the_context_cuts(tmp_path: Path) -> None:
    outputs = run(engine_for(tmp_path, "abcdef", context_tokens=8), prompt="hello")
    assert (said(outputs), outputs[-1].finish) == ("abc", "length")


def test_pieces_come_whole_and_match_waits(tmp_path: Path) -> None:
    engine = engine_for(tmp_path, {"match": "Rome", "text": "b"}, {"pieces": ["ab", "cd"]})
    outputs = run(engine, prompt="<|im_start|>user\nParis<|im_end|>\n<|im_start|>assistant\n")
    assert [byte_tokenizer.decode(output.token_ids) for output in outputs] == ["ab", "cd", "<|end|>"]
    earlier_only = "<|im_start|>user\nRome<|im_end|>\n<|im_start|>user\nParis<|im_end|>\n<|im_start|>assistant\n"
    assert run(engine, prompt=earlier_only)[-1].finish == "error"
    assert said(run(engine, prompt="Rome")) == "b<|end|>"


def test_script_ids_of_the_request_win_and_stop_ids_end(tmp_path: Path) -> None:
    engine = engine_for(tmp_path)
    assert said(run(engine, script_ids=engine.tokenize("own words"))) == "own words<|end|>"
    turn_end = engine.tokenize("<turn|>")
    outputs = run(engine, script_ids=engine.tokenize("a<turn|>b"), stop_ids=turn_end)
    assert (said(outputs), outputs[-1].finish) == ("a<turn|>", "stop")
    with pytest.raises(ValueError, match="script token id 9999"):
        engine.check(Generate(1, [1], 1, Sampling(), script_ids=[9999]))


def test_several_sequences_move_in_one_step(tmp_path: Path) -> None:
    engine = engine_for(tmp_path, "ab", "cd")
    for request_id in (1, 2):
        engine.admit(Generate(request_id, [65], 10, Sampling(logprobs=0)))
    step = engine.step()
    assert [(output.request_id, byte_tokenizer.decode(output.token_ids)) for output in step] == [(1, "a"), (2, "c")]
    assert step[0].logprobs is not None
    assert step[0].logprobs[0].logprob == 0.0
    engine.cancel(1)
    assert [output.request_id for output in engine.step()] == [2]


@pytest.mark.parametrize(
    "line", ['{"text": 3}', '{"txt": "a"}', '{"text": "a", "finish": "never"}', "[]", "not json", '{"pieces": [1]}']
)
def test_a_broken_script_names_file_and_line(tmp_path: Path, line: str) -> None:
    path = tmp_path / "script.jsonl"
    path.write_text('"fine"\n' + line + "\n")
    with pytest.raises(EngineLoadError, match=r"line 2 of the script .*script\.jsonl"):
        load_script(path)


def test_it_takes_as_many_at_a_time_as_it_was_told(tmp_path: Path) -> None:
    assert [engine_for(tmp_path, num_sequences=number).max_sequences for number in (1, 16)] == [1, 16]
