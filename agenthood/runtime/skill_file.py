"""Reads a `SKILL.md`: front matter with a name and a description, then the system prompt."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

MAX_BYTES = 256_000
_MAX_FRONT_MATTER = 16_000
_DEEPEST = 20
_LONGEST_NAME = 64
_FRONT_MATTER = re.compile(r"---[ \t]*\n(?P<yaml>.*?)(?:^|\n)---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_NAME = re.compile(r"\w(?:[\w. -]*\w)?")


class SkillFileError(Exception):
    """The file cannot be used; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Skill:
    """What a `SKILL.md` says.

    Attributes:
        name: the folder's if it is not given.
        description: in one line; empty if it is not given.
        prompt: the rest of the file, never empty.
    """

    name: str
    description: str
    prompt: str


def parse_skill(data: bytes, folder: str) -> Skill:
    """Parse the content of a file; a byte order mark and Windows line ends do not matter.

    Args:
        data: the content.
        folder: the name of the folder it is in.

    Raises:
        SkillFileError: it is not UTF-8, has no front matter or a bad one, or no prompt.
    """
    text = _decoded(data)
    match = _FRONT_MATTER.match(text)
    if match is None:
        raise SkillFileError("no front matter: begin the file with '---', name and description, '---'")
    fields = _fields(match["yaml"])
    prompt = text[match.end() :].strip()
    if not prompt:
        raise SkillFileError("no text after the front matter: write the system prompt there")
    return Skill(_name(fields.get("name", folder)), _description(fields.get("description")), prompt)


def _decoded(data: bytes) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SkillFileError(f"not UTF-8 (byte {error.start}): save it as UTF-8") from error
    if "\0" in text:
        raise SkillFileError("holds a NUL character: save it as plain text")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _fields(text: str) -> dict[str, Any]:
    import yaml  # noqa: PLC0415  only a run needs it

    if len(text) > _MAX_FRONT_MATTER:
        raise SkillFileError(f"front matter over {_MAX_FRONT_MATTER} characters: move text below it")
    try:
        _check_tame(text)
        fields = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise SkillFileError(f"front matter is no YAML ({_place(error)}): correct it") from error
    except (
        ValueError,
        LookupError,
        AttributeError,
        TypeError,
    ) as error:  # PyYAML's, on values like `!!int ""`
        raise SkillFileError(f"front matter cannot be read ({error}): simplify it") from error
    if fields is None:
        return {}
    if not isinstance(fields, dict):
        raise SkillFileError("front matter has no fields: write 'name: ...' and 'description: ...'")
    return fields


def _check_tame(text: str) -> None:
    """Refuse what takes more time or memory to load than it takes to write: references, deep nesting."""
    import yaml  # noqa: PLC0415

    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise SkillFileError("front matter with references (*name): write the values out")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise SkillFileError(f"front matter nested more than {_DEEPEST} deep: simplify it")


def _place(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or "malformed"
    return f"line {mark.line + 2}: {problem}" if mark is not None else str(problem)


def _name(value: object) -> str:
    if not isinstance(value, str):
        raise SkillFileError(f"name {value!r:.80} is no text: put it in quotes")
    name = value.strip()
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME:
        raise SkillFileError(
            f"name {name!r:.80} must be at most {_LONGEST_NAME} letters, digits, '-', '_', '.' and spaces"
        )
    return name


def _description(value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise SkillFileError(f"description {value!r:.80} is no text: put it in quotes")
    return " ".join(value.split())
