"""`daneel render` as a person uses it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.gguf_writer import SMALL_METADATA, gguf

RENDER = [sys.executable, "-m", "daneel", "render"]
HI = json.dumps([{"role": "user", "content": "Hé"}])
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content }}\n{% endfor %}"
    "{% if tools %}{{ tools[0].function.name }}\n{% endif %}"
    "{% if add_generation_prompt %}[assistant]{% if thinking %}<think>\n{% endif %}{% endif %}"
)


def run(*arguments: str, given: str = HI, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([*RENDER, *arguments], input=given, capture_output=True, encoding="utf-8", timeout=60, check=False)
    assert done.returncode == code, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture
def template(tmp_path: Path) -> str:
    path = tmp_path / "t.jinja"
    path.write_text(TEMPLATE, encoding="utf-8")
    return str(path)


def test_the_prompt_and_not_a_character_more(template: str) -> None:
    assert run("--template", template).stdout == "[user]Hé\n[assistant]"
    assert run("--template", template, "--no-generation-prompt").stdout == "[user]Hé\n"
    assert run("--template", template, "--template-args", '{"thinking": true}').stdout.endswith("[assistant]<think>\n")


def test_a_whole_request_and_tools_from_a_file(template: str, tmp_path: Path) -> None:
    tools = tmp_path / "tools.json"
    tools.write_text('[{"type": "function", "function": {"name": "ping"}}]', encoding="utf-8")
    assert "ping\n" in run("--template", template, "--tools", str(tools)).stdout
    request = tmp_path / "request.json"
    request.write_text(json.dumps({"messages": json.loads(HI), "chat_template_kwargs": {"thinking": True}, "n": 1, "odd": 2}))
    done = run("--template", template, str(request))
    assert done.stdout.endswith("<think>\n")
    assert done.stderr == "daneel: odd is ignored: unknown field\n"


def test_what_is_known_of_the_prompt(template: str) -> None:
    options = ["--template", template, "--json", "--family", "hermes"]
    report = json.loads(run(*options, "--template-args", '{"thinking": true}').stdout)
    assert report == {"prompt": "[user]Hé\n[assistant]<think>\n", "format": "hermes", "starts_in_reasoning": True}
    assert json.loads(run("--template", template, "--json").stdout)["format"] == "generic"


def test_the_template_of_a_model_with_its_own_special_tokens(tmp_path: Path) -> None:
    metadata = {
        **SMALL_METADATA,
        "tokenizer.ggml.tokens": ["<pad>", "<s>"],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.chat_template": TEMPLATE,
    }
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf(metadata))
    assert run("--model", str(path)).stdout == "<s>[user]Hé\n[assistant]"


def test_the_number_of_tokens_where_the_model_can_say(smollm2_path: Path) -> None:
    report = json.loads(run("--model", str(smollm2_path), "--json").stdout)
    assert report["prompt"].endswith("<|im_start|>user\nHé<|im_end|>\n<|im_start|>assistant\n")
    assert 20 < report["num_tokens"] < 40


@pytest.mark.parametrize(
    ("arguments", "given", "words"),
    [
        ([], HI, ["--template", "--model"]),
        (["--template", "x", "--model", "y"], HI, ["--template", "--model"]),
        (["--template", "/no/such"], HI, ["/no/such"]),
        (["--template", "TEMPLATE"], "[", ["JSON"]),
        (["--template", "TEMPLATE"], "[]", ["messages", "empty"]),
        (["--template", "TEMPLATE"], '[{"role": "user", "content": 5}]', ["messages[0]", "content"]),
        (["--template", "TEMPLATE", "/no/such/messages"], "", ["/no/such/messages"]),
        (["--template", "TEMPLATE", "--family", "telepathy"], HI, ["telepathy"]),
        (["--template", "TEMPLATE", "--template-args", "5"], HI, ["--template-args", "object"]),
    ],
)
def test_bad_input_is_one_sentence(arguments: list[str], given: str, words: list[str], template: str) -> None:
    done = run(*(template if word == "TEMPLATE" else word for word in arguments), given=given, code=2)
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert all(word in line for word in words), line


def test_a_templates_refusal_is_its_own_message(tmp_path: Path) -> None:
    path = tmp_path / "t.jinja"
    path.write_text("{{ raise_exception('only Latin, please') }}", encoding="utf-8")
    assert "only Latin, please" in run("--template", str(path), code=2).stderr
    path.write_text("{% for %}", encoding="utf-8")
    assert "line 1" in run("--template", str(path), code=2).stderr
