"""Which chat models are asked, and with which keys.

Precedence, the strongest first: arguments (`--provider`, `--model`), the environment, the project's `.env`,
`.agenthood/config.json`, the defaults in `providers.py`.

- The provider: `--provider`, then `AGENTHOOD_PROVIDER`; whoever names one that way gets that one alone, with
  nothing to fail over to. Then `provider` in the file, followed by its `providers` by priority, or those
  alone. With none of these, the first provider that has a key; Ollama only if `OLLAMA_HOST` is set.
- The model: `--model`, then `AGENTHOOD_MODEL`, then the file's, then the provider's default. A model beside a
  provider goes with that one: one of a weaker source than the provider's is not used for it.
- The key: `ANTHROPIC_API_KEY`, `OPENAI_API_KEY`, `GROQ_API_KEY`, `OPENROUTER_API_KEY`, then `apiKey` in the
  file, which may be `${NAME}` or `env:NAME`.
- The address: `ANTHROPIC_BASE_URL`, `OPENAI_BASE_URL`, `OLLAMA_HOST`, then `baseUrl` in the file.

A key from the environment never goes to an address that a weaker source names, unless that is this machine:
a project's file must not be able to send a user's key elsewhere. Such an entry needs an `apiKey` of its own.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from agenthood.config import CONFIG_FILE, read_config
from agenthood.errors import ConfigError
from agenthood.runtime.chat.address import Address
from agenthood.runtime.chat.entries import Entry, FailoverSettings, FileSettings, read_entries
from agenthood.runtime.chat.providers import KEY_VARIABLES, KNOWN, Provider, ollama_url, provider_named
from agenthood.runtime.chat.sources import ARGUMENT, CONFIG, DEFAULT, Found, Variables, read_dotenv
from agenthood.suggest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

PROVIDER_VARIABLE = "AGENTHOOD_PROVIDER"
MODEL_VARIABLE = "AGENTHOOD_MODEL"


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """One provider, ready to be asked.

    Attributes:
        name: the provider.
        model: the model's name there.
        base_url: its address.
        api_key: None sends none.
        missing_key: why it cannot be asked without one, with what to set; None if it can.
        sources: `model`, `base_url`, `api_key` -> where each came from; absent for defaults.
    """

    name: str
    model: str
    base_url: str
    api_key: str | None = field(default=None, repr=False)
    missing_key: str | None = None
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """What chat models are made from.

    Attributes:
        providers: by priority; empty if none is configured and no key was found.
        failover: when a provider that fails is left alone.
        warnings: what was found in the configuration and not understood or not used, one sentence each.
    """

    providers: tuple[ProviderSettings, ...]
    failover: FailoverSettings = field(default_factory=FailoverSettings)
    warnings: tuple[str, ...] = ()


def load_chat_settings(
    path: Path | str,
    *,
    project: Path | str | None = None,
    provider: str | None = None,
    model: str | None = None,
    environ: Mapping[str, str] = os.environ,
) -> ChatSettings:
    """Read the chat settings.

    Args:
        path: the `.agenthood` directory; it need not exist.
        project: where `.env` lies; None takes the directory that holds `path`.
        provider: as given by `--provider`; None leaves it to the other sources.
        model: as given by `--model`; None leaves it to the other sources.
        environ: the environment; empty variables count as unset.

    Raises:
        ConfigError: a file cannot be read, or a value cannot be used. A missing key is no error here: see
            `ProviderSettings.missing_key`.
    """
    home = Path(path)
    file = home / CONFIG_FILE
    variables = Variables(
        environ, read_dotenv(Path(project if project is not None else home.parent) / ".env")
    )
    content = read_entries(read_config(file), file)
    chosen, warnings = _chosen(content, _wanted(variables, provider, model), variables)
    providers: list[ProviderSettings] = []
    for entry, named_model in chosen:
        problem = _unusable(entry)
        if problem is None:
            providers.append(_resolved(entry, named_model, variables, warnings))
        elif len(chosen) == 1:
            raise ConfigError(problem)
        else:
            warnings.append(f"{problem}; it is left out")
    if chosen and not providers:
        raise ConfigError(_unusable(chosen[0][0]) or "no provider can be used: configure one")
    return ChatSettings(tuple(providers), content.failover, (*content.warnings, *warnings))


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What one source says about the provider and the model."""

    provider: str | None
    model: Found | None
    where: str


def _wanted(variables: Variables, provider: str | None, model: str | None) -> list[_Wanted]:
    """What each source stronger than the file says, the strongest first."""
    argument = Found(model.strip(), ARGUMENT, "--model") if model and model.strip() else None
    wanted = [_Wanted((provider or "").strip().casefold() or None, argument, "--provider")]
    for source in sorted(
        {found.source for n in (PROVIDER_VARIABLE, MODEL_VARIABLE) for found in variables.find(n)}
    ):
        names = {found.source: found for found in variables.find(PROVIDER_VARIABLE)}
        models = {found.source: found for found in variables.find(MODEL_VARIABLE)}
        name = names.get(source)
        wanted.append(
            _Wanted(name.value.casefold() if name else None, models.get(source), name.where if name else "")
        )
    return wanted


