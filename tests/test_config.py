"""Settings: where they come from, and what is said about those that cannot be used."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenthood.config import Settings, load_settings
from agenthood.embedding.settings import EmbedderSettings
from agenthood.errors import ConfigError
from agenthood.stores.settings import StoreSettings
from agenthood.suggest import closest


def write(folder: Path, content: object) -> Path:
    text = content if isinstance(content, str) else json.dumps(content)
    (folder / "config.json").write_text(text, encoding="utf-8")
    return folder


def test_without_a_file_the_defaults_hold(tmp_path: Path) -> None:
    """Nothing configured, not even a directory: the bundled embedder and the measured thresholds."""
    settings = load_settings(tmp_path / "absent", environ={})
    assert settings == Settings(EmbedderSettings(), 0.85, 0.65)
    assert settings.sources == {}


def test_a_file_of_the_typescript_program_is_left_alone(tmp_path: Path) -> None:
    """Its chat settings are neither read nor complained about."""
    write(tmp_path, {"provider": "anthropic", "providers": {"x": {"apiKey": "k"}}, "failover": ["x"]})
    settings = load_settings(tmp_path, environ={})
    assert settings == Settings(EmbedderSettings())
    assert settings.warnings == ()


def test_every_key_of_the_file_is_read(tmp_path: Path) -> None:
    """All keys reach the settings, each with its source."""
    embedder = {
        "kind": "http",
        "model": "m",
        "baseUrl": "http://127.0.0.1:1/v1",
        "apiKey": "secret",
        "dimension": 8,
        "revision": "2",
        "timeout": 1.5,
        "batchSize": 2,
        "concurrency": 3,
        "maxRetries": 0,
        "sendDimensions": True,
        "queryPrefix": "query: ",
        "documentPrefix": "",
    }
    write(tmp_path, {"embedder": embedder, "mergeThreshold": 0.9, "recallThreshold": 0})
    settings = load_settings(tmp_path, environ={})
    assert settings.embedder == EmbedderSettings(
        kind="http",
        model="m",
        base_url="http://127.0.0.1:1/v1",
        api_key="secret",
        dimension=8,
        revision="2",
        timeout=1.5,
        batch_size=2,
        concurrency=3,
        max_retries=0,
        send_dimensions=True,
        query_prefix="query: ",
    )
    assert (settings.merge_threshold, settings.recall_threshold) == (0.9, 0)
    assert settings.warnings == ()
    assert settings.sources["model"] == f"embedder.model in {tmp_path / 'config.json'}"


def test_the_environment_goes_before_the_file(tmp_path: Path) -> None:
    """A variable replaces the one value it names; an empty one is as good as none."""
    write(tmp_path, {"embedder": {"kind": "openai", "model": "file", "apiKey": "k"}, "mergeThreshold": 0.9})
    environ = {
        "AGENTHOOD_EMBED_MODEL": "variable",
        "AGENTHOOD_EMBED_DIMENSION": "16",
        "AGENTHOOD_EMBED_API_KEY": "",
        "AGENTHOOD_MERGE_THRESHOLD": "0.5",
    }
    settings = load_settings(tmp_path, environ=environ)
    assert settings.embedder == EmbedderSettings(kind="openai", model="variable", api_key="k", dimension=16)
    assert settings.merge_threshold == 0.5
    assert settings.sources["merge_threshold"] == "AGENTHOOD_MERGE_THRESHOLD"


def test_the_key_in_the_file_is_not_sent_to_another_kind_of_server(tmp_path: Path) -> None:
    """Choosing another kind by a variable leaves the file's address and key out."""
    write(tmp_path, {"embedder": {"kind": "openai", "model": "m", "apiKey": "secret"}})
    settings = load_settings(tmp_path, environ={"AGENTHOOD_EMBEDDER": "ollama"})
    assert settings.embedder == EmbedderSettings(kind="ollama")


