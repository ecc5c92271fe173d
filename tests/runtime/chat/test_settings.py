"""Which provider, model, key and address the settings come to, and what they say about mistakes."""

from __future__ import annotations

import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenthood.errors import ConfigError, MissingKeyError
from agenthood.runtime.chat.base import Message, Usage
from agenthood.runtime.chat.factory import create_chat_model
from agenthood.runtime.chat.prices import cost
from agenthood.runtime.chat.providers import KNOWN, ollama_url
from agenthood.runtime.chat.settings import ChatSettings, ProviderSettings, load_chat_settings
from runtime.provider_server import provider_server, say

ELSEWHERE = "https://gateway.example/v1"


def load(folder: Path, config: object = None, env: str = "", **options: Any) -> ChatSettings:
    home = folder / ".agenthood"
    home.mkdir(exist_ok=True)
    if config is not None:
        (home / "config.json").write_text(json.dumps(config), encoding="utf-8")
    if env:
        (folder / ".env").write_text(env, encoding="utf-8")
    return load_chat_settings(home, **{"environ": {}} | options)


def only(settings: ChatSettings) -> ProviderSettings:
    (one,) = settings.providers
    return one


def names(settings: ChatSettings) -> list[str]:
    return [f"{one.name}/{one.model}" for one in settings.providers]


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        (["OPENROUTER_API_KEY", "GROQ_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"], "anthropic"),
        (["OPENROUTER_API_KEY", "GROQ_API_KEY", "OPENAI_API_KEY"], "openai"),
        (["OPENROUTER_API_KEY", "GROQ_API_KEY"], "groq"),
        (["OPENROUTER_API_KEY", "OLLAMA_HOST"], "openrouter"),
        (["OLLAMA_HOST"], "ollama"),
    ],
)
def test_the_first_with_a_key(tmp_path: Path, variables: list[str], expected: str) -> None:
    """With nothing configured the first provider that has a key is taken, alone."""
    one = only(load(tmp_path, environ=dict.fromkeys(variables, "box")))
    assert (one.name, one.model, one.missing_key) == (expected, KNOWN[expected].model, None)


def test_nothing_at_all(tmp_path: Path) -> None:
    """With no key anywhere the error lists the variables; reading the settings is no error."""
    settings = load(tmp_path, environ={"OPENAI_API_KEY": "  "})
    assert settings.providers == ()
    with pytest.raises(MissingKeyError) as caught:
        create_chat_model(settings)
    for variable in (
        "ANTHROPIC_API_KEY",
        "OPENAI_API_KEY",
        "GROQ_API_KEY",
        "OPENROUTER_API_KEY",
        "OLLAMA_HOST",
    ):
        assert variable in str(caught.value)


@pytest.mark.parametrize("name", ["anthropic", "openai", "groq", "openrouter"])
def test_a_missing_key_names_its_variable(tmp_path: Path, name: str) -> None:
    """One line says which variable to set for the provider that was named."""
    with pytest.raises(MissingKeyError, match=f"set {name.upper()}_API_KEY") as caught:
        create_chat_model(load(tmp_path, provider=name))
    assert "\n" not in str(caught.value)
    assert caught.value.provider == name


def test_ollama_needs_no_key(tmp_path: Path) -> None:
    """Named, Ollama is asked at its usual address."""
    one = only(load(tmp_path, provider="Ollama"))
    assert (one.base_url, one.api_key, one.missing_key) == ("http://127.0.0.1:11434/v1", None, None)


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("box", "http://box:11434/v1"),
        ("box:1234", "http://box:1234/v1"),
        (":1234", "http://127.0.0.1:1234/v1"),
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0:1234", "http://127.0.0.1:1234/v1"),
        ("http://box", "http://box/v1"),
        ("https://box/ollama/", "https://box/ollama/v1"),
        ("http://box:1/v1", "http://box:1/v1"),
        ("[::1]:1234", "http://[::1]:1234/v1"),
        ("[::1]", "http://[::1]:11434/v1"),
    ],
)
def test_what_an_ollama_host_means(host: str, url: str) -> None:
    """Host, port, scheme and path may each be left out."""
    assert ollama_url(host) == url


LAYERS = ("argument", "environment", "dotenv", "config")


