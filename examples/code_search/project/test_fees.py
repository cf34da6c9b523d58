from fees import MAX_FEE, late_fee


def test_in_time():
    assert late_fee(0) == 0


def test_never_above_the_limit():
    assert late_fee(10_000) == MAX_FEE
