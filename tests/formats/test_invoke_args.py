"""Calls as `<invoke name=...>` blocks: where values end, what is put right, what is refused."""

from __future__ import annotations

import json

import pytest

from daneel.formats.base import Tool
from daneel.formats.invoke_args import InvokeGrammar
from daneel.formats.invoke_scan import InvokeScanner
from daneel.formats.invoke_tags import InvokeTags
from daneel.formats.scan import ScannedCall
from daneel.formats.validate import ToolSet

PLAIN = InvokeGrammar(InvokeTags(ended_by=("</block>", "<invoke name=")))
TYPED = InvokeGrammar(InvokeTags("D:invoke", "D:parameter", typed=True))
CDATA = InvokeGrammar(InvokeTags("function", "param", cdata=True, marker=True, ended_by=("<function name=",)), line="")
FRAMED = InvokeGrammar(InvokeTags(before="[call]", before_word="function[sep]", after="[end]"))

TOOLS = ToolSet(
    [
        Tool("f", parameters={"type": "object", "properties": {"n": {"type": "integer"}, "s": {"type": "string"}}}),
        Tool("now"),
    ]
)


def scan(grammar: InvokeGrammar, text: str, *, tools: ToolSet = TOOLS, size: int | None = None) -> tuple[InvokeScanner, int]:
    """Feed `text` in pieces of `size`, unread ends again with what follows; also how much was read."""
    scanner = grammar.scanner(tools)
    rest, read = "", 0
    for at in range(0, len(text), size or max(len(text), 1)):
        rest += text[at : at + (size or len(text))]
        end = scanner.feed(rest, 0)
        read, rest = read + end, rest[end:]
        if scanner.done or scanner.error:
            break
    return scanner, read


def call(grammar: InvokeGrammar, text: str, **options: ToolSet) -> ScannedCall:
    """The one call of a body; the same in pieces of one character."""
    found = []
    for size in (None, 1):
        scanner, read = scan(grammar, text, size=size, **options)
        assert scanner.done, (scanner.error, scanner.expected)
        [item] = scanner.calls(text[:read])
        assert isinstance(item, ScannedCall)
        assert item.end == read
        found.append(item)
    assert found[0] == found[1]
    return found[0]


def error(grammar: InvokeGrammar, text: str) -> str:
    """What is said of a body that cannot be read, and where; the same in pieces of one character."""
    whole, pieces = scan(grammar, text)[0], scan(grammar, text, size=1)[0]
    assert whole.error is not None
    assert whole.error == pieces.error
    assert not whole.done
    return f"{whole.error.offset}: {whole.error.message}"


def arguments(grammar: InvokeGrammar, text: str, **options: ToolSet) -> object:
    return json.loads(call(grammar, text, **options).arguments or "")


def values(inside: str) -> object:
    return arguments(PLAIN, f'<invoke name="f">{inside}</invoke>')


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a < b", "a < b"),
        (" a\n\n", " a\n\n"),
        ("", ""),
        ("x</parameter>y", "x</parameter>y"),
        ("x</parameter>\n</parameter>", "x</parameter>\n</parameter>"),
        ("x</invoke>y", "x</invoke>y"),
        ('see <parameter name="q">1</parameter> there', 'see <parameter name="q">1</parameter> there'),
        (
            '<invoke name="g"><parameter name="q">1</parameter></invoke>\n',
            '<invoke name="g"><parameter name="q">1</parameter></invoke>\n',
        ),
        ('<parameter name="a" value="1"/>\n<parameter\n/>', '<parameter name="a" value="1"/>\n<parameter\n/>'),
        ("<parameters>1</parameters>", "<parameters>1</parameters>"),
        (
            '<parameter x:y="<">1</parameter>\n<parameter>2</parameter>',
            '<parameter x:y="<">1</parameter>\n<parameter>2</parameter>',
        ),
        ("if a <parameter < b", "if a <parameter < b"),
        ("</param", "</param"),
        ("<<", "<<"),
        ("&lt;", "&lt;"),
    ],
)
def test_a_value_ends_where_another_parameter_or_the_end_follows(text: str, value: str) -> None:
    assert values(f'<parameter name="s">{text}</parameter>') == {"s": value}
    assert values(f'<parameter name="s">{text}</parameter>\n<parameter name="n">1</parameter>') == {"s": value, "n": 1}


