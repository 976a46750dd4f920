"""ExpeL: rules that a model draws from the episodes of a training split, and a memory that shows them at test time.

Rules are voted on: ADD a new one (2 votes), AGREE (one more) or EDIT (one more, with another wording), REMOVE (one
less); a rule without votes is gone, and at the cap no new one is added. Pairs of a failed and a successful episode of
the same task are compared first, then successes are read together. At test time the memory holds the rules and the
successes whose objectives share most words with the task's. Source: Zhao et al., "ExpeL: LLM Agents Are Experiential
Learners", arXiv 2308.10144; the retrieval by shared words, the bounds on texts and the wording are ours. Rules come
from training seeds only, which is the caller's care. This module knows no environment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field, replace
from typing import Any

from rir_gym.base import Message
from rir_gym.episode import Episode
from rir_gym.errors import UsageError
from rir_gym.memory import Fact
from rir_policies.model import Model, Prompt
from rir_policies.prompts import Prompts
from rir_policies.read import read_text

__all__ = ["Experience", "Recall", "Rule", "RuleBook", "Rules", "experience_of", "learn_rules", "read_votes", "voted"]

_VOTE = re.compile(r"[\s\-*•>\[(]*(ADD|EDIT|REMOVE|AGREE)\s*(\d{1,3})?\s*[\])]?\s*[:：]?\s*(.*)", re.IGNORECASE)
_MAX_STEP_CHARS = 160
_MAX_RULE_CHARS = 200
_TOGETHER = 4


@dataclass(frozen=True, slots=True)
class Experience:
    """One finished training episode as text: the surviving branch, and whether it succeeded."""

    seed: int
    objective: str
    success: bool
    text: str


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule and its votes."""

    text: str
    votes: int = 2