@given(
    models=st.fixed_dictionaries({}, optional={layer: st.just(f"{layer}-model") for layer in LAYERS}),
    keys=st.fixed_dictionaries({}, optional={layer: st.just(f"{layer}-key") for layer in LAYERS[1:]}),
    chooser=st.sampled_from(LAYERS),
)
def test_precedence(models: dict[str, str], keys: dict[str, str], chooser: str) -> None:
    """Each of provider, model and key comes from the strongest source that has it, else from the defaults."""
    layer_of: dict[str, dict[str, str]] = {layer: {} for layer in LAYERS}
    for layer, model in models.items():
        layer_of[layer]["AGENTHOOD_MODEL"] = model
    for layer, key in keys.items():
        layer_of[layer]["GROQ_API_KEY"] = key
    layer_of[chooser]["AGENTHOOD_PROVIDER"] = "groq"
    config: dict[str, Any] = {"name": "groq"}
    config |= {"model": models["config"]} if "config" in models else {}
    config |= {"apiKey": keys["config"]} if "config" in keys else {}
    with tempfile.TemporaryDirectory() as folder:
        settings = load(
            Path(folder),
            {"provider" if chooser == "config" else "providers": config if chooser == "config" else [config]},
            "\n".join(f"{name}={value}" for name, value in layer_of["dotenv"].items()),
            provider=layer_of["argument"].get("AGENTHOOD_PROVIDER"),
            model=models.get("argument"),
            environ=layer_of["environment"],
        )
    one = only(settings)
    # A model alone, of a source weaker than the one that names the provider, may belong to another provider.
    usable = [layer for layer in LAYERS if layer == "config" or LAYERS.index(layer) <= LAYERS.index(chooser)]
    model = next((models[layer] for layer in usable if layer in models), KNOWN["groq"].model)
    key = next((keys[layer] for layer in LAYERS if layer in keys), None)
    assert (one.name, one.model, one.api_key) == ("groq", model, key)
    assert (one.missing_key is None) == (key is not None)


def test_a_model_that_is_not_used_is_told(tmp_path: Path) -> None:
    """`AGENTHOOD_MODEL` of the environment is another provider's when `--provider` names one."""
    settings = load(tmp_path, provider="groq", environ={"AGENTHOOD_MODEL": "gpt-6-sol", "GROQ_API_KEY": "k"})
    assert only(settings).model == KNOWN["groq"].model
    assert settings.warnings == ("AGENTHOOD_MODEL is not used: --provider names a provider",)
    same = {"AGENTHOOD_MODEL": "mine", "AGENTHOOD_PROVIDER": "groq", "GROQ_API_KEY": "k"}
    assert only(load(tmp_path, provider="groq", environ=same)).model == "mine"


def test_the_file_in_the_shape_of_the_other_program(tmp_path: Path) -> None:
    """The first choice leads, the others follow by priority, those without one last in their order."""
    config = {
        "provider": {"name": "openai", "model": "gpt-6-luna"},
        "providers": [
            {"name": "ollama", "models": ["small", "large"]},
            {"name": "openrouter"},
            {"name": "groq", "model": "fast", "priority": 2},
            {"name": "anthropic", "priority": 1},
            {"name": "openai", "model": "other", "apiKey": "env:MY_KEY", "priority": 0},
        ],
        "failover": {"failureThreshold": 5, "cooldownMs": 1500, "probeEnabled": False},
        "embedder": "bundled",
    }
    settings = load(tmp_path, config, environ={"MY_KEY": "mine"})
    assert names(settings) == [
        "openai/gpt-6-luna",
        "anthropic/claude-sonnet-5-5",
        "groq/fast",
        "ollama/small",
        "openrouter/anthropic/claude-sonnet-5.5",
    ]
    assert settings.providers[0].api_key == "mine"
    failover = settings.failover
    assert (failover.failure_threshold, failover.cooldown, failover.probe) == (5, 1.5, False)
    assert settings.warnings == ()


def test_providers_without_their_key_are_left_out(tmp_path: Path) -> None:
    """What has no key is told and left out; with no key at all the error says what to set for each."""
    config = {"providers": ["anthropic", "groq"]}
    told: list[str] = []
    model = create_chat_model(load(tmp_path, config, environ={"GROQ_API_KEY": "k"}), on_notice=told.append)
    assert (model.provider, len(told)) == ("groq", 1)
    assert "ANTHROPIC_API_KEY" in told[0]
    with pytest.raises(MissingKeyError, match=r"ANTHROPIC_API_KEY.*GROQ_API_KEY"):
        create_chat_model(load(tmp_path, config))