def test_no_secret_is_shown(tmp_path: Path) -> None:
    """Neither the key nor an address with a password is part of what settings look like."""
    write(
        tmp_path,
        {"embedder": {"kind": "http", "model": "m", "baseUrl": "http://u:hunter2@h/v1", "apiKey": "sk-1"}},
    )
    settings = load_settings(tmp_path, environ={})
    assert "hunter2" not in repr(settings)
    assert "sk-1" not in repr(settings)


@pytest.mark.parametrize("value", [["sk-1"], {"a": "sk-1"}, " ", 7])
def test_an_unusable_key_is_not_quoted(tmp_path: Path, value: object) -> None:
    """An error about a key names its place and not the key."""
    write(tmp_path, {"embedder": {"kind": "http", "model": "m", "apiKey": value}})
    with pytest.raises(ConfigError, match=r"embedder\.apiKey in .*config\.json must be text") as caught:
        load_settings(tmp_path, environ={})
    assert "sk-1" not in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("AGENTHOOD_MERGE_TRESHOLD", "AGENTHOOD_MERGE_THRESHOLD"),
        ("AGENTHOOD_RECALL_THRESHHOLD", "AGENTHOOD_RECALL_THRESHOLD"),
        ("AGENTHOOD_EMBEDER", "AGENTHOOD_EMBEDDER"),
        ("AGENTHOOD_STORE", "AGENTHOOD_VECTOR_BACKEND"),
        ("AGENTHOOD_BACKEND", "AGENTHOOD_VECTOR_BACKEND"),
        ("AGENTHOOD_STORE_BACKEND", "AGENTHOOD_VECTOR_BACKEND"),
        ("AGENTHOOD_VECTOR_BACKEN", "AGENTHOOD_VECTOR_BACKEND"),
        ("AGENTHOOD_STOREURL", "AGENTHOOD_STORE_URL"),
    ],
)
def test_a_mistyped_variable_is_reported(tmp_path: Path, variable: str, meant: str) -> None:
    """Whichever setting it was meant for."""
    warnings = load_settings(tmp_path, environ={variable: "0.5"}).warnings
    assert warnings == (f"unknown variable {variable!r}; did you mean {meant!r}?",)


def test_variables_that_are_no_settings_are_left_alone(tmp_path: Path) -> None:
    """The program's own, and those of what calls it."""
    names = ("DIR", "DEBUG", "PROVIDER", "MODEL", "SHARED", "COMPLETE")
    assert load_settings(tmp_path, environ={f"AGENTHOOD_{name}": "x" for name in names}).warnings == ()


def test_unknown_names_are_reported_with_what_was_meant(tmp_path: Path) -> None:
    """A mistyped key or variable becomes a warning that names the right one; the rest is used."""
    write(
        tmp_path,
        {"embeder": "lexical", "embedder": {"kind": "http", "base_url": "x", "model": "m"}, "zzz": 1},
    )
    settings = load_settings(tmp_path, environ={"AGENTHOOD_EMBED_MODLE": "x", "AGENTHOOD_DIR": "y"})
    file = str(tmp_path / "config.json")
    assert settings.warnings == (
        f"unknown key 'embeder' in {file!r}; did you mean 'embedder'?",
        f"unknown key 'zzz' in {file!r}",
        "unknown variable 'AGENTHOOD_EMBED_MODLE'; did you mean 'AGENTHOOD_EMBED_MODEL'?",
        f"unknown key 'embedder.base_url' in {file!r}; did you mean 'baseUrl'?",
    )
    assert settings.embedder.model == "m"