@dataclass(frozen=True, slots=True)
class RuleBook:
    """What training leaves: at most ``most`` rules, the best first, and the successes to retrieve from."""

    rules: tuple[Rule, ...] = ()
    successes: tuple[Experience, ...] = ()
    _: KW_ONLY
    most: int = 20

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, for a file; ``from_json`` reads them."""
        return {
            "rules": [asdict(rule) for rule in self.rules],
            "successes": [asdict(each) for each in self.successes],
            "most": self.most,
        }

    @classmethod
    def from_json(cls, value: Any) -> RuleBook:
        """What ``to_json`` wrote.

        Raises:
            UsageError: it is something else.
        """
        try:
            rules = tuple(Rule(str(each["text"]), int(each["votes"])) for each in value["rules"])
            successes = tuple(
                Experience(int(each["seed"]), str(each["objective"]), bool(each["success"]), str(each["text"]))
                for each in value["successes"]
            )
            return cls(rules, successes, most=int(value["most"]))
        except (KeyError, TypeError, ValueError) as error:
            raise UsageError(f"rules={json.dumps(value, default=str)[:80]}: what RuleBook.to_json writes") from error


@dataclass(frozen=True, slots=True)
class Rules:
    """A memory of rules and retrieved successes. It is made before the episode and never changes in it."""

    objective: str
    rules: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()

    def render(self) -> str:
        """The rules, then the examples."""
        lines = ["Rules from earlier tasks:", *(f"- {rule}" for rule in self.rules)] if self.rules else []
        for example in self.examples:
            lines += ["An earlier task that succeeded:", example]
        return "\n".join(lines)

    def learn(self, learned: Sequence[Fact]) -> Rules:
        """Itself: nothing is learned at test time."""
        return self

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"kind": "rules", "objective": self.objective, "rules": [*self.rules], "examples": [*self.examples]}


@dataclass(frozen=True, slots=True)
class Recall:
    """Makes M_0 of a task from a rule book: all its rules and the ``examples`` nearest successes."""

    book: RuleBook = field(repr=False)
    _: KW_ONLY
    examples: int = 1

    def __call__(self, objective: str) -> Rules:
        """The memory at the start of an episode."""
        wanted = _words(objective)
        near = sorted(self.book.successes, key=lambda each: (-len(wanted & _words(each.objective)), each.seed))
        texts = tuple(f"Objective: {each.objective}\n{each.text}" for each in near[: self.examples])
        return Rules(objective, tuple(rule.text for rule in self.book.rules), texts)


def experience_of(episode: Episode) -> Experience:
    """A finished episode as training material: the actions of its surviving branch and what they showed."""
    lines = []
    for node in episode.last.branch():
        seen = " ".join(str(node.step.observation).split())[:_MAX_STEP_CHARS]
        lines.append(seen if node.parent is None else f"> {node.step.action}\n{seen}")
    return Experience(episode.seed, episode.objective, episode.success, "\n".join(lines))


def learn_rules(
    experiences: Iterable[Experience], model: Model, prompts: Prompts, *, most: int = 20, reply_tokens: int = 160
) -> RuleBook:
    """Rules by votes of ``model`` on training experiences: one request a pair, then one for every four successes.

    Requests are greedy and one after the other, since each shows the rules so far.

    Args:
        experiences: from training seeds only. A pair has the same seed and objective.
        model: any ``Model``.
        prompts: ``expel.compare`` and ``expel.together``.
        most: cap on the number of rules.
        reply_tokens: length of a reply, in tokens.

    Raises:
        UsageError: no experience, or a cap below 1.
    """
    known = list(experiences)
    if not known or most < 1:
        raise UsageError(f"experiences={len(known)}, most={most!r}: at least one experience and one rule")
    successes = [each for each in known if each.success]
    pairs = [
        (failed, won)
        for failed in known
        for won in successes
        if not failed.success and (failed.seed, failed.objective) == (won.seed, won.objective)
    ]
    rules: tuple[Rule, ...] = ()
    for failed, won in pairs:
        told = {"objective": won.objective, "failure": failed.text, "success": won.text}
        rules = _asked(model, prompts, "expel.compare", rules, most, reply_tokens, told)
    for at in range(0, len(successes), _TOGETHER):
        some = "\n\n".join(f"Objective: {each.objective}\n{each.text}" for each in successes[at : at + _TOGETHER])
        rules = _asked(model, prompts, "expel.together", rules, most, reply_tokens, {"successes": some})
    return RuleBook(rules, tuple(successes), most=most)


def read_votes(reply: str) -> list[tuple[str, int | None, str]]:
    """The operations in a reply, one a line: (ADD, EDIT, REMOVE or AGREE; the rule's number; the new wording)."""
    votes = []
    for line in reply.replace("**", "").splitlines():
        if found := _VOTE.fullmatch(line.strip()):
            number = int(found[2]) if found[2] else None
            votes.append((found[1].upper(), number, read_text(found[3], max_chars=_MAX_RULE_CHARS)))
    return votes


def voted(rules: Sequence[Rule], votes: Sequence[tuple[str, int | None, str]], *, most: int = 20) -> tuple[Rule, ...]:
    """The rules after these votes, the best first. What names no rule, or words none, is not counted.

    >>> [rule.text for rule in voted([Rule("look first", 1)], [("REMOVE", 1, ""), ("ADD", None, "read the book")])]
    ['read the book']
    """
    now: list[Rule] = list(rules)
    added: list[Rule] = []
    for kind, number, text in votes:
        at = (number or 0) - 1
        if kind == "ADD":
            if text and text not in {rule.text for rule in (*now, *added)}:
                added.append(Rule(text))
        elif 0 <= at < len(now):
            step = -1 if kind == "REMOVE" else 1
            worded = text if kind == "EDIT" and text else now[at].text
            now[at] = replace(now[at], text=worded, votes=now[at].votes + step)
    left = [rule for rule in now if rule.votes > 0]
    kept = [*left, *added[: max(0, most - len(left))]]
    return tuple(sorted(kept, key=lambda rule: -rule.votes))


def _asked(
    model: Model,
    prompts: Prompts,
    section: str,
    rules: tuple[Rule, ...],
    most: int,
    reply_tokens: int,
    told: dict[str, str],
) -> tuple[Rule, ...]:
    numbered = "\n".join(f"{number}. {rule.text}" for number, rule in enumerate(rules, 1)) or "none yet"
    full = prompts.fill("expel.full") if len(rules) >= most else ""
    question = prompts.fill(section, rules=numbered, **told)
    messages = (Message("user", "\n\n".join(part for part in (question, full) if part)),)
    [reply] = model.generate([Prompt(messages, max_new_tokens=reply_tokens)])
    return voted(rules, read_votes(reply.text), most=most)


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.casefold()))