def test_naming_one_leaves_nothing_to_fail_over_to(tmp_path: Path) -> None:
    """Who names a provider gets that one alone, with what the file says about it."""
    config = {"provider": "anthropic", "providers": [{"name": "ollama", "model": "small"}]}
    assert names(load(tmp_path, config, provider="ollama")) == ["ollama/small"]
    assert names(load(tmp_path, config, environ={"AGENTHOOD_PROVIDER": "ollama"})) == ["ollama/small"]


def test_a_model_goes_to_the_entry_that_lists_it(tmp_path: Path) -> None:
    """`--model` alone is for the first choice, unless another entry lists it."""
    config = {"providers": [{"name": "groq"}, {"name": "ollama", "models": ["small", "large"]}]}
    assert names(load(tmp_path, config, model="large"))[0] == "ollama/large"
    assert names(load(tmp_path, config, model="new")) == ["groq/new", "ollama/small"]


@pytest.mark.parametrize("reference", ["${MY_KEY}", "env:MY_KEY"])
def test_a_key_by_reference(tmp_path: Path, reference: str) -> None:
    """A key may be a reference to the environment or to `.env`; one that is not set is told by its name."""
    config = {"provider": {"name": "box", "baseUrl": ELSEWHERE, "model": "m", "apiKey": reference}}
    assert only(load(tmp_path, config, environ={"MY_KEY": "one"})).api_key == "one"
    unset = load(tmp_path, config)
    assert only(unset).api_key is None
    assert "refers to MY_KEY, which is not set" in unset.warnings[0]
    assert only(load(tmp_path, config, "MY_KEY='two'")).api_key == "two"


def test_dotenv_stays_in_the_file(tmp_path: Path) -> None:
    """`.env` with quotes, `export`, comments and `$` is understood, and the environment is not touched."""
    before = dict(os.environ)
    env = '\ufeff# keys\nexport GROQ_API_KEY="gsk-${HOME}" # mine\nOTHER=1\nbroken line here\n'
    assert only(load(tmp_path, env=env)).api_key == "gsk-${HOME}"
    assert dict(os.environ) == before


def test_a_dotenv_that_is_not_text(tmp_path: Path) -> None:
    """A file that is not UTF-8 is an error that says where, and quotes nothing."""
    (tmp_path / ".env").write_bytes(b"GROQ_API_KEY=secret\xff")
    with pytest.raises(ConfigError, match="not UTF-8") as caught:
        load(tmp_path)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("source", ["config", "dotenv"])
def test_a_users_key_does_not_follow_a_projects_address(tmp_path: Path, source: str) -> None:
    """A key from the environment is not sent where a file of the project points, and that is told."""
    config = {"provider": {"name": "openai"} | ({"baseUrl": ELSEWHERE} if source == "config" else {})}
    env = f"OPENAI_BASE_URL={ELSEWHERE}" if source == "dotenv" else ""
    settings = load(tmp_path, config, env, environ={"OPENAI_API_KEY": "sk-mine"})
    assert (only(settings).base_url, only(settings).api_key) == (ELSEWHERE, None)
    assert "OPENAI_API_KEY is not sent to" in settings.warnings[0]


def test_a_users_key_follows_the_users_own_address(tmp_path: Path) -> None:
    """The environment's address gets the environment's key; so do this machine and the provider itself."""
    key = {"OPENAI_API_KEY": "sk-mine"}
    own = load(tmp_path, {"provider": "openai"}, environ=key | {"OPENAI_BASE_URL": ELSEWHERE})
    assert (only(own).base_url, only(own).api_key) == (ELSEWHERE, "sk-mine")
    for url in ("http://127.0.0.1:8000/v1", "http://localhost:1/v1", "https://api.openai.com/v1/"):
        here = load(tmp_path, {"provider": {"name": "openai", "baseUrl": url}}, environ=key)
        assert (only(here).api_key, here.warnings) == ("sk-mine", ())


