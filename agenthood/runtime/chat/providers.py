"""The providers known by name: where they are, which variable holds their key, which model they start with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Format: TypeAlias = Literal["anthropic", "openai"]


@dataclass(frozen=True, slots=True)
class Provider:
    """What is known of a provider by its name.

    Attributes:
        name: as it is written in settings.
        model: the model taken unless another is named.
        base_url: its address; for the `openai` format up to and with `/v1`.
        format: which SDK speaks to it.
        key_variable: the environment variable of its key; None if it has no keys.
        url_variable: the environment variable that moves it elsewhere; None if there is none.
        unreachable_advice: what to do if nothing answers there.
    """

    name: str
    model: str
    base_url: str
    format: Format = "openai"
    key_variable: str | None = None
    url_variable: str | None = None
    unreachable_advice: str = "check the network, or name another with --provider"


# The models as of 2026-11, each the provider's own middle size that calls tools well.
KNOWN: Final[dict[str, Provider]] = {
    provider.name: provider
    for provider in (
        Provider(
            "anthropic",
            "claude-sonnet-5-5",
            "https://api.anthropic.com",
            format="anthropic",
            key_variable="ANTHROPIC_API_KEY",
            url_variable="ANTHROPIC_BASE_URL",
        ),
        Provider(
            "openai",
            "gpt-6-sol",
            "https://api.openai.com/v1",
            key_variable="OPENAI_API_KEY",
            url_variable="OPENAI_BASE_URL",
        ),
        Provider(
            "groq", "openai/gpt-oss-120b", "https://api.groq.com/openai/v1", key_variable="GROQ_API_KEY"
        ),
        Provider(
            "openrouter",
            "anthropic/claude-sonnet-5.5",
            "https://openrouter.ai/api/v1",
            key_variable="OPENROUTER_API_KEY",
        ),
        Provider(
            "ollama",
            "gpt-oss:20b",
            "http://127.0.0.1:11434/v1",
            url_variable="OLLAMA_HOST",
            unreachable_advice="start it with `ollama serve`, or set OLLAMA_HOST",
        ),
    )
}
"""By name, in the order in which they are looked for when nothing is configured."""

KEY_VARIABLES: Final = tuple(p.key_variable for p in KNOWN.values() if p.key_variable)


def provider_named(name: str) -> Provider:
    """The provider `name`; one that is not known is taken for an OpenAI-compatible server without defaults."""
    return KNOWN.get(name) or Provider(name, "", "")


def ollama_url(host: str) -> str:
    """The base URL that an `OLLAMA_HOST` means: `box`, `:1234`, `0.0.0.0`, `https://box/ollama`.

    Ollama's own port is taken where neither scheme nor port is given; the address that a server listens
    on at all interfaces becomes the loopback one.
    """
    scheme, separator, rest = host.strip().rpartition("://")
    authority, slash, path = rest.partition("/")
    name, colon, port = authority.rpartition(":")
    if not colon or port.endswith("]"):
        name, port = authority, ""
    if name in ("", "0.0.0.0", "[::]"):  # noqa: S104  (nothing is bound here)
        name = "127.0.0.1"
    port = port or ("" if separator else "11434")
    path = path.strip("/").removesuffix("v1").strip("/")
    prefix = f"{slash}{path}" if path else ""
    return f"{scheme or 'http'}://{name}{':' + port if port else ''}{prefix}/v1"
