"""A format of your own, line by line: `@NAME {"key": "value"}` is a call, `# …` is a thought, everything else is the answer.

daneel parse --format-file examples/my_format.py output.txt
daneel serve model.gguf --format-file examples/my_format.py
"""

from __future__ import annotations

from daneel.formats.user_format import Call, Content, Piece, Reasoning, UserFormat


class MyFormat(UserFormat):
    def read(self, text: str, final: bool) -> Piece | None:
        """The first piece of `text`, or None to be asked again with more of it; `final`: there will be no more."""
        line, newline, _ = text.partition("\n")
        if not newline and not final:
            return None
        length = len(line + newline)
        if line.startswith("@"):
            name, _, arguments = line[1:].partition(" ")
            return Call(length, name, arguments or "{}")
        return Reasoning(length) if line.startswith("# ") else Content(length)
