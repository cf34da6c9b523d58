"""Edits: each makes the harness that it says, the same in any process, and is refused in words where it cannot be made."""

from __future__ import annotations

import json

import msgspec
import pytest
from tests.support.scripted_server import ScriptedServer, calls, text

from daneel import Harness, tool
from daneel.bench.slot import Arm
from daneel.bench.sources import harness_of
from daneel.bench.tune.edits import (
    Describe,
    Drop,
    Edit,
    GateAfter,
    Merge,
    Rename,
    Reorder,
    Sentence,
    Shorten,
    edited,
    edits_of,
    told,
)
from daneel.errors import UserError
from daneel.harness.client import Client
from daneel.harness.files import load
from daneel.harness.loop import run
from daneel.harness.safety.policy import SafetyPolicy
from daneel.harness.tools.arguments import ArgumentsError
from daneel.harness.tools.gating import closed


@tool
def find_user(name: str) -> str:
    """Find a user"""
    return json.dumps({"user_id": 7, "name": name})


@tool
def mail_of(user_id: int, short: bool = False) -> str:
    """Give the mail address behind what find_user says"""
    return f"{user_id}@example.org{'' if not short else ' (short)'}"


@tool(requires="find_user")
def ban(reason: str) -> str:
    """Ban a user; see `find_user`"""
    return "banned"


def harness(**more) -> Harness:
    return Harness(tools=[find_user, mail_of, ban], system="Call find_user first.", **more)


def names(of: Harness) -> list[str]:
    return [each.name for each in of.tools]


def test_a_dropped_tool_takes_its_limits_and_rules_with_it():
    start = harness(max_calls={"mail_of": 2, "ban": 1}, safety=SafetyPolicy(deny=["tool:mail_of", "tool:ban"]))
    after = edited(start, [Drop(tools=("mail_of",))])
    assert names(after) == ["find_user", "ban"]
    assert (dict(after.max_calls), list(after.safety.deny)) == ({"ban": 1}, ["tool:ban"])


def test_a_rename_reaches_all_that_speaks_of_the_tool():
    start = harness(
        max_calls={"find_user": 2}, first_tool_choice="find_user", safety=SafetyPolicy(allow=["tool:find_user", "read"])
    )
    after = edited(start, [Rename(tool="find_user", name="who")])
    assert names(after) == ["who", "mail_of", "ban"]
    assert after.system == "Call who first."
    assert [each.description for each in after.tools] == [
        "Find a user",
        "Give the mail address behind what who says",
        "Ban a user; see `who`",
    ]
    assert (after.first_tool_choice, dict(after.max_calls)) == ("who", {"who": 2})
    assert list(after.safety.allow) == ["tool:who", "read"]
    assert after.tools[2].gates.after[0].tool == "who"


def test_a_rename_of_an_ordinary_word_leaves_prose_alone():
    @tool
    def search(text: str) -> str:
        """Run a search"""
        return text

    start = Harness(tools=[search], system="To search, call `search`; do not search twice.")
    after = edited(start, [Rename(tool="search", name="grep")])
    assert after.system == "To search, call `grep`; do not search twice."
    assert after.tools[0].description == "Run a search"


def test_description_order_gate_and_length():
    after = edited(
        harness(),
        [
            Describe(tool="mail_of", text="Mail address of a user"),
            Reorder(first=("mail_of",)),
            GateAfter(tool="mail_of", requires="find_user"),
            Shorten(tool="find_user", max_result_chars=500),
        ],
    )
    assert names(after) == ["mail_of", "find_user", "ban"]
    assert after.tools[0].description == "Mail address of a user"
    assert closed(after.tools[0], []) is not None
    assert after.tools[1].max_result_chars == 500


def test_a_sentence_in_place_of_an_object_and_only_of_one_like_it():
    edits = [Sentence(tool="find_user", template="User {user_id} is {name}.")]
    after = edited(harness(), edits)
    assert after.tools[0].run({"name": "Ann"}) == "User 7 is Ann."

    @tool
    def odd(kind: str) -> object:
        """Give something"""
        return {"list": {"a": [1]}, "other": {"b": 1}, "text": "no object"}[kind]

    told_so = edited(Harness(tools=[odd]), [Sentence(tool="odd", template="A is {a}.")]).tools[0]
    assert [json.loads(told_so.run({"kind": kind})) for kind in ("list", "other")] == [{"a": [1]}, {"b": 1}]
    assert told_so.run({"kind": "text"}) == "no object"


def test_a_template_reaches_nothing_but_the_values():
    edits = [Sentence(tool="find_user", template="{user_id.__class__.__mro__} {name}")]
    assert json.loads(edited(harness(), edits).tools[0].run({"name": "Ann"})) == {"user_id": 7, "name": "Ann"}


def test_two_templates_are_two_harnesses():
    prints = {
        edited(harness(), [Sentence(tool="find_user", template=template)]).fingerprint()
        for template in ("User {user_id} is {name}.", "{name} has {user_id}.")
    }
    assert len(prints | {harness().fingerprint()}) == 3


