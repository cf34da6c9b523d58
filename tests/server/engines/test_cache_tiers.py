"""What left the KV cells: found again by its longest prefix, within its bounds, and never believed when it was changed."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daneel.server.engines.base import EngineLoadError, PromptCache
from daneel.server.engines.cache_file import LEFTOVER_AFTER_S
from daneel.server.engines.cache_tiers import DiskTier, MemoryTier, Tiers

IDS = list(range(40))
STATE = bytes(range(256))


def disk(folder: Path, *, max_bytes: int = 1_000_000, scope: str = "model") -> DiskTier:
    return DiskTier(folder, max_bytes=max_bytes, scope=scope)


def test_the_longest_prefix_is_found() -> None:
    tier = MemoryTier(max_bytes=1000, max_entries=10)
    tier.put("", [1, 2, 3], b"a")
    tier.put("", [1, 2, 9, 9], b"b")
    assert tier.longest("", [1, 2, 9, 8], whole=False) == (3, (1, 2, 9, 9), "host_memory")
    assert tier.longest("", [1, 2, 3, 4], whole=True) == (3, (1, 2, 3), "host_memory")
    assert tier.longest("", [1, 2, 9, 8], whole=True) is None
    assert tier.longest("other", [1, 2, 3], whole=False) is None
    assert tier.get("", (1, 2, 3)) == b"a"


def test_a_beginning_of_what_is_kept_is_not_kept_twice() -> None:
    tier = MemoryTier(max_bytes=1000, max_entries=10)
    tier.put("", [1, 2], b"aa")
    tier.put("", [1, 2, 3], b"bbb")
    assert tier.num_bytes == 3
    assert tier.get("", (1, 2)) is None


@given(st.lists(st.tuples(st.lists(st.integers(0, 3), min_size=1, max_size=4), st.binary(max_size=30)), max_size=20))
def test_the_bounds_hold(entries: list[tuple[list[int], bytes]]) -> None:
    tier = MemoryTier(max_bytes=60, max_entries=4)
    for ids, state in entries:
        tier.put("", ids, state)
        assert tier.num_bytes == sum(len(kept.state) for kept in tier._kept.values()) <= 60
        assert len(tier._kept) <= 4


def test_what_memory_lets_go_of_goes_to_the_disk(tmp_path: Path) -> None:
    tier = MemoryTier(max_bytes=300, max_entries=10, below=disk(tmp_path))
    tier.put("", IDS, STATE)
    tier.put("", [7, 7, 7], STATE)
    tier.flush()
    restarted = disk(tmp_path)
    assert restarted.get("", IDS) == STATE
    assert restarted.get("", [7, 7, 7]) == STATE


def test_files_are_for_their_owner_only(tmp_path: Path) -> None:
    disk(tmp_path / "cache").put("", IDS, STATE)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "cache").iterdir()}
    assert modes == {0o600}
    assert stat.S_IMODE((tmp_path / "cache").stat().st_mode) == 0o700


def test_any_flipped_bit_means_nothing_is_there(tmp_path: Path) -> None:
    disk(tmp_path).put("", IDS, STATE)
    [path] = tmp_path.glob("*.kv")
    data = path.read_bytes()
    for at in range(0, len(data), 7):
        changed = bytearray(data)
        changed[at] ^= 1 << (at % 8)
        path.write_bytes(bytes(changed))
        tier = disk(tmp_path)
        assert tier.longest("", IDS, whole=False) is None
        assert tier.get("", IDS) is None
    path.write_bytes(data[:-1])
    assert disk(tmp_path).get("", IDS) is None


def test_a_file_changed_while_the_server_runs_is_not_believed(tmp_path: Path) -> None:
    tier = disk(tmp_path)
    tier.put("", IDS, STATE)
    [path] = tmp_path.glob("*.kv")
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    assert tier.get("", IDS) is None
    assert tier.longest("", IDS, whole=False) is None


@pytest.mark.parametrize(("scope", "tenant"), [("another model", "a"), ("model", "b")])
def test_another_model_or_tenant_finds_nothing(tmp_path: Path, scope: str, tenant: str) -> None:
    disk(tmp_path).put("a", IDS, STATE)
    assert disk(tmp_path, scope=scope).longest(tenant, IDS, whole=False) is None


def test_a_tenant_cannot_be_written_into_anothers_file(tmp_path: Path) -> None:
    disk(tmp_path).put("tenant a", IDS, STATE)
    [path] = tmp_path.glob("*.kv")
    data = path.read_bytes()
    assert data.count(b"tenant a") == 1
    path.write_bytes(data.replace(b"tenant a", b"tenant b"))
    assert disk(tmp_path).longest("tenant b", IDS, whole=False) is None


def test_a_restart_reads_heads_only_and_offers_what_is_whole(tmp_path: Path) -> None:
    tier = disk(tmp_path)
    tier.put("", IDS, STATE)
    tier.put("", IDS[:30], STATE)
    longer = max(tmp_path.glob("*.kv"), key=lambda path: path.stat().st_size)
    longer.write_bytes(longer.read_bytes()[:-1] + b"x")
    restarted = disk(tmp_path)
    assert len(restarted._kept) == 2
    assert restarted.longest("", IDS, whole=False) == (30, tuple(IDS[:30]), "disk")
    assert len(restarted._kept) == 1


def test_the_disks_bound_holds_and_the_oldest_goes(tmp_path: Path) -> None:
    tier = disk(tmp_path, max_bytes=1000)
    for number in range(6):
        tier.put("", [number] * 10, STATE)
    assert tier.get("", [0] * 10) is None
    assert tier.get("", [5] * 10) == STATE
    assert sum(path.stat().st_size for path in tmp_path.glob("*.kv")) <= 1000


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_flood_takes_no_room_from_another_in_a_tier(tmp_path: Path, on_disk: bool) -> None:
    tier = disk(tmp_path, max_bytes=4 * 1024) if on_disk else MemoryTier(max_bytes=4 * 1024, max_entries=100)
    tier.put("quiet", IDS, STATE)
    for number in range(30):
        tier.put("loud", [number, number], STATE * 3)
    assert tier.get("quiet", IDS) == STATE
    assert 0 < len(tier.entries("loud")) <= 5


def test_a_flood_of_small_entries_takes_no_place_from_another() -> None:
    tier = MemoryTier(max_bytes=100_000, max_entries=4)
    tier.put("quiet", IDS, STATE * 10)
    tier.put("quiet", [1, 2], STATE * 10)
    for number in range(30):
        tier.put("loud", [number, number], b"x")
    assert len(tier.entries("quiet")) == len(tier.entries("loud")) == 2


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_tenant_sees_and_drops_its_own(tmp_path: Path, on_disk: bool) -> None:
    tier = disk(tmp_path) if on_disk else MemoryTier(max_bytes=10_000, max_entries=100)
    tier.put("a", IDS, STATE)
    tier.put("a", [1, 2], STATE)
    tier.put("b", IDS, STATE)
    assert [(entry.tier, entry.tokens) for entry in tier.entries("a")] == [(tier.name, 2), (tier.name, 40)]
    assert all(entry.bytes >= 256 and entry.age_s >= 0 for entry in tier.entries("a"))
    tier.clear("a")
    assert tier.entries("a") == []
    assert tier.get("b", IDS) == STATE
    assert len(list(tmp_path.glob("*.kv"))) == (1 if on_disk else 0)


def test_smaller_bounds_hand_down_and_delete(tmp_path: Path) -> None:
    below = disk(tmp_path)
    tier = MemoryTier(max_bytes=10_000, max_entries=100, below=below)
    tier.put("a", IDS, STATE)
    tier.put("a", [1, 2], STATE)
    tier.max_entries = 1
    tier.trim()
    assert [entry.tokens for entry in tier.entries("a")] == [2]
    assert below.get("a", IDS) == STATE
    assert tier.takes
    below.max_bytes = tier.max_bytes = 0
    tier.trim()
    below.trim()
    assert tier.entries("a") == below.entries("a") == []
    assert not tier.takes


@pytest.mark.parametrize(("content", "mode"), [(b"", 0o600), (b"short", 0o600), (b"x" * 32, 0o644)])
def test_a_folder_whose_secret_is_none_is_refused(tmp_path: Path, content: bytes, mode: int) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(content)
    secret.chmod(mode)
    with pytest.raises(EngineLoadError, match=r"secret has .*: delete it"):
        Tiers.open(PromptCache(folder=str(tmp_path)), scope=["model"])


def test_what_a_killed_server_left_half_written_goes_and_nothing_else(tmp_path: Path) -> None:
    old, new, foreign = (tmp_path / name for name in ("tmpold.kv.part", "tmpnew.kv.part", "notes.part"))
    for path in (old, new, foreign):
        path.write_bytes(b"half")
    for path in (old, foreign):
        os.utime(path, (path.stat().st_mtime - 2 * LEFTOVER_AFTER_S,) * 2)
    disk(tmp_path)
    assert not old.exists()
    assert new.exists()  # another server may be writing it
    assert foreign.exists()


@pytest.mark.skipif(os.name != "posix", reason="needs named pipes")
def test_things_that_are_no_files_hold_up_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.kv")
    (tmp_path / "folder.kv").mkdir()
    tier = disk(tmp_path)
    tier.put("", IDS, STATE)
    assert tier.get("", IDS) == STATE


def test_files_of_other_models_count_and_go_first(tmp_path: Path) -> None:
    earlier = disk(tmp_path, scope="another model")
    for number in range(3):
        earlier.put("a", [number, *IDS], bytes(1000))
    size = sum(path.stat().st_size for path in tmp_path.glob("*.kv"))
    now = disk(tmp_path, max_bytes=size)
    now.put("a", IDS, bytes(1000))
    assert now.longest("a", IDS, whole=False) is not None
    assert sum(path.stat().st_size for path in tmp_path.glob("*.kv")) <= size
    assert len(list(tmp_path.glob("*.kv"))) == 3, "one of the others had to go"


def test_what_a_tenant_drops_is_dropped_for_other_models_too(tmp_path: Path) -> None:
    for tenant in ("a", "b"):
        disk(tmp_path, scope="another model").put(tenant, IDS, bytes(100))
    (tmp_path / "notes.kv").write_bytes(b"not of ours")
    disk(tmp_path).clear("a")
    assert len(list(tmp_path.glob("*.kv"))) == 2
    again = disk(tmp_path, scope="another model")
    assert again.longest("a", IDS, whole=False) is None
    assert again.longest("b", IDS, whole=False) is not None
