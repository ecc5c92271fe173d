"""Search terms: identifiers stay findable, words are stemmed, Chinese is searchable."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenthood.embedding.keywords import terms


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Fixed the failing tests", ["fix", "fail", "test"]),
        ("saya tidak suka yang ini", ["suka"]),
        ("maxRetries", ["max", "retri", "maxretries"]),
        ("max_retries", ["max", "retri", "maxretries"]),
        ("--max-retries=3", ["max", "retri", "3"]),
        ("HTTPServerError", ["http", "server", "error", "httpservererror"]),
        ("__init__", ["init"]),
        ("utf8 utf-8", ["utf", "8", "utf8", "utf", "8"]),
        ("v2 3f9a2b x86_64", ["v2", "3f9a2b", "x86", "64", "x8664"]),
        ("Python 3.11", ["python", "3", "11"]),
        ("修复login测试", ["修", "复", "login", "测", "试"]),
        ("naïve Café", ["naïve", "café"]),
        ("the of — !?", []),
        ("", []),
        ("a\ud800b", ["b"]),
    ],
)
def test_terms(text: str, expected: list[str]):
    """Each kind of token gives the terms that find it again."""
    assert terms(text) == expected


@pytest.mark.parametrize("name", ["getUserName", "get_user_name", "GetUserName", "GET_USER_NAME"])
def test_an_identifier_is_found_in_every_spelling(name: str):
    """All spellings of a name share all their terms, and its words find it."""
    assert terms(name) == terms("getUserName")
    assert set(terms("user name")) < set(terms(name))


@given(st.text(max_size=80))
def test_terms_hold_no_spaces_and_never_fail(text: str):
    """Whatever the text, each term is a non-empty string that a whitespace tokenizer keeps whole."""
    for term in terms(text):
        assert term
        assert term.split() == [term]


@given(st.text(max_size=40), st.text(max_size=40))
def test_terms_of_separate_texts_add_up(first: str, second: str):
    """A break keeps neighbours apart: the terms of two lines are those of each."""
    assert terms(f"{first} \n{second}") == terms(first) + terms(second)
