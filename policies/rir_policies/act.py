"""The agent's role: what to do next. It asks for a choice where the environment lists its commands, else for a line.

This module knows no environment; wording is ``chat``'s, reading is ``read``'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace

from rir_gym.base import Call, Decision, DecisionKind, Message, View
from rir_policies import chat
from rir_policies.ask import Kind, choose, generate, prompt
from rir_policies.grammar import command_pattern
from rir_policies.model import Model, Prompt
from rir_policies.prompts import Prompts
from rir_policies.read import read_action, read_choice, read_final, read_text

__all__ = ["ModelActor"]

_ACTION_TOKENS = 64
_ANSWER_TOKENS = 128


@dataclass(frozen=True, slots=True)
class ModelActor:
    """An ``Act`` played by a language model. All episodes' requests of one kind are one batch.

    With admissible commands the model chooses among them, ``rollback`` (a request for review) and ``final`` where the
    environment has a final response, whose text is then generated. Without, it writes a line that is read. What
    cannot be read is asked for once more and is then UNPARSED. For the loop each of these is one agent call.

    Args:
        model: any ``Model``.
        prompts: the texts.
        thought_tokens: length of a thought before the action, in tokens; 0 asks for none.
        temperature: of thoughts, choices and free text alike; 0 is greedy.
        requests: "offered" tells the agent that it may ask for a rollback. With "none" it is not told, and a written
            ``rollback`` is unreadable: it must not reach the environment, where it would be the operator itself.
        constrained: True lets the model write nothing but one readable line of at most 59 characters, where it writes
            its command; needs a backend that can (extra "grammar").
    """

    model: Model = field(repr=False)
    prompts: Prompts
    _: KW_ONLY
    thought_tokens: int = 0
    temperature: float = 0.0
    requests: chat.Requests = "offered"
    constrained: bool = False

    def __call__(self, views: Sequence[View]) -> Sequence[Decision]:
        """One decision a view, with the calls that made it."""
        turns = [_Turn(view, chat.options(view, requests=self.requests)) for view in views]
        self._think(turns)
        self._choose([turn for turn in turns if turn.options])
        self._write([turn for turn in turns if turn.decision is None], "first")
        self._write([turn for turn in turns if turn.unreadable], "reask")
        return [turn.finished() for turn in turns]

    def _think(self, turns: Sequence[_Turn]) -> None:
        for turn in turns:
            turn.messages = chat.act(turn.view, self.prompts, requests=self.requests)
        if not self.thought_tokens:
            return
        asked = [
            self._prompt(
                turn, chat.think(turn.view, self.prompts, requests=self.requests), "thought", self.thought_tokens
            )
            for turn in turns
        ]
        for turn, (_, call) in zip(turns, generate(self.model, "act", "first", asked), strict=True):
            turn.calls.append(call)
            turn.thought = read_text(call.text)
            if turn.thought:
                closing = chat.decide(turn.view, self.prompts, requests=self.requests)
                turn.messages = chat.follow(call.messages, turn.thought, closing)

    def _choose(self, turns: Sequence[_Turn]) -> None:
        kind: Kind = "sub" if self.thought_tokens else "first"
        asked = [self._prompt(turn, turn.messages, "choice", _ACTION_TOKENS) for turn in turns]
        for turn, (choice, call) in zip(
            turns, choose(self.model, "act", kind, asked, [turn.options for turn in turns]), strict=True
        ):
            turn.calls.append(call)
            self._take(turn, choice.index)

    def _take(self, turn: _Turn, index: int | None) -> None:
        """What the chosen option means; None is an option that could not be read."""
        option = None if index is None else turn.options[index]
        if option is None:
            turn.decision = Decision(DecisionKind.UNPARSED)
        elif option in (turn.view.admissible or ()):
            turn.decision = Decision.act(option)
        elif option == chat.ROLLBACK:
            turn.decision = Decision(DecisionKind.REQUEST)
        else:
            turn.answers, turn.decision = True, None
            messages = turn.calls[-1].messages
            turn.messages = chat.follow(messages, chat.FINAL, self.prompts.fill("act.answer"))

    def _write(self, turns: Sequence[_Turn], kind: Kind) -> None:
        for turn in turns if kind == "reask" else ():
            notice = "act.answer" if turn.answers else "act.reask"
            turn.messages = chat.reask(turn.messages, self.prompts.fill(notice))
        asked = [
            self._prompt(turn, turn.messages, kind, _ANSWER_TOKENS if turn.view.can_submit else _ACTION_TOKENS)
            for turn in turns
        ]
        again = []
        for turn, (reply, call) in zip(turns, generate(self.model, "act", kind, asked), strict=True):
            turn.calls.append(replace(call, kind="sub") if kind == "first" and turn.calls else call)
            cut = reply.stop_reason == "length"
            if turn.answers:
                turn.decision = read_final(call.text, cut=cut)
            elif turn.options:
                self._take(turn, read_choice(call.text, turn.options, cut=cut))
                again += [turn] if turn.decision is None else []
            else:
                turn.decision = read_action(call.text, can_submit=turn.view.can_submit, cut=cut)
                if self.requests == "none" and turn.decision.kind is DecisionKind.REQUEST:
                    turn.decision = Decision(DecisionKind.UNPARSED)
        if again:
            self._write(again, "first")

    def _prompt(self, turn: _Turn, messages: tuple[Message, ...], salt: str, max_new_tokens: int) -> Prompt:
        line = self.constrained and not turn.options and salt in ("first", "reask")
        return prompt(
            turn.view,
            messages,
            salt=f"act {salt}",
            max_new_tokens=max_new_tokens,
            temperature=self.temperature,
            pattern=command_pattern(can_submit=turn.view.can_submit) if line else "",
        )


@dataclass(slots=True)
class _Turn:
    """What is known of one view's decision so far, within one call of the role."""

    view: View
    options: tuple[str, ...]
    messages: tuple[Message, ...] = ()
    thought: str = ""
    decision: Decision | None = None
    answers: bool = False
    calls: list[Call] = field(default_factory=list)

    @property
    def unreadable(self) -> bool:
        return self.decision is not None and self.decision.kind is DecisionKind.UNPARSED

    def finished(self) -> Decision:
        decision = self.decision or Decision(DecisionKind.UNPARSED)
        return replace(decision, thought=self.thought or decision.thought, calls=tuple(self.calls))
