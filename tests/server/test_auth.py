"""Who a key stands for. That routes are closed without one is in `test_app.py`."""

from __future__ import annotations

import pytest

from daneel.server.auth import Caller, KeyRing
from daneel.wire.errors import Unauthorized


def bearer(key: str) -> list[bytes]:
    return [f"Bearer {key}".encode()]


def test_each_key_is_a_tenant_of_its_own_and_stays_the_same() -> None:
    ring = KeyRing(["one", "two"], secret=b"s")
    one, two = ring.caller(bearer("one")), ring.caller(bearer("two"))
    assert one.tenant != two.tenant
    assert "one" not in one.tenant
    assert len(one.tenant) == 64
    assert KeyRing(["two", "three", "one"], secret=b"s").caller(bearer("one")) == one
    assert KeyRing(["one"], secret=b"another").caller(bearer("one")) != one


def test_an_admin_key_is_a_key_too() -> None:
    ring = KeyRing(["one"], admin_keys=["root", "one"], secret=b"s")
    assert ring.caller(bearer("root")).admin
    assert ring.caller(bearer("one")).admin
    assert ring.caller(bearer("root")).tenant != ring.caller(bearer("one")).tenant


def test_without_keys_all_are_one_tenant_and_any_key_is_taken() -> None:
    ring = KeyRing(admin_keys=["root"])
    assert ring.caller([]) == ring.caller(bearer("whatever")) == Caller("", admin=False)
    assert ring.caller(bearer("root")) == Caller("", admin=True)


def test_two_headers_are_nobody() -> None:
    with pytest.raises(Unauthorized):
        KeyRing(["one"], admin_keys=["root"]).caller(bearer("root") * 2)
    assert not KeyRing(admin_keys=["root"]).caller(bearer("root") * 2).admin