_Chosen = list[tuple[Entry, Found | None]]


def _chosen(content: FileSettings, wanted: list[_Wanted], variables: Variables) -> tuple[_Chosen, list[str]]:
    """The entries to ask, in order, each with the model that a source stronger than the file names for it."""
    for i, layer in enumerate(wanted):
        if layer.provider is not None:
            name = layer.provider
            usable = [w.model for w in wanted[: i + 1] if w.model]
            usable += [w.model for w in wanted[i + 1 :] if w.model and w.provider == name]
            unused = [w.model for w in wanted[i + 1 :] if w.model and w.provider != name]
            entry = content.named(name) or Entry(name, layer.where)
            model = usable[0] if usable else None
            warnings = [f"{found.where} is not used: {layer.where} names a provider" for found in unused]
            return [(entry, model)], (warnings if model is None else [])
    model = next((layer.model for layer in wanted if layer.model), None)
    entries = _configured(content) or _found(variables)
    if model is not None:
        # A model that an entry lists is asked there.
        entries = sorted(entries, key=lambda entry: model.value not in (entry.model, *entry.models))
    return [(entry, model if i == 0 else None) for i, entry in enumerate(entries)], []


def _configured(content: FileSettings) -> list[Entry]:
    if content.first is None:
        return list(content.entries)
    name = content.first.name
    head = content.named(name) or content.first
    return [head, *(entry for entry in content.entries if entry.name != name)]


def _found(variables: Variables) -> list[Entry]:
    """The first provider that has a key, or Ollama if its host is set."""
    for known in KNOWN.values():
        found = variables.first(known.key_variable or known.url_variable)
        if found is not None:
            return [Entry(known.name, found.where)]
    return []


def _unusable(entry: Entry) -> str | None:
    if entry.name in KNOWN or entry.base_url:
        return None
    hint = did_you_mean(entry.name, KNOWN)
    return (
        f"unknown provider {entry.name[:80]!r} ({entry.where}){hint or ';'} "
        f"choose one of {', '.join(KNOWN)}, or give it a baseUrl"
    )


def _resolved(
    entry: Entry, named: Found | None, variables: Variables, warnings: list[str]
) -> ProviderSettings:
    known = provider_named(entry.name)
    address = _address(known, entry, variables)
    url = Address.parse(address.value, known.name)
    key, withheld = _key(known, entry, variables, address, warnings)
    model = named or _model_in(entry) or Found(known.model, DEFAULT, "")
    if not model.value:
        raise ConfigError(f"{entry.where} needs a model: set it to one that the server lists, or use --model")
    if key is None and withheld is not None:
        warnings.append(
            f"{withheld.where} is not sent to {url.url!r}, which {address.where} names: "
            "set apiKey beside that baseUrl"
        )
    parts = {"model": model, "base_url": address, "api_key": key}
    return ProviderSettings(
        name=known.name,
        model=model.value,
        base_url=url.url,
        api_key=key.value if key else None,
        missing_key=_missing(known, address) if key is None else None,
        sources={name: part.where for name, part in parts.items() if part and part.where},
    )


def _model_in(entry: Entry) -> Found | None:
    name = entry.model or next(iter(entry.models), None)
    return Found(name, CONFIG, f"model of {entry.where}") if name else None


def _address(known: Provider, entry: Entry, variables: Variables) -> Found:
    found = variables.first(known.url_variable)
    if found is not None:
        return replace(found, value=ollama_url(found.value)) if known.name == "ollama" else found
    if entry.base_url:
        return Found(entry.base_url, CONFIG, f"baseUrl of {entry.where}")
    return Found(known.base_url, DEFAULT, "")


def _is_own(known: Provider, address: Found) -> bool:
    """Whether it is the provider's own address, however it was named."""
    return address.value.rstrip("/") == known.base_url.rstrip("/") != ""


def _key(
    known: Provider, entry: Entry, variables: Variables, address: Found, warnings: list[str]
) -> tuple[Found | None, Found | None]:
    """The key to send, and the strongest that may not be sent to that address."""
    withheld: Found | None = None
    trusted = _is_own(known, address) or Address.parse(address.value, known.name).local
    for found in variables.find(known.key_variable):
        if trusted or address.source <= found.source:
            return found, withheld
        withheld = withheld or found
    if entry.api_key is None:
        return None, withheld
    where = f"apiKey of {entry.where}"
    value, variable = variables.resolved(entry.api_key, where)
    if value is None:
        warnings.append(f"{where} refers to {variable}, which is not set: set it, or write the key")
        return None, withheld
    if variable in KEY_VARIABLES and not trusted:
        warnings.append(
            f"{where} sends {variable} to {address.value!r}: remove it unless you trust that address"
        )
    return Found(value, CONFIG, variable or where), withheld


def _missing(known: Provider, address: Found) -> str | None:
    """Why it cannot be asked without a key; servers elsewhere may need none."""
    if known.key_variable is None or not _is_own(known, address):
        return None
    return f"no key for {known.name}: set {known.key_variable}, in the environment or in .env"