def test_values_that_have_no_effect_are_reported(tmp_path: Path) -> None:
    """A model beside the bundled embedder is a mistake worth a word."""
    settings = load_settings(
        tmp_path, environ={"AGENTHOOD_EMBEDDER": "bundled", "AGENTHOOD_EMBED_MODEL": "m"}
    )
    assert settings.warnings == ("AGENTHOOD_EMBED_MODEL is not used by the bundled embedder",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            '{\n  "embedder": bundled\n}',
            r"config\.json' is not JSON: Expecting value at line 2, column 15; correct",
        ),
        ("", "not JSON"),
        ("[]", "line 1: expected a JSON object"),
        ('{"embedder": "bundled", "embedder": "lexical"}', "'embedder' appears twice"),
        ("[" * 100_000, "not usable JSON"),
        ({"embedder": 3}, "must be a name or an object, not 3"),
        ({"embedder": "bundeld"}, r"unknown embedder 'bundeld': did you mean 'bundled'\?.*\(embedder in "),
        ({"embedder": {"model": "m"}}, "embedder.model in .* needs a kind"),
        ({"embedder": {"kind": ["http"]}}, "embedder.kind in .* must be text"),
        ({"embedder": {"kind": "http", "dimension": 1.5}}, "must be a whole number from 1, not 1.5"),
        ({"embedder": {"kind": "http", "dimension": 0}}, "must be a whole number from 1, not 0"),
        ({"embedder": {"kind": "http", "dimension": True}}, "must be a finite number, not True"),
        ({"embedder": {"kind": "http", "timeout": -1}}, "must be above 0"),
        ({"embedder": {"kind": "http", "sendDimensions": "yes"}}, "must be true or false"),
        ({"embedder": {"kind": "http", "queryPrefix": 1}}, "must be text"),
        ({"mergeThreshold": 1.01}, r"mergeThreshold in .* must be a number in \[0, 1\], not 1.01"),
        ('{"recallThreshold": NaN}', "recallThreshold in .* must be a finite number"),
        ({"recallThreshold": [0.5]}, "must be a finite number"),
        (f'{{"recallThreshold": 1{"0" * 400}}}', "must be a finite number"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_cannot_be_used_is_an_error_that_names_its_place(
    tmp_path: Path, content: object, message: str
) -> None:
    """No mistake is passed over in silence or ends in anything but a `ConfigError`."""
    write(tmp_path, content)
    with pytest.raises(ConfigError, match=message):
        load_settings(tmp_path, environ={})


def test_a_bad_variable_is_named() -> None:
    """The error says which variable to correct."""
    with pytest.raises(ConfigError, match="AGENTHOOD_MERGE_THRESHOLD must be a finite number, not 'high'"):
        load_settings(Path("absent"), environ={"AGENTHOOD_MERGE_THRESHOLD": "high"})


def test_files_that_cannot_be_read_are_errors(tmp_path: Path) -> None:
    """Another encoding, or a directory in the file's place."""
    (tmp_path / "config.json").write_bytes(b'{"embedder": "\xff"}')
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_settings(tmp_path, environ={})
    (tmp_path / "config.json").unlink()
    (tmp_path / "config.json").mkdir()
    with pytest.raises(ConfigError, match="cannot read"):
        load_settings(tmp_path, environ={})


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    """Editors on Windows write one."""
    (tmp_path / "config.json").write_bytes(b'\xef\xbb\xbf{"embedder": "lexical"}')
    assert load_settings(tmp_path, environ={}).embedder.kind == "lexical"


@given(st.floats())
def test_settings_made_in_code_are_checked_too(value: float) -> None:
    """A threshold is a finite number in [0, 1], wherever it comes from."""
    if 0 <= value <= 1:
        assert Settings(EmbedderSettings(), merge_threshold=value).merge_threshold == value
    else:
        with pytest.raises(ConfigError):
            Settings(EmbedderSettings(), merge_threshold=value)


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.sampled_from(["embedder", "kind", "model", "dimension", "timeout", "mergeThreshold"])
            | st.text(),
            inner,
        )
    ),
)


@given(content=json_values)
def test_no_configuration_ends_in_another_error(
    tmp_path_factory: pytest.TempPathFactory, content: object
) -> None:
    """Any JSON at all gives settings or a `ConfigError`."""
    folder = write(tmp_path_factory.mktemp("any"), content)
    with suppress(ConfigError):
        load_settings(folder, environ={})


def test_closest_knows_spellings() -> None:
    """Case, dashes and underscores make no difference; nothing near gives nothing."""
    assert closest("merge_threshold", ["mergeThreshold", "recallThreshold"]) == "mergeThreshold"
    assert closest("qqq", ["mergeThreshold"]) is None


