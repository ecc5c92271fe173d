"""Telling apart what reads alike: texts that say the opposite, or the same of another number or order.

Vectors of meaning and of wording hardly see a negation, a number or a change of order: "always run the migrations"
and "never run the migrations" are 0.96 alike. A lesson merged into its opposite is lost, while one kept apart costs
a line. So a few plain signs forbid merging, whatever the similarity. They only count between texts that are
otherwise in the same words; rewordings use such words freely.
"""

from __future__ import annotations

import re

from agenthood.embedding.keywords import terms

SHARED_TERMS = 0.5
"""Share of the terms of both texts, the signs aside, that must be common for the signs to count."""

_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019]t\b)?")
_NEGATIONS = frozenset(
    """not no never without cannot none neither nor dont doesnt didnt isnt wasnt arent werent wont cant couldnt
    shouldnt wouldnt hasnt havent hadnt
    tidak tak bukan jangan tanpa belum usah elakkan""".split()  # noqa: SIM905  thirty quoted words read worse
)
_CJK_NEGATIONS = "不没未别無无勿"
_OPPOSITES = (
    ("enable", "disable"),
    ("enabled", "disabled"),
    ("enabling", "disabling"),
    ("allow", "forbid"),
    ("allowed", "forbade"),
    ("add", "remove"),
    ("added", "removed"),
    ("adding", "removing"),
    ("increase", "decrease"),
    ("increased", "decreased"),
    ("increasing", "decreasing"),
    ("raised", "lowered"),
    ("upgrade", "downgrade"),
    ("upgraded", "downgraded"),
    ("lock", "unlock"),
    ("locked", "unlocked"),
    ("open", "close"),
    ("opened", "closed"),
    ("start", "stop"),
    ("started", "stopped"),
    ("sync", "async"),
    ("synchronous", "asynchronous"),
    ("success", "failure"),
    ("succeeded", "failed"),
    ("passed", "failed"),
    ("more", "less"),
    ("faster", "slower"),
    ("fast", "slow"),
    ("before", "after"),
    ("first", "last"),
    ("always", "never"),
    ("sebelum", "selepas"),
)
# Words around which the order of the rest decides what is said.
_ORDERING = frozenset(
    "before after instead than rather over from to into until versus vs sebelum selepas daripada kepada".split()  # noqa: SIM905
)
_CJK_ORDERING = "前后後"


# What is compared apart from the words that are to be common: numbers, negations, opposites.
_SIGN = re.compile(
    rf"{_NUMBER.pattern}|\b(?:{'|'.join(sorted({*_NEGATIONS, *(word for pair in _OPPOSITES for word in pair)}))})\b"
)


def are_distinct(first: str, second: str) -> bool:
    """Whether two texts, however alike, must be taken for different facts.

    True if both name numbers and not the same ones; if one is negated and the other is not; if one has a word and
    the other its opposite; or if both say the same words in another order around a word such as `before`,
    `instead` or `from`.
    """
    if first == second or not _same_words(first, second):
        return False
    numbers = [numbers_in(text) for text in (first, second)]
    if all(numbers) and numbers[0] != numbers[1]:
        return True
    words = [_words(text) for text in (first, second)]
    if _negations(first, words[0]) % 2 != _negations(second, words[1]) % 2:
        return True
    only_first, only_second = set(words[0]) - set(words[1]), set(words[1]) - set(words[0])
    if any(_apart(pair, only_first, only_second) for pair in _OPPOSITES):
        return True
    return _reordered(first, second, words)


def numbers_in(text: str) -> tuple[str, ...]:
    """The numbers that `text` names, as they are written, sorted, with repetitions."""
    return tuple(sorted(_NUMBER.findall(text)))


def common_terms(text: str) -> frozenset[str]:
    """The search terms of `text` without the signs: what two texts must share for the signs to count."""
    return frozenset(terms(_SIGN.sub(" ", text.lower())))


def _same_words(first: str, second: str) -> bool:
    one, other = common_terms(first), common_terms(second)
    return len(one & other) >= SHARED_TERMS * len(one | other)


def _words(text: str) -> list[str]:
    return [word.replace("'", "").replace("\u2019", "") for word in _WORD.findall(text.lower())]


def _negations(text: str, words: list[str]) -> int:
    return sum(word in _NEGATIONS for word in words) + sum(
        text.count(character) for character in _CJK_NEGATIONS
    )


def _apart(pair: tuple[str, str], only_first: set[str], only_second: set[str]) -> bool:
    one, other = pair
    return (one in only_first and other in only_second) or (other in only_first and one in only_second)


def _reordered(first: str, second: str, words: list[list[str]]) -> bool:
    ordering = _ORDERING.intersection(*words) or any(c in first and c in second for c in _CJK_ORDERING)
    if not ordering:
        return False
    contents = [terms(text) for text in (first, second)]
    return contents[0] != contents[1] and sorted(contents[0]) == sorted(contents[1])
