"""JSON lines in: what is read, what is refused and why."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenthood.cli.jsonl import MAX_LINE, EpisodeParser, ParsedLine, RawLine, raw_lines
from agenthood.records import EvalResult

texts = st.text(st.characters(exclude_categories=("Cs",)))
scores = st.floats(0, 1)
episodes = st.fixed_dictionaries(
    {"episode": texts},
    optional={
        "outcome": texts,
        "scores": st.dictionaries(texts, scores, max_size=4),
        "member": texts,
        "skill": texts,
        "timestamp": st.datetimes(timezones=st.timezones()).map(lambda moment: moment.isoformat()),
    },
)


def parse(line: str | bytes, number: int = 2) -> ParsedLine:
    data = line.encode() if isinstance(line, str) else line
    return EpisodeParser().parse(RawLine(number, data))


@given(episodes, st.booleans())
def test_every_valid_object_becomes_the_episode_it_describes(fields: dict, ascii_only: bool) -> None:
    """What goes in as JSON comes out as the same values, escaped or not."""
    result = parse(json.dumps(fields, ensure_ascii=ascii_only) + "\r\n").result
    assert result is not None
    for name in ("episode", "outcome", "member", "skill"):
        assert getattr(result, name) == fields.get(name, getattr(EvalResult(""), name))
    assert result.scores == fields.get("scores", {})
    assert (result.timestamp is None) == ("timestamp" not in fields)


@given(st.binary(max_size=200))
def test_no_line_raises(data: bytes) -> None:
    """Any bytes are an episode or have a reason, never both."""
    parsed = parse(data)
    assert (parsed.result is None) == bool(parsed.reason)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(["episode", "score", "scores", "member", "timestamp"]) | st.text(), inner
            )
        ),
    )
)
def test_no_json_value_raises(value: object) -> None:
    """JSON of any shape and type is an episode or has a reason."""
    parsed = parse(json.dumps(value))
    assert (parsed.result is None) == bool(parsed.reason)


@given(
    st.lists(st.binary(max_size=60).map(lambda data: data.replace(b"\n", b""))),
    st.booleans(),
    st.integers(1, 20),
)
def test_lines_put_together_are_the_file(lines: list[bytes], final_newline: bool, limit: int) -> None:
    """Not a byte is lost, whole lines or pieces, and numbers count lines."""
    data = b"\n".join(lines) + (b"\n" if final_newline else b"")
    found = list(raw_lines(io.BytesIO(data), limit=limit))
    assert b"".join(line.data for line in found) == data
    whole: dict[int, bytes] = {}
    for line in found:
        assert len(line.data) <= limit + 1
        whole[line.number] = whole.get(line.number, b"") + line.data
    assert list(whole.values()) == [line + b"\n" for line in data.split(b"\n")[:-1]] + list(
        filter(None, [data.split(b"\n")[-1]])
    )
    assert list(whole) == list(range(1, len(whole) + 1))
    assert all(content.count(b"\n") <= 1 for content in whole.values())


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not JSON: Expecting property name enclosed in double quotes at column 2"),
        ("[", "one JSON object per line is expected"),
        ('[{"episode": "x"}]', "expected a JSON object, got an array"),
        ('"x"', "expected a JSON object, got the text 'x'"),
        ("null", "expected a JSON object, got null"),
        ("{}", "no 'episode': say what was done"),
        ('{"Episodes": "x"}', "no 'episode' (is 'Episodes' meant?)"),
        ('{"episode": null}', "no 'episode'"),
        ('{"episode": 3}', "'episode' must be text, not the number 3"),
        ('{"episode": "x", "member": ["a"]}', "'member' must be text, not an array"),
        ('{"episode": "x", "score": "high"}', "'score' must be a number in [0, 1], not the text 'high'"),
        ('{"episode": "x", "score": true}', "not true"),
        ('{"episode": "x", "score": 7}', "'score' must be a number in [0, 1], not 7"),
        ('{"episode": "x", "scores": {"a": -0.5}}', "score 'a' must be a number in [0, 1], not -0.5"),
        ('{"episode": "x', "not JSON: Unterminated string starting at column 13"),
        ('{"type": "lesson", "text": "x"}', "no 'episode'; this is a line of an export: agenthood import"),
        (
            '{"type": "episode", "id": "x", "episode": "x"}',
            "no score; this is a line of an export: agenthood import",
        ),
        ('{"episode": "x", "score": NaN}', "NaN is not a JSON number"),
        ('{"episode": "x", "scores": {"a": -Infinity}}', "-Infinity is not a JSON number"),
        ('{"episode": "x", "score": 1e999}', "it is too large"),
        (f'{{"episode": "x", "score": 1{"0" * 400}}}', "it is too large"),
        (f'{{"episode": "x", "score": 1{"0" * 5000}}}', "not usable JSON"),
        ('{"episode": "x", "scores": [1]}', "'scores' must be an object of numbers, not an array"),
        ('{"episode": "x", "scores": {"a": null}}', "score 'a' must be a number in [0, 1], not null"),
        ('{"episode": "x", "scroe": 1}', "no score, and unknown key 'scroe'; did you mean 'score'?"),
        ('{"episode": "x", "episode_id": 1}', "no score, and unknown key 'episode_id': give a 'score'"),
        ('{"id": 7, "episode": "x", "Scores": {"a": 1}}', "unknown key 'Scores'; did you mean 'scores'?"),
        ('{"episode": "x", "rating": 1}', "no score, and unknown key 'rating': give a 'score'"),
        ('{"episode": "x", "score": 1, "scores": {"a": 1}}', "both 'score' and 'scores'"),
        ('{"episode": "x", "score": 1, "score": 0}', "key 'score' appears twice"),
        ('{"episode": "x", "timestamp": "yesterday"}', "ISO 8601"),
        ('{"episode": "x", "timestamp": {}}', "is not a time"),
        ('{"episode": "x"} {"episode": "y"}', "Extra data"),
        ("[" * 100_000, "nested too deeply"),
        (b'{"episode": "\xff"}', "not UTF-8: byte 0xff at position 13"),
        ('{"episode": "x"}'.encode("utf-16"), "save the file as UTF-8"),
        (b'\xef\xbb\xbf{"episode": "x"}', "not JSON"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_bad_lines_say_what_is_wrong(line: str | bytes, reason: str) -> None:
    """Every kind of mistake has a reason that names it."""
    parsed = parse(line)
    assert parsed.result is None
    assert reason in parsed.reason


def test_score_is_short_for_one_score() -> None:
    """A lone score is one score; the absent and the null are the same."""
    parsed = parse('{"episode": "x", "score": 1, "scores": null, "member": null}')
    assert parsed.result == EvalResult("x", scores={"score": 1.0})


def test_a_byte_order_mark_belongs_to_the_first_line_only() -> None:
    """A file that starts with the UTF-8 mark is read; the line's bytes keep it."""
    data = b'\xef\xbb\xbf{"episode": "x"}\n'
    parsed = parse(data, number=1)
    assert parsed.result == EvalResult("x")
    assert parsed.raw.data == data


