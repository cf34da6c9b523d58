"""With which format a model is served, why with that one, and what is to be expected of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from daneel.formats import registry
from daneel.formats.family import Family
from daneel.formats.self_test import SelfTest

FormatSource = Literal["template", "option", "file", "nothing"]
"""What the format was chosen by: the template fits it, a person named it or gave a file; or nothing is known to fit."""


def choose(name: str | None, template: str, *, num_parameters: int | None) -> tuple[Family, FormatSource]:
    """The family called `name`, as the template spells it; else the one the template shows. `UserError` as `registry.get`."""
    family = registry.resolve(name, template, num_parameters=num_parameters)
    if name is not None:
        return family, "option"
    return family, "nothing" if family.full_name == registry.GENERIC else "template"


@dataclass(frozen=True, slots=True)
class FormatReport:
    """`template_knows_tools`: the template tells the model of its tools, in whatever words."""

    source: FormatSource = "template"
    template_knows_tools: bool = True
    self_test: SelfTest = field(default_factory=SelfTest)

    @property
    def warnings(self) -> list[str]:
        """What to expect where not all is well, a sentence each."""
        found = []
        if self.source == "nothing" and self.template_knows_tools:
            found.append(
                "the template tells of tools, but fits no format that daneel knows: it is served as generic, which reads calls "
                "in JSON and in <tool_call> tags; expect others as text. --format NAME or --format-file FILE reads otherwise"
            )
        elif self.source == "nothing":
            found.append(
                "the template knows no tools: the format is generic, tools are told and calls are asked for in daneel's words"
            )
        warning = self.self_test.warning()
        return [*found, warning] if warning else found

    def describe(self) -> dict[str, Any]:
        """For `/v1/models`."""
        test = self.self_test
        failed = [{"case": failure.case, "cause": failure.cause, "reason": failure.reason} for failure in test.failed]
        return {
            "format_from": self.source,
            "self_test": {"passed": list(test.passed), "failed": failed},
            "warnings": self.warnings,
        }

    def lines(self, format_name: str) -> list[str]:
        """For the log."""
        return [self.self_test.summary(format_name), *(f"warning: {warning}" for warning in self.warnings)]