def test_the_most_lessons_are_a_whole_number_or_none(tmp_path: Path) -> None:
    """Wherever it comes from; none means that any number may stay."""
    assert load_settings(tmp_path, environ={}).max_lessons is None
    (tmp_path / "config.json").write_text('{"maxLessons": 5000}')
    assert load_settings(tmp_path, environ={}).max_lessons == 5_000
    settings = load_settings(tmp_path, environ={"AGENTHOOD_MAX_LESSONS": "70"})
    assert (settings.max_lessons, settings.sources["max_lessons"]) == (70, "AGENTHOOD_MAX_LESSONS")
    for value in (0, -1, 2.5, True, "many"):
        with pytest.raises(ConfigError, match=r"Settings\.max_lessons must be"):
            Settings(EmbedderSettings(), max_lessons=value)  # type: ignore[arg-type]
    (warning,) = load_settings(tmp_path / "none", environ={"AGENTHOOD_MAX_LESSON": "1"}).warnings
    assert "AGENTHOOD_MAX_LESSONS" in warning


def test_what_an_outage_leads_to_is_configured(tmp_path: Path) -> None:
    """`fail` and `deadline` come from the file, over it from the environment; nonsense is refused with its source."""
    write(tmp_path, {"fail": "closed", "deadline": 2})
    found = load_settings(tmp_path, environ={})
    assert (found.fail, found.deadline) == ("closed", 2.0)
    assert set(found.sources) == {"fail", "deadline"}
    found = load_settings(tmp_path, environ={"AGENTHOOD_FAIL": "open", "AGENTHOOD_DEADLINE": "0.5"})
    assert (found.fail, found.deadline, found.warnings) == ("open", 0.5, ())
    for variable, value in {"AGENTHOOD_FAIL": "opne", "AGENTHOOD_DEADLINE": "0"}.items():
        with pytest.raises(ConfigError, match=variable):
            load_settings(tmp_path, environ={variable: value})
    with pytest.raises(ConfigError, match="did you mean 'closed'"):
        Settings(EmbedderSettings(), fail="close")  # type: ignore[arg-type]
    (warning,) = load_settings(tmp_path, environ={"AGENTHOOD_FAILS": "open"}).warnings
    assert "AGENTHOOD_FAIL" in warning


# -- the store and the scope -----------------------------------------------------------------------------------

URL = "postgresql://me:pass-word-1@127.0.0.1/db"


def test_the_store_is_a_name_or_an_object(tmp_path: Path) -> None:
    """A name chooses an embedded one; an object has what a server needs, each with its source."""
    assert load_settings(write(tmp_path, {"store": "sqlite"}), environ={}).store == StoreSettings(
        backend="sqlite"
    )
    whole = {"backend": "qdrant", "url": "http://h:6333", "apiKey": "k", "namespace": "n", "timeout": 2}
    settings = load_settings(write(tmp_path, {"store": whole}), environ={})
    assert settings.store == StoreSettings(
        backend="qdrant", url="http://h:6333", api_key="k", namespace="n", timeout=2.0
    )
    assert settings.warnings == ()
    file = tmp_path / "config.json"
    assert settings.sources["store.url"] == f"store.url in {file}"
    assert "'k'" not in repr(settings)


def test_every_variable_of_the_store_and_the_scope_is_read(tmp_path: Path) -> None:
    """The environment alone is enough, goes before the file field by field, and empty counts as unset."""
    environ = {
        "AGENTHOOD_VECTOR_BACKEND": "postgres",
        "AGENTHOOD_STORE_URL": URL,
        "AGENTHOOD_STORE_NAMESPACE": "team",
        "AGENTHOOD_STORE_TIMEOUT": "3",
        "AGENTHOOD_STORE_API_KEY": "",
        "AGENTHOOD_TENANT": " acme ",
        "AGENTHOOD_PROJECT": "",
        "AGENTHOOD_AGENT": "seven",
    }
    write(tmp_path, {"tenant": "other", "project": "shop", "store": {"backend": "postgres", "url": "x"}})
    settings = load_settings(tmp_path, environ=environ)
    assert settings.store == StoreSettings(backend="postgres", url=URL, namespace="team", timeout=3.0)
    assert (settings.tenant, settings.project, settings.agent) == ("acme", "shop", "seven")
    assert settings.sources["tenant"] == "AGENTHOOD_TENANT"
    assert settings.warnings == ()
    assert "pass-word-1" not in repr(settings)


