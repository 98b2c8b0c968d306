"""Dates without floats and without the chip's epoch."""


def date(seconds):
    """`YYYY-MM-DD HH:MM:SS` of Unix `seconds`, `-` for 0. Integers only, any epoch (B08)."""
    if not seconds:
        return "-"
    days, rest = divmod(seconds, 86400)
    # Days since 0000-03-01, in eras of 400 years.
    days += 719468
    era, day = divmod(days, 146097)
    year = (day - day // 1460 + day // 36524 - day // 146096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day = day - (153 * month + 2) // 5 + 1
    year += era * 400
    month += 3
    if month > 12:
        month -= 12
        year += 1
    return "%04d-%02d-%02d %02d:%02d:%02d" % (
        year,
        month,
        day,
        rest // 3600,
        rest // 60 % 60,
        rest % 60,
    )