def test_merged_the_second_takes_what_the_first_found():
    start = Harness(tools=[find_user, mail_of])
    merge = Merge(first="find_user", second="mail_of", name="mail_by_name", description="Mail by name", link="user_id")
    (merged,) = edited(start, [merge]).tools
    assert set(merged.parameters["properties"]) == {"name", "short"}
    assert merged.parameters["required"] == ["name"]
    bound = merged.bind({"name": "Ann", "short": True})
    assert bound.arguments == {"name": "Ann", "short": True}
    assert merged.run(bound.kwargs) == '{"user_id": 7, "name": "Ann"}\n7@example.org (short)'
    for wrong in ({}, {"name": "Ann", "user_id": 3}, {"name": 5.5}):
        with pytest.raises(ArgumentsError):
            merged.bind(wrong)


def test_merged_without_a_link_both_are_checked_before_either_is_called():
    start = Harness(tools=[find_user, mail_of])
    merge = Merge(first="find_user", second="mail_of", name="both", description="Both")
    (merged,) = edited(start, [merge]).tools
    assert merged.run(merged.bind({"name": "Ann", "user_id": "3"}).kwargs).endswith("3@example.org")
    with pytest.raises(ArgumentsError):
        merged.bind({"name": "Ann", "user_id": "three"})


def test_what_is_merged_or_told_as_a_sentence_works_in_a_run():
    merge = Merge(first="find_user", second="mail_of", name="mail_by_name", description="Mail by name", link="user_id")
    start = edited(Harness(tools=[find_user, mail_of]), [merge])
    with ScriptedServer([calls(("mail_by_name", {"name": "Ann"})), text("Done.")]) as server, Client(server.url) as client:
        assert run(start, "?", client=client).calls[0].result == '{"user_id": 7, "name": "Ann"}\n7@example.org'
    start = edited(Harness(tools=[find_user]), [Sentence(tool="find_user", template="User {user_id} is {name}.")])
    with ScriptedServer([calls(("find_user", {"name": "Ann"})), text("Done.")]) as server, Client(server.url) as client:
        run(start, "?", client=client)
        assert "User 7 is Ann." in server.requests[1]["messages"][-1]["content"]


@tool(effects="write")
def write_note(path: str) -> str:
    """Write a note"""
    return path


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (Drop(tools=("nobody",)), "there is no tool nobody"),
        (Drop(tools=("find_user",)), "comes after find_user"),
        (Rename(tool="ban", name="mail_of"), "there is a tool mail_of already"),
        (Rename(tool="ban", name="no good"), "use 1 to 64"),
        (Reorder(first=("ban", "ban")), "named twice"),
        (GateAfter(tool="find_user", requires="ban"), "each waits for another"),
        (Sentence(tool="ban", template="no field"), "has a {field}"),
        (Shorten(tool="ban", max_result_chars=1), "max_result_chars must be at least"),
        (Merge(first="ban", second="ban", name="b", description="d"), "are one tool"),
        (Merge(first="find_user", second="ban", name="b", description="d"), "with gates"),
        (Merge(first="find_user", second="write_note", name="b", description="d", link="path"), "checked before"),
        (Merge(first="find_user", second="mail_of", name="b", description="d", link="x"), "has no argument x"),
    ],
)
def test_what_cannot_be_made_is_refused_in_words(edit, said):
    start = Harness(tools=[find_user, mail_of, ban, write_note])
    with pytest.raises(UserError) as raised:
        edited(start, [edit])
    assert edit.told in str(raised.value)
    assert said in str(raised.value)


def test_a_tool_that_the_harness_makes_the_model_call_stays():
    with pytest.raises(UserError, match="makes the model call mail_of"):
        edited(harness(first_tool_choice="mail_of"), [Drop(tools=("mail_of",))])


EVERY: list[Edit] = [
    Describe(tool="ban", text="Ban"),
    Rename(tool="ban", name="block"),
    Reorder(first=("block",)),
    GateAfter(tool="mail_of", requires="find_user"),
    Sentence(tool="find_user", template="User {user_id} is {name}."),
    Shorten(tool="block", max_result_chars=600),
    Drop(tools=("block",)),
]


def test_edits_survive_json_and_a_worker_makes_the_same_harness(tmp_path):
    data = json.loads(json.dumps(msgspec.to_builtins(EVERY)))
    assert edits_of(data) == EVERY
    file = tmp_path / "users.py"
    file.write_text(
        "from daneel import Harness, tool\n"
        "@tool\ndef find_user(name: str) -> str:\n    '''Find'''\n    return name\n"
        "@tool\ndef mail_of(user_id: int) -> str:\n    '''Mail'''\n    return 'm'\n"
        "@tool\ndef ban(reason: str) -> str:\n    '''Ban'''\n    return 'b'\n"
        "H = Harness(tools=[find_user, mail_of, ban])\n"
    )
    made = harness_of(Arm(name="H+1", harness="H", file=str(file), changes={"edits": data}), load(file))
    assert made.fingerprint() == edited(load(file).harness("H"), EVERY).fingerprint()
    with pytest.raises(UserError, match="edits: "):
        edits_of([{"type": "nonsense"}])


def test_told_names_each_edit():
    assert told([]) == "no change"
    assert all(edit.told in told(EVERY) for edit in EVERY)
