"""What it costs to be late."""

CENTS_PER_DAY = 25
MAX_FEE = 900


def late_fee(days_late: int) -> int:
    """The fee in cents for so many days."""
    if days_late <= 0:
        return 0
    return min(MAX_FEE, days_late * CENTS_PER_DAY)
