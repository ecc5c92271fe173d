"""Takes secrets of well-known shapes out of text before it is stored, logged or shown.

Own code, because detect-secrets finds secrets in lines of files and gives no position to replace, lacks
most keys of model providers, backtracks without bound on hostile text, and brings `requests`. Every pattern
here takes linear time: it starts with fixed characters, and what may follow is bounded or cannot overlap.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

MAX_DEPTH = 200
"""JSON nested deeper than this is replaced as a whole rather than looked through."""

# A secret starts at no letter's or digit's right, unless what is there is the end of an escape: `\n` or
# `\t` in JSON, `%3D` in a URL, a colour for the terminal.
_START = (
    r"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2})"
    r"|(?<=\[\dm)|(?<=\[\d\dm)|(?<=;\dm)|(?<=;\d\dm))"
)
_WORD = "[A-Za-z0-9_-]"


class _Shape(NamedTuple):
    """One shape of secret: tried only if the text holds one of `needles`."""

    kind: str
    needles: tuple[str, ...]
    pattern: str


_SHAPES = (
    _Shape("anthropic", ("sk-ant-",), rf"sk-ant-{_WORD}{{12,}}"),
    _Shape("openrouter", ("sk-or-",), rf"sk-or-{_WORD}{{12,}}"),
    _Shape(
        "openai",
        ("sk-",),
        # Without OpenAI's own prefixes a long unbroken part is needed: `sk-learn-based-things` is none.
        rf"{_START}sk-(?:(?:proj|svcacct|admin|None)-{_WORD}{{16,}}|(?:[A-Za-z0-9]{{1,15}}[_-]){{0,4}}+[A-Za-z0-9]{{16}}{_WORD}*)",
    ),
    _Shape("groq", ("gsk_",), r"gsk_[A-Za-z0-9]{20,}"),
    _Shape("google", ("AIza",), rf"AIza{_WORD}{{30,}}"),
    _Shape("google", ("GOCSPX-",), rf"GOCSPX-{_WORD}{{20,}}"),
    _Shape("google", ("ya29.",), rf"ya29\.{_WORD}{{20,}}"),
    _Shape(
        "aws", ("AKIA", "ASIA", "ABIA", "ACCA"), r"(?<![A-Z0-9])A(?:KI|SI|BI|CC)A[A-Z0-9]{16}(?![A-Z0-9])"
    ),
    _Shape(
        "github",
        ("ghp_", "gho_", "ghs_", "ghu_", "ghr_"),
        r"gh[posur]_[A-Za-z0-9_]{20,}(?:\.[\w-]{10,}){0,2}",
    ),
    _Shape("github", ("github_pat_",), r"github_pat_[A-Za-z0-9_]{20,}"),
    _Shape(
        "gitlab",
        ("gl",),
        rf"{_START}gl(?:pat|dt|ft|rt|soat|cbt|ptt|agent|oas|imt)-{_WORD}{{20,}}(?:\.[\w-]{{2,}}){{0,2}}",
    ),
    _Shape("slack", ("xox",), rf"xox[a-z](?:\.xox[a-z])?-{_WORD}{{10,}}"),
    _Shape("slack", ("xapp-",), rf"xapp-{_WORD}{{12,}}"),
    _Shape("slack", ("hooks.slack.com/",), r"hooks\.slack\.com/(?:services|workflows|triggers)/[\w/]{16,}"),
    _Shape("discord", ("/api/webhooks/",), rf"/api/webhooks/\d{{5,25}}/{_WORD}{{20,}}"),
    _Shape("stripe", ("k_live_", "k_test_"), r"[srp]k_(?:live|test)_[A-Za-z0-9]{10,}"),
    _Shape("stripe", ("whsec_",), r"whsec_[A-Za-z0-9+/]{20,}=?"),
    _Shape("npm", ("npm_",), r"npm_[A-Za-z0-9]{30,}"),
    _Shape("pypi", ("pypi-AgE",), rf"pypi-AgE{_WORD}{{16,}}"),
    _Shape("huggingface", ("hf_",), rf"{_START}hf_[A-Za-z0-9]{{30,}}"),
    _Shape("sendgrid", ("SG.",), rf"{_START}SG\.{_WORD}{{16,}}\.{_WORD}{{16,}}"),
    _Shape("twilio", ("AC", "SK"), rf"{_START}(?:AC|SK)[0-9a-f]{{32}}(?![A-Za-z0-9])"),
    _Shape("telegram", (":AA",), rf"(?<!\d)\d{{8,10}}:AA{_WORD}{{30,}}"),
    _Shape("digitalocean", ("_v1_",), r"do[opr]_v1_[a-f0-9]{20,}"),
    _Shape("azure", ("8Q~",), r"(?<![\w~.-])\w{3}8Q~[\w~.-]{30,}"),
    _Shape("xai", ("xai-",), rf"{_START}xai-[A-Za-z0-9]{{20,}}"),
    _Shape("vault", ("hvs.", "hvb."), rf"{_START}hv[sb]\.{_WORD}{{20,}}"),
    _Shape("databricks", ("dapi",), rf"{_START}dapi[0-9a-f]{{32}}"),
    _Shape("age", ("AGE-SECRET-KEY-",), r"AGE-SECRET-KEY-1[A-Z0-9]{20,}"),
    _Shape("jwt", ("eyJ",), rf"{_START}eyJ{_WORD}{{8,}}+\.{_WORD}{{4,}}+(?:\.{_WORD}*)*"),
)

# Only `/`, white space and quotes end what stands between `://` and `@`: each is looked at once.
_URL_LOGIN = re.compile(r"(?<=://)((?:\[redacted:[a-z-]{1,20}\])?[^\s/:@?#\"'<>`\[]*+):([^\s/?#\"'<>`]+)@")
_URL_TOKEN = re.compile(r"(?<=://)(?=[^\s/:@?#\"'<>`]*\d)[A-Za-z0-9_-]{16,}+(?=@)")
_URL_QUERY = re.compile(
    r"([?&#;](?:amp;)?(?:[a-z]{1,20}[_-]){0,3}+"
    r"(token|api_?key|apikey|key|sig|signature|auth|secret|password|passwd|pwd|credential)=)([^\s&#\"'<>`;,)\]}\\]+)",
    re.IGNORECASE | re.ASCII,
)
_AUTHORIZATION = re.compile(
    r"(authorization\\{0,3}[\"']?\s{0,3}[:=]\s{0,3}\\{0,3}[\"']?)"
    r"((?:bearer|basic|token|apikey|digest|negotiate)\s{1,3})?([^\s\"'\\,;<>{}()\[\]$`]{6,})",
    re.IGNORECASE | re.ASCII,
)
_BEARER = re.compile(r"(\bbearer\s{1,3})([A-Za-z0-9._~+/-]{12,}={0,2})", re.IGNORECASE | re.ASCII)

_NAME = (
    r"(?:(?P<password>password|passwd|passphrase|passwort|pwd)|api[_-]?key|access[_-]?key|private[_-]?key"
    r"|account[_-]?key|auth[_-]?key|encryption[_-]?key|signing[_-]?key|master[_-]?key|secret|token|credential)"
    r"(?:[_-]?(?:access[_-]?key|key|value|base|prod|live|test|dev|staging|\d{1,3})){0,3}+"
)
_SECRET_NAME = re.compile(rf".*?{_NAME}", re.IGNORECASE | re.ASCII | re.DOTALL)
_ASSIGNMENT = re.compile(
    rf"(?<!\[redacted:)(?P<name>{_NAME})\\{{0,3}}[\"'`]?\]?"
    r"(?P<operator>\s{0,4}:\s{0,4}(?:str|string|secretstr)(?:\s?\|\s?none)?\s{0,4}=\s{0,4}"
    r"|\s{0,4}(?:=>|:=|==?|:)\s{0,4})(?P<quote>[bfru]{0,2}(?P<slashes>\\{0,3})[\"'`])?",
    re.IGNORECASE | re.ASCII,
)
_FLAG = re.compile(
    r"(?<!\S)(--?(?:[a-z]{1,20}-){0,3}+(?:password|passwd|token|secret|api-?key)\s{1,3})"
    r"([^\s\"'`$<>{}()\[\],;|&-][^\s\"'`<>,;|]*)",
    re.IGNORECASE | re.ASCII,
)
_QUOTED_VALUE = {mark: re.compile(rf"(?:[^{mark}\\\n]|\\.)*+(?={mark})") for mark in ('"', "'", "`")}
_ESCAPED_VALUE = re.compile(r"[^\"'`\\\n]*+(?=\\)")
_IDENTIFIER = re.compile(r"[A-Za-z_][\w.]*", re.ASCII)
_BARE_VALUE = re.compile(r"[^\s\"'`,;&<>(){}\[\]|\\]*")
_NO_SECRET = re.compile(
    r"(?i:none|null|nil|true|false|undefined|unset|empty|string|secretstr|bytes|bool|boolean|integer|number"
    r"|object|text|optional|required|missing|invalid|expired|wrong|incorrect|hidden|redacted|removed|masked"
    r"|password|passwd|secret|token|bearer|basic|default|value|placeholder|(?:u?int|float|sha|md|utf-?|base|hs|rs|es)\d+)[.:!?]*"
    r"|[*xX.\u2022_#?-]+|(?i:your)[_-].*|<.*|\$[A-Za-z_{(].*|%[({].*|%[A-Za-z_]+%|\{.*"  # masks, templates
    r"|(?:~|\.{1,2})?(?:/[a-z0-9._-]+){2,}/?"  # paths
    r"|[A-Z]+(?:_[A-Z]+)+|[a-z_]+_(?:password|secret|token|key)"  # names of variables
    r"|[A-Za-z_]{1,40}(?:\.[A-Za-z_]{1,40})+|[A-Za-z]{1,20}://[^@]*",  # attributes, addresses
    re.ASCII,
)
_SOME_NAME = re.compile(
    r"[A-Za-z_.]*(?:pass|pwd|secret|token|key|cred)[A-Za-z0-9_.]*", re.IGNORECASE | re.ASCII
)

_MOST_ROUNDS = 10
_TOKEN_LENGTH = 16
_LONG = 20
_LOOKED_AT = 200  # characters of a value that decide whether it is a secret
_LONGEST_KEY = 20_000  # an RSA key of 16,384 bits takes 12,700 characters

_KEY_BEGIN = re.compile(r"-{4,5} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}")
_KEY_END = re.compile(r"-{4,5} ?END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}")
_KEY_LINE = re.compile(
    r"[\s>|\"'+]{0,20}[A-Za-z0-9+/=]{16,}(?:\\n)?[\s\"'+,]{0,20}|[A-Za-z0-9+/=]{1,64}\s{0,2}"
)
# Headers, then lines of at least 16 characters, then a short last line.
_KEY_BODY = re.compile(
    r"(?:[\s\\nr]{0,8}[A-Z][A-Za-z-]{2,20}: [^\n\\]{0,200})*+"
    r"(?:(?:\\+[nr]|[\s>|\"'+,*#]){0,40}+[A-Za-z0-9+/=]{16,}+)*+"
    r"(?:(?:\\n|\r?\n)[A-Za-z0-9+/=]{1,15}+(?=\s*+$|[\"'.\u2026]))?"
)

_NEEDLES = tuple({needle for shape in _SHAPES for needle in shape.needles})
_LOWER_NEEDLES = (
    "://", "pass", "pwd", "key", "secret", "token", "credential", "authorization", "bearer", "sig", "auth=",
)  # fmt: skip


def redact(text: str) -> str:
    """Replace each secret in `text` by `[redacted:KIND]`; everything else stays as it is.

    Redacting again changes nothing. Takes about 2 microseconds for a sentence without a secret and time
    linear in the length for any text.

    Args:
        text: any text, of any length.

    Returns:
        The text without secrets; `text` itself if it holds none.
    """
    for _ in range(_MOST_ROUNDS):  # what stood glued to one secret may be seen only when that is gone
        redacted = _redact_once(text)
        if redacted == text:
            break
        text = redacted
    return text


def redact_json(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """A copy of a JSON value with every string in it redacted, keys included.

    A string under a key that names a secret (`password`, `apiKey`) goes as a whole, as `password=...` would.

    Args:
        value: dicts, lists, tuples (returned as lists), strings and scalars; scalars are kept.

    Returns:
        The redacted copy. Two keys that become equal are kept apart by a number.
    """
    return _redact_value(value, 0)


def _redact_once(text: str) -> str:
    if "PRIVATE KEY" in text:
        text = _without_private_keys(text)
    if any(needle in text for needle in _NEEDLES):
        text = _without_known_shapes(text)
    lowered = text.lower()
    if any(needle in lowered for needle in _LOWER_NEEDLES):
        text = _without_named(text, lowered)
    return text


def _redact_value(value: Any, depth: int) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(value, str):
        return redact(value)
    if not isinstance(value, (dict, list, tuple)):
        return value
    if depth >= MAX_DEPTH:
        return _mark("nested-too-deep")
    if not isinstance(value, dict):
        return [_redact_value(item, depth + 1) for item in value]
    result: dict[Any, Any] = {}
    for key, item in value.items():
        result[_fresh_key(key, result)] = _redact_member(key, item, depth + 1)
    return result


def _fresh_key(key: Any, taken: dict[Any, Any]) -> Any:  # noqa: ANN401 - JSON keys may be numbers in Python
    if not isinstance(key, str):
        return key
    clean = fresh = redact(key)
    number = 2
    while fresh in taken:
        fresh = f"{clean}#{number}"
        number += 1
    return fresh


def _redact_member(key: Any, item: Any, depth: int) -> Any:  # noqa: ANN401 - any JSON value
    if isinstance(key, str) and isinstance(item, str):
        name = _SECRET_NAME.fullmatch(key[-100:])
        if name and _is_secret(item, password=bool(name["password"]), literal=True):
            return item if _is_mark(item) else _mark("value")
    return _redact_value(item, depth)


def _mark(kind: str) -> str:
    return f"[redacted:{kind}]"


def _is_mark(value: str) -> bool:
    return value.startswith("[redacted:") and value.endswith("]")


def _without_known_shapes(text: str) -> str:
    for kind, needles, pattern in _SHAPES:
        if any(needle in text for needle in needles):
            text = re.sub(pattern, _mark(kind), text, flags=re.ASCII)
    return text


def _without_named(text: str, lowered: str) -> str:
    """Redact what only its surroundings show to be a secret: logins in URLs, headers, assignments."""
    if "://" in lowered:
        text = _URL_TOKEN.sub(_mark("url-login"), _URL_LOGIN.sub(_hide_login, text))
    if "=" in lowered:
        text = _URL_QUERY.sub(_hide_query, text)
    if "authorization" in lowered:
        text = _AUTHORIZATION.sub(_hide_authorization, text)
    if "bearer" in lowered:
        text = _BEARER.sub(_hide_bearer, text)
    if "--" in lowered:
        text = _FLAG.sub(_hide_flag, text)
    return _without_assigned(text) if ":" in lowered or "=" in lowered else text


def _hide_login(match: re.Match[str]) -> str:
    user, password = match.groups()
    if _is_mark(password) or password[0] in "${":
        return match[0]
    is_token = len(user) >= _TOKEN_LENGTH and any(map(str.isdigit, user))
    return f"{_mark('url-login')}@" if is_token else f"{user}:{_mark('url-login')}@"


def _hide_query(match: re.Match[str]) -> str:
    head, name, value = match.groups()
    if _is_mark(value) or value.startswith("[redacted:") or value[0] in "${":
        return match[0]
    if name.lower() in ("key", "auth", "credential") and not _is_tokenish(value):
        return match[0]
    return head + _mark("url-value")


def _hide_authorization(match: re.Match[str]) -> str:
    head, scheme, value = match.groups(default="")
    return head + scheme + _mark("header") if _is_tokenish(value) else match[0]


def _hide_bearer(match: re.Match[str]) -> str:
    return match[1] + _mark("header") if _is_tokenish(match[2]) else match[0]


def _hide_flag(match: re.Match[str]) -> str:
    secret = _is_secret(match[2], password="pass" in match[1].lower(), literal=False)
    return match[1] + _mark("value") if secret else match[0]


def _is_tokenish(value: str) -> bool:
    """Whether a value is made up rather than a word: digits, capitals inside, padding, or unbroken length."""
    long = len(value) >= _LONG and value[:_LONG].isalnum()
    return long or re.search(r"\d|[a-z][A-Z]|=$", value[:_LONG]) is not None


def _is_secret(value: str, *, password: bool, literal: bool) -> bool:
    """Whether `value`, assigned to a name of a secret, is one.

    Args:
        value: what was assigned, without quotes.
        password: the name is that of a password, which may be short or a number.
        literal: what stands there can be no identifier (it is quoted, or in a file of settings).
    """
    shown = value[:_LOOKED_AT]
    if len(value) < (4 if password else 6) or _is_mark(value) or _NO_SECRET.fullmatch(shown):
        return False
    if any(map(str.isspace, shown)):  # a sentence about the secret
        return False
    if shown.isdigit():
        return password
    if literal:
        return True
    if _SOME_NAME.fullmatch(shown):
        return False
    mixed = any(map(str.isdigit, shown)) and any(map(str.isalpha, shown))
    return mixed or re.search(r"[@!#$^~].", shown) is not None


def _without_assigned(text: str) -> str:
    """Redact the values of `password=...`, `"api_key": "..."`, `SECRET_KEY = '...'` and the like."""
    parts: list[str] = []
    done = run_end = 0
    for head in _ASSIGNMENT.finditer(text):
        if head.start() < done:
            continue
        start = head.end()
        end, quoted = _quoted_end(text, head), True
        if end < 0:
            # One unbroken run may hold many heads; looking for its end anew at each would be quadratic.
            run_end = run_end if start < run_end else _end_of_run(text, start)
            end, quoted = run_end, False
        if _assigns_secret(text, head, end, quoted=quoted):
            parts += [text[done:start], _mark("value")]
            done = end
    return "".join([*parts, text[done:]]) if parts else text


def _quoted_end(text: str, head: re.Match[str]) -> int:
    """Where the quoted value after `head` ends, -1 if there is none or its quote is never closed."""
    if not head["quote"]:
        return -1
    pattern = _ESCAPED_VALUE if head["slashes"] else _QUOTED_VALUE[head["quote"][-1]]
    value = pattern.match(text, head.end())
    return value.end() if value else -1


def _end_of_run(text: str, start: int) -> int:
    value = _BARE_VALUE.match(text, start)
    return value.end() if value else start


def _assigns_secret(text: str, head: re.Match[str], end: int, *, quoted: bool) -> bool:
    value, following = text[head.end() : min(end, head.end() + _LOOKED_AT)], text[end : end + 1]
    password = bool(head["password"])
    if head["name"].lower() == "pwd" and value[:1] in ("/", "~"):  # the working directory
        return False
    if quoted:
        return _is_secret(value, password=password, literal=True)
    if following in ("(", "[") and _IDENTIFIER.fullmatch(value):  # a call or a look-up
        return False
    # `name=value` then white space is a setting; before `,` or `)` it may be a variable.
    tight = head["operator"] == "="
    ends = following in ("", ";", "&") or following.isspace()
    literal = tight and (head["name"].isupper() or (ends and not _SOME_NAME.fullmatch(value)))
    return _is_secret(value, password=password, literal=literal)


def _without_private_keys(text: str) -> str:
    """Redact private key blocks: whole, without their end, and without their beginning."""
    parts: list[str] = []
    done = 0
    begins = list(_KEY_BEGIN.finditer(text))
    for begin, following in zip(begins, [*begins, None][1:], strict=True):
        limit = following.start() if following else len(text)
        end = _KEY_END.search(text, begin.end(), min(limit, begin.end() + _LONGEST_KEY))
        body = _KEY_BODY.match(text, begin.end(), limit)
        stop = end.end() if end else (body.end() if body else begin.end())
        parts += [text[done : begin.start()], _mark("private-key")]
        done = stop
    return _without_key_tails("".join([*parts, text[done:]]))


def _without_key_tails(text: str) -> str:
    """Redact what stands before an end line whose beginning is missing: the lines of base64."""
    parts: list[str] = []
    done = 0
    for end in _KEY_END.finditer(text):
        start = end.start()
        while start > done:
            line = max(text.rfind("\n", done, start - 1) + 1, done)
            if not _KEY_LINE.fullmatch(text, line, start):
                break
            start = line
        parts += [text[done:start], _mark("private-key")]
        done = end.end()
    return "".join([*parts, text[done:]])
