"""The stored format: keys as the TypeScript program derives them, JSON and times as JavaScript writes them."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agenthood.errors import InvalidInputError
from agenthood.formats import (
    base36,
    dumps,
    dumps_each,
    hash_pattern,
    is_episode_id,
    iso,
    loads_object,
    new_episode_id,
    parse_time,
    pattern_text,
    split_pattern,
    storable,
    unstorable_reason,
)
from agenthood.records import KINDS

if TYPE_CHECKING:
    from pathlib import Path

KEYS = (
    ("", "v1:0"),
    ("a", "v1:2p"),
    ("A", "v1:1t"),
    (" ", "v1:w"),
    ("0", "v1:1c"),
    ("ab", "v1:2e9"),
    ("ba", "v1:2f3"),
    ("learned:developer:test:fixed bug", "v1:fn6jbb"),
    ("antipattern:the-scribe:commit:wrote fix stuff", "v1:ivamwj"),
    ("h\xe9llo", "v1:1pdoem"),
    ("na\xefve caf\xe9", "v1:dmop92"),
    ("\u4e2d\u6587\u6a21\u5f0f", "v1:aacps8"),
    ("\U0001f600", "v1:11zz7"),
    ("\U0001f468\u200d\U0001f469\u200d\U0001f467", "v1:5ln2eh"),
    ("\ud83d", "v1:16pp"),
    ("\udc00x", "v1:11f94"),
    ("\x00", "v1:0"),
    ("a\x00b", "v1:2003"),
    ("\n\r\t", "v1:7qe"),
    ("\\", "v1:2k"),
    ("%_", "v1:yi"),
    ("it's", "v1:1xgnr"),
    ('"q"', "v1:rxv"),
    ("\ufdfa", "v1:1e62"),
    ("\xe9", "v1:6h"),
    ("\xe9", "v1:6h"),
    ("polygenelubricants", "v1:zik0zk"),
    ("xxxxxxxxxx", "v1:n6shs0"),
    ("\u0200\u0227\u563d\u02a0\U0001f47b0", "v1:grll60"),
    (
        "\U0001f37a\U0001f3aaw\u563e\U0001f498\U0001f367\u57f4\U0001f370\u02a9\u0173\U0001f36f\u5fe0GkCy\U0001f3bf\U0001f35d\u023f9\U0001f30c\U0001f3e0\u0290\u4f2b\U0001f4cb\u0183",
        "v1:t3r3qe",
    ),
    ("\u0145\u0354\u59b7\xe7`\U0001f402H\U0001f384", "v1:ev2x3q"),
    ("\u5647\U0001f41f\U0001f38f\U0001f4ed@\U0001f351\u01c7E\u034c,\u0307\u5fbdI\U0001f34d", "v1:dinat9"),
    (
        "\u54c9LR\u59b6\U0001f3e3>\u6068\u033d\U0001f46eC\U0001f43bg^5\U0001f4ae\U0001f3d9\U0001f4c9\u0233\u57ab\u5fd2Mb\U0001f37c\u5554\U0001f3af\U0001f3ff",
        "v1:manmtk",
    ),
)
"""Some of the keys the TypeScript program derived, so that they are checked without its files too."""

COLLISIONS = (
    ("v1:1sbjzn", "learned:developer:test:fixed Aa", "learned:developer:test:fixed BB"),
    (
        "v1:tuj64t",
        "learned:developer:write-code:token config lint embed log clock cost chunk",
        "learned:developer:write-code:alert schema span rollback vector parser thread thread",
    ),
    (
        "v1:uowlbb",
        "learned:developer:write-code:schema timeout sort added window span cache null",
        "learned:developer:write-code:proxy socket login header image merge deploy split",
    ),
)

any_text = st.text(st.characters(exclude_categories=[]))
"""Also with NUL and lone surrogates."""

NAIVE = datetime(2026, 6, 1, 12)  # noqa: DTZ001  some callers give times without a zone
moments = st.datetimes(
    timezones=st.timezones() | st.none(), min_value=NAIVE.replace(year=1), max_value=NAIVE.replace(year=9999)
)
numbers = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | any_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4),
    max_leaves=12,
)


# -- keys -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "key"), KEYS)
def test_keys_are_those_of_the_typescript_program(text: str, key: str):
    """Figures copied from the program: empty, accents, CJK, emoji, lone surrogates, |-2^31|."""
    assert hash_pattern(text) == key


def test_all_its_keys_and_collisions(shared: Path):
    """Every text and every colliding pair that the program left beside the repository."""
    vectors = json.loads((shared / "ts-store" / "hashes.json").read_text(encoding="utf-8"))
    assert len(vectors) == 235
    assert {vector["text"]: hash_pattern(vector["text"]) for vector in vectors} == {
        vector["text"]: vector["key"] for vector in vectors
    }
    pairs = json.loads((shared / "ts-store" / "collisions.json").read_text(encoding="utf-8"))
    assert len(pairs) == 19
    for pair in pairs:
        assert hash_pattern(pair["first"]) == hash_pattern(pair["second"]) == pair["key"]
        assert pair["first"] != pair["second"]


@pytest.mark.parametrize(("key", "first", "second"), COLLISIONS)
def test_different_patterns_can_share_a_key(key: str, first: str, second: str):
    """The hash is linear and has 31 bits."""
    assert hash_pattern(first) == hash_pattern(second) == key


def slow_key(text: str) -> str:
    """The key by its definition: a polynomial over the UTF-16 units, folded into a signed 32-bit number once."""
    units = [int.from_bytes(pair, "big") for pair in _pairs(text.encode("utf-16-be", "surrogatepass"))]
    total = sum(unit * 31**power for power, unit in enumerate(reversed(units)))
    number = abs((total + 2**31) % 2**32 - 2**31)
    digits = []
    while number or not digits:
        digits.append("0123456789abcdefghijklmnopqrstuvwxyz"[number % 36])
        number //= 36
    return "v1:" + "".join(reversed(digits))


def _pairs(data: bytes) -> list[bytes]:
    return [data[start : start + 2] for start in range(0, len(data), 2)]


@given(any_text)
def test_the_key_follows_its_definition(text: str):
    """For any text, also with lone surrogates and beyond the basic plane."""
    assert hash_pattern(text) == slow_key(text)


@given(any_text.filter(bool), st.sampled_from([4_095, 4_096, 4_097, 9_000]))
@settings(max_examples=20)
def test_the_key_of_a_long_text_follows_its_definition(text: str, length: int):
    """Also where it is hashed in parts."""
    long = (text * length)[:length]
    assert hash_pattern(long) == slow_key(long)


@given(st.integers(0, 2**40))
def test_base36_is_read_back_by_int(number: int):
    """Base 36 without leading zeros."""
    text = base36(number)
    assert int(text, 36) == number
    assert text == "0" or not text.startswith("0")


# -- pattern texts --------------------------------------------------------------------------------------

_part = any_text.filter(lambda text: ":" not in text)


@given(st.sampled_from(KINDS), _part, _part, any_text)
def test_a_pattern_text_is_split_into_its_parts(kind: Any, member: str, skill: str, episode: str):
    """The episode may hold colons."""
    assert split_pattern(pattern_text(kind, member, skill, episode)) == (kind, member, skill, episode)


@given(st.sampled_from(KINDS), any_text, any_text, any_text)
def test_known_members_and_skills_may_hold_colons(kind: Any, member: str, skill: str, episode: str):
    """With member and skill given, any text of theirs is split off."""
    pattern = pattern_text(kind, member, skill, episode)
    assert split_pattern(pattern, member, skill) == (kind, member, skill, episode)


@pytest.mark.parametrize(
    "text", ["", "learned", "learned:a:b", "other:a:b:c", ":a:b:c", "Learned:a:b:c", '{"episode":1}']
)
def test_what_is_no_pattern_is_refused(text: str):
    """The error shows the text and the form."""
    with pytest.raises(InvalidInputError, match="kind:member:skill:episode"):
        split_pattern(text)


# -- texts and JSON -------------------------------------------------------------------------------------


awkward_text = any_text | st.sampled_from(["},{", "}\x00{", "}\n{", "\x00", "\n", '"', "\\u0000", "\u2028"])


@given(st.lists(st.dictionaries(awkward_text, awkward_text | json_values, max_size=3), max_size=4))
def test_objects_written_together_are_written_as_each_alone(objects: list[dict[str, Any]]):
    """Whatever they hold, also what looks like the end of one and the start of another."""
    assert dumps_each(objects) == [dumps(one) for one in objects]


def test_of_objects_written_together_the_wrong_one_is_told():
    """As if it were written alone; two objects in another are no more than one."""
    with pytest.raises(InvalidInputError, match="'b': nan"):
        dumps_each([{"a": 1}, {"b": math.nan}])
    assert dumps_each([{"a": [{}, {}]}]) == ['{"a":[{},{}]}']
    with pytest.raises(InvalidInputError):
        dumps_each([{"b": math.nan}])


@given(any_text)
def test_storable_text_has_nothing_to_complain_of(text: str):
    """What is made storable passes the check; what passes stays as it is; the length never changes."""
    clean = storable(text)
    assert unstorable_reason(clean) is None
    assert len(clean) == len(text)
    assert (clean == text) == (unstorable_reason(text) is None)


def test_the_reason_names_the_place():
    """NUL and lone surrogates are named with their position."""
    assert unstorable_reason("ab\0") == "it holds a NUL character at position 2: remove it"
    assert "lone surrogate '\\ud83d' at position 1" in (unstorable_reason("a\ud83d") or "")
    assert unstorable_reason("a\U0001f600\n") is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"type": "learned_pattern"}, '{"type":"learned_pattern"}'),
        ({"b": 1, "a": [True, False, None]}, '{"b":1,"a":[true,false,null]}'),
        ({}, "{}"),
        ([], "[]"),
        ("", '""'),
        ('quote " and \\', '"quote \\" and \\\\"'),
        ("/", '"/"'),
        ("\b\f\n\r\t", '"\\b\\f\\n\\r\\t"'),
        ("\0\x01\x1f", '"\\u0000\\u0001\\u001f"'),
        ("\x7f\x80\u2028\u2029\ufeff", '"\x7f\x80\u2028\u2029\ufeff"'),
        ("h\u00e9 \u4e2d \U0001f600", '"h\u00e9 \u4e2d \U0001f600"'),
        ("\ud83d", '"\\ud83d"'),
        ("\udc00x\udbff", '"\\udc00x\\udbff"'),
        ("\ud83d\ude00", '"\U0001f600"'),
        ("\\ud83d", '"\\\\ud83d"'),
        ({"\ud800": 1.5}, '{"\\ud800":1.5}'),
        (-0.25, "-0.25"),
        (1e21, "1e+21"),
    ],
)
def test_json_is_written_as_javascript_does(value: Any, text: str):
    """The very characters of `JSON.stringify`, which readers search for."""
    assert dumps(value) == text


@given(json_values)
def test_json_comes_back_equal(value: Any):
    """Whatever was written can be stored and read back, apart from surrogates that make a pair."""
    text = dumps(value)
    text.encode("utf-8")
    assert json.dumps(json.loads(text)) == json.dumps(json.loads(json.dumps(value)))


def _deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def _circle() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        [math.inf],
        {"a": -math.inf},
        object(),
        {1, 2},
        b"x",
        NAIVE,
        {(1,): 2},
        _circle(),
        _deep(100_000),
        10**5_000,
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_has_no_json_is_refused(value: Any):
    """In one short line, also where the value is too deep or too long to show."""
    with pytest.raises(InvalidInputError, match="cannot be stored as JSON") as caught:
        dumps(value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "text", ["", "no", "[1]", "1", '"x"', "null", "{", "[" * 100_000, "1" * 5_000, '{"a":1}x']
)
def test_anything_but_an_object_reads_as_empty(text: str):
    """Other programs leave all sorts of contents."""
    assert loads_object(text) == {}


def test_an_object_reads_as_it_is():
    """Also with spaces, escapes and nesting."""
    assert loads_object(' {"a": {"b": ["\\u00e9"]}} ') == {"a": {"b": ["\u00e9"]}}


# -- times ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (datetime(2026, 6, 1, 0, 2, 28, tzinfo=UTC), "2026-06-01T00:02:28.000Z"),
        (NAIVE.replace(microsecond=999_999), "2026-06-01T12:00:00.999Z"),
        (datetime(2026, 6, 1, 1, 30, tzinfo=timezone(timedelta(hours=8))), "2026-05-31T17:30:00.000Z"),
        (datetime(1, 2, 3, tzinfo=UTC), "0001-02-03T00:00:00.000Z"),
    ],
)
def test_times_are_written_as_javascript_does(moment: datetime, text: str):
    """UTC, milliseconds, `Z`; a time without a zone counts as UTC."""
    assert iso(moment) == text


def test_an_hour_that_comes_twice_is_written_as_two():
    """Two moments that Python takes for equal, an hour apart as the clocks go back, are written apart."""

    class Autumn(tzinfo):
        def utcoffset(self, moment: datetime | None) -> timedelta:
            return timedelta(hours=1 if moment is not None and moment.fold else 2)

        def dst(self, _: datetime | None) -> None:
            return None

    first = datetime(2026, 10, 25, 2, 30, tzinfo=Autumn())
    assert first == first.replace(fold=1)
    assert iso(first) == "2026-10-25T00:30:00.000Z"
    assert iso(first.replace(fold=1)) == "2026-10-25T01:30:00.000Z"


@given(moments)
def test_a_written_time_is_read_back(moment: datetime):
    """To the millisecond; and texts sort as the times do."""
    text = iso(moment)
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    assert timedelta(0) <= aware - parse_time(text) < timedelta(milliseconds=1)
    assert iso(parse_time(text)) == text
    assert len(text) == 24


@pytest.mark.parametrize(
    "value",
    [
        "2026-06-01T12:00:00Z", "2026-06-01T12:00:00.000Z", "2026-06-01T12:00:00", "2026-06-01 14:00:00+02:00",
        1780315200, 1780315200.0, 1780315200000, NAIVE, datetime(2026, 6, 1, 12, tzinfo=UTC),
    ],
)  # fmt: skip
def test_times_are_read_in_many_forms(value: object):
    """ISO 8601 with or without a zone, epoch seconds and milliseconds, datetimes."""
    assert parse_time(value) == datetime(2026, 6, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "value", ["", "yesterday", "2026-13-01", None, True, [], {}, math.nan, math.inf, 1e300,
              10**400, 10**5_000, b"2026"],
    ids=lambda value: repr(value)[:20] if not isinstance(value, int) else "number",
)  # fmt: skip
def test_what_is_no_time_is_refused(value: object):
    """With the value and an example, in one line."""
    with pytest.raises(InvalidInputError, match="give ISO 8601") as caught:
        parse_time(value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


@given(moments)
def test_episode_ids_have_the_shape_of_the_typescript_program(moment: datetime):
    """`ep:{epoch milliseconds}-{6 base-36 characters}`, for times with and without a zone."""
    found = new_episode_id(moment)
    head, _, tail = found.rpartition("-")
    assert head.startswith("ep:")
    assert len(tail) == 6
    assert set(tail) <= set("0123456789abcdefghijklmnopqrstuvwxyz")
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    milliseconds = timedelta(milliseconds=int(head.removeprefix("ep:")))
    assert timedelta(0) <= aware - epoch - milliseconds < timedelta(milliseconds=1)


def test_episode_ids_differ():
    """Hundreds within one millisecond do not meet."""
    moment = datetime(2026, 6, 1, tzinfo=UTC)
    assert len({new_episode_id(moment) for _ in range(300)}) == 300


@given(st.datetimes())
def test_every_new_episode_id_has_its_shape(moment: datetime) -> None:
    """Whatever the time, also before 1970, the id made for it counts as one; what only looks like it does not."""
    id_ = new_episode_id(moment)
    assert is_episode_id(id_)
    assert not is_episode_id(f"{id_}\n")
    assert not is_episode_id(f" {id_}")
