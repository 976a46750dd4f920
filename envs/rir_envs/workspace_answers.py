"""Whether two short answers are the same: numbers as numbers, lists part by part, all else by letters and digits.

The rule is the one by which GAIA's questions are scored (Mialon et al., arXiv 2311.12983, and its public scorer): what
the right answer is decides how the given one is read. This module knows no task.
"""

from __future__ import annotations

import math
import re
import string

__all__ = ["same_answer"]

_PUNCTUATION = str.maketrans("", "", string.punctuation)


def same_answer(given: str, right: str) -> bool:
    """Whether ``given`` counts as ``right``.

    - a number: currency and percent signs and commas are left out, and the values are compared;
    - a list (the right answer holds a comma or semicolon): as many parts, each the same, numbers by value, texts
      without blanks and in any case;
    - a text: without blanks and punctuation, in any case.

    >>> same_answer("$1,234.0", "1234"), same_answer("red; Blue", "red, blue"), same_answer("St. Mary's", "st marys")
    (True, True, True)
    >>> same_answer("about 12", "12"), same_answer("red", "red, blue")
    (False, False)
    """
    if _float(right) is not None:
        return _number(given) == _float(right)
    if re.search("[,;]", right):
        parts, wanted = re.split("[,;]", given), re.split("[,;]", right)
        return len(parts) == len(wanted) and all(map(_same_part, parts, wanted))
    return _letters(given).translate(_PUNCTUATION) == _letters(right).translate(_PUNCTUATION)


def _same_part(given: str, right: str) -> bool:
    value = _float(right)
    return _number(given) == value if value is not None else _letters(given) == _letters(right)


def _number(text: str) -> float | None:
    return _float(re.sub("[$%,]", "", text))


def _float(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _letters(text: str) -> str:
    return re.sub(r"\s", "", text).lower()
