"""From findings to candidates: what is found of planted faults leads to changes that can be made, each once."""

from __future__ import annotations

import pytest
from tests.support.planted import clean, faulty
from tests.support.planted.base import Planted, runs
from tests.support.tune_world import BAD_STARTS, findings_for

from daneel import Harness, tool
from daneel.bench.diagnose.diagnosis import diagnose
from daneel.bench.finding import Evidence, Finding, Gain
from daneel.bench.tune.candidates import candidates
from daneel.bench.tune.edits import Drop, GateAfter, Merge, Rename, Reorder, Sentence, Shorten, edited

FAULTY = [each for each in vars(faulty).values() if isinstance(each, Planted)]
CLEAN = [each for each in vars(clean).values() if isinstance(each, Planted)]


@pytest.mark.parametrize("planted", FAULTY, ids=lambda planted: planted.name)
def test_planted_faults_lead_to_candidates(planted):
    findings = diagnose(runs(planted, trials=60)).findings
    made, refused = candidates(planted.harness, findings)
    led = {candidate.kind for candidate in made} | {candidate.kind for candidate, _ in refused}
    silent = {f.kind for f in findings if f.kind == "verification" and f.data.get("way") == "after_write"}
    silent |= {f.kind for f in findings if f.kind == "ambiguity"}  # a rule may know no better name: a model is asked
    assert {finding.kind for finding in findings} - silent <= led
    prints = [edited(planted.harness, candidate.edits).fingerprint() for candidate in made]
    assert len(set(prints)) == len(prints)
    assert planted.harness.fingerprint() not in prints
    assert [each.expected_gain for each in made] == sorted((each.expected_gain for each in made), reverse=True)
    assert all(why for _, why in refused)


@pytest.mark.parametrize("planted", CLEAN, ids=lambda planted: planted.name)
def test_a_clean_harness_has_none(planted):
    assert candidates(planted.harness, diagnose(runs(planted, trials=40)).findings) == ([], [])


def finding(kind: str, *tools: str, **data) -> Finding:
    return Finding(
        kind=kind,
        harness="H",
        tools=tools,
        text="found",
        advice="-",
        evidence=(Evidence("r", 1),),
        expected_gain=Gain(None, "-"),
        data=data,
    )


@tool
def find_user(name: str) -> str:
    """Find a user."""
    return "7"


@tool
def mail_of(user_id: str) -> str:
    """Give the mail address."""
    return "m"


@tool
def time_now() -> str:
    """Give the time"""
    return "t"


@tool
def date_now() -> str:
    """Give the date"""
    return "d"


HARNESS = Harness(tools=[find_user, mail_of, time_now, date_now])


def edits_for(*found: Finding) -> list:
    return [candidate.edits for candidate in candidates(HARNESS, found)[0]]


def test_each_kind_has_its_changes():
    assert edits_for(finding("never_shown", "mail_of")) == [(Drop(tools=("mail_of",)),)]
    assert (Reorder(first=("mail_of",)),) in edits_for(finding("never_called", "mail_of"))
    assert (Drop(tools=("time_now",)),) in edits_for(finding("overlap", "time_now", "date_now", keep="date_now"))
    assert (Drop(tools=("time_now",)),) in edits_for(finding("overlap", "time_now", "date_now", way="retry"))
    (merge,) = edits_for(finding("succession", "find_user", "mail_of"))
    assert isinstance(merge[0], Merge)
    assert (merge[0].link, merge[0].description) == ("user_id", "Find a user; then give the mail address.")
    facts = edits_for(finding("verification", "time_now", "date_now", way="fact"))
    assert [type(edits[0]) for edits in facts] == [Drop, Merge]
    assert edits_for(finding("verification", "time_now", "date_now", way="after_write")) == []
    assert edits_for(finding("gate", "mail_of", "find_user", requires="find_user")) == [
        (GateAfter(tool="mail_of", requires="find_user"),)
    ]
    assert edits_for(finding("name", "mail_of", shorter="mail")) == [(Rename(tool="mail_of", name="mail"),)]
    assert isinstance(edits_for(finding("long_result", "mail_of"))[0][0], Shorten)
    assert edits_for(finding("formal_result", "mail_of", example='{"city": "Paris", "now": {"temp_c": 20, "wet": false}}')) == [
        (Sentence(tool="mail_of", template="The city is {city}, the now temp c is {now.temp_c} and the now wet is {now.wet}."),)
    ]


@pytest.mark.parametrize("example", ["", "no JSON", "[1]", '{"a": [1]}', '{"a{b": 1}', "{}", None])
def test_no_sentence_for_other_results(example):
    assert edits_for(finding("formal_result", "mail_of", example=example)) == []


def test_findings_on_tools_that_are_gone_and_kinds_unknown_are_passed_over():
    assert edits_for(finding("never_called", "gone"), finding("no_such_kind", "mail_of")) == []


def test_what_cannot_be_made_is_given_back_with_the_reason():
    gated = Harness(tools=[find_user, mail_of.with_changes(requires="find_user")])
    made, refused = candidates(gated, [finding("never_shown", "find_user")])
    assert made == []
    ((candidate, why),) = refused
    assert candidate.edits == (Drop(tools=("find_user",)),)
    assert "comes after find_user" in why


def test_the_same_change_from_two_findings_is_one():
    start = BAD_STARTS["everything"]
    made, _ = candidates(start, findings_for(start) * 2)
    assert len({candidate.key for candidate in made}) == len(made)
