"""Secrets go, everything else stays, in linear time."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenthood import secret_names, secret_shapes
from agenthood.redaction import MAX_DEPTH, redact, redact_json

# Put together here, so that no scanner takes these made-up values for real ones.
ALNUM = "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC2eF4hJ6kL8nP0rS2uV4xY6"
HEX = "0123456789abcdef" * 4
KEY_LINES = "\n".join([(ALNUM + ALNUM)[:64]] * 4)
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{KEY_LINES}\nAbC=\n-----END RSA PRIVATE KEY-----"

KNOWN = {
    "openai": ["sk-" + ALNUM[:48], "sk-proj-" + ALNUM[:20] + "_-" + ALNUM[:20], "sk-svcacct-" + ALNUM[:30]],
    "anthropic": ["sk-ant-api03-" + ALNUM[:40] + "-_AA", "sk-ant-" + "a" * 30],
    "openrouter": ["sk-or-v1-" + HEX],
    "groq": ["gsk_" + ALNUM[:50]],
    "google": ["AIza" + ALNUM[:35], "GOCSPX-" + ALNUM[:28], "ya29." + ALNUM[:40]],
    "aws": ["AKIA" + "IOSFODNN7EXAMPL3", "ASIA" + "IOSFODNN7EXAMPL3"],
    "github": [f"gh{letter}_" + ALNUM[:36] for letter in "posur"]
    + ["github_pat_" + ALNUM[:22] + "_" + ALNUM],
    "gitlab": ["glpat-" + ALNUM[:20], "glrt-" + ALNUM[:20]],
    "slack": [
        "xoxb-123456789012-123456789012-" + ALNUM[:24],
        "xapp-1-A0123-456-" + ALNUM[:30],
        "hooks.slack.com/services/" + "T00000000/B00000000/" + ALNUM[:24],
    ],
    "stripe": [
        "sk_live_" + ALNUM[:24],
        "rk_live_" + ALNUM[:24],
        "sk_test_" + ALNUM[:24],
        "whsec_" + ALNUM[:32],
    ],
    "npm": ["npm_" + ALNUM[:36]],
    "pypi": ["pypi-AgEIcHlwaS5vcmc" + ALNUM],
    "huggingface": ["hf_" + ALNUM[:34]],
    "sendgrid": ["SG." + ALNUM[:22] + "." + ALNUM[:43]],
    "twilio": ["AC" + HEX[:32], "SK" + HEX[:32]],
    "telegram": ["123456789:AA" + ALNUM[:33]],
    "digitalocean": ["dop_v1_" + HEX],
    "perplexity": ["pplx-" + ALNUM[:48]],
    "nvidia": ["nvapi-" + ALNUM[:30] + "-_" + ALNUM[:30]],
    "replicate": ["r8_" + ALNUM[:37]],
    "cerebras": ["csk-" + ALNUM[:48].lower()],
    "fireworks": ["fw_" + ALNUM[:22]],
    "voyage": ["pa-" + ALNUM[:20] + "-_" + ALNUM[:21]],
    "langsmith": ["lsv2_pt_" + HEX[:32] + "_" + HEX[:10], "lsv2_sk_" + HEX[:32] + "_" + HEX[:10]],
    "shopify": [f"shp{use}_" + HEX[:32] for use in ("at", "ca", "pa", "ss")],
    "notion": ["ntn_" + ALNUM[:46]],
    "linear": ["lin_api_" + ALNUM[:40]],
    "grafana": ["glsa_" + ALNUM[:32] + "_" + HEX[:8]],
    "docker": ["dckr_pat_" + ALNUM[:27]],
    "atlassian": ["ATATT3x" + "FfGF0" + ALNUM + "_-=" + HEX[:8].upper()],
    "supabase": ["sbp_" + HEX[:40], "sb_secret_" + ALNUM[:31]],
    "doppler": ["dp.pt." + ALNUM[:43], "dp.st.dev_main." + ALNUM[:43]],
    "figma": ["figd_" + ALNUM[:20] + "-_" + ALNUM[:18]],
    "newrelic": ["NRAK-" + ALNUM[:27].upper()],
    "postman": ["PMAK-" + HEX[:24] + "-" + HEX[:34]],
    "jwt": ["eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0." + ALNUM[:43]],
}
SECRETS = [(kind, secret) for kind, secrets in KNOWN.items() for secret in secrets]

NAMED = [
    ("Authorization: Bearer {}", ALNUM[:24]),
    ("'authorization': 'Basic {}'", "dXNlcjpwYXNzd29yZA=="),
    ("curl -H 'Authorization: token {}'", ALNUM[:20]),
    ("sent Bearer {} to the server", ALNUM[:30]),
    ("postgres://app:{}@db.internal:5432/app", "s3cr=et!"),
    ("git clone https://oauth2:{}@git.example/x.git", "abcdefgh"),
    ("https://{}@git.example/x.git", "x" * 20 + "7"),
    ("GET https://api.example/v1?page=2&access_token={}&x=1", "qwertyuiop"),
    ("https://x.example/?token={}", "abcdef"),
    ("https://x.example/?api_key={}#top", "abc9"),
    ("https://x.example/?key={}", "AbC123"),
    ("https://x.example/blob?sv=2020&sig={}", "a%2Bb%3D"),
    ("password={}", "hunter2"),
    ("password={}", "letmein"),
    ("DB_PASSWORD={}", "supersecret"),
    ("db password: {}", "hunter2"),
    ("SECRET_KEY = '{}'", "django-insecure-words"),
    ("aws_secret_access_key = {}", ALNUM[:20] + "/+" + ALNUM[:18]),
    ("export AWS_SECRET_ACCESS_KEY={}", ALNUM[:40]),
    ('{{"api_key": "{}", "n": 1}}', "abcdefgh"),
    ('{{\\"password\\": \\"{}\\"}}', "hunter2"),
    ("api_key: {}", "a1b2c3d4"),
    ('clientSecret: "{}",', "abcdefgh"),
    ("os.environ['API_TOKEN'] = '{}'", "abcdefgh"),
    ('def connect(password: str = "{}"):', "hunter2"),
    ("mysql --password {} -u root", "hunter2"),
    ("Server=x;Password={};Encrypt=yes", "pa55word"),
    ("AccountName=x;AccountKey={}", ALNUM + ALNUM[:34] + "=="),
    ('password = "ab\\"{}"', "cd9ef"),
    ("DB_PASS={}", "hunter22x"),
    ("export SMTP_PASS={} && ./send", "letmein"),
    ("db_pass: '{}'", "letmein"),
    ("connect(user='app', dbpass='{}')", "letmein"),
    ("curl -u admin:{} https://x.example/", "letmein"),
    ("curl -s --user 'admin:{}' https://x.example/", "pa55;word"),
    ("curl https://x.example/ \\\n  -u=admin:{}", "letmein"),
    ("Cookie: session={}; theme=dark", "abcdefgh"),
    ("set-cookie: sid={}; Path=/; Max-Age=31536000", "12345678"),
    ("curl -H 'Cookie: lang=en; connect.token={}'", ALNUM[:20]),
]

ORDINARY = [
    "fixed the flaky login test by mocking the clock",
    "password=None",
    "password: str",
    "def f(token: str, password: str | None = None) -> None:",
    "api_key=os.environ['OPENAI_API_KEY']",
    "api_key=os.getenv('X')",
    "token = get_token(user)",
    "password=md5hex(x), api_key=env2['X']",
    "login(password=password, token=self.token)",
    "login(user, password=user_password)",
    "bypass=enabled, first_pass=results2, tests_pass: 1200, compass=northwest",
    "PASS: 1234 tests, pass=12345, db_passes=12345, user_passed=9999",
    "docker run -u app:wheel -v x:y image, docker exec --user 1000:1000 box",
    "curl -u $USER:$TOKEN https://x.example/ and curl --user-agent x:y z",
    "Cookie: theme=dark; lang=en; Path=/path/to/x and set-cookie: Max-Age=31536000; Expires=Wed,21-Oct-2026",
    "the cookie: it has to be kept, and cookie = get_cookie(name)",
    "fw_configuration_of_the_gateway and fw_abcdefghijklmnopqrstuvwxyz",
    "pa-system-in-the-large-hall-of-the-old-town-house-is-broken",
    "pplx-7b-online and r8_something_else, lsv2_format, the dp.pt file",
    "max_tokens=100, tokens: 4096, token_count = 15000",
    "password=${DB_PASSWORD} and token={{ secrets.TOKEN }} and key=<your-key>",
    "api_key: YOUR_API_KEY",
    "the token: expired after 30s, the password: wrong",
    "Password: required",
    "secret: /run/secrets/db_password",
    "PWD=/Users/Alice/work",
    "password: ********",
    "scikit: sk-learn-compatible-estimators-everywhere",
    "task-1234567890123456 on disk-0123456789abcdef01234",
    "commit 14fcb43d9a7b0c8e6f5d4c3b2a1908f7e6d5c4b3 reverts d4a8891",
    "id 3f2504e0-4f89-11d3-9a0c-0305e82c3301 and sha256:" + HEX,
    "see https://example.org/a/b?page=2&sort=key#top and http://localhost:8080/x@y",
    "https://example.org/search?key=name&q=token",
    "http://[::1]:8080/ and ssh://git@host.example:22/x.git and git@host.example:x/y.git",
    "/usr/lib/python3.11/site-packages/token.py C:\\Users\\x\\secret.txt",
    "Authorization: required for admins; Basic authentication is enough; Bearer token is missing",
    "The bearer authentication-header is checked first",
    "eyJ is how a JWT begins",
    "`-----BEGIN CERTIFICATE-----` is no private key",
    "tier token: 登录 令牌 已过期",
    '{"password": "must be at least 8 characters", "token_type": "bearer", "secret_name": "db"}',
]


@pytest.mark.parametrize(("kind", "secret"), SECRETS)
@pytest.mark.parametrize(
    "around", ["{}", "used {} today", "key='{}'", '"a\\n{}\\n"', "x={}&", "({})", "\x1b[31m{}\x1b[0m"]
)
def test_known_shapes_go(kind: str, secret: str, around: str) -> None:
    """A key of a known shape is replaced by its kind, wherever it stands."""
    redacted = redact(around.format(secret))
    assert secret[6:] not in redacted
    assert f"[redacted:{kind}]" in redacted


@pytest.mark.parametrize(("around", "secret"), NAMED)
def test_named_secrets_go(around: str, secret: str) -> None:
    """A value that its surroundings show to be a secret is replaced, and nothing else."""
    redacted = redact(around.format(secret))
    assert secret not in redacted
    assert "[redacted:" in redacted
    assert redacted.startswith(around.format("\0").partition("\0")[0][:8])


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_stays(text: str) -> None:
    """Prose, code, hashes, ids, paths and addresses are left as they are."""
    assert redact(text) == text


@pytest.mark.parametrize(
    "block",
    [
        PEM,
        PEM.replace("\n", "\\n"),
        PEM.replace("\n", "\r\n"),
        "\n".join("> " + line for line in PEM.split("\n")),
        PEM.replace("RSA ", "OPENSSH "),
        PEM.replace("RSA ", "").replace(
            "-----\n", "-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,AB\n\n", 1
        ),
        PEM.replace("RSA PRIVATE KEY", "PGP PRIVATE KEY BLOCK").replace(
            "-----\n", "-----\nVersion: X 1\n\n", 1
        ),
        PEM.partition("-----END")[0],
        PEM[:200],
        PEM[:200].replace("\n", "\\n"),
        PEM.partition("-----\n")[2],
        PEM[100:],
    ],
)
def test_private_keys_go(block: str) -> None:
    """Private key blocks go as a whole, also without their end or their beginning; the text around stays."""
    redacted = redact(f"before it\n{block}\nafter, all is well")
    assert redacted.startswith("before it")
    assert redacted.endswith("after, all is well")
    assert "[redacted:private-key]" in redacted
    assert not any(line[-16:] in redacted for line in KEY_LINES.split("\n"))


def test_a_mentioned_private_key_takes_no_prose() -> None:
    """A sentence that names the begin line loses no other word."""
    text = "it begins with -----BEGIN PRIVATE KEY----- and we failed to parse it"
    assert redact(text) == "it begins with [redacted:private-key] and we failed to parse it"


FRAGMENTS = st.sampled_from(
    [secret for _, secret in SECRETS]
    + [around.format(secret) for around, secret in NAMED]
    + [
        "password",
        "token",
        "secret",
        "=",
        ":",
        '"',
        "'",
        "\\",
        " ",
        "\n",
        "[",
        "]",
        "[redacted:value]",
        "://",
        "@",
        "/",
    ]
    + [
        "?key=",
        "&sig=",
        "Bearer ",
        "Authorization: ",
        "hunter2",
        "-----END PRIVATE KEY-----",
        PEM,
        PEM[:90],
        "--",
        "(",
        ",",
    ]
)


@given(st.lists(st.one_of(FRAGMENTS, st.text(max_size=5)), max_size=12).map("".join))
def test_redacting_twice_changes_nothing(text: str) -> None:
    """What is redacted stays as it is when redacted again."""
    once = redact(text)
    assert redact(once) == once


PIECES = [part for secret in KNOWN.values() for one in secret for part in (one, one[:11], one[:15])]
PIECES += [
    "bearer",
    "Bearer ",
    "token",
    "password",
    ":",
    "=",
    "-",
    "--",
    " ",
    "\u00a0",
    "\n",
    "://a:b@",
    "-p",
    "curl -u a",
]


def _passed_over(text: str) -> bool:
    """Whether all that is not looked through thoroughly would come out as it is."""
    shapes = secret_shapes._has_long_word(text) or secret_shapes._without_shapes(text) == text
    return shapes and (secret_names._has_sign(text) or secret_names._without_named(text) == text)


@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=5)), max_size=8).map("".join))
def test_a_text_that_is_not_looked_through_holds_no_secret(text: str) -> None:
    """Only what the thorough look would leave alone is passed over."""
    assert _passed_over(text)


def test_a_secret_cut_short_is_looked_at_as_long_as_it_is_one() -> None:
    """Down to the shortest text of every shape and surrounding that is redacted."""
    whole = [secret for _, secret in SECRETS] + [around.format(secret) for around, secret in NAMED]
    for text in (one[:length] for one in whole for length in range(len(one) + 1)):
        assert _passed_over(text), text


HOSTILE = (
    ["a", "sk-", "-----BEGIN", "eyJ", "eyJa.", "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----\n"],
    ["password=", 'password="', "password='token=\"", 'password=\\"', "token: ", "://", "://a:", "://a:b@"],
    ["Authorization: ", "bearer ", "bearer a", "SG.", "SG.a", "AKIA", "1:AA", "xox", "1meyJ", "\\neyJ", "-"],
    ["--token ", "secret_key_", "\\", "password" + "\\" * 9, "[redacted:", "https://password=", "QUJD\n"],
    [
        "cookie:",
        "cookie:a=",
        "Cookie: a=b; ",
        "-u a:b ",
        "curl -u a:",
        "curl -u a",
        "_pass",
        "DB_PASS=",
        "fw_",
        "pa-",
    ],
    ["dp.pt.", "dp.pt.a", "shp", "lsv2_pt_", "ATATT3x"],
    ["a-", "8Q~", "gl", "?key=", "Proc-Type: ", "\\n", "\n"],
)


@pytest.mark.parametrize("unit", [unit for units in HOSTILE for unit in units])
def test_hostile_text_takes_linear_time(unit: str) -> None:
    """A megabyte of anything takes a second or two at most, where backtracking would take hours."""
    text = unit * (1_000_000 // len(unit))
    began = time.process_time()
    redact(text + "PRIVATE KEY curl")
    redact("-----BEGIN PRIVATE KEY-----" + text + ":=")
    assert time.process_time() - began < 10


def test_ordinary_sentences_are_cheap() -> None:
    """10,000 sentences take well under 0.2 s."""
    sentences = [
        f"fixed the flaky login test number {n} by mocking the clock in module {n}" for n in range(10_000)
    ]
    began = time.process_time()
    for sentence in sentences:
        redact(sentence)
    assert time.process_time() - began < 0.2


def test_json_is_redacted_throughout() -> None:
    """Strings at any depth go, as values, as keys, and under keys that name a secret; scalars stay."""
    key = "gsk_" + ALNUM[:40]
    value = {
        "a": [{"b": ("x " + key, 1, None, True)}],
        key: 2,
        "apiKey": "abcdefgh",
        "password": "hunter2",
        "max_tokens": 5,
    }
    assert redact_json(value) == {
        "a": [{"b": ["x [redacted:groq]", 1, None, True]}],
        "[redacted:groq]": 2,
        "apiKey": "[redacted:value]",
        "password": "[redacted:value]",
        "max_tokens": 5,
    }
    assert redact_json(redact_json(value)) == redact_json(value)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("Cookie", "session=abcdefgh; lang=en", "session=[redacted:value]; lang=en"),
        ("authorization", "token abcdefgh1", "token [redacted:header]"),
        ("Authorization", "required", "required"),
    ],
)
def test_json_headers_are_told_by_their_name(name: str, value: str, expected: str) -> None:
    """As they would be in one text."""
    assert redact_json({name: value}) == {name: expected}
    assert redact_json({name: expected}) == {name: expected}


def test_json_keys_that_become_equal_are_kept_apart() -> None:
    """Two secrets as keys lose no value."""
    value = {"gsk_" + ALNUM[:40]: 1, "gsk_" + ALNUM[5:45]: 2}
    assert redact_json(value) == {"[redacted:groq]": 1, "[redacted:groq]#2": 2}


def test_json_nested_without_end_is_cut_not_leaked() -> None:
    """JSON deeper than the limit neither overflows the stack nor leaks."""
    value: object = "gsk_" + ALNUM[:40]
    for _ in range(MAX_DEPTH + 5):
        value = [value]
    assert "gsk_" not in repr(redact_json(value))
