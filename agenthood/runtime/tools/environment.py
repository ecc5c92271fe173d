"""The environment that commands of the model get: without the keys of providers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def without_secrets(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment without variables that are named like secrets."""
    return {name: value for name, value in environ.items() if not _is_secret(name.upper())}


def for_git(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The environment for git: nothing that points it elsewhere, no question, no network, English."""
    kept = {name: value for name, value in without_secrets(environ).items() if not name.startswith("GIT_")}
    return (
        kept
        | {
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_ALLOW_PROTOCOL": "none",  # a list of what is allowed: objects missing in a partial clone stay missing
            "LC_ALL": "C",
        }
    )


def _is_secret(name: str) -> bool:
    return name.endswith(("API_KEY", "APIKEY", "TOKEN")) or "SECRET" in name
