"""Probes of template parameters. The prompt's length in tokens tells, without trust in any model, whether one took effect."""

from __future__ import annotations

from typing import Any

from daneel.harness.doctor.lab import Answer, Lab

_QUESTION = "Say OK."
_BEGUN = [{"role": "user", "content": _QUESTION}, {"role": "assistant", "content": "OK"}]
_ONE_WORD_TOKENS = 2


def parameters(lab: Lab) -> None:
    """`add_generation_prompt`, `continue_final_message`, `chat_template_kwargs`: refused, ignored or honoured."""
    plain = lab.chat(_QUESTION, max_tokens=2)
    closed = lab.chat(_QUESTION, max_tokens=2, add_generation_prompt=False)
    _judge(lab, "add_generation_prompt", closed, _shorter(plain, closed))
    kwargs = lab.chat(_QUESTION, max_tokens=2, chat_template_kwargs={"add_generation_prompt": False, "enable_thinking": False})
    if kwargs.error is None:
        took_effect = _changed(plain, kwargs)
        if took_effect is False and not any("chat_template_kwargs" in warning.field for warning in kwargs.warnings):
            words = "taken; its add_generation_prompt is ignored, other variables depend on the template"
            lab.found("template", "chat_template_kwargs", "taken", words)
        else:
            _judge(lab, "chat_template_kwargs", kwargs, took_effect)
    else:  # some take the template's own variables, but not what they set themselves
        own = lab.chat(_QUESTION, max_tokens=2, chat_template_kwargs={"enable_thinking": False})
        if own.ok:
            words = "taken, but for add_generation_prompt; whether it has an effect depends on the template"
            lab.found("template", "chat_template_kwargs", "taken", words)
        else:
            _judge(lab, "chat_template_kwargs", kwargs, None)
    new_turn = lab.chat(_BEGUN, max_tokens=2)
    continued = lab.chat(_BEGUN, max_tokens=2, add_generation_prompt=False, continue_final_message=True)
    honoured = _shorter(new_turn, continued)
    if honoured is False and _compared(plain, new_turn, lambda one, other: 0 < other - one <= _ONE_WORD_TOKENS):
        # a turn that is closed and followed by another takes more tokens than its one word
        words = "a last message of the assistant's is gone on with, whatever is asked"
        lab.found("template", "continue_final_message", "always", words)
        return
    _judge(lab, "continue_final_message", continued, honoured)


def _judge(lab: Lab, name: str, answer: Answer, took_effect: bool | None) -> None:
    if answer.error is not None:
        lab.found("template", name, "refused", f"refused: {answer.exchange.said()}")
    elif not answer.ok:
        lab.unknown("template", name, answer)
    elif took_effect is None:
        lab.found("template", name, "taken", "taken; whether it has an effect cannot be seen without usage")
    elif took_effect:
        lab.found("template", name, "honoured", f"honoured: the prompt is then {answer.prompt_tokens} tokens")
    else:
        reported = any(name in warning.field for warning in answer.warnings)
        words = "ignored, and listed in warnings" if reported else "ignored without a word"
        lab.found("template", name, "reported" if reported else "ignored", words)


def _shorter(usual: Answer, changed: Answer) -> bool | None:
    return _compared(usual, changed, lambda one, other: other < one)


def _changed(usual: Answer, changed: Answer) -> bool | None:
    return _compared(usual, changed, lambda one, other: other != one)


def _compared(usual: Answer, changed: Answer, differs: Any) -> bool | None:
    if not (usual.ok and changed.ok) or usual.prompt_tokens is None or changed.prompt_tokens is None:
        return None
    return bool(differs(usual.prompt_tokens, changed.prompt_tokens))
