"""Settings: from arguments, the environment, `.agenthood/config.json` and the defaults, in that order.

`config.json` is shared with the TypeScript program, whose chat settings (`provider`, `providers`,
`failover`) are left alone here. A key that nobody knows becomes a warning that says what may have been meant;
a value that cannot be used is a `ConfigError` that names where it came from. No error holds a secret.
"""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agenthood.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from agenthood.embedding.settings import EmbedderSettings

CONFIG_FILE = "config.json"
MERGE_THRESHOLD = 0.85
RECALL_THRESHOLD = 0.7

_FOREIGN_KEYS = ("provider", "providers", "failover")
_THRESHOLDS = {"mergeThreshold": "merge_threshold", "recallThreshold": "recall_threshold"}
_VARIABLES = {
    "AGENTHOOD_EMBEDDER": "kind",
    "AGENTHOOD_EMBED_MODEL": "model",
    "AGENTHOOD_EMBED_BASE_URL": "base_url",
    "AGENTHOOD_EMBED_API_KEY": "api_key",
    "AGENTHOOD_EMBED_DIMENSION": "dimension",
    "AGENTHOOD_EMBED_REVISION": "revision",
    "AGENTHOOD_EMBED_TIMEOUT": "timeout",
}
_THRESHOLD_VARIABLES = {
    "AGENTHOOD_MERGE_THRESHOLD": "merge_threshold",
    "AGENTHOOD_RECALL_THRESHOLD": "recall_threshold",
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
}
_SELF_CONTAINED = ("bundled", "lexical")
"""Kinds that need nothing else, so that a model or a key beside them is a mistake."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What a store is opened with.

    Attributes:
        embedder: which embedder, and how to reach it.
        merge_threshold: calibrated match score in [0, 1] from which an episode counts as a known lesson.
        recall_threshold: calibrated match score in [0, 1] from which a lesson is recalled.
        warnings: what was found in the configuration and not understood, one sentence each.
        sources: setting -> where it came from, such as `AGENTHOOD_EMBEDDER`; absent for defaults.
    """

    embedder: EmbedderSettings
    merge_threshold: float = MERGE_THRESHOLD
    recall_threshold: float = RECALL_THRESHOLD
    warnings: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        for name in ("merge_threshold", "recall_threshold"):
            _threshold(getattr(self, name), f"Settings.{name}")


@dataclass(frozen=True, slots=True)
class _Value:
    """A value and where it came from, for the error about it."""

    value: Any = field(repr=False)
    source: str


def load_settings(path: Path | str, *, environ: Mapping[str, str] = os.environ) -> Settings:
    """Read the settings for the store at `path`.

    Args:
        path: the `.agenthood` directory; it need not exist.
        environ: the environment; empty variables count as unset.

    Raises:
        ConfigError: `config.json` cannot be read or is no JSON object, or a value cannot be used.
    """
    file = Path(path) / CONFIG_FILE
    content = _read(file)
    warnings = [*_unknown_keys(file, content), *_unknown_variables(environ)]
    from_file, more_warnings = _embedder_in(file, content.get("embedder"))
    embedder = _overlaid(from_file, _from_environment(_VARIABLES, environ))
    thresholds = {
        name: _Value(content[key], f"{key} in {file}")
        for key, name in _THRESHOLDS.items()
        if content.get(key) is not None
    }
    thresholds |= _from_environment(_THRESHOLD_VARIABLES, environ)
    return Settings(
        embedder=_embedder_settings(embedder),
        warnings=(*warnings, *more_warnings, *_unused(embedder)),
        sources={name: found.source for name, found in (embedder | thresholds).items()},
        **{name: _threshold(found.value, found.source) for name, found in thresholds.items()},
    )


def closest(wanted: str, known: Iterable[str]) -> str | None:
    """The one of `known` that `wanted` most likely meant, or None if none is near."""
    by_folded = {_folded(name): name for name in known}
    found = get_close_matches(_folded(wanted), by_folded, n=1, cutoff=0.6)
    return by_folded[found[0]] if found else None


