"""`agenthood recall` and `agenthood lessons`: look lessons up by meaning, and list them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from agenthood.cli.filters import HEADINGS, chosen_lessons
from agenthood.cli.session import NoStoreError, Session, pass_session
from agenthood.cli.text import counted
from agenthood.cli.values import Number
from agenthood.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agenthood.cli.output import Output
    from agenthood.records import Kind, Lesson, Recall, RecalledLesson, Scoring, Tier

_CHARACTERS_ASKED = 100_000
"""Characters of standard input looked at; embedders read a few thousand of them."""


_MOST_DIGITS = 6


@click.command(short_help="Find the lessons that fit a text.")
@click.argument("text", nargs=-1, required=True)
@click.option(
    "--limit",
    "-n",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    help="At most this many lessons.",
)
@click.option("--member", metavar="NAME", help="Whose lessons come first; those of others follow.")
@chosen_lessons
@click.option(
    "--threshold",
    type=Number(-4, 1),  # some scales go below 0
    metavar="NUMBER",
    help="Only lessons at least this similar.  [default: recallThreshold of the settings, else 0.65]",
)
@click.option(
    "--scoring",
    type=click.Choice(("calibrated", "cosine", "squared_l2")),
    default="calibrated",
    show_default=True,
    help="The scale of similarity and threshold; calibrated means the same under every model.",
)
@click.option(
    "--prompt", is_flag=True, help="Print the block to put into a prompt; nothing if no lesson is found."
)
@pass_session
def recall(  # noqa: PLR0913  one per option
    session: Session,
    /,
    text: tuple[str, ...],
    *,
    limit: int,
    kind: Kind | None,
    member: str | None,
    skill: str | None,
    threshold: float | None,
    scoring: Scoring,
    prompt: bool,
) -> None:
    """Find the lessons that fit TEXT, or standard input if TEXT is -.

    What was found is printed best first: what worked or failed, the similarity, how many episodes support
    it, the member and skill, the lesson. Without a terminal: one lesson per line, with tabs between kind,
    similarity, evidence, member, skill, id and text. An agent's shared lessons are marked after the kind, as in
    "learned, shared", or at a terminal after the id.

    The order is by more than the similarity shown: rare words that a lesson shares with TEXT count most, evidence
    settles ties, what was long not used comes a little later, and lessons of --member come first.

    The exit code is 0 whether or not a lesson is found, also where there is no store yet, where it cannot be
    read, or where TEXT is empty, so that an outage never stops the run after a recall. Mistakes do not pass by
    themselves and are errors: settings that cannot be read or used, also because nobody may look into the
    directory, or it is a file (1), and options not understood (2). So is, where the settings say
    to fail closed, a store that cannot be read (1). A hook that must never fail needs `|| true`.
    """
    query = _query(text)
    if not query.strip():
        reason = "there is nothing to look up: the text is empty"
        _print(_nothing(session, reason, threshold, degraded=False), session.output, prompt=prompt)
        return
    try:
        with session.open(soft=True) as hood:
            found = hood.recall(
                query,
                limit=limit,
                kind=kind,
                member=member,
                skill=skill,
                threshold=threshold,
                scoring=scoring,
            )
    except StoreError as error:
        if session.placed_settings().fail == "closed" and not isinstance(error, NoStoreError):
            raise
        found = _nothing(session, str(error), threshold, degraded=not isinstance(error, NoStoreError))
    _print(found, session.output, prompt=prompt)


@click.command()
@click.option("--member", metavar="NAME", help="Only lessons of this member.")
@chosen_lessons
@click.option("--contains", metavar="TEXT", help="Only lessons whose text contains this.")
@click.option(
    "--tier",
    type=click.Choice(("working", "short", "long", "archive")),
    help="Only lessons of this tier.  [default: all but archive]",
)
@click.option("--limit", "-n", type=click.IntRange(min=1), help="At most this many lessons.")
@pass_session
def lessons(  # noqa: PLR0913  one per option
    session: Session,
    /,
    *,
    kind: Kind | None,
    member: str | None,
    skill: str | None,
    contains: str | None,
    tier: Tier | None,
    limit: int | None,
) -> None:
    """List the lessons in the store.

    Those in the archive are listed with `--tier archive` only.

    Without a terminal: one lesson per line, with tabs between id, kind, mean score, evidence, member,
    skill, time last seen and text. A pinned lesson and a tier other than working are marked after the kind, as in
    "learned, pinned, long", or at a terminal below the lesson.
    """
    output = session.output
    with session.open(migrate=False) as hood:
        found = hood.lessons(kind=kind, member=member, skill=skill, contains=contains, tier=tier, limit=limit)
    if output.json:
        output.document([lesson.to_dict() for lesson in found])
        return
    _print_lessons(found, output)
    output.note(counted(len(found), "lesson") if found else "no lessons")


def _print_lessons(found: Sequence[Lesson], output: Output) -> None:
    if not sys.stdout.isatty():
        output.table(
            (),
            [
                (o.id, _kind(o), f"{o.mean:.2f}", str(o.evidence), o.member, o.skill, o.last_seen, o.text)
                for o in found
            ],
        )
    elif found:
        output.table(
            ("kind", "mean", "evidence", "by", "lesson"),
            [
                (
                    HEADINGS[o.kind],
                    f"{o.mean:.2f}",
                    str(o.evidence),
                    f"{o.member}/{o.skill}",
                    o.text,
                )
                for o in found
            ],
            details=["  ".join((o.id, o.last_seen[:10], *_marks(o))) for o in found],
        )


def _marks(lesson: Lesson | RecalledLesson) -> list[str]:
    """What sets a lesson apart from most: whose it is, and how it is kept."""
    shared, pinned, tier = (getattr(lesson, name, None) for name in ("shared", "pinned", "tier"))
    marks = {"shared": shared, "pinned": pinned, str(tier): tier not in {None, "working"}}
    return [mark for mark, holds in marks.items() if holds]


def _kind(lesson: Lesson | RecalledLesson) -> str:
    return ", ".join((lesson.kind, *_marks(lesson)))


def _query(text: tuple[str, ...]) -> str:
    """What to look up, without what cannot be searched for: NUL, and bytes that are no text."""
    if text != ("-",):
        asked = " ".join(text).encode("utf-8", "replace").decode()
    else:
        asked = sys.stdin.buffer.read(4 * _CHARACTERS_ASKED).decode("utf-8-sig", "replace")
    return asked[:_CHARACTERS_ASKED].replace("\0", " ")


def _nothing(session: Session, reason: str, threshold: float | None, *, degraded: bool) -> Recall:
    from agenthood.records import Recall  # noqa: PLC0415  keeps --help light

    lowest = session.placed_settings().recall_threshold if threshold is None else threshold
    return Recall(threshold=lowest, degraded=degraded, semantic=False, reason=reason)


def _print(found: Recall, output: Output, *, prompt: bool) -> None:
    if prompt:
        block = found.to_prompt()
        if output.json:
            output.document({**found.to_dict(), "prompt": block})
        elif block:
            output.line(block)
    elif output.json:
        output.document(found.to_dict())
    else:
        _print_table(found, output)
    if found.reason:
        output.warn(found.reason)


def _print_table(found: Recall, output: Output) -> None:
    if not sys.stdout.isatty():
        output.table(
            (),
            [
                (_kind(o), f"{o.similarity:.3f}", str(o.evidence), o.member, o.skill, o.id, o.text)
                for o in found
            ],
        )
    elif found:
        output.table(
            ("kind", "similarity", "evidence", "by", "lesson"),
            [
                (HEADINGS[o.kind], f"{o.similarity:.2f}", str(o.evidence), f"{o.member}/{o.skill}", o.text)
                for o in found
            ],
            details=["  ".join((o.id, *_marks(o))) for o in found],
        )
    for note in _notes(found):
        output.note(note)


def _notes(found: Recall) -> list[str]:
    """What was not found, and how near it was."""
    nothing = "no lesson found; the answer is degraded" if found.degraded else "no lesson fits"
    looked_up = found.degraded or not found.reason  # else the reason says why there was nothing to look up
    notes = [nothing] if looked_up and not found else []
    if found.near_misses and found.nearest_miss is not None:
        threshold, nearest = _told_apart(found.threshold, found.nearest_miss)
        notes.append(
            f"{counted(found.near_misses, 'near miss', 'near misses')} below the threshold of "
            f"{threshold}, the nearest at {nearest} (--threshold lowers it)"
        )
    return notes


def _told_apart(threshold: float, below: float) -> tuple[str, str]:
    """Both with two digits, or with as many more as it takes to tell them apart."""
    digits = 2
    while digits < _MOST_DIGITS and f"{threshold:.{digits}f}" == f"{below:.{digits}f}":
        digits += 1
    return f"{threshold:.{digits}f}", f"{below:.{digits}f}"
