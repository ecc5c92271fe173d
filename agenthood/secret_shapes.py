"""The shapes of secrets that are known by themselves: keys of providers and services, and their marks.

Every pattern takes linear time: it starts with fixed characters, and what may follow is bounded or cannot overlap.
"""

from __future__ import annotations

import re
from typing import NamedTuple

# A secret starts at no letter's or digit's right, unless what is there is the end of an escape: `\n` or
# `\t` in JSON, `%3D` in a URL, a colour for the terminal.
_START = (
    r"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2})"
    r"|(?<=\[\dm)|(?<=\[\d\dm)|(?<=;\dm)|(?<=;\d\dm))"
)
_WORD = "[A-Za-z0-9_-]"
_SHORTEST = 15  # characters of a secret, none of them white space


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
    _Shape("perplexity", ("pplx-",), r"pplx-[A-Za-z0-9]{20,}"),
    _Shape("nvidia", ("nvapi-",), rf"nvapi-{_WORD}{{20,}}"),
    _Shape("replicate", ("r8_",), rf"{_START}r8_[A-Za-z0-9]{{30,}}"),
    _Shape("cerebras", ("csk-",), rf"{_START}csk-[A-Za-z0-9]{{20,}}"),
    # Some digit: what else begins like that are names made of words.
    _Shape("fireworks", ("fw_",), rf"{_START}fw_(?=[A-Za-z]{{0,40}}\d)[A-Za-z0-9]{{20,}}"),
    _Shape(
        "voyage",
        ("pa-",),
        rf"{_START}pa-(?={_WORD}{{0,40}}\d)(?={_WORD}{{0,40}}[A-Z]){_WORD}{{40,}}",
    ),
    _Shape("langsmith", ("lsv2_",), r"lsv2_(?:pt|sk)_[A-Za-z0-9_]{20,}"),
    _Shape("shopify", ("shp",), r"shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{20,}"),
    _Shape("notion", ("ntn_",), rf"{_START}ntn_[A-Za-z0-9]{{30,}}"),
    _Shape("linear", ("lin_api_", "lin_oauth_"), r"lin_(?:api|oauth)_[A-Za-z0-9]{20,}"),
    _Shape("grafana", ("glsa_",), r"glsa_[A-Za-z0-9_]{20,}"),
    _Shape("docker", ("dckr_",), rf"dckr_[op]at_{_WORD}{{20,}}"),
    _Shape("atlassian", ("ATATT3x", "ATCTT3x"), r"AT[AC]TT3x[A-Za-z0-9_=-]{20,}"),
    _Shape(
        "supabase", ("sbp_", "sb_secret_"), rf"{_START}(?:sbp_[A-Za-z0-9_]{{30,}}|sb_secret_{_WORD}{{20,}})"
    ),
    _Shape(
        "doppler",
        ("dp.",),
        rf"{_START}dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{{2,35}}\.)?[A-Za-z0-9]{{30,}}",
    ),
    _Shape("figma", ("figd_",), rf"{_START}figd_{_WORD}{{20,}}"),
    _Shape("newrelic", ("NRAK-",), r"NRAK-[A-Z0-9]{20,}"),
    _Shape("postman", ("PMAK-",), r"PMAK-[A-Za-z0-9-]{20,}"),
    _Shape("age", ("AGE-SECRET-KEY-",), r"AGE-SECRET-KEY-1[A-Z0-9]{20,}"),
    _Shape("jwt", ("eyJ",), rf"{_START}eyJ{_WORD}{{8,}}+\.{_WORD}{{4,}}+(?:\.{_WORD}*)*"),
)

_NEEDLES = tuple({needle for shape in _SHAPES for needle in shape.needles})


def mark(kind: str) -> str:
    """What stands where a secret of `kind` stood."""
    return f"[redacted:{kind}]"


def is_mark(value: str) -> bool:
    """Whether `value` is what stands for a secret."""
    return value.startswith("[redacted:") and value.endswith("]")


def without_known_shapes(text: str) -> str:
    """Replace every secret of a known shape in `text` by its mark."""
    return _without_shapes(text) if _has_long_word(text) else text


def _has_long_word(text: str) -> bool:
    """False for most texts: no secret is as short as what is between their spaces."""
    return len(text) >= _SHORTEST and max(map(len, text.split()), default=0) >= _SHORTEST


def _without_shapes(text: str) -> str:
    for needle in _NEEDLES:  # a plain loop: nearly every text is looked through to no avail
        if needle in text:
            break
    else:
        return text
    for kind, needles, pattern in _SHAPES:
        if any(needle in text for needle in needles):
            text = re.sub(pattern, mark(kind), text, flags=re.ASCII)
    return text
