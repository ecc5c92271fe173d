"""Settings: from arguments, the environment, `.agenthood/config.json` and the defaults, in that order.

`config.json` is shared with the TypeScript program, whose chat settings (`provider`, `providers`,
`failover`) are left alone here. A key that nobody knows becomes a warning that says what may have been meant;
a value that cannot be used is a `ConfigError` that names where it came from. No error holds a secret.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from agenthood.config_store import (
    SCOPE_KEYS,
    SCOPE_VARIABLES,
    STORE_KEYS,
    STORE_VARIABLES,
    scope_settings,
    store_settings,
    unused,
)
from agenthood.config_values import CONVERTERS, Value, choice, count, seconds, threshold
from agenthood.errors import ConfigError
from agenthood.learning.rules import MATCH_THRESHOLD, RECALL_THRESHOLD
from agenthood.stores.settings import DEADLINE, StoreSettings
from agenthood.suggest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agenthood.embedding.settings import EmbedderSettings

Fail: TypeAlias = Literal["open", "closed"]

CONFIG_FILE = "config.json"

_FOREIGN_KEYS = ("provider", "providers", "failover")
_NUMBERS = {
    "mergeThreshold": "merge_threshold",
    "recallThreshold": "recall_threshold",
    "maxLessons": "max_lessons",
}
_VARIABLES = {
    "AGENTHOOD_EMBEDDER": "kind",
    "AGENTHOOD_EMBED_MODEL": "model",
    "AGENTHOOD_EMBED_BASE_URL": "base_url",
    "AGENTHOOD_EMBED_API_KEY": "api_key",
    "AGENTHOOD_EMBED_DIMENSION": "dimension",
    "AGENTHOOD_EMBED_REVISION": "revision",
    "AGENTHOOD_EMBED_TIMEOUT": "timeout",
    "AGENTHOOD_EMBED_DEADLINE": "deadline",
}
_NUMBER_VARIABLES = {
    "AGENTHOOD_MERGE_THRESHOLD": "merge_threshold",
    "AGENTHOOD_RECALL_THRESHOLD": "recall_threshold",
    "AGENTHOOD_MAX_LESSONS": "max_lessons",
}
_CHECKS: Mapping[str, Callable[[object, str], Any]] = {
    "merge_threshold": threshold,
    "recall_threshold": threshold,
    "max_lessons": count,
}
_KEYS = {
    "kind": "kind",
    "model": "model",
    "baseUrl": "base_url",
    "apiKey": "api_key",
    "dimension": "dimension",
    "revision": "revision",
    "timeout": "timeout",
    "batchSize": "batch_size",
    "concurrency": "concurrency",
    "maxRetries": "max_retries",
    "sendDimensions": "send_dimensions",
    "queryPrefix": "query_prefix",
    "documentPrefix": "document_prefix",
    "deadline": "deadline",
}
_OUTAGE_VARIABLES = {"AGENTHOOD_FAIL": "fail", "AGENTHOOD_DEADLINE": "deadline"}
_OUTAGE: dict[str, Callable[[Value], Any]] = {"fail": choice("open", "closed"), "deadline": seconds}
_OURS = (
    "AGENTHOOD_EMBED", "AGENTHOOD_MERGE", "AGENTHOOD_RECALL", "AGENTHOOD_MAX_", "AGENTHOOD_FAIL", "AGENTHOOD_DEADLINE",
    "AGENTHOOD_STORE", "AGENTHOOD_BACKEND", "AGENTHOOD_VECTOR", "AGENTHOOD_TENANT", "AGENTHOOD_PROJECT",
    "AGENTHOOD_AGENT",
)  # fmt: skip
_MEANT = dict.fromkeys(
    ("AGENTHOOD_STORE", "AGENTHOOD_BACKEND", "AGENTHOOD_STORE_BACKEND", "AGENTHOOD_VECTOR_STORE"),
    "AGENTHOOD_VECTOR_BACKEND",
)
"""What spelling alone does not tell."""
SELF_CONTAINED = ("bundled", "lexical")
"""Kinds that need nothing else, so that a model or a key beside them is a mistake."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a store is opened with.

    Attributes:
        embedder: which embedder, and how to reach it.
        merge_threshold: calibrated match score in [0, 1] from which an episode counts as a known lesson.
        recall_threshold: calibrated match score in [0, 1] from which a lesson is recalled.
        max_lessons: how many lessons `maintain` leaves in look-ups; None for any number.
        fail: what becomes of a recall or learning while the store is down: `open` goes on without, `closed` raises.
        deadline: seconds of the store's time that a recall or learning one episode may take, above 0.
        store: which store, and how to reach it.
        tenant: whose memory it is; None for `local`.
        project: of which project; None for that of the directory the store is in.
        agent: of which agent; None for what all agents of the project share.
        warnings: what was found in the configuration and not understood, one sentence each.
        sources: setting -> where it came from, such as `AGENTHOOD_EMBEDDER`; absent for defaults.
    """

    embedder: EmbedderSettings
    merge_threshold: float = MATCH_THRESHOLD
    recall_threshold: float = RECALL_THRESHOLD
    max_lessons: int | None = None
    fail: Fail = "open"
    deadline: float = DEADLINE
    store: StoreSettings = field(default_factory=StoreSettings)
    tenant: str | None = None
    project: str | None = None
    agent: str | None = None
    warnings: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        for name in ("merge_threshold", "recall_threshold"):
            threshold(getattr(self, name), f"Settings.{name}")
        if self.max_lessons is not None:
            count(self.max_lessons, "Settings.max_lessons")
        for name, convert in _OUTAGE.items():
            convert(Value(getattr(self, name), f"Settings.{name}"))


def load_settings(path: Path | str, *, environ: Mapping[str, str] = os.environ) -> Settings:
    """Read the settings for the store at `path`.

    Args:
        path: the `.agenthood` directory; it need not exist.
        environ: the environment; empty variables count as unset.

    Raises:
        ConfigError: `config.json` cannot be read or is no JSON object, or a value cannot be used.
    """
    file = Path(path) / CONFIG_FILE
    content = read_config(file)
    warnings = [*_unknown_keys(file, content), *_unknown_variables(environ)]
    in_file, unknown = _section(file, "embedder", content.get("embedder"), _KEYS, "bundled", "ollama")
    embedder = _overlaid(in_file, _from_environment(_VARIABLES, environ), "kind")
    in_file, unknown_too = _section(file, "store", content.get("store"), STORE_KEYS, "lancedb", "postgres")
    in_environment = _from_environment(STORE_VARIABLES, environ)
    # An address alone in the file waits for whoever names its backend.
    in_file = {name: in_environment[name] for name in ("backend",) if name in in_environment} | in_file
    store = _overlaid(in_file, in_environment, "backend")
    scope = _plain(file, content, {name: name for name in SCOPE_KEYS}, SCOPE_VARIABLES, environ)
    numbers = _plain(file, content, _NUMBERS, _NUMBER_VARIABLES, environ)
    outage = _plain(file, content, {name: name for name in _OUTAGE}, _OUTAGE_VARIABLES, environ)
    values: dict[str, Any] = {
        name: _CHECKS[name](found.value, found.source) for name, found in numbers.items()
    }
    values |= {name: _OUTAGE[name](found) for name, found in outage.items()}
    values |= scope_settings(scope)
    values["store"] = store_settings(store)
    sources = {f"store.{name}": found for name, found in store.items()} | embedder | numbers | outage | scope
    return Settings(
        embedder=_embedder_settings(embedder),
        warnings=(*warnings, *unknown, *unknown_too, *_unused(embedder), *unused(store, values["store"])),
        sources={name: found.source for name, found in sources.items()},
        **values,
    )


def _plain(
    file: Path,
    content: Mapping[str, Any],
    keys: Mapping[str, str],
    variables: Mapping[str, str],
    environ: Mapping[str, str],
) -> dict[str, Value]:
    """The fields that have a key of their own at the top of `file`, and over it those of the environment."""
    found = {
        name: Value(content[key], f"{key} in {file}")
        for key, name in keys.items()
        if content.get(key) is not None
    }
    return found | _from_environment(variables, environ)


def read_config(file: Path) -> dict[str, Any]:
    """The JSON object in `file`; an empty one if there is no file."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except UnicodeDecodeError as error:
        raise ConfigError(f"{str(file)!r} is not UTF-8 (byte {error.start}): save it as UTF-8") from error
    except OSError as error:
        raise ConfigError(
            f"cannot read {str(file)!r}: {error.strerror or error}; check its permissions"
        ) from error
    return _object(file, text)


