"""Intervals by resampling episodes: means, ratios, interquartile means, and paired differences.

Every draw follows from a seed. Resampling is by whole episodes, since what happens twice in one episode is not
independent. All intervals are percentile intervals of ``RESAMPLES`` resamples (Efron 1979); the interquartile mean and
its stratified bootstrap follow Agarwal et al., "Deep RL at the edge of the statistical precipice" (NeurIPS 2021).
Formulas only: this module knows no record, mechanism or file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rir_gym.errors import UsageError

__all__ = ["RESAMPLES", "Figure", "interquartile_mean", "iqm_figure", "paired_bootstrap", "ratio_figures"]

RESAMPLES = 2000
_TAILS = (2.5, 97.5)
_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Figure:
    """A value with its 95 % interval, and how many things it is a mean over; all None where n is 0 (unknown).

    With one episode there is nothing to resample: ``low`` and ``high`` are None.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int

    def to_json(self) -> dict[str, float | int | None]:
        """The four fields as plain JSON values."""
        return {"value": self.value, "low": self.low, "high": self.high, "n": self.n}


UNKNOWN = Figure(None, None, None, 0)


def ratio_figures(tops: Sequence[Sequence[float]], bottoms: Sequence[Sequence[float]]) -> list[Figure]:
    """m ratios Σ top / Σ bottom over e episodes, each with an interval from resampled episodes; n is Σ bottom.

    A mean an episode is the ratio whose bottoms are 1; what is not known of an episode has the bottom 0.

    Args:
        tops, bottoms: e rows of m numbers; bottoms are counts of at least 0.

    Raises:
        UsageError: no episodes, rows of other lengths, or a number that is not finite.
    """
    top, bottom = _table("tops", tops), _table("bottoms", bottoms)
    if top.shape != bottom.shape:
        raise UsageError(f"tops={top.shape}, bottoms={bottom.shape}: equal shapes")
    if (bottom < 0).any():
        raise UsageError("bottoms: counts of at least 0")
    sums = top.sum(axis=0), bottom.sum(axis=0)
    episodes = len(top)
    if episodes == 1:
        return [Figure(float(a / b), None, None, int(b)) if b else UNKNOWN for a, b in zip(*sums, strict=True)]
    counts = _counts(episodes)
    with np.errstate(invalid="ignore", divide="ignore"):
        resampled = (counts @ top) / (counts @ bottom)
    figures = []
    for at, (a, b) in enumerate(zip(*sums, strict=True)):
        if not b:
            figures.append(UNKNOWN)
            continue
        column = resampled[:, at]
        low, high = np.percentile(column[np.isfinite(column)], _TAILS)
        value = float(a / b)
        figures.append(Figure(value, min(float(low), value), max(float(high), value), int(b)))
    return figures


def paired_bootstrap(a: Sequence[float], b: Sequence[float]) -> Figure:
    """Mean of a_i − b_i over the same n seeds, with its interval from resampled seeds.

    Args:
        a, b: success (or score) by seed, in the same order of seeds.

    Raises:
        UsageError: lengths differ, no seeds, or a number that is not finite.
    """
    if len(a) != len(b):
        raise UsageError(f"a={len(a)}, b={len(b)}: the same seeds in both")
    differences = _table("a - b", [[float(x) - float(y)] for x, y in zip(a, b, strict=True)])
    mean = float(differences.mean())
    if len(differences) == 1:
        return Figure(mean, None, None, 1)
    resampled = (_counts(len(differences)) @ differences)[:, 0] / len(differences)
    low, high = (float(x) for x in np.percentile(resampled, _TAILS))
    return Figure(mean, min(low, mean), max(high, mean), len(differences))


def interquartile_mean(values: Sequence[float]) -> float:
    """Mean of the middle half: a quarter (rounded down) is cut off at either end of the sorted values.

    Raises:
        UsageError: no values, or one that is not finite.

    >>> interquartile_mean([9, 0, 1, 2, 3, 4, 5, 100])
    3.5
    """
    column = _table("values", [[float(x)] for x in values])[:, 0]
    return float(_middle(column[None, :])[0])


def iqm_figure(strata: Sequence[Sequence[float]]) -> Figure:
    """Interquartile mean over all values, resampled within each stratum (a task or an environment).

    Raises:
        UsageError: no values in a stratum, no strata, or a value that is not finite.
    """
    columns = [_table(f"strata[{at}]", [[float(x)] for x in stratum])[:, 0] for at, stratum in enumerate(strata)]
    if not columns:
        raise UsageError("strata=[]: at least one")
    everything = np.concatenate(columns)
    value = float(_middle(everything[None, :])[0])
    if len(everything) == 1:
        return Figure(value, None, None, 1)
    drawn = [column[_indices(len(column), at)] for at, column in enumerate(columns)]
    low, high = (float(x) for x in np.percentile(_middle(np.concatenate(drawn, axis=1)), _TAILS))
    return Figure(value, min(low, value), max(high, value), len(everything))


def _middle(rows: _Floats) -> _Floats:
    """The interquartile mean of each row."""
    cut = rows.shape[1] // 4
    middle: _Floats = np.sort(rows, axis=1)[:, cut : rows.shape[1] - cut].mean(axis=1)
    return middle


def _indices(n: int, salt: int) -> NDArray[np.int64]:
    """RESAMPLES rows of n indices below n."""
    return np.random.default_rng([n, salt]).integers(0, n, (RESAMPLES, n))


@lru_cache(maxsize=4)
def _counts(n: int) -> _Floats:
    """How often each of n episodes stands in each resample, (RESAMPLES, n): the same for all figures of n episodes."""
    drawn = _indices(n, 0) + n * np.arange(RESAMPLES)[:, None]
    return np.bincount(drawn.ravel(), minlength=RESAMPLES * n).reshape(RESAMPLES, n).astype(np.float64)


def _table(name: str, rows: Any) -> _Floats:
    try:
        table = np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name}: rows of equal length, of numbers ({error})") from error
    if table.ndim != 2 or not table.size:
        raise UsageError(f"{name}={table.shape}: at least one episode and one number of each")
    if not np.isfinite(table).all():
        raise UsageError(f"{name}: finite numbers")
    return table
