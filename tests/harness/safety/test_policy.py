"""Rules as people write them: which of them matches, which wins, and which are refused."""

from __future__ import annotations

import pytest

from daneel import Harness, tool
from daneel.errors import UserError
from daneel.harness.safety.patterns import PRIVATE, host_matches, path_matches
from daneel.harness.safety.policy import SafetyPolicy


@pytest.mark.parametrize(
    ("path", "pattern", "matches"),
    [
        ("notes/a.txt", "notes/**", True),
        ("notes/deep/a.txt", "notes/**", True),
        ("notes/a.txt", "notes/*.txt", True),
        ("notes/deep/a.txt", "notes/*.txt", False),
        ("notes/deep/a.txt", "notes", True),
        ("notes2/a.txt", "notes", False),
        ("a.txt", "*.txt", True),
        ("deep/er/a.txt", "*.txt", True),
        ("a.txt.bak", "*.txt", False),
        ("NOTES/A.TXT", "notes/*.txt", True),
        ("deep/x/end", "deep/**/end", True),
        ("deep/end", "deep/**/end", True),
        ("a+b(1).txt", "a+b(1).txt", True),
        ("axb(1).txt", "a+b(1).txt", False),
        ("ab", "a?", True),
        ("a/b", "a?b", False),
        ("/etc/hosts", "/etc/*", True),
    ],
)
def test_path_patterns(path: str, pattern: str, matches: bool) -> None:
    assert (path_matches(path, [pattern]) is not None) == matches


@pytest.mark.parametrize(
    "path", [".env", "a/.ENV", "a/.env.local", ".ssh/config", "x/id_rsa.pub", "k.PEM", "config/secrets.yaml", ".aws/x/y"]
)
def test_private_by_custom(path: str) -> None:
    assert path_matches(path, PRIVATE)


@pytest.mark.parametrize("path", ["src/secrets.py", "environment.txt", "docs/password_reset.md", "keyboard.txt", "a.env.md/x"])
def test_not_private(path: str) -> None:
    assert path_matches(path, PRIVATE) is None


@pytest.mark.parametrize(
    ("host", "port", "pattern", "matches"),
    [
        ("example.org", 443, "example.org", True),
        ("EXAMPLE.org.", 443, "example.ORG", True),
        ("www.example.org", 443, "example.org", False),
        ("www.example.org", 443, "*.example.org", True),
        ("example.org", 443, "*.example.org", True),
        ("notexample.org", 443, "*.example.org", False),
        ("example.org.evil.net", 443, "*.example.org", False),
        ("example.org", 8080, "example.org:8080", True),
        ("example.org", 443, "example.org:8080", False),
        ("::1", 80, "[::1]:80", True),
        ("::1", 80, "::1", True),
        ("anything", None, "*", True),
    ],
)
def test_host_patterns(host: str, port: int | None, pattern: str, matches: bool) -> None:
    assert host_matches(host, port, pattern) == matches


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"allow": "write"}, "must be a list of rules"),
        ({"allow": [3]}, "must be a list of rules"),
        ({"allow": ["wrote:x"]}, "'wrote:x' is no rule"),
        ({"deny": ["write:"]}, "nothing behind the colon"),
        ({"ask": ["exec:git *"]}, "exec takes no pattern"),
        ({"private_data_out": "maybe"}, "private_data_out"),
        ({"max_result_chars": 3}, "max_result_chars"),
        ({"denied": "no {why}"}, "denied may hold"),
    ],
)
def test_a_rule_that_says_nothing_is_refused(fields: dict, said: str) -> None:
    with pytest.raises(UserError, match="safety: ") as refused:
        SafetyPolicy(**fields)
    assert said in str(refused.value)


@tool
def plain() -> str:
    """Nothing"""
    return ""


def test_a_rule_about_a_tool_that_is_not_there_is_refused() -> None:
    with pytest.raises(UserError, match="there is no tool plan"):
        Harness(tools=[plain], safety=SafetyPolicy(deny=["tool:plan"]))
    Harness(tools=[plain], safety=SafetyPolicy(deny=["tool:plain"]))


def test_the_policy_is_part_of_the_fingerprint() -> None:
    one, two = Harness(tools=[plain]), Harness(tools=[plain], safety=SafetyPolicy(allow=["write"]))
    assert one.fingerprint() != two.fingerprint()
    assert one.fingerprint() == Harness(tools=[plain], safety=SafetyPolicy()).fingerprint()
