"""The whole way, in processes of their own: a run fails, the next is shown why, a later one works."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from agenthood.block import CLOSING, OPENING, SYSTEM_WARNING
from agenthood.runtime.chat.providers import KNOWN
from agenthood.runtime.chat.settings import load_chat_settings
from agents import run_files
from cli_support import ROOT, Done, spawn
from runtime.provider_server import Call, Request, Server, provider_server, say

FIRST = "fix the flaky login test"
REWORDED = "the login test fails now and then: make it reliable"
LAST = "make the flaky login test stable"
BEFORE = "import time\n\n\ndef now():\n    return time.time()\n"
SLEEP = "import time\n\n\ndef now():\n    time.sleep(1)\n    return time.time()\n"
FIXED = "def now():\n    return 1_800_000_000.0\n"
CHECK = f"{shlex.quote(sys.executable)} check.py"
CHECKED = "from clock import now\nassert now() == now(), 'the clock moved between two calls'\n"


class Setting:
    """A project, a provider on loopback, and the program in processes of its own."""

    def __init__(self, folder: Path, server: Server, environ: dict[str, str]) -> None:
        self.project = folder / "project"
        self.home = self.project / ".agenthood"
        self.server = server
        self.environ = environ
        self.project.mkdir()
        (self.project / "clock.py").write_text(BEFORE, encoding="utf-8")
        (self.project / "check.py").write_text(CHECKED, encoding="utf-8")

    def agenthood(self, *arguments: object) -> Done:
        """Run the program once, from start to end of a process."""
        options = {"env": os.environ | self.environ, "stdin": -3}
        process = spawn("--dir", self.home, *arguments, **options)
        out, err = process.communicate(timeout=90)
        return Done(process.returncode, out.decode(), err.decode())

    def developer(self, task: str, *options: object) -> tuple[dict[str, Any], list[Request]]:
        """Run the member `developer`; returns its file and the requests it made."""
        before = len(self.server.requests)
        done = self.agenthood(
            "--json", "run", "--project", self.project, "--allow-write", *options, "developer", task
        )
        assert done.code == 0, done.err
        assert done.json == run_files(self.home)[-1]
        return done.json, self.server.requests[before:]


def writes(content: str) -> Call:
    """The wish to write the clock anew."""
    return Call("write_file", {"path": "clock.py", "content": content})


def system_of(request: Request) -> str:
    """The system prompt of a request in either format."""
    system = request.json.get("system") or request.json["messages"][0]["content"]
    return system if isinstance(system, str) else "".join(part["text"] for part in system)


def task_of(request: Request) -> str:
    """The first user message of a request in either format."""
    content = next(turn for turn in request.json["messages"] if turn["role"] == "user")["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


@pytest.mark.parametrize("provider", ["anthropic", "openai"])
def test_a_failure_is_shown_to_the_next_run_and_a_success_to_all_later_ones(
    provider: str, tmp_path: Path
) -> None:
    """The loop closes: check, anti-pattern, prompt, check, lesson, recall, each in a process of its own."""
    answers = [
        *(say("I wait a second first.", [writes(SLEEP)]), say("I let the clock sleep before it answers.")),
        say("I shall not sleep; the clock has to stand still."),
        *(say("", [writes(FIXED)]), say("I gave the clock a fixed time.")),
    ]
    with provider_server(answers) as server:
        address = server.url if provider == "anthropic" else server.base_url
        variables = {
            f"{provider.upper()}_API_KEY": "key-of-the-test",
            f"{provider.upper()}_BASE_URL": address,
        }
        setting = Setting(tmp_path, server, {"AGENTHOOD_PROVIDER": provider} | variables)

        failed, requests = setting.developer(FIRST, "--check", CHECK)
        assert OPENING not in task_of(requests[0])
        assert (failed["scores"][0]["value"], failed["receipts"][0]["kind"]) == (0, "antipattern")
        assert "the clock moved" in failed["scores"][0]["detail"]

        warned, (request,) = setting.developer(REWORDED, "--score", "useful=0.5")
        prompt = task_of(request)
        assert prompt.startswith(OPENING)
        assert prompt.endswith(f"{CLOSING}\n\nTask:\n{REWORDED}")
        assert "What failed in earlier runs:" in prompt
        assert FIRST in prompt
        assert "I let the clock sleep" in prompt
        assert system_of(request).endswith(SYSTEM_WARNING)
        assert [lesson["id"] for lesson in warned["lessons"]] == [failed["receipts"][0]["id"]]
        assert warned["receipts"][0]["status"] == "skipped"

        passed, _ = setting.developer(LAST, "--check", CHECK, "--check-before")
        assert passed["scores"][0]["detail"] == "passed, failed before"
        assert (passed["receipts"][0]["status"], passed["receipts"][0]["kind"]) == ("stored", "learned")

        recalled = {
            lesson["kind"]: lesson
            for lesson in setting.agenthood("--json", "recall", REWORDED).json["lessons"]
        }
        assert recalled["antipattern"]["episodes"] == [failed["episode_id"]]
        assert recalled["learned"]["episodes"] == [passed["episode_id"]]
        assert "a fixed time" in recalled["learned"]["outcome"]
        shown = setting.agenthood("run", "--project", setting.project, "--dry-run", "developer", REWORDED).out
        assert "What worked in earlier runs:" in shown
        assert "What failed in earlier runs:" in shown
        assert len(server.requests) == 5
        assert "key-of-the-test" not in json.dumps(run_files(setting.home))


CONSOLE = re.compile(r"^```console\n(\$ agenthood run .*?)^```$", re.MULTILINE | re.DOTALL)
VARYING = (
    (re.compile(r"\d{8}T\d{6}-[0-9a-z]{6}"), "ID"),
    (re.compile(r"\d+\.\d s, "), "TIME, "),
)
PLAYED = (
    *(say("", [Call("write_file", {"path": "login.py", "content": "retry = 3\n"})]), say("I let it retry.")),
    *(
        say("", [Call("write_file", {"path": "login.py", "content": "clock = 0\n"})]),
        say("I mocked the clock."),
    ),
)
LOGIN_CHECK = "grep -q clock login.py || { echo 3 of 20 runs failed; exit 1; }\n"


def transcripts() -> list[tuple[str, str]]:
    """The transcripts of runs in README.md and docs/running.md that show more than one command."""
    pages = ("README.md", "docs/running.md")
    found = [(page, text) for page in pages for text in CONSOLE.findall((ROOT / page).read_text("utf-8"))]
    return [(page, text) for page, text in found if text.count("\n$ ") > 0]


def replayed(text: str, folder: Path) -> str:
    """The transcript as it comes out now."""
    (folder / "check.sh").write_text(LOGIN_CHECK, encoding="utf-8")
    shown = ""
    with provider_server(PLAYED) as server:
        environ = {"ANTHROPIC_API_KEY": "key-of-the-test", "ANTHROPIC_BASE_URL": server.url}
        for line in re.findall(r"^\$ agenthood (.*)$", text, re.MULTILINE):
            shown += f"$ agenthood {line}\n"
            shown += subprocess.run(
                [sys.executable, "-m", "agenthood", *shlex.split(line)],
                cwd=folder,
                env=os.environ | environ,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                check=True,
            ).stdout
    return shown


@pytest.mark.parametrize(("page", "text"), transcripts(), ids=[page for page, _ in transcripts()])
def test_transcripts_are_what_happens(page: str, text: str, tmp_path: Path) -> None:
    """The runs on the pages come out as they are shown there, ids and times aside."""
    shown = replayed(text, tmp_path)
    for pattern, name in VARYING:
        text, shown = pattern.sub(name, text), pattern.sub(name, shown)
    assert shown == text


def test_the_page_names_every_provider() -> None:
    """docs/running.md has each provider's variable and model, and its settings are understood."""
    page = (ROOT / "docs" / "running.md").read_text(encoding="utf-8")
    for known in KNOWN.values():
        (row,) = re.findall(rf"^\| `{known.name}` \|.*$", page, re.MULTILINE)
        variable = known.key_variable or known.url_variable
        extra = "anthropic" if known.format == "anthropic" else "openai"
        assert f"`export {variable}=" in row
        assert f"[{extra}]'`" in row
        assert row.endswith(f"| `{known.model}` |")


def test_the_settings_on_the_page_are_understood(tmp_path: Path) -> None:
    """The example of config.json in docs/running.md is read without a warning."""
    page = (ROOT / "docs" / "running.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```json\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "config.json").write_text(example, encoding="utf-8")
    settings = load_chat_settings(tmp_path, environ={"ANTHROPIC_API_KEY": "key-of-the-test"})
    assert settings.warnings == ()
    assert [(one.name, one.missing_key) for one in settings.providers] == [
        ("vllm", None),
        ("anthropic", None),
    ]


def test_the_session_on_the_page_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python code in docs/running.md runs as it is and learns."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENTHOOD_EMBEDDER", "lexical")
    page = (ROOT / "docs" / "running.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(code, "running.md", "exec"), {})
    assert printed.getvalue() == "stored learned\n"
