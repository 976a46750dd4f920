"""What a mechanism declared, held against what it does: each function raises ``MechanismError``, or nothing.

The loop asks at every choice, so a table never shows a mechanism under a name that it did not keep to. This module
knows no mechanism by name, no environment and no role.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields

from rir_gym.base import Mechanism, Node
from rir_gym.errors import MechanismError
from rir_gym.knowledge import OracleView
from rir_gym.ledger import Budget, Ledger
from rir_gym.memory import Memory
from rir_gym.operator import Operator, Space
from rir_gym.rollback import RollbackWrapper

__all__ = ["check_calls", "check_memory", "check_node", "check_operator", "no_peeking"]

_ORACLE_NAMES = frozenset(field.name for field in fields(OracleView)) | {"reaches"}


def check_calls(mechanism: Mechanism, calls: int, decided: int, ledger: Ledger, budget: Budget) -> None:
    """B_agent counts every sampled, drafted or refined action, and nothing is done that was not paid for.

    Args:
        calls: what this decision says it cost; 0 for an action that an earlier decision had sampled already.
        decided: decisions so far, this one included, without those that a rollback dropped.
        ledger, budget: N_agent so far, and B_agent.
    """
    if isinstance(calls, bool) or not isinstance(calls, int) or calls < 0:
        raise _fault(mechanism, f"a decision with agent_calls={calls!r}: an int of at least 0")
    left = budget.agent_calls - ledger.agent_calls
    if calls > left:
        raise _fault(mechanism, f"a decision with agent_calls={calls!r}, where {left} of B_agent were left")
    if decided > ledger.agent_calls + calls:
        paid = ledger.agent_calls + calls
        raise _fault(mechanism, f"decision {decided} of the episode, but only {paid} agent calls were paid for")


def check_node(mechanism: Mechanism, here: Node, target: Node) -> None:
    """With ``nodes="branch"`` only ancestors are restored."""
    if mechanism.restriction.nodes == "branch" and not any(node is target for node in here.branch()):
        told = f"restores node {target.id} from node {here.id}, which does not descend from it"
        raise _fault(mechanism, f'{told}; it declares nodes="branch"')


def check_operator(mechanism: Mechanism, env: RollbackWrapper, target: Node, before: Memory, after: Memory) -> None:
    """(k, M+) is in the declared set; of a jump to another branch, which has no k, M+ alone."""
    here, restriction = env.node, mechanism.restriction
    check_node(mechanism, here, target)
    if restriction.nodes == "tree":
        check_memory(mechanism, here, before, after)
        return
    space, depth = Space(here.t, frozenset(env.restorable), before), here.t - target.t
    if not restriction.allows(Operator(depth, after), space):
        changed = "M+ = M" if after == before else f"M+ = a changed {type(after).__name__}"
        of = f"of K_t = {sorted(space.depths)}"
        raise _fault(mechanism, f"chose k={depth} {of} and {changed} at step {here.t}; it declares {restriction}")


def check_memory(mechanism: Mechanism, here: Node, before: Memory, after: Memory) -> None:
    """What a review adds to M (ΔE) is in the declared set, too."""
    if not mechanism.restriction.memories.allows(after, before):
        told = f"changed M at step {here.t}; it declares {mechanism.restriction}"
        raise _fault(mechanism, told)


@contextmanager
def no_peeking(mechanism: Mechanism) -> Iterator[None]:
    """A role that reads ``view.oracle`` without ``uses_oracle`` finds None there; the error says what that means."""
    try:
        yield
    except AttributeError as error:
        if mechanism.uses_oracle or error.obj is not None or error.name not in _ORACLE_NAMES:
            raise
        told = f"a role read view.oracle.{error.name}; it declares uses_oracle=False"
        raise _fault(mechanism, told) from error


def _fault(mechanism: Mechanism, told: str) -> MechanismError:
    return MechanismError(f"mechanism={mechanism.name!r}: {told}")
