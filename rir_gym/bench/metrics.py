"""Numbers of a table cell: success with its Wilson interval, mean score and ledger, and paired differences.

Formulas only. This module knows no mechanism, environment, suite or file, and draws no random numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from typing import Any

from rir_gym.episode import Episode
from rir_gym.errors import UsageError

__all__ = ["COUNTS", "Z95", "Row", "Summary", "paired_difference", "row_of", "row_of_record", "summary_of", "wilson"]

Z95 = 1.959963984540054
COUNTS = (
    "agent_calls",
    "steps",
    "reviews",
    "rollbacks",
    "corrections",
    "auxiliary",
    "unreadable",
    "prompt_tokens",
    "reused_tokens",
    "generated_tokens",
)


@dataclass(frozen=True, slots=True)
class Row:
    """What one episode adds to a cell: success, score in [0, 1], and the counts of its ledger by name."""

    success: bool
    score: float
    ledger: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Summary:
    """One cell. ``success`` is (rate, low, high) with the 95 % Wilson interval; all other values are means an episode.

    ``steps`` counts real steps, abandoned ones included; ``auxiliary`` = reviews + coarse + fine + patches.
    """

    n: int
    success: tuple[float, float, float]
    score: float
    agent_calls: float
    steps: float
    reviews: float
    rollbacks: float
    corrections: float
    auxiliary: float
    unreadable: float
    prompt_tokens: float
    reused_tokens: float
    generated_tokens: float

    def to_json(self) -> dict[str, Any]:
        """All fields as plain JSON values, success as a list [rate, low, high]."""
        return {**asdict(self), "success": list(self.success)}


def row_of(episode: Episode) -> Row:
    """The row of an episode in memory."""
    return Row(episode.success, episode.score, episode.ledger.to_json())


def row_of_record(record: Mapping[str, Any]) -> Row:
    """The row of a recorded episode; a score that is no finite number counts as nan."""
    score = record["result"]["score"]
    return Row(record["result"]["success"], math.nan if isinstance(score, dict) else float(score), record["ledger"])


def summary_of(rows: Sequence[Row]) -> Summary:
    """The cell of n episodes; their order does not matter.

    Raises:
        UsageError: no rows.
    """
    if not rows:
        raise UsageError("rows=[]: a cell needs at least one episode")
    means = {name: fmean(row.ledger[name] for row in rows) for name in COUNTS}
    success = wilson(sum(row.success for row in rows), len(rows))
    return Summary(n=len(rows), success=success, score=fmean(row.score for row in rows), **means)


def wilson(successes: int, n: int, *, z: float = Z95) -> tuple[float, float, float]:
    """A rate and its Wilson score interval (Wilson 1927): (rate, low, high), all in [0, 1].

    ``z`` is the quantile of the standard normal distribution, by default that of 95 %. The interval is never empty; at
    0 successes low is exactly 0, at n high is exactly 1.

    Raises:
        UsageError: n below 1, successes outside 0..n, or z not positive.

    >>> tuple(round(x, 4) for x in wilson(8, 10))
    (0.8, 0.4902, 0.9433)
    """
    if n < 1 or not 0 <= successes <= n or not 0 < z < math.inf:
        raise UsageError(f"successes={successes!r}, n={n!r}, z={z!r}: 0 <= successes <= n, n >= 1 and z > 0")
    rate = successes / n
    scale = 1 + z * z / n
    middle = (rate + z * z / (2 * n)) / scale
    half = z / scale * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    low = 0.0 if successes == 0 else max(0.0, middle - half)
    high = 1.0 if successes == n else min(1.0, middle + half)
    return rate, low, high


def paired_difference(a: Sequence[float], b: Sequence[float], *, z: float = Z95) -> tuple[float, float, float]:
    """Mean of a_i − b_i over the same n seeds, with its normal interval: (mean, low, high).

    mean ± z · s / √n, s the standard deviation (n − 1) of the differences: no resampling, so nothing is drawn. It is
    approximate: for success flags trust it where some tens of seeds differ. Where all differences are equal s is 0 and
    the interval has no width, which says nothing of other seeds.

    Args:
        a, b: success (or score) by seed, in the same order of seeds.

    Raises:
        UsageError: lengths differ, or fewer than 2 seeds.
    """
    if len(a) != len(b) or len(a) < 2:
        raise UsageError(f"a={len(a)}, b={len(b)}: the same seeds in both, at least 2")
    differences = [float(x) - float(y) for x, y in zip(a, b, strict=True)]
    mean = fmean(differences)
    half = z * stdev(differences) / math.sqrt(len(differences))
    return mean, mean - half, mean + half
