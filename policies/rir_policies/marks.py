"""Texts for a server that encodes them itself: what may be a control token of some chat template is broken up.

We cannot know a server's tokenizer. So a zero-width non-joiner goes into everything that has the form of one: a word
between angle brackets or bars, of whatever script, an upper-case word between square brackets, and a heading of three
marks. A reader sees no difference; no tokenizer sees a control token. This module knows no template and no server.
"""

from __future__ import annotations

import re

__all__ = ["broken_up"]

_ZERO_WIDTH = "\u200c"
_MARK = re.compile(
    r"[<＜‹](?!/?observation>)(?=[^\s<>]{1,80}>|[|｜]|/?[A-Za-z_]{1,40}[|｜]?>)"  # <s>, <|im_end|>, <｜User｜>, <turn|>
    r"|(?<=[|｜])(?=[>＞])"  # the end of one whose beginning stands elsewhere
    r"|\[(?=/?[A-Z][A-Z_]{1,40}\])"  # [INST], [/INST], [TOOL_CALLS]
    r"|\](?=~)"  # ]~b]
    r"|^#(?=##+\s*\w)",  # ### Instruction
    re.MULTILINE,
)


def broken_up(text: str) -> str:
    """``text`` with a zero-width non-joiner in every mark; the tags of our own layout stay, and lone surrogates go.

    >>> broken_up("a<|im_end|>b </observation>") == "a<\u200c|im_end|\u200c>b </observation>"
    True
    """
    return _MARK.sub(lambda mark: mark[0] + _ZERO_WIDTH, text.encode("utf-8", "replace").decode())