def _object(file: Path, text: str) -> dict[str, Any]:
    def no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        repeated = [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]
        if repeated:
            raise ConfigError(f"{repeated[0]!r} appears twice in {str(file)!r}: keep one of them")
        return dict(pairs)

    try:
        value = json.loads(text, object_pairs_hook=no_repeats)
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"{str(file)!r} is not JSON: {error.msg} at line {error.lineno}, column {error.colno}; "
            "correct that line, or move the file away to use the defaults"
        ) from error
    except (RecursionError, ValueError) as error:
        raise ConfigError(f"{str(file)!r} is not usable JSON ({error}): simplify it") from error
    if not isinstance(value, dict):
        raise ConfigError(f'{str(file)!r} line 1: expected a JSON object such as {{"embedder": "bundled"}}')
    return value


def _unknown_keys(file: Path, content: Mapping[str, Any]) -> list[str]:
    known = ("embedder", "store", *_NUMBERS, *_OUTAGE, *SCOPE_KEYS, *_FOREIGN_KEYS)
    return [
        f"unknown key {key[:80]!r} in {str(file)!r}{did_you_mean(key, known)}"
        for key in content
        if key not in known
    ]


def _unknown_variables(environ: Mapping[str, str]) -> list[str]:
    known = (*_VARIABLES, *_NUMBER_VARIABLES, *_OUTAGE_VARIABLES, *STORE_VARIABLES, *SCOPE_VARIABLES)
    return [
        f"unknown variable {name!r}{did_you_mean(_MEANT.get(name, name), known)}"
        for name in sorted(environ)
        if name.startswith(_OURS) and name not in known
    ]


