"""`daneel parse` as a person and as a test bench uses it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.gguf_writer import SMALL_METADATA, gguf

from daneel.cli.parse import Formats, answers

PARSE = [sys.executable, "-m", "daneel", "parse"]
CALL = '<tool_call>\n{"name": "f", "arguments": {"a": "é"}}\n</tool_call>'
HERMES = '<tool_call></tool_call>"arguments"<|im_start|>'


def run(*arguments: str, given: str | bytes = "", code: int = 0) -> subprocess.CompletedProcess[bytes]:
    data = given.encode() if isinstance(given, str) else given
    done = subprocess.run([*PARSE, *arguments], input=data, capture_output=True, timeout=60, check=False)
    assert done.returncode == code, (done.stdout, done.stderr)
    assert b"Traceback" not in done.stderr
    return done


def ask(*lines: object, tools: list[Any] | None = None, **formats: Any) -> list[dict[str, Any]]:
    """The answers to lines, given as objects or as bytes."""
    data = [line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines]
    return list(answers(data, Formats(**formats), tools))


def test_the_message_as_json() -> None:
    message = json.loads(run("--family", "hermes", given=f"<think>why</think>Look: {CALL}").stdout)
    assert (message["reasoning"], message["content"]) == ("why", "Look: ")
    [call] = message["tool_calls"]
    assert (call["function"]["name"], json.loads(call["function"]["arguments"])) == ("f", {"a": "é"})


def test_the_spans_tell_what_each_character_was(tmp_path: Path) -> None:
    output = tmp_path / "output.txt"
    output.write_text(f"{CALL}hi<tool_call>\n{{", encoding="utf-8")
    report = json.loads(run(str(output), "--family", "hermes", "--spans", "--truncated").stdout)
    assert [(span["kind"], span["text"]) for span in report["spans"]] == [
        ("tool", CALL),
        ("content", "hi"),
        ("failed", "<tool_call>\n{"),
    ]
    assert report["conserved"] is True
    assert report["message"]["failed_tool_calls"][0]["error"]["type"] == "truncated"
    assert report["message"]["content"] == "hi"  # the failed call is reported beside, not within


def test_a_thought_that_the_prompt_opened() -> None:
    for options in (["--starts-in-reasoning"], ["--gen-prompt", "<|im_start|>assistant\n<think>\n"]):
        message = json.loads(run("--family", "hermes", *options, given="why</think>Yes").stdout)
        assert (message["reasoning"], message["content"]) == ("why", "Yes")


def test_tools_from_a_file_say_what_is_wrong_with_a_call(tmp_path: Path) -> None:
    tools = [{"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}]
    for content in (tools, {"tools": tools}):
        path = tmp_path / "tools.json"
        path.write_text(json.dumps(content), encoding="utf-8")
        message = json.loads(run("--family", "hermes", "--tools", str(path), given=CALL).stdout)
        assert [issue["path"] for issue in message["tool_call_issues"]] == ["/a"]
    assert "tool_call_issues" not in json.loads(run("--family", "hermes", given=CALL).stdout)


def test_the_format_is_told_by_a_template_or_by_the_models_own(tmp_path: Path) -> None:
    template = tmp_path / "t.jinja"
    template.write_text(HERMES, encoding="utf-8")
    model = tmp_path / "model.gguf"
    model.write_bytes(gguf({**SMALL_METADATA, "tokenizer.chat_template": HERMES}))
    folder = tmp_path / "mlx"
    folder.mkdir()
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": HERMES}), encoding="utf-8")
    for options in (["--template", str(template)], ["--model", str(model)], ["--model", str(folder)]):
        assert json.loads(run(*options, "--spans", given=CALL).stdout)["format"] == "hermes"


def test_bytes_that_are_no_text_are_said_and_read_as_the_server_would() -> None:
    done = run("--family", "hermes", given=b"a\xffb")
    assert json.loads(done.stdout)["content"] == "a\ufffdb"
    assert b"U+FFFD" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["--family", "--template", "--model"]),
        (["--family", "telepathy"], ["'telepathy'", "hermes"]),
        (["--template", "/no/such.jinja"], ["--template", "/no/such.jinja"]),
        (["--template", "a", "--model", "b"], ["--template", "--model"]),
        (["--model", "no-such-model"], ["no-such-model"]),
        (["--family", "hermes", "--tools", "/no/such.json"], ["--tools"]),
        (["--family", "hermes", "--templates", "."], ["--batch"]),
        (["--family", "hermes", "/no/such/output"], ["/no/such/output"]),
    ],
)
def test_bad_input_is_one_sentence(arguments: list[str], words: list[str]) -> None:
    done = run(*arguments, code=2)
    assert done.stdout == b""
    [line] = done.stderr.decode().splitlines()
    assert all(word in line for word in words), line


# -- many lines -------------------------------------------------------------------------------------------------------------


def test_a_line_out_for_each_line_in_and_errors_stay_in_their_line() -> None:
    lines = [
        json.dumps({"id": 1, "family": "hermes", "raw": CALL}),
        "{",
        json.dumps({"id": "x", "raw": "no format"}),
        json.dumps({"id": 2, "family": "telepathy", "raw": ""}),
        json.dumps({"id": 3, "family": "hermes"}),
        "",
        json.dumps({"id": "4\ud800", "family": "hermes", "raw": "a\ud800"}),
        json.dumps({"id": 5, "family": "gemma4", "raw": "hi"}),
    ]
    done = run("--batch", given="\n".join(lines), code=1)
    out = [json.loads(line) for line in done.stdout.splitlines()]
    assert [answer["id"] for answer in out] == [1, None, "x", 2, 3, None, "4\ud800", 5]
    assert [set(answer) for answer in (out[0], out[-1])] == [{"id", "format", "message", "conserved"}] * 2
    assert [answer["format"] for answer in (out[0], out[-1])] == ["hermes", "gemma4"]
    for answer, word in zip(out[1:-1], ["JSON", "--family", "telepathy", "raw", "empty", "surrogate"], strict=True):
        assert set(answer) == {"id", "error"}
        assert word in answer["error"]["message"]


def test_each_answer_is_there_before_the_next_line_comes() -> None:
    process = subprocess.Popen([*PARSE, "--batch", "--family", "hermes"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    for number in range(3):
        process.stdin.write(json.dumps({"id": number, "raw": "a\u2028b"}).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == number
    process.communicate()
    assert process.returncode == 0


def test_cuts_change_nothing() -> None:
    raw = f"<think>hm</think>One {CALL} two <tool_call>\n{{oops}}\n</tool_call>"
    whole, *cut = ask(*({"family": "hermes", "raw": raw, "cuts": cuts} for cuts in ([], [3, 1, 3], list(range(len(raw) + 1)))))
    assert whole["message"]["failed_tool_calls"]
    assert whole["conserved"]
    assert cut == [whole, whole]


@pytest.mark.parametrize("cuts", [[-1], [4], "2", [1.5], [None], [True], {}])
def test_cuts_that_are_none(cuts: Any) -> None:
    [answer] = ask({"id": 7, "family": "hermes", "raw": "abc", "cuts": cuts})
    assert answer["id"] == 7
    assert "cuts" in answer["error"]["message"]


def test_templates_are_files_of_their_folder_and_of_no_other(tmp_path: Path) -> None:
    folder = tmp_path / "templates"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "h.jinja").write_text(HERMES, encoding="utf-8")
    (tmp_path / "secret.jinja").write_text(HERMES, encoding="utf-8")
    (folder / "link.jinja").symlink_to(tmp_path / "secret.jinja")
    [good] = ask({"template": "sub/h.jinja", "raw": CALL}, folder=folder)
    assert good["format"] == "hermes"
    outside = ["../secret.jinja", str(tmp_path / "secret.jinja"), "link.jinja", "a\0b", "nothing.jinja", ".", 5, ["h"]]
    for answer in ask(*({"template": name, "raw": CALL} for name in outside), folder=folder):
        assert "template" in answer["error"]["message"]
    [without] = ask({"template": "sub/h.jinja", "raw": CALL})
    assert "--templates" in without["error"]["message"]


def test_the_family_is_the_row_whatever_the_template(tmp_path: Path) -> None:
    (tmp_path / "h.jinja").write_text(HERMES, encoding="utf-8")
    [answer] = ask({"family": "gemma4", "template": "h.jinja", "raw": CALL}, folder=tmp_path)
    assert (answer["format"], answer["message"]["content"]) == ("gemma4", CALL)


def test_a_template_that_is_not_there_is_no_loss_where_the_family_is_named(tmp_path: Path) -> None:
    line = {"raw": CALL, "template": "gone.jinja"}
    named, unnamed = ask({**line, "family": "hermes"}, line, folder=tmp_path)
    assert named["message"]["tool_calls"]
    assert [warning["field"] for warning in named["warnings"]] == ["template"]
    assert "gone.jinja" in unnamed["error"]["message"]


@pytest.mark.parametrize("said", [None, False])
def test_the_prompt_shows_that_a_thought_is_open_whatever_is_said(said: bool | None) -> None:
    line = {"family": "hermes", "raw": "Well.</think>Yes", "gen_prompt": "<think>\n", "starts_in_reasoning": said}
    assert ask(line)[0]["message"]["reasoning"] == "Well."


def test_options_hold_for_lines_that_leave_a_field_out() -> None:
    declared = [{"type": "function", "function": {"name": "g"}}]
    lines = [{"raw": CALL}, {"raw": CALL, "tools": None}, {"raw": CALL, "tools": []}, {"raw": "hi", "family": "gemma4"}]
    default, unknown, none, gemma = ask(*lines, tools=declared, family="hermes")
    assert "g" in default["message"]["tool_call_issues"][0]["message"]
    assert "tool_call_issues" not in unknown["message"]
    assert none["message"]["tool_call_issues"][0]["type"] == "unknown_tool"
    assert gemma["format"] == "gemma4"


def test_what_a_test_suite_suggests_as_tools_counts_where_none_are_declared() -> None:
    suggested = [{"name": "g"}]
    lines = [{"raw": CALL, "tools_suggested": suggested}, {"raw": CALL, "tools": [{"name": "f"}], "tools_suggested": suggested}]
    first, second = ask(*lines, family="hermes")
    assert first["message"]["tool_call_issues"][0]["type"] == "unknown_tool"
    assert second["message"]["tool_call_issues"][0]["type"] == "invalid_arguments"


@pytest.mark.parametrize(
    "tools", [{}, "f", [1], [{"function": "f"}], [{"name": 5}], [{"name": "f", "parameters": {"type": 5}}], [{"name": "f"}] * 2]
)
def test_tools_that_are_none_are_an_error_of_their_line(tools: Any) -> None:
    broken, fine = ask({"id": 1, "raw": CALL, "tools": tools}, {"id": 2, "raw": CALL}, family="hermes")
    assert broken["id"] == 1
    assert "tool" in broken["error"]["message"]
    assert fine["id"] == 2
    assert fine["conserved"]


def test_a_bug_in_a_parser_costs_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from daneel.formats.splitter import Splitter

    feed = Splitter.feed

    def broken(self: Splitter, text: str) -> Any:
        return 1 // 0 if text == "boom" else feed(self, text)

    monkeypatch.setattr(Splitter, "feed", broken)
    boom, fine = ask({"id": 1, "raw": "boom"}, {"id": 2, "raw": "fine"}, family="hermes")
    assert "ZeroDivisionError" in boom["error"]["message"]
    assert fine["message"]["content"] == "fine"
    assert "Traceback" in capsys.readouterr().err


def test_reference_cases_come_through_line_by_line(shared_dir: Path) -> None:
    lines = (shared_dir / "cases" / "outputs.jsonl").read_bytes().splitlines(keepends=True)
    out = list(answers(lines, Formats(folder=shared_dir / "templates"), None))
    assert [answer["id"] for answer in out] == [json.loads(line)["id"] for line in lines]
    read = [answer for answer in out if "error" not in answer]
    assert read
    assert all(answer["conserved"] for answer in read)