@pytest.mark.parametrize(
    "inside",
    [
        '<parameter name="s">1</parameter>junk<parameter name="n">2</parameter>',
        '<parameter name="s">1</parameter>junk',
        '<parameter name="s">1</parameter>junk</invoke><invoke name="g"><parameter name="q">1</parameter>',
        "<parameter>1</parameter>",
        "<param name='s'>1</param>",
        '<parameter name="s">1</parameter><parameter name="s">2</parameter>',
        "junk",
        '<parameter name="s" name="n">1</parameter>',
    ],
)
def test_what_is_not_certain_is_malformed(inside: str) -> None:
    assert error(PLAIN, f'<invoke name="f">{inside}</invoke>')


@pytest.mark.parametrize(
    "inside",
    ['<parameter name="s">1<parameter name="n">2</parameter>', '<parameter name="s">1', '<parameter name="s">1</parameter'],
)
def test_a_value_without_its_end_never_ends(inside: str) -> None:
    scanner, _ = scan(PLAIN, f'<invoke name="f">{inside}</invoke>')
    scanner.finish()
    assert not scanner.done


def test_the_end_tag_may_be_missing_where_the_next_call_or_the_block_s_end_follows() -> None:
    for following in ("</block>", '<invoke name="g">'):
        item = call(PLAIN, f'<invoke name="f"><parameter name="n">1</parameter>\n{following}')
        assert (item.arguments, item.repairs) == ('{"n": 1}', ("missing_end_tag",))
    scanner, _ = scan(PLAIN, '<invoke name="f"><parameter name="n">1</parameter>\n')
    scanner.finish()
    assert not scanner.done, "more parameters might have come"


@pytest.mark.parametrize(
    "tag",
    ['<invoke name="f">', "<invoke name='f'>", "<invoke name=f>", '<invoke\nname = "f" >', '<invoke name="f" >'],
)
def test_attributes_are_quoted_in_any_way(tag: str) -> None:
    assert call(PLAIN, f"{tag}</invoke>") == ScannedCall("f", "{}", len(tag) + 9)


def test_a_call_may_close_itself() -> None:
    assert call(PLAIN, ' <invoke name="now"/>').arguments == "{}"
    assert arguments(PLAIN, '<invoke name="f"><parameter name="s"/></invoke>') == {"s": ""}


def test_all_arguments_may_be_one_object() -> None:
    item = call(PLAIN, '<invoke name="f">\n{"n": 1, "s": "</invoke>"}\n</invoke>')
    assert (item.arguments, item.repairs) == ('{"n": 1, "s": "</invoke>"}', ("json_body",))
    assert error(PLAIN, '<invoke name="f">{"n": 1,}</invoke>').startswith("25: expected a key")
    assert error(PLAIN, '<invoke name="f">{"n": 1}<parameter name="s">x</parameter></invoke>').startswith("25: ")


@pytest.mark.parametrize("key", ["arguments", "input"])
def test_wrapped_arguments_are_unwrapped_if_that_is_certain(key: str) -> None:
    def wrapped(inner: str, name: str = "f") -> ScannedCall:
        return call(TYPED, f'<D:invoke name="{name}"><D:parameter name="{key}" string="true">{inner}</D:parameter></D:invoke>')

    assert wrapped('{"n": 1}') == ScannedCall("f", '{"n": 1}', wrapped('{"n": 1}').end, ("wrapped_arguments",))
    for inner in ('{"n": "1"}', '{"other": 1}', "[1]", '{"n": 1'):
        assert json.loads(wrapped(inner).arguments or "") == {key: inner}
    assert json.loads(wrapped('{"n": 1}', "unknown").arguments or "") == {key: '{"n": 1}'}
    takes_it = ToolSet([Tool("f", parameters={"type": "object", "properties": {key: {"type": "string"}}})])
    text = f'<invoke name="f"><parameter name="{key}">{{"n": 1}}</parameter></invoke>'
    assert arguments(PLAIN, text, tools=takes_it) == {key: '{"n": 1}'}


def typed(value: str, is_string: str) -> str:
    return f'<D:invoke name="f">\n<D:parameter name="n" string="{is_string}">{value}</D:parameter>\n</D:invoke>'


