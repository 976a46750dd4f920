"""Budgets are checked when made; counts only grow."""

import pytest

from rir_gym.errors import UsageError
from rir_gym.ledger import Budget, Ledger


@pytest.mark.parametrize("value", [0, -1, None, True, 2.0, "3"])
def test_a_budget_is_a_positive_int(value):
    with pytest.raises(UsageError, match=r"agent_calls=.*at least 1"):
        Budget(agent_calls=value)
    with pytest.raises(UsageError, match=r"rollbacks=.*at least 1"):
        Budget(agent_calls=1, rollbacks=value)


def test_counts_only_grow():
    ledger = Ledger()
    ledger.add("reviews")
    ledger.add("prompt_tokens", 12)
    with pytest.raises(UsageError, match="grows"):
        ledger.add("reviews", -1)
    with pytest.raises(UsageError, match="counts are"):
        ledger.add("reviewz")
    assert (ledger.reviews, ledger.prompt_tokens) == (1, 12)


def test_auxiliary_is_the_sum_of_the_recovery_roles():
    ledger = Ledger(reviews=7, coarse=2, fine=2, patches=3, reasks=5, subrequests=9)
    assert ledger.auxiliary == 14
    assert ledger.to_json()["auxiliary"] == 14
