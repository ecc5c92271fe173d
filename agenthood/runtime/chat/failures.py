"""What each failure of an SDK means, said in our errors and without the key."""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

from agenthood.errors import (
    ProviderAuthError,
    ProviderError,
    ProviderRateLimitError,
    ProviderRequestError,
    ProviderResponseError,
    ProviderUnavailableError,
)
from agenthood.redaction import redact

if TYPE_CHECKING:
    from collections.abc import Mapping

    from agenthood.runtime.chat.address import Address
    from agenthood.runtime.chat.providers import Provider

_E = TypeVar("_E", bound=ProviderError)

_EXCERPT: Final = 200
_MAY_PASS: Final = frozenset({408, 409, 425})
_NO_CREDIT: Final = frozenset({"insufficient_quota", "billing_error", "payment_required_error"})
_SERVER_ERROR: Final = 500
_BROKEN_OFF: Final = frozenset({"RemoteProtocolError", "ReadError"})
# Errors in the middle of a stream come with status 200 and say by their type what they are.
_STATUS_OF_TYPE: Final = {
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "invalid_request_error": 400,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "overloaded_error": 529,
}


@dataclass(frozen=True, slots=True)
class Failures:
    """Makes the errors of one model at one provider.

    Attributes:
        known: the provider.
        model: the model asked.
        address: where it is asked.
        api_key: blanked in every text; None if none is sent.
    """

    known: Provider
    model: str
    address: Address
    api_key: str | None = field(repr=False)

    def timed_out(self, seconds: float) -> ProviderUnavailableError:
        """No complete answer within the deadline."""
        return self._error(ProviderUnavailableError, f"no complete answer within {seconds:g} s: try again")

    def found(self, error: ProviderError) -> ProviderError:
        """The same error with the provider's name, for one found while reading the answer."""
        return self._error(type(error), str(error))

    def from_sdk(self, error: Exception) -> ProviderError | None:
        """Our error for one of an SDK or its HTTP library; None for any other."""
        if isinstance(error, json.JSONDecodeError | UnicodeDecodeError | RecursionError):
            # The SDKs let these through where the answer says JSON and is none.
            return self._error(ProviderResponseError, "the answer is not JSON: check the base URL, try again")
        module = type(error).__module__.partition(".")[0]
        if module not in ("openai", "anthropic", "httpx2", "httpcore2"):
            return None
        status = getattr(error, "status_code", None)
        body, headers = getattr(error, "body", None), _headers(error)
        if type(status) is int and not 200 <= status < 300:  # noqa: PLR2004
            return self._from_status(status, body, headers)
        kind = _kinds(body)
        for name in kind:
            if name in _STATUS_OF_TYPE:
                return self._from_status(_STATUS_OF_TYPE[name], body, headers)
        if body is not None:
            said = self._excerpt(body)
            return self._error(ProviderUnavailableError, f"the answer ended in an error: {said}: try again")
        return self._unreachable(error)

    def _unreachable(self, error: Exception) -> ProviderUnavailableError:
        cause = error.__cause__ or error
        said = self._clean(str(cause)) or type(cause).__name__
        if type(cause).__name__ in _BROKEN_OFF:
            return self._error(ProviderUnavailableError, f"the connection broke off ({said}): try again")
        advice = self.known.unreachable_advice
        return self._error(
            ProviderUnavailableError, f"not reached at {self.address.url!r} ({said}): {advice}"
        )

    def _from_status(self, status: int, body: object, headers: Mapping[str, str]) -> ProviderError:
        said = f"status {status} {self._excerpt(body)}".rstrip(" .:")
        if status == 429:  # noqa: PLR2004
            return self._slow_down(said, body, headers)
        if status in _MAY_PASS or status >= _SERVER_ERROR:
            return self._error(ProviderUnavailableError, f"{said}: try again later")
        if status == 401:  # noqa: PLR2004
            return self._error(ProviderAuthError, self._refused_key())
        if status == 403:  # noqa: PLR2004
            return self._error(ProviderAuthError, f"{said}: the key may not do this, check its rights")
        return self._refused(status, said)

    def _refused_key(self) -> str:
        # The answer's own text is left out: some servers quote a part of the key.
        variable = self.known.key_variable
        where = f"set {variable}" if variable else 'set "apiKey" beside its baseUrl'
        if self.api_key is None:
            return f"it asks for a key and none was sent (401): {where}"
        return f"the key was refused (401): {where} to a valid key"

    def _refused(self, status: int, said: str) -> ProviderRequestError:
        advice, elsewhere = "change the request, or name another --model", False
        if 300 <= status < 400:  # noqa: PLR2004
            advice, elsewhere = "it points elsewhere: set baseUrl to the final address", True
        elif status == 402:  # noqa: PLR2004
            advice, elsewhere = "no credit is left: look at the provider's billing page", True
        elif status == 404:  # noqa: PLR2004
            pull = f"`ollama pull {self.model}`" if self.known.name == "ollama" else "check the base URL"
            advice, elsewhere = f"name a model it has with --model, or {pull}", True
        elif status == 413:  # noqa: PLR2004
            advice = "the conversation is too long: shorten it"
        return self._error(ProviderRequestError, f"{said}: {advice}", elsewhere=elsewhere)

    def _slow_down(self, said: str, body: object, headers: Mapping[str, str]) -> ProviderError:
        if not _NO_CREDIT.isdisjoint(_kinds(body)):
            return self._error(
                ProviderRequestError,
                f"{said}: the quota is used up, look at the provider's billing page",
                elsewhere=True,
            )
        wait = retry_after(headers)
        when = "later" if wait is None else f"in {math.ceil(wait)} s"
        return self._error(ProviderRateLimitError, f"{said}: try again {when}", retry_after=wait)

    def _error(self, kind: type[_E], message: str, **more: Any) -> _E:  # noqa: ANN401  (what `kind` takes)
        text = self._clean(f"{self.known.name} {self.model!r}: {message}")
        return kind(text, provider=self.known.name, model=self.model, **more)

    def _clean(self, text: str) -> str:
        if self.api_key:
            text = text.replace(self.api_key, "***")
        return redact(text)

    def _excerpt(self, body: object) -> str:
        """One line of what the provider said."""
        error = body.get("error", body) if isinstance(body, dict) else body
        if isinstance(error, dict):
            error = error.get("message") or error.get("detail") or ""
        text = error if isinstance(error, str) else ""
        # Blanked before it is cut: half a key is no longer recognised.
        return " ".join(self._clean(text[:20_000]).split())[:_EXCERPT]


def _kinds(body: object) -> set[str]:
    """The type and the code of an error's body, where it has any."""
    if not isinstance(body, dict):
        return set()
    error = body.get("error")
    error = error if isinstance(error, dict) else body
    return {value for name in ("type", "code") if isinstance(value := error.get(name), str)}


def _headers(error: Exception) -> Mapping[str, str]:
    headers: Mapping[str, str] = getattr(getattr(error, "response", None), "headers", {})
    return headers


def retry_after(headers: Mapping[str, str]) -> float | None:
    """How many seconds the provider asks to wait, at least 0; None if it does not say.

    Reads `retry-after-ms`, then `retry-after` as seconds or as a date.
    """
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        asked = headers.get(name)
        if asked is None:
            continue
        try:
            seconds = float(asked) / unit
        except ValueError:
            seconds = _until(asked)
        if not math.isnan(seconds):
            return max(seconds, 0.0)
    return None


def _until(date: str) -> float:
    try:
        return parsedate_to_datetime(date).timestamp() - time.time()
    except (ValueError, TypeError, OverflowError):
        return math.nan