def _section(  # noqa: PLR0913, PLR0917  one section of the file
    file: Path, section: str, value: object, keys: Mapping[str, str], simple: str, other: str
) -> tuple[dict[str, Value], list[str]]:
    """The fields of a section of `file`, which may be a name alone, and a warning for each unknown key."""
    first = next(iter(keys))
    if value is None:
        return {}, []
    if isinstance(value, str):
        return {keys[first]: Value(value, f"{section} in {file}")}, []
    if not isinstance(value, dict):
        raise ConfigError(
            f"{section} in {str(file)!r} must be a name or an object, not {value!r:.40}: "
            f'write "{simple}" or {{"{first}": "{other}", ...}}'
        )
    found = {
        name: Value(value[key], f"{section}.{key} in {file}")
        for key, name in keys.items()
        if value.get(key) is not None
    }
    unknown = [key for key in value if key not in keys]
    return found, [
        f"unknown key {f'{section}.{key[:80]}'!r} in {str(file)!r}{did_you_mean(key, keys)}"
        for key in unknown
    ]


def _from_environment(variables: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, Value]:
    return {
        field_name: Value(environ[name].strip(), name)
        for name, field_name in variables.items()
        if environ.get(name, "").strip()
    }


def _overlaid(file: Mapping[str, Value], environment: Mapping[str, Value], kind: str) -> dict[str, Value]:
    """`environment` over `file`.

    Another `kind` in the environment leaves nothing of the file's: its model and address belong to another
    server, and its key must not be sent to this one.
    """
    wanted = environment.get(kind)
    if wanted is not None and (kind not in file or file[kind].value != wanted.value):
        return dict(environment)
    return {**file, **environment}


def _unused(found: Mapping[str, Value]) -> list[str]:
    """A warning for each value beside an embedder that needs none."""
    kind = found["kind"].value if "kind" in found else None
    if kind not in SELF_CONTAINED:
        return []
    return [
        f"{value.source} is not used by the {kind} embedder"
        for name, value in found.items()
        if name != "kind"
    ]


def _embedder_settings(found: Mapping[str, Value]) -> EmbedderSettings:
    from agenthood.embedding.settings import EmbedderSettings  # noqa: PLC0415  keeps this import light

    if found and "kind" not in found:
        source = next(iter(found.values())).source
        raise ConfigError(
            f'{source} needs a kind of embedder: set "kind" beside it, or AGENTHOOD_EMBEDDER=openai'
        )
    values = {name: CONVERTERS[name](value) for name, value in found.items()}
    try:
        return EmbedderSettings(**values)
    except ConfigError as error:
        raise ConfigError(f"{error} ({found['kind'].source})") from error