def test_what_the_file_says_of_another_store_is_left_there(tmp_path: Path) -> None:
    """Another backend in the environment gets neither its address nor its key; an address without one fits any."""
    write(tmp_path, {"store": {"backend": "qdrant", "url": "http://h", "apiKey": "secret"}})
    sqlite = load_settings(tmp_path, environ={"AGENTHOOD_VECTOR_BACKEND": "sqlite"})
    assert (sqlite.store, sqlite.warnings) == (StoreSettings(backend="sqlite"), ())
    with pytest.raises(ConfigError, match="postgres store needs the address"):
        load_settings(tmp_path, environ={"AGENTHOOD_VECTOR_BACKEND": "postgres"})
    write(tmp_path, {"store": {"url": URL}})
    assert load_settings(tmp_path, environ={"AGENTHOOD_VECTOR_BACKEND": "postgres"}).store.url == URL
    (warning,) = load_settings(tmp_path, environ={}).warnings
    assert "store.url" in warning
    assert "is not used by the lancedb store" in warning


@pytest.mark.parametrize(
    ("content", "environ", "said"),
    [
        ({"store": "postgress"}, {}, "'postgress' is none of .*did you mean 'postgres'.*config.json"),
        ({}, {"AGENTHOOD_VECTOR_BACKEND": "mysql"}, r"'mysql' is none of .*\(AGENTHOOD_VECTOR_BACKEND\)"),
        ({"store": "qdrant"}, {}, "qdrant store needs the address .*AGENTHOOD_STORE_URL"),
        ({"store": 5}, {}, "store in .* must be a name or an object"),
        ({"store": {"backend": 5}}, {}, "store.backend in .* must be text"),
        ({"store": {"backend": "postgres", "url": URL, "timeout": 0}}, {}, "store.timeout in .* above 0"),
        ({"store": {"backend": "postgres", "url": URL, "namespace": ""}}, {}, "namespace in .* must be text"),
        ({"tenant": 5}, {}, "tenant in .* must be text"),
        ({"agent": " "}, {}, "agent in .* must be text"),
        (
            {"project": "x" * 201},
            {},
            "project 'xxx.* 201 bytes .*give a shorter one .project in .*config.json",
        ),
        ({}, {"AGENTHOOD_TENANT": "a\0b"}, r"tenant 'a.x00b' cannot be used: .*\(AGENTHOOD_TENANT\)"),
    ],
)
def test_a_store_that_cannot_be_chosen(tmp_path: Path, content: Any, environ: Any, said: str) -> None:
    """The error names the value, where it came from and the next step, and no secret."""
    with pytest.raises(ConfigError, match=said) as caught:
        load_settings(write(tmp_path, content), environ=environ)
    assert "pass-word-1" not in str(caught.value)


def test_names_nobody_knows_about_stores_and_scopes(tmp_path: Path) -> None:
    """Each becomes a warning that says what was meant; what a backend does not need is told too."""
    write(tmp_path, {"tennant": "x", "store": {"backend": "sqlite", "uri": "x", "apiKey": "secret"}})
    environ = {"AGENTHOOD_VECTOR_BACKENDS": "x", "AGENTHOOD_TENANTS": "x", "AGENTHOOD_AGENTS": "x"}
    warnings = "\n".join(load_settings(tmp_path, environ=environ).warnings)
    for said in (
        "'tennant' in",
        "did you mean 'tenant'",
        "'store.uri' in",
        "'AGENTHOOD_VECTOR_BACKENDS'; did you mean 'AGENTHOOD_VECTOR_BACKEND'",
        "'AGENTHOOD_TENANTS'; did you mean 'AGENTHOOD_TENANT'",
        "'AGENTHOOD_AGENTS'; did you mean 'AGENTHOOD_AGENT'",
        "store.apiKey in",
    ):
        assert said in warnings
    assert "secret" not in warnings
