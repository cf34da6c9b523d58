"""The whole forms of sampled tests here: every pair of markers, many more paths, both kinds of server under attack."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.harness.safety.test_untrusted import STRUCTURAL, as_read

from daneel.harness.safety.paths import PathRefused, parts_of
from daneel.harness.safety.untrusted import defused

pytestmark = pytest.mark.exhaustive


@pytest.mark.parametrize("first", STRUCTURAL)
def test_no_two_markers_make_one(first: str) -> None:
    markers = [as_read(marker) for marker in STRUCTURAL]
    for second in STRUCTURAL:
        for cut in range(len(first)):
            said = as_read(defused(first[:cut] + second + first[cut:]))
            assert not [marker for marker in markers if marker in said]


@settings(max_examples=50_000, deadline=None)
@given(st.text(alphabet=st.characters(categories=["P", "S", "Z", "C"]) | st.sampled_from("./\\~ab"), max_size=12))
def test_no_path_has_a_part_that_is_none(path: str) -> None:
    try:
        parts = parts_of(path)
    except PathRefused:
        return
    for part in parts:
        assert Path(part).name == part
        assert part not in ("", ".", "..")
