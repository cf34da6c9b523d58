"""The HTML page: nothing fetched or run whatever a transcript says, balanced, and saying what was stored."""

from __future__ import annotations

import base64
import hashlib
import re
from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.trials import make_trial

from daneel.bench.decomposition import decompose
from daneel.bench.effectiveness import summarise
from daneel.bench.finding import Evidence, Finding, Gain
from daneel.bench.goal_set import goal_set
from daneel.bench.lost_turns import LossCounter, turn_labels
from daneel.bench.report.data import END, START, Difference, Report, ShownRun, ToolUse, Version
from daneel.bench.report.markdown import markdown
from daneel.bench.report.page import page
from daneel.bench.report.text import esc, fenced, md, visible
from daneel.harness.run_record import Event

HOSTILE = (
    "</pre></script><script>alert(1)</script><img src=//evil.example/x onerror=alert(1)>\"'&\u202e\x1b[31m\ud800`|@someone"
)
VOID = {"meta", "br", "img"}


class Parsed(HTMLParser):
    """Tags, attributes and text; fails for tags that do not match."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.ids, self.links, self.said = [], [], [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [name for name, _ in attrs]
        found = dict(attrs)
        self.ids += [found["id"]] if "id" in found else []
        self.links += [found["href"]] if "href" in found else []
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.said.append(data)


def events_of(text):
    call = {"id": "c1", "type": "function", "function": {"name": text, "arguments": text}}
    message = {
        "role": "assistant",
        "content": text,
        "reasoning": text,
        "tool_calls": [call],
        "failed_tool_calls": [{"raw": text}],
    }
    return [
        Event("request", 1, {"tools": [text], "refused_tools": [text]}),
        Event("reply", 1, {"message": message}),
        Event("call", 1, {"id": "c1", "name": text, "arguments": {text: text}, "effects": []}),
        Event("result", 1, {"id": "c1", "name": text, "result": text, "error": text}),
        Event("told", 1, {"id": "c2", "name": text, "problem": "unknown_tool", "error": text, "text": text, "raw": text}),
        Event("detected", 1, {"detail": text}),
        Event("warning", 1, {"detail": {"not": "text"}}),
        Event("reply", 2, {"message": None}),
        Event("stop", 2, {"reason": "answered", "answer": text}),
    ]


def report_of(text, *, num_goals=2):
    """A report in which every text is `text`."""
    versions = []
    for number, achieved in ((0, True), (1, False)):
        trials = [
            make_trial(goal=f"{text}{goal}", achieved=achieved or index == 0, turns=2 + index, run_id="r 1", harness=text)
            for goal in range(num_goals)
            for index in range(3)
        ]
        counter = LossCounter()
        for trial in trials:
            counter.add(trial, {1: "unknown_tool", 2: "step", 3: "answer"})
        versions.append(
            Version(
                id=f"v{number}",
                harness=text,
                measurement=f"m_{number}",
                created_at="2026-12-01T03:00:00",
                hash=text,
                model=text,
                summary=summarise(trials),
                goals=goal_set(trials, {f"{text}0": 2}),
                lost=counter.total(),
                num_runs=3,
                tools={
                    text: ToolUse(shown_turns=3, calls=2, failed=1, runs=1),
                    "idle": ToolUse(shown_turns=1),
                    "unseen": ToolUse(),
                },
                turns={2: (2, 1), 60: (1, 0)},
                successions=[(START, text, 3), (text, text, 2), (text, END, 1), ("?", text, 9)],
                trials=trials,
            )
        )
    parts = decompose(versions[1].trials, versions[0].trials)
    events = events_of(text)
    finding = Finding(kind="overlap", harness=text, tools=(text,), text=text, advice=text, p=0.01,
                      evidence=(Evidence("r 1", 1), Evidence("elsewhere", 2)), expected_gain=Gain(0.1, text))  # fmt: skip
    run = ShownRun(id="r 1", version="v0", goal=text, prompt=text, seed=1, achieved=None, stop_reason=text, turns=2,
                   not_scored=text, labels=turn_labels(events), events=events)  # fmt: skip
    difference = Difference(first="v1", second="v0", decomposition=parts, diff=f"+{text}\n-{text}\n {text}")
    return Report(title=text, versions=versions, findings=[finding], tokens=text, runs=[run], num_left_out=4,
                  goals={text: text}, differences=[difference])  # fmt: skip


@pytest.mark.parametrize("text", [HOSTILE, "plain", "", "x" * 50_000], ids=["hostile", "plain", "empty", "long"])
def test_the_page_is_balanced_and_holds_nothing_that_runs_or_is_fetched(text):
    html = page(report_of(text), now=datetime(2026, 12, 1, tzinfo=UTC))
    html.encode()  # no lone surrogate is left
    parsed = Parsed(html)
    assert not {"script", "img", "link", "iframe", "object", "embed", "form", "base"} & set(parsed.tags)
    assert not [name for name in parsed.attributes if name.startswith("on") or name in ("src", "style", "srcset", "xlink:href")]
    assert all(link.startswith("#") for link in parsed.links)
    assert len(set(parsed.ids)) == len(parsed.ids)
    assert {link[1:] for link in parsed.links} <= set(parsed.ids), "every link leads to something in the file"
    assert not re.search(r"url\((?!#)|@import", html)


def test_only_the_files_own_style_may_apply():
    html = page(report_of("x"))
    style = re.search(r"<style>(.*?)</style>", html, re.DOTALL)[1]
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)[1]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}';")


def test_every_section_says_its_numbers():
    said = " ".join("".join(Parsed(page(report_of("tool"))).said).split())
    for part in ("tool · m_0", "descriptive: fewer than 10 goals", "never called", "never shown", "50% failed",
                 "no such tool", "lost: tool failed", "Expected gain in E: +0.100", "4 more runs are counted",
                 "2 trials took more turns", "comes of more goals achieved", "elsewhere turn 2",
                 "Not scored: tool"):  # fmt: skip
        assert part in said, part


def test_sections_without_anything_to_show_are_left_out():
    empty = Report(title="r", versions=[Version(id="v0", harness="H", measurement=None, created_at="", hash="", model="")],
                   differences=[], findings=[], tokens="", runs=[], num_left_out=0, goals={})  # fmt: skip
    parsed = Parsed(page(empty))
    assert "h2" not in parsed.tags
    assert markdown(empty) == "### daneel: r\n"


def test_none_scored_is_said_and_is_not_zero():
    trials = [make_trial(achieved=None, stop_reason="invalid", not_scored="the server went away")]
    version = Version(id="v0", harness="H", measurement="m", created_at="2026", hash="h", model="x", summary=summarise(trials),
                      goals=goal_set(trials), trials=trials)  # fmt: skip
    report = Report(title="m", versions=[version], differences=[], findings=[], tokens="", runs=[], num_left_out=0, goals={})
    assert "none scored" in page(report)
    assert "none scored" in markdown(report)


def test_markdown_lets_no_text_be_markup_a_cell_or_a_mention():
    said = markdown(report_of(HOSTILE))
    said.encode()
    outside = re.sub(r"```.*?```", "", said.replace("`r", "r"), flags=re.DOTALL)
    assert "<script" not in outside
    assert "<img" not in outside
    assert "@someone" not in outside
    rows = [line for line in said.splitlines() if line.startswith("| ")]
    assert rows
    for row in rows:
        assert len(re.findall(r"(?<!\\)\|", row)) in (8, len(re.findall(r"(?<!\\)\|", rows[-1])))


@given(st.text())
def test_escaped_text_comes_back_as_what_is_visible_of_it(text):
    parsed = Parsed(f"<p>{esc(text)}</p>")
    assert "".join(parsed.said).replace("\r\n", "\n") == visible(text).replace("\r\n", "\n")
    assert "<" not in md(text)
    assert "\n" not in md(text)


@given(st.text(alphabet="`a\n "))
def test_a_code_block_ends_where_it_is_to_end(text):
    lines = fenced(text).split("\n")
    assert lines[0] == lines[-1]
    assert not any(line.strip().startswith(lines[0]) for line in lines[1:-1])
