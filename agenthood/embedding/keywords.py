"""Tokens for keyword search: what BM25 counts, the same for stored texts and queries."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from agenthood.embedding.base import clean
from agenthood.embedding.stopwords import STOP_WORDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_FIRST_CJK = "\u2e80"
# A run of word characters up to the CJK blocks, or one CJK character.
_RUN = re.compile(r"[^\W\u2e80-\U0010ffff]+|[^\W_]")
# The hump of camelCase, and the last capital of an acronym before a word: HTTPServer -> HTTP Server.
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|_+")
_NUMBERED = re.compile(r"([^\W\d_]{2,})(\d+)")
_LONGEST_CACHED = 64


def terms(text: str) -> list[str]:
    """Return the search terms of `text`, in order, with repetitions.

    Words are lower-cased, freed of English and Malay stop words and stemmed (English Snowball). An
    identifier gives its parts and the whole, so `maxRetries`, `max_retries` and "max retries" find each
    other and the exact name ranks first. Each CJK character is a term of its own; pairs of neighbours were
    measured and found no more.

    Args:
        text: any text; it is passed through `clean`.

    Returns:
        Terms without spaces; empty if `text` holds nothing but stop words and punctuation.
    """
    found: list[str] = []
    for run in _RUN.findall(clean(text)):
        if run >= _FIRST_CJK:
            found.append(run)
        else:
            found.extend(_run_terms(run))
    return found


def _run_terms(run: str) -> tuple[str, ...]:
    return _cached_run_terms(run) if len(run) <= _LONGEST_CACHED else tuple(_spell(run))


@lru_cache(maxsize=32_768)
def _cached_run_terms(run: str) -> tuple[str, ...]:
    return tuple(_spell(run))


def _spell(run: str) -> Iterator[str]:
    """Yield the terms of one run of word characters: its parts, then the whole if there are several."""
    parts = [piece for part in _HUMP.split(run) if part for piece in _split_number(part.lower())]
    for part in parts:
        if part not in STOP_WORDS:
            yield _stem(part)
    if len(parts) > 1:
        yield "".join(parts)


def _split_number(part: str) -> tuple[str, ...]:
    """Split `utf8` into `utf` and `8`; leave `v2`, `3f9a` and other mixtures whole."""
    match = _NUMBERED.fullmatch(part)
    return (match[1], match[2]) if match else (part,)


def _stem(word: str) -> str:
    return _stemmer()(word) if word.isascii() and word.isalpha() else word


@lru_cache(maxsize=1)
def _stemmer() -> Callable[[str], str]:
    from Stemmer import Stemmer  # noqa: PLC0415  (only keyword search needs it)

    # Without a cache of its own, as words are kept above; it would not be safe among threads.
    stem: Callable[[str], str] = Stemmer("english", 0).stemWord
    return stem
