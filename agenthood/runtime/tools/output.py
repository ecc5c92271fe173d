"""What goes to the model: without secrets, without what breaks a request, and not too long."""

from __future__ import annotations

import re

from agenthood.redaction import redact

MARGIN = 20_000
"""Bytes looked at beyond what is shown, so that a secret cut in two by the end is still known as one."""

_BEGIN = re.compile(r"-{4,5} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}")
_END = re.compile(r"-{4,5} ?END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}")
_BODY = re.compile(r"[^\n]*+(?:\n[ \t>+|\"'*#-]{0,20}[A-Za-z0-9+/=]{16,}+[^\n]{0,20}(?=\n|$))*+")


def without_keys(text: str) -> str:
    """`text` with private keys blanked and every line still at its number; linear in the length of any text."""
    if "PRIVATE KEY" not in text:
        return text
    pieces: list[str] = []
    done, ends = 0, _END.finditer(text)
    end = next(ends, None)
    for begin in _BEGIN.finditer(text):
        if begin.start() < done:
            continue
        while end is not None and end.start() < begin.end():
            end = next(ends, None)
        near = end is not None and end.start() - begin.end() <= MARGIN
        stop = end.end() if end is not None and near else _body_end(text, begin.end())
        lines = text.count("\n", begin.start(), stop)
        pieces += text[done : begin.start()], "[redacted:private-key]", "\n" * lines
        done = stop
    return "".join(pieces) + text[done:]


def _body_end(text: str, start: int) -> int:
    """Where a key that was cut off ends: after the last line that looks like one of a key."""
    body = _BODY.match(text, start)
    return body.end() if body else start


def shown(text: str) -> str:
    """`text` without secrets, NUL and lone surrogates, which providers refuse."""
    return redact(text).replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def cut_end(text: str, limit: int, advice: str, *, dropped: int = 0) -> str:
    """The beginning of `text` in at most `limit` bytes and a note; whole lines where a line fits.

    Args:
        text: what to cut.
        limit: bytes to keep.
        advice: how to see the rest.
        dropped: bytes that are missing at its end already.
    """
    data = text.encode("utf-8", "replace")
    if len(data) <= limit and not dropped:
        return data.decode()
    kept = data[:limit]
    end = kept.rfind(b"\n")
    kept = kept[: end + 1] if end > limit // 2 else kept
    return f"{_decoded(kept).rstrip()}\n[cut: {dropped + len(data) - len(kept)} more bytes; {advice}]"


def cut_middle(text: str, limit: int, dropped: int, advice: str) -> str:
    """Both ends of `text` in at most `limit` bytes with a note between them.

    Args:
        text: what to cut.
        limit: bytes to keep.
        dropped: bytes that are missing in its middle already.
        advice: how to see the rest.
    """
    data = text.encode("utf-8", "replace")
    if len(data) <= limit and not dropped:
        return data.decode()
    head, tail = data[: limit // 2], data[len(data) - limit // 2 :]
    missing = dropped + len(data) - len(head) - len(tail)
    return f"{_decoded(head)}\n[cut: {missing} bytes from the middle; {advice}]\n{_decoded(tail)}"


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "ignore")
