"""Why a model is served with its format, and what is to be expected of it."""

from __future__ import annotations

import pytest

from daneel.errors import UserError
from daneel.formats.self_test import PLAIN, Failure, SelfTest
from daneel.server.engines.scripted import CHAT_TEMPLATE
from daneel.server.format_report import FormatReport, choose

UNKNOWN = "{% if tools %}{{ tools }}{% endif %}{{ messages }}"


@pytest.mark.parametrize(
    ("name", "template", "chosen"),
    [
        (None, CHAT_TEMPLATE, ("hermes", "template")),
        ("gemma4", CHAT_TEMPLATE, ("gemma4", "option")),
        ("generic", CHAT_TEMPLATE, ("generic", "option")),
        (None, UNKNOWN, ("generic", "nothing")),
        (None, "", ("generic", "nothing")),
    ],
)
def test_what_the_format_is_chosen_by(name: str | None, template: str, chosen: tuple[str, str]) -> None:
    family, source = choose(name, template, num_parameters=None)
    assert (family.name, source) == chosen


def test_a_name_that_is_none() -> None:
    with pytest.raises(UserError, match="telepathy"):
        choose("telepathy", CHAT_TEMPLATE, num_parameters=None)


def test_an_unknown_template_says_so() -> None:
    [warning] = FormatReport("nothing", True, SelfTest((PLAIN,))).warnings
    assert "fits no format" in warning
    assert "--format-file" in warning
    [warning] = FormatReport("nothing", False, SelfTest((PLAIN,))).warnings
    assert "knows no tools" in warning


def test_what_clients_and_the_log_are_told() -> None:
    failure = Failure(PLAIN, "rendering", "the template refuses")
    report = FormatReport("template", True, SelfTest(("unicode",), (failure,)))
    told = report.describe()
    assert (told["format_from"], told["self_test"]["passed"]) == ("template", ["unicode"])
    assert told["self_test"]["failed"] == [{"case": PLAIN, "cause": "rendering", "reason": "the template refuses"}]
    first, second = report.lines("hermes")
    assert first == "self-test of the format hermes: 1 of 2 known calls come back"
    assert second == f"warning: {told['warnings'][0]}"
    assert FormatReport("template", True, SelfTest((PLAIN,))).warnings == []