def did_you_mean(wanted: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?`, or the empty text if nothing known is near."""
    found = closest(wanted, known)
    return f"; did you mean {found!r}?" if found else ""


def _folded(name: str) -> str:
    return name[:100].replace("_", "").replace("-", "").casefold()


def _read(file: Path) -> dict[str, Any]:
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
    known = ("embedder", *_THRESHOLDS, *_FOREIGN_KEYS)
    return [
        f"unknown key {key[:80]!r} in {str(file)!r}{did_you_mean(key, known)}"
        for key in content
        if key not in known
    ]


def _unknown_variables(environ: Mapping[str, str]) -> list[str]:
    known = (*_VARIABLES, *_THRESHOLD_VARIABLES)
    return [
        f"unknown variable {name!r}{did_you_mean(name, known)}"
        for name in sorted(environ)
        if name.startswith("AGENTHOOD_EMBED") and name not in known
    ]


def _embedder_in(file: Path, value: object) -> tuple[dict[str, _Value], list[str]]:
    """The fields of `embedder` in `file`, and a warning for each unknown key."""
    if value is None:
        return {}, []
    if isinstance(value, str):
        return {"kind": _Value(value, f"embedder in {file}")}, []
    if not isinstance(value, dict):
        raise ConfigError(
            f"embedder in {str(file)!r} must be a name or an object, not {value!r:.40}: "
            'write "bundled" or {"kind": "ollama", "model": "..."}'
        )
    found = {
        name: _Value(value[key], f"embedder.{key} in {file}")
        for key, name in _KEYS.items()
        if value.get(key) is not None
    }
    unknown = [key for key in value if key not in _KEYS]
    return found, [
        f"unknown key {'embedder.' + key[:80]!r} in {str(file)!r}{did_you_mean(key, _KEYS)}"
        for key in unknown
    ]


def _from_environment(variables: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, _Value]:
    return {
        field_name: _Value(environ[name].strip(), name)
        for name, field_name in variables.items()
        if environ.get(name, "").strip()
    }


def _overlaid(file: Mapping[str, _Value], environment: Mapping[str, _Value]) -> dict[str, _Value]:
    """`environment` over `file`.

    Another kind in the environment leaves nothing of the file's: its model and address belong to another
    server, and its key must not be sent to this one.
    """
    kind = environment.get("kind")
    if kind is not None and ("kind" not in file or file["kind"].value != kind.value):
        return dict(environment)
    return {**file, **environment}


def _unused(found: Mapping[str, _Value]) -> list[str]:
    """A warning for each value beside an embedder that needs none."""
    kind = found["kind"].value if "kind" in found else None
    if kind not in _SELF_CONTAINED:
        return []
    return [
        f"{value.source} is not used by the {kind} embedder"
        for name, value in found.items()
        if name != "kind"
    ]


def _embedder_settings(found: Mapping[str, _Value]) -> EmbedderSettings:
    from agenthood.embedding.settings import EmbedderSettings  # noqa: PLC0415  keeps this import light

    if found and "kind" not in found:
        source = next(iter(found.values())).source
        raise ConfigError(
            f'{source} needs a kind of embedder: set "kind" beside it, or AGENTHOOD_EMBEDDER=openai'
        )
    values = {name: _CONVERTERS[name](value) for name, value in found.items()}
    try:
        return EmbedderSettings(**values)
    except ConfigError as error:
        raise ConfigError(f"{error} ({found['kind'].source})") from error


def _threshold(value: object, source: str) -> float:
    number = _float(value, source)
    if not 0.0 <= number <= 1.0:
        raise ConfigError(
            f"{source} must be a number in [0, 1], not {value!r:.40}: the default is a good start"
        )
    return number


def _float(value: object, source: str) -> float:
    try:
        number = (
            float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else math.nan
        )
    except (ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise ConfigError(f"{source} must be a finite number, not {value!r:.40}: correct it")
    return number


def _text(found: _Value) -> str:
    if not isinstance(found.value, str) or not found.value.strip():
        raise ConfigError(f"{found.source} must be text that is not empty: correct it or leave it out")
    return found.value.strip()


def _prefix(found: _Value) -> str:
    if not isinstance(found.value, str):
        raise ConfigError(f"{found.source} must be text, not {found.value!r:.40}: correct it or leave it out")
    return found.value


def _flag(found: _Value) -> bool:
    if not isinstance(found.value, bool):
        raise ConfigError(f"{found.source} must be true or false, not {found.value!r:.40}: correct it")
    return found.value


def _seconds(found: _Value) -> float:
    number = _float(found.value, found.source)
    if number <= 0:
        raise ConfigError(
            f"{found.source} must be above 0, not {found.value!r:.40}: correct it or leave it out"
        )
    return number


def _whole(minimum: int) -> Callable[[_Value], int]:
    def convert(found: _Value) -> int:
        number = _float(found.value, found.source)
        if number != int(number) or number < minimum:
            raise ConfigError(
                f"{found.source} must be a whole number from {minimum}, not {found.value!r:.40}: correct it"
            )
        return int(number)

    return convert


_CONVERTERS: dict[str, Callable[[_Value], Any]] = {
    "kind": _text,
    "model": _text,
    "base_url": _text,
    "api_key": _text,
    "dimension": _whole(1),
    "revision": _text,
    "timeout": _seconds,
    "batch_size": _whole(1),
    "concurrency": _whole(1),
    "max_retries": _whole(0),
    "send_dimensions": _flag,
    "query_prefix": _prefix,
    "document_prefix": _prefix,
}
