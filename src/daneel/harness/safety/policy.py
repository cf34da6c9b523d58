"""`SafetyPolicy`: what the tools of a harness may do unasked, what a person is asked for, and what is never done.

    Harness(tools=[...], safety=SafetyPolicy(
        allow=["write:notes/**", "network:*.example.org"],
        deny=["read:archive/**", "tool:delete_all"],
    ))

A rule is `EFFECT`, `EFFECT:PATTERN` (paths for read and write, hosts for network), or `tool:NAME`. The strictest rule that
matches wins: deny, then ask, then allow. Where none matches: tools without effects and reading inside the workspace are
allowed; writing, the network and commands are asked for; reading private files is asked for; and what lies outside of the
workspace is asked for too. Unattended, with nobody to ask, what would be asked for is denied, and the model is told why.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal, get_args

from daneel.errors import UserError
from daneel.harness.safety.patterns import PRIVATE, PROTECTED
from daneel.harness.tools.registry import Effect

Verdict = Literal["allow", "ask", "deny"]
EFFECTS: tuple[Effect, ...] = get_args(Effect)
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule, read: of an effect and a pattern, or of a tool."""

    verdict: Verdict
    text: str
    effect: Effect | None
    pattern: str | None


@dataclass(frozen=True, kw_only=True)
class SafetyPolicy:
    """Rules first, then what counts as private, then limits and wordings. Raises UserError for a rule that says nothing.

    `private` and `untrusted`: path patterns, or `tool:NAME`. Private data, content from outside and a way out (network, a
    command that has one, a write outside of the workspace) meeting in one run is `private_data_out`, whatever the rules allow.
    """

    allow: Sequence[str] = ()
    ask: Sequence[str] = ()
    deny: Sequence[str] = ()
    private: Sequence[str] = PRIVATE
    untrusted: Sequence[str] = ()
    """Besides what has effects: results of these tools, and these files, are other people's words."""
    protected: Sequence[str] = PROTECTED
    """Paths that no tool writes, whatever is allowed or approved."""
    private_data_out: Verdict = "ask"
    redact: bool = True
    """Replace secrets (values of environment variables, keys by their form) before anything is stored or sent."""
    max_result_chars: int = 16_000
    """A longer tool result keeps its beginning and its end."""

    denied: str = "Error: {name} was not allowed: {reason}. Do not try it again; go on without it, or say what you would need."
    declined: str = (
        "Error: the user said no to this call of {name}. Do not try it again; go on without it, or ask the user why."
    )
    unattended: str = (
        "Error: {name} was not allowed: it needs the user's approval ({reason}), and nobody is there to ask. "
        "Do not try it again; go on without it."
    )

    def __post_init__(self) -> None:
        for name in ("allow", "ask", "deny", "private", "untrusted", "protected"):
            value = getattr(self, name)
            if isinstance(value, str) or not all(isinstance(item, str) and item.strip() for item in value):
                raise UserError(f"safety: {name} must be a list of rules such as {_EXAMPLES[name]!r}, not {value!r}")
            object.__setattr__(self, name, tuple(value))
        if self.private_data_out not in VERDICTS:
            raise UserError(f'safety: private_data_out must be "allow", "ask" or "deny", not {self.private_data_out!r}')
        if not isinstance(self.max_result_chars, int) or self.max_result_chars < 200:
            raise UserError(f"safety: max_result_chars must be at least 200, not {self.max_result_chars!r}")
        self.rules()
        for field in fields(self):
            if field.name in ("denied", "declined", "unattended"):
                self._check_wording(field.name)

    def _check_wording(self, name: str) -> None:
        try:
            getattr(self, name).format(name="x", reason="x")
        except (KeyError, IndexError, ValueError) as error:
            raise UserError(f"safety: {name} may hold {{name}} and {{reason}} only: {error}") from error

    def rules(self) -> tuple[Rule, ...]:
        """All rules, the strictest first."""
        verdicts: tuple[Verdict, ...] = ("deny", "ask", "allow")
        return tuple(_read(verdict, text) for verdict in verdicts for text in getattr(self, verdict))

    def unknown_tools(self, names: set[str]) -> list[str]:
        """Tools that rules speak of and the harness does not have: a slip that would leave a rule without force."""
        texts = [*self.allow, *self.ask, *self.deny, *self.private, *self.untrusted]
        spoken = [text.removeprefix("tool:") for text in texts if text.startswith("tool:")]
        return [name for name in spoken if name not in names]


_EXAMPLES = {
    "allow": "write:notes/**",
    "ask": "read:letters/**",
    "deny": "network:*.example.org",
    "private": "letters/**",
    "untrusted": "tool:read_mail",
    "protected": ".git/**",
}


def _read(verdict: Verdict, text: str) -> Rule:
    head, colon, pattern = text.partition(":")
    head, pattern = head.strip(), pattern.strip()
    if colon and not pattern:
        raise UserError(f"safety: {verdict}: {text!r} has nothing behind the colon")
    if head == "tool" and colon:
        return Rule(verdict, text, None, pattern)
    for effect in EFFECTS:
        if head == effect:
            if effect == "exec" and colon:
                # a shell makes any command of any other: a pattern would promise what it cannot keep
                raise UserError(f"safety: {verdict}: {text!r}: exec takes no pattern; name the tool, as in 'tool:run_command'")
            return Rule(verdict, text, effect, pattern or None)
    raise UserError(
        f"safety: {verdict}: {text!r} is no rule; write an effect ({', '.join(EFFECTS)}), an effect with a pattern "
        "('write:notes/**', 'network:*.example.org'), or 'tool:NAME'"
    )