@pytest.mark.parametrize("data", [b"\n", b"\r\n", b"  \t\r\n", b"\xef\xbb\xbf\n"])
def test_blank_lines_are_blank(data: bytes) -> None:
    """White space alone is a blank line, with any line ending."""
    assert RawLine(1, data).blank


def test_too_long_a_line_is_refused_and_the_next_is_read() -> None:
    """A line over the limit comes in pieces, of which the first has the reason."""
    long = b'{"episode": "' + b"x" * (2 * MAX_LINE) + b'"}\n'
    parser = EpisodeParser()
    parsed = [parser.parse(raw) for raw in raw_lines(io.BytesIO(long + b'{"episode": "y"}'))]
    assert parsed[0].reason == "longer than 16 MiB: shorten the episode"
    assert b"".join(line.raw.data for line in parsed if line.raw.number == 1) == long
    assert parsed[-1].result == EvalResult("y")
    assert parsed[-1].raw.number == 2


def test_unknown_keys_are_counted_and_limited() -> None:
    """Keys nobody knows are remembered with their first line, however many different ones there are."""
    parser = EpisodeParser()
    for number in range(1, 300):
        parser.parse(
            RawLine(number, json.dumps({"episode": "x", "score": 1, "scroe": 1, f"key{number}": 2}).encode())
        )
    assert parser.unknown["scroe"] == 299
    assert parser.first["scroe"] == 1
    assert len(parser.unknown) == 100
