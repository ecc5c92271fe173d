"""What Postgres and its client complain of, turned into our errors: which server, what to do, no password."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from agenthood.errors import StoreError, StoreUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agenthood.stores.postgres.address import Address

_LONGEST = 300

# By SQLSTATE, or its first two characters. https://www.postgresql.org/docs/current/errcodes-appendix.html
_UNAVAILABLE = {
    "08": "the connection broke: check that the server runs, then try again",
    "25006": "it is read-only, such as a standby: give the address of the primary server",
    "28": "it refused the user or password: check them in store.url (or PGPASSWORD, or ~/.pgpass)",
    "3D000": "there is no such database: create it (createdb), or name another in store.url",
    "42501": "the user may not do that: let an administrator grant it",
    "53100": "its disk is full: free some space there and try again",
    "53200": "it is out of memory: give it more, or less to do at once",
    "53300": "it has too many connections: raise max_connections, or put a pooler before it",
    "53": "it lacks a resource: see its log",
    "55P03": "something else holds the table, such as an index being built: try again later",
    "57014": "it took longer than store.timeout: raise that, or see what else the server does",
    "57P": "it is starting up or shutting down: try again in a moment",
    "58": "it has a problem with its own files: see its log",
    "XX": "it has an internal problem: see its log",
}
REPEATABLE = ("40001", "40P01")
"""A concurrent transaction came first, and the same one may simply be run again."""
MADE_MEANWHILE = ("42710", "23505", "42P06")
"""Another process made the same extension, role or schema at this moment."""
MISSING_TABLE = "42P01"
MISSING_RIGHT = "42501"


def state_of(exc: BaseException) -> str:
    """The SQLSTATE of an error; empty if it has none, as where the server was not reached."""
    return getattr(exc, "sqlstate", None) or ""


def _advice(state: str) -> str | None:
    for length in (5, 3, 2):
        if (found := _UNAVAILABLE.get(state[:length])) is not None and len(state) == 5:  # noqa: PLR2004
            return found
    return None


@contextmanager
def translated(doing: str, address: Address) -> Iterator[None]:
    """Turn errors of psycopg into ours, chained; `doing` says what was being done, such as `reading 'vectors'`."""
    import psycopg  # noqa: PLC0415

    try:
        yield
    except TimeoutError as exc:
        raise StoreUnavailableError(
            f"{doing} failed: Postgres at {address} did not answer within {address.timeout:g} s: "
            "check that it runs and can be reached, or raise store.timeout"
        ) from exc
    except psycopg.Error as exc:
        text = address.safe(" ".join(str(exc).split()))[:_LONGEST]
        if "row-level security" in text:
            raise StoreError(
                f"{doing} failed: a record or its id belongs to another tenant than the one of this store ({text!r})"
            ) from exc
        if advice := _advice(_guessed(exc)):
            raise StoreUnavailableError(
                f"{doing} failed: Postgres at {address}: {advice} ({text!r})"
            ) from exc
        if isinstance(exc, psycopg.OperationalError):
            raise StoreUnavailableError(
                f"{doing} failed: cannot reach Postgres at {address}: check that it runs, and store.url ({text!r})"
            ) from exc
        raise StoreError(f"{doing} failed: Postgres at {address} refused: {text!r}") from exc
    except OSError as exc:  # a name that does not resolve
        raise StoreUnavailableError(
            f"{doing} failed: cannot reach Postgres at {address}: check store.url ({exc.strerror or exc})"
        ) from exc


def _guessed(exc: BaseException) -> str:
    """The SQLSTATE; while connecting, the client library gives the text alone."""
    if state := state_of(exc):
        return state
    text = str(exc).lower()
    signs = {
        "28P01": ("authentication failed", "no password supplied", "no pg_hba.conf entry"),
        "3D000": ("does not exist",),
        "53300": ("too many clients", "remaining connection slots"),
        "57P03": ("starting up", "shutting down"),
    }
    if 'role "' in text and "does not exist" in text:
        return "28000"
    return next((state for state, words in signs.items() if any(word in text for word in words)), "")