def test_typed_values_are_read_as_they_say() -> None:
    assert arguments(TYPED, typed("1", "true")) == {"n": "1"}
    assert arguments(TYPED, typed(' {"a": [1, null]}\n', "false")) == {"n": {"a": [1, None]}}
    assert call(TYPED, typed("1e400", "false")).arguments == '{"n": 1e400}'
    assert error(TYPED, typed("Paris", "false")).endswith("the value of 'n' is no JSON")
    assert error(TYPED, typed("1 2", "false"))
    assert error(TYPED, typed("", "false"))
    assert arguments(TYPED, '<D:invoke name="f"><D:parameter name="n">1</D:parameter></D:invoke>') == {"n": 1}


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("<![CDATA[a</param>b]]>", "a</param>b"),
        ("<![CDATA[a</param></function>b]]>", "a</param></function>b"),
        ("\n <![CDATA[ x ]]>\n", " x "),
        ("<![CDATA[a]]>b]]>", "a]]>b"),
        ("<![CDATA[a]]></param>b]]>", "a]]></param>b"),
        ("<![CDATA[]]>", ""),
        ("<![CDATA[]]]]>", "]]"),
        ("<![CDAT", "<![CDAT"),
        (" x ", " x "),
        ("a<![CDATA[b]]>", "a<![CDATA[b]]>"),
    ],
)
def test_cdata(written: str, value: str) -> None:
    text = f'"f"><param name="s">{written}</param></function>'
    assert arguments(CDATA, text) == {"s": value}
    assert scan(CDATA, text)[1] == len(text) - len("</function>"), "the closing tag is the call's marker"


def test_detokenised_spaces() -> None:
    item = call(CDATA, "'f'><paramname='s'>x</param><param\u0120name='n'>1</param></function>")
    assert (item.arguments, item.repairs) == ('{"s": "x", "n": 1}', ("missing_space",))


def test_what_stands_around_each_call_of_a_section() -> None:
    body = '<invoke name="now"></invoke>'
    for text in (f"[call]function[sep]{body}[end]", f"\n[call]\n{body}\n[end]"):
        assert call(FRAMED, text) == ScannedCall("now", "{}", len(text))
    assert call(FRAMED, f"{body}[end]").repairs == ("missing_begin_marker",)
    assert call(FRAMED, f"[call]{body}[call]").repairs == ("missing_end_marker",)
    scanner, _ = scan(FRAMED, f"[call]{body}")
    assert not scanner.done
    scanner.finish()
    assert scanner.done


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('<invoke name="f">', "yes"),
        ("  <invokename=f>", "yes"),
        ("<invoke ", "more"),
        ("<inv", "more"),
        ("", "more"),
        ("<invoke>", "no"),
        ("text", "no"),
    ],
)
def test_head(text: str, expected: str) -> None:
    assert PLAIN.head(text, 0) == expected


def test_heads_of_other_spellings() -> None:
    assert [FRAMED.head(text, 0) for text in ("[ca", "[call]", "[call]fun", "[call]function[sep]<invoke name=", "[call]x")] == [
        "more", "more", "more", "yes", "no",
    ]  # fmt: skip
    assert [CDATA.head(text, 0) for text in ('"f">', "f>", " ", "<")] == ["yes", "yes", "more", "no"]


def test_a_tag_without_end_is_given_up() -> None:
    assert "opening tag" in error(PLAIN, '<invoke name="' + "x" * 2000)


@pytest.mark.parametrize("grammar", [PLAIN, TYPED, CDATA, FRAMED])
def test_what_is_written_is_read(grammar: InvokeGrammar) -> None:
    given = '{"n": 1e400, "s": "a\\n<b> \\"c\\" & é", "list": [1, "<"], "none": null, "yes": true}'
    kinds = {"n": "number", "s": "string", "list": "array", "none": "null", "yes": "boolean"}
    schema = {"type": "object", "properties": {key: {"type": kind} for key, kind in kinds.items()}}
    tools = ToolSet([Tool("f", parameters=schema)])
    end = "</function>" if grammar.tags.marker else ""
    item = call(grammar, grammar.write("f", given) + end, tools=tools)
    assert item.arguments == given.replace("\\u00e9", "é")
    assert item.repairs == ()
    assert call(grammar, grammar.write("f", "{}") + end).arguments == "{}"
