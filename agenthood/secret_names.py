"""Secrets that only their surroundings show: logins in URLs, headers, options of commands, assignments."""

from __future__ import annotations

import re

from agenthood.secret_shapes import is_mark, mark

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

# `pass` alone is a verb and half of many words: it has to end the name of a setting or of a login.
_BY_ITS_END = (
    r"(?-i:(?<=[A-Z0-9]_)PASS(?![A-Za-z]))"
    r"|(?<![a-z])(?:db|pg|my|sql|mysql|mongo|redis|user|root|admin|app|login|auth|basic|http|proxy|smtp|mail|email|imap"
    r"|ldap|ftp|ssh|sudo)[_-]?pass(?![a-z])"
)
_NAME = (
    rf"(?:(?P<password>password|passwd|passphrase|passwort|pwd|{_BY_ITS_END})|api[_-]?key|access[_-]?key|private[_-]?key"
    r"|account[_-]?key|auth[_-]?key|encryption[_-]?key|signing[_-]?key|master[_-]?key|secret|token|credential)"
    r"(?:[_-]?(?:access[_-]?key|key|value|base|prod|live|test|dev|staging|\d{1,3})){0,3}+"
)
SECRET_NAME = re.compile(rf".*?{_NAME}", re.IGNORECASE | re.ASCII | re.DOTALL)
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

_TOKEN_LENGTH = 16
_LONG = 20
_LOOKED_AT = 200  # characters of a value that decide whether it is a secret
_COOKIE = re.compile(
    r"(cookie\\{0,3}[\"']?\s{0,3}[:=]\s{0,3}\\{0,3}[\"']?)([^\s\"'\\=;]{1,80}=[^\n\"'\\]{1,4000})",
    re.IGNORECASE | re.ASCII,
)
_CRUMB = re.compile(r"([^\s=;,]{1,80})=([^\s;,]+)")
_CRUMB_SETTINGS = ("max-age", "expires", "path", "domain", "samesite", "version")
_LOGIN_OPTION = re.compile(
    r"(?<!\S)((?:-u|--user|--proxy-user)(?:\s{1,3}|=)?[\"']?[^\s:\"'$-][^\s:\"']{0,100}:)([^\s\"'`<>|]{4,})"
)
_NEAR = 300  # characters before an option in which its command stands

_LOWER_NEEDLES = (
    "://", "pass", "pwd", "key", "secret", "token", "credential", "authorization", "bearer", "sig", "auth=",
    "cookie", "curl",
)  # fmt: skip


def without_named(text: str) -> str:
    """Replace every secret in `text` that only its surroundings show to be one by its mark."""
    return _without_named(text) if _has_sign(text) else text


def _has_sign(text: str) -> bool:
    """False for most texts: they have nothing that stands before such a secret, and none of the words."""
    lowered = text.lower()
    if not (":" in text or "=" in text or "--" in text):
        return "bearer" in lowered
    return any(needle in lowered for needle in _LOWER_NEEDLES)


def _without_named(text: str) -> str:
    lowered = text.lower()
    if "://" in lowered:
        text = _URL_TOKEN.sub(mark("url-login"), _URL_LOGIN.sub(_hide_login, text))
    if "=" in lowered:
        text = _URL_QUERY.sub(_hide_query, text)
    if "authorization" in lowered:
        text = _AUTHORIZATION.sub(_hide_authorization, text)
    if "bearer" in lowered:
        text = _BEARER.sub(_hide_bearer, text)
    if "cookie" in lowered:
        text = _COOKIE.sub(_hide_cookie, text)
    if "curl" in lowered:
        text = _LOGIN_OPTION.sub(_hide_login_option, text)
    if "--" in lowered:
        text = _FLAG.sub(_hide_flag, text)
    return _without_assigned(text) if ":" in lowered or "=" in lowered else text


def _hide_login(match: re.Match[str]) -> str:
    user, password = match.groups()
    if is_mark(password) or password[0] in "${":
        return match[0]
    is_token = len(user) >= _TOKEN_LENGTH and any(map(str.isdigit, user))
    return f"{mark('url-login')}@" if is_token else f"{user}:{mark('url-login')}@"


def _hide_query(match: re.Match[str]) -> str:
    head, name, value = match.groups()
    if is_mark(value) or value.startswith("[redacted:") or value[0] in "${":
        return match[0]
    if name.lower() in ("key", "auth", "credential") and not _is_tokenish(value):
        return match[0]
    return head + mark("url-value")


def _hide_authorization(match: re.Match[str]) -> str:
    head, scheme, value = match.groups(default="")
    return head + scheme + mark("header") if _is_tokenish(value) else match[0]


def _hide_bearer(match: re.Match[str]) -> str:
    return match[1] + mark("header") if _is_tokenish(match[2]) else match[0]


def _hide_cookie(match: re.Match[str]) -> str:
    return match[1] + _CRUMB.sub(_hide_crumb, match[2])


def _hide_crumb(match: re.Match[str]) -> str:
    name, value = match.groups()
    session = re.search("sess|sid|auth|token|csrf", name, re.IGNORECASE) is not None
    secret = name.lower() not in _CRUMB_SETTINGS and is_secret(value, password=session, literal=True)
    return f"{name}={mark('value')}" if secret else match[0]


def _hide_login_option(match: re.Match[str]) -> str:
    """Only curl's: elsewhere `-u name:name` says as whom to run."""
    before = match.string[max(0, match.start() - _NEAR) : match.start()]
    secret = "curl" in before.lower() and is_secret(match[2], password=True, literal=True)
    return match[1] + mark("value") if secret else match[0]


def _hide_flag(match: re.Match[str]) -> str:
    secret = is_secret(match[2], password="pass" in match[1].lower(), literal=False)
    return match[1] + mark("value") if secret else match[0]


def _is_tokenish(value: str) -> bool:
    """Whether a value is made up rather than a word: digits, capitals inside, padding, or unbroken length."""
    long = len(value) >= _LONG and value[:_LONG].isalnum()
    return long or re.search(r"\d|[a-z][A-Z]|=$", value[:_LONG]) is not None


def is_secret(value: str, *, password: bool, literal: bool) -> bool:
    """Whether `value`, assigned to a name of a secret, is one.

    Args:
        value: what was assigned, without quotes.
        password: the name is that of a password, which may be short or a number.
        literal: what stands there can be no identifier (it is quoted, or in a file of settings).
    """
    shown = value[:_LOOKED_AT]
    if len(value) < (4 if password else 6) or is_mark(value) or _NO_SECRET.fullmatch(shown):
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
            parts += [text[done:start], mark("value")]
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
        return is_secret(value, password=password, literal=True)
    if following in ("(", "[") and _IDENTIFIER.fullmatch(value):  # a call or a look-up
        return False
    # `name=value` then white space is a setting; before `,` or `)` it may be a variable.
    tight = head["operator"] == "="
    ends = following in ("", ";", "&") or following.isspace()
    literal = tight and (head["name"].isupper() or (ends and not _SOME_NAME.fullmatch(value)))
    return is_secret(value, password=password, literal=literal)