def test_a_project_that_asks_for_a_users_key_is_told(tmp_path: Path) -> None:
    """A reference to a well-known key beside an address of its own is honoured, and said."""
    config = {"provider": {"name": "openai", "baseUrl": ELSEWHERE, "apiKey": "${OPENAI_API_KEY}"}}
    settings = load(tmp_path, config, environ={"OPENAI_API_KEY": "sk-mine"})
    assert only(settings).api_key == "sk-mine"
    assert any("sends OPENAI_API_KEY to" in warning for warning in settings.warnings)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"provider": {"name": "openai", "modell": "x"}}, "'provider.modell'.*did you mean 'model'"),
        ({"providers": [{"name": "openai", "baseURL": "x"}]}, r"'providers\[0\].baseURL'.*'baseUrl'"),
        ({"failover": {"cooldown": 1}}, "'failover.cooldown'.*'cooldownMs'"),
    ],
)
def test_unknown_keys_are_told(tmp_path: Path, config: object, says: str) -> None:
    """A key that nobody knows becomes a warning that says what may have been meant."""
    (warning,) = load(tmp_path, config).warnings
    assert re.search(says, warning), warning


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"provider": 3}, "a name or an object"),
        ({"provider": {"model": "m"}}, "needs a name"),
        ({"provider": "antropic"}, "did you mean 'anthropic'"),
        ({"provider": {"name": "box", "baseUrl": ELSEWHERE}}, "needs a model"),
        ({"provider": {"name": "openai", "apiKey": ["sk-secret"]}}, "apiKey .* must be text"),
        ({"provider": {"name": "openai", "apiKey": "${sk-secret"}}, "reference"),
        ({"provider": {"name": "openai", "baseUrl": "gateway"}}, "must look like"),
        ({"provider": {"name": "openai", "baseUrl": "https://u:sk-secret@x/v1"}}, "user name"),
        ({"provider": {"name": "openai", "baseUrl": "https://x/v1?key=sk-secret"}}, "query"),
        ({"providers": {"name": "openai"}}, "must be a list"),
        ({"providers": [{"name": "openai", "models": "m"}]}, "list of names"),
        ({"providers": [{"name": "openai", "priority": "high"}]}, "must be a number"),
        ({"failover": 3}, "must be an object"),
        ({"failover": {"failureThreshold": 0}}, "whole number from 1"),
        ({"failover": {"cooldownMs": -1}}, "at least 0"),
        ({"failover": {"probeEnabled": "yes"}}, "true or false"),
    ],
)
def test_values_that_cannot_be_used(tmp_path: Path, config: object, says: str) -> None:
    """Each is an error that says what is expected, where, and never quotes a key."""
    with pytest.raises(ConfigError, match=says) as caught:
        load(tmp_path, config)
    assert "sk-secret" not in str(caught.value)


def test_an_unknown_provider_among_others_is_left_out(tmp_path: Path) -> None:
    """The other program knows providers that are not known here; the rest of the list is used."""
    settings = load(tmp_path, {"providers": ["opencode", "ollama"]})
    assert names(settings) == ["ollama/gpt-oss:20b"]
    assert "'opencode'" in settings.warnings[0]
    with pytest.raises(ConfigError, match="opencode"):
        load(tmp_path, {"providers": ["opencode"]})


def test_settings_show_no_key(tmp_path: Path) -> None:
    """No `repr` of the settings or of the model has the key; the sources say where it came from."""
    settings = load(tmp_path, {"provider": {"name": "groq", "apiKey": "gsk-secret"}})
    model = create_chat_model(settings)
    assert "gsk-secret" not in repr(settings) + repr(model) + repr(vars(model))
    assert "apiKey of provider" in only(settings).sources["api_key"]


async def test_from_settings_to_a_reply(tmp_path: Path) -> None:
    """The settings of two real servers make a model that replies, each in its own format."""
    with provider_server(lambda _: say("hi")) as server:
        for name in ("anthropic", "openai", "groq"):
            config = {"provider": {"name": name, "baseUrl": server.base_url, "apiKey": "sk-k"}}
            model = create_chat_model(load(tmp_path, config))
            reply = await model.reply(system="", messages=[Message("user", "?")])
            await model.aclose()
            assert (reply.text, reply.provider) == ("hi", name)
    paths = [request.path for request in server.requests]
    assert paths == ["/v1/messages", "/v1/chat/completions", "/v1/chat/completions"]


def test_cost() -> None:
    """A million tokens in and out at the list price; a date does not matter; unknown is None, not 0."""
    usage = Usage(1_000_000, 1_000_000)
    assert cost("claude-sonnet-5-5", usage) == 12.0
    assert cost("claude-haiku-4-5-20251001", usage) == 6.0
    assert cost("my-own", usage) is None
    assert all(cost(KNOWN[name].model, Usage() + Usage(1, 2)) for name in ("anthropic", "openai"))
