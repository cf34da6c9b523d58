from loans import AlreadyRenewed, renew


def test_first_renewal():
    assert renew(0) == 21


def test_second_renewal_is_refused():
    try:
        renew(1)
    except AlreadyRenewed:
        return
    raise AssertionError
