"""What README.md and the pages in docs/ show is what happens."""

from __future__ import annotations

import inspect
import re
import runpy
import shlex
from contextlib import redirect_stdout
from dataclasses import fields
from io import StringIO
from pathlib import Path

import pytest

from agenthood import MaintenanceReport, MigrationReport, Tidied, errors
from agenthood.cli import main
from agenthood.cli.store import status
from agenthood.config import load_settings
from agenthood.learning.rules import trend

ROOT = Path(__file__).parent.parent
PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "benchmarks/README.md",
    *(f"docs/{page.name}" for page in sorted((ROOT / "docs").glob("*.md"))),
)
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str, language: str) -> list[str]:
    """The fenced blocks of a language on a page."""
    return [code for found, code in BLOCK.findall(read(page)) if found == language]


def read(page: str) -> str:
    """The text of a page."""
    return (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", ["README.md", "docs/library.md", "docs/scopes.md", "docs/stores.md"])
def test_the_python_code_prints_what_the_page_says(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Python blocks of a page run as they are, one after the other; the block of text after one is its output."""
    monkeypatch.chdir(tmp_path)
    found = BLOCK.findall(read(page))
    code = [n for n, (language, _) in enumerate(found) if language == "python"]
    assert code
    names: dict[str, object] = {}
    for n in code:
        printed = StringIO()
        with redirect_stdout(printed):
            exec(compile(found[n][1], page, "exec"), names)
        expected = found[n + 1][1] if n + 1 < len(found) and found[n + 1][0] == "text" else ""
        assert printed.getvalue() == expected


def test_both_ways_of_the_readme_share_one_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """As the page says: what the Python lines learned is there for the first command after them."""
    monkeypatch.chdir(tmp_path)
    exec(compile(blocks("README.md", "python")[0], "README.md", "exec"), {})
    learn = next(
        line for code in blocks("README.md", "sh") for line in code.splitlines() if "agenthood learn" in line
    )
    capfd.readouterr()
    assert main(shlex.split(learn)[1:]) == 0
    status, *_, evidence = capfd.readouterr().out.strip().split("\t")
    assert f"`{status}`, {evidence}" in read("README.md")


def test_the_reports_are_described_field_by_field() -> None:
    """docs/library.md names each field of what `maintain` and `migrate` give."""
    page = read("docs/library.md")
    for name, report in (("maintain", MaintenanceReport), ("migrate", MigrationReport)):
        table = page.partition(f"| `hood.{name}()` gives a report")[2].partition("\n\n")[0]
        for field in fields(report):
            assert re.search(rf"^\|[^|]*`{field.name}`[^|]*\|", table, re.MULTILINE), (name, field.name)
    for field in fields(Tidied):
        assert f"`{field.name}`" in page


def test_the_trend_is_explained() -> None:
    """The page of concepts and the help of `status` say when it rises or falls, as the rule has it."""
    for text in (read("docs/concepts.md"), inspect.getdoc(status.callback) or ""):
        told = " ".join(text.replace("`", "").partition("trend is ")[2].split())
        assert told.startswith("rising or falling where the mean")
        assert "last ten judged episodes" in told
        assert "more than 0.05 above or below" in told
    ten = [0.5] * 10
    assert trend([*ten, *[0.55] * 10]) == "stable"
    assert trend([0.0, *ten, *[0.56] * 10]) == "rising"
    assert trend([0.5, 0.44]) == "falling"


def test_the_packages_for_node_are_installed_as_for_the_tests() -> None:
    """benchmarks/README.md has the command, with the option that keeps packages from running code."""
    command = "npm ci --ignore-scripts"
    assert command in read("scripts/test")
    assert f"(cd tests/node && {command})" in read("benchmarks/README.md")


def test_the_tree_of_errors_is_the_whole_one() -> None:
    """docs/library.md shows the errors as the module describes them, and the module describes each it has."""
    described = inspect.getdoc(errors) or ""
    tree = [line.removeprefix("    ") for line in described.splitlines() if line.startswith("    ")]
    assert "\n".join(tree) in read("docs/library.md")
    classes = [name for name, value in vars(errors).items() if inspect.isclass(value)]
    for name in classes:
        assert any(re.search(rf"\b{name}\b", line) for line in tree), name


@pytest.mark.parametrize(("page", "count"), [("README.md", 5), ("docs/scopes.md", 3)])
def test_the_commands_work(page: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every `agenthood` line of a page ends with exit code 0, run one after the other on one store."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    lines = [shlex.split(line) for code in blocks(page, "sh") for line in code.splitlines()]
    commands = [words for words in lines if "agenthood" in words[:2]]
    assert len(commands) == count
    for words in commands:
        begin = words.index("agenthood")
        with monkeypatch.context() as patch:
            for assignment in words[:begin]:
                patch.setenv(*assignment.split("=", 1))
            assert main(words[begin + 1 :]) == 0, words


@pytest.mark.parametrize(
    "example",
    [
        example
        for page in ("configuration", "scopes", "stores")
        for example in blocks(f"docs/{page}.md", "json")
    ],
)
def test_the_examples_of_settings_are_understood(example: str, tmp_path: Path) -> None:
    """Every example of config.json is read without a warning."""
    (tmp_path / "config.json").write_text(example, encoding="utf-8")
    assert load_settings(tmp_path, environ={}).warnings == ()


def test_every_setting_is_on_the_page() -> None:
    """docs/configuration.md names every variable and every key that agenthood.config knows."""
    page = read("docs/configuration.md")
    source = (ROOT / "agenthood" / "config.py").read_text(encoding="utf-8")
    keys = re.search(r"^_KEYS = \{(.*?)^\}", source, re.MULTILINE | re.DOTALL)
    assert keys
    for key in re.findall(r'"(\w+)":', keys[1]):
        assert f"`embedder.{key}`" in page
    for name in re.findall(r'"(AGENTHOOD_[A-Z_]*[A-Z])":', source):
        assert f"`{name}`" in page
    for name in re.findall(r"`(AGENTHOOD_[A-Z_]*[A-Z])`", page):
        assert any(
            f'"{name}"' in path.read_text(encoding="utf-8") for path in (ROOT / "agenthood").rglob("*.py")
        ), name


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    """Every relative link on a page names a file that is there, and a heading in it."""
    for target, anchor in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", read(page)):
        file = (ROOT / page).parent / target if target else ROOT / page
        assert file.exists(), target
        assert not anchor or anchor in headings(file), f"{target}#{anchor}"


def headings(file: Path) -> list[str]:
    """The anchors that the headings of a page get."""
    found = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found]


def test_the_map_names_modules_that_are_there() -> None:
    """The table in docs/architecture.md points at files of the package, and at tests that exist."""
    for line in read("docs/architecture.md").partition("## Where to change what")[2].splitlines():
        for name in re.findall(r"`([\w/]+\*?\.(?:py|txt))`", line):
            places = (ROOT / "agenthood", ROOT / "agenthood" / "embedding", ROOT)
            assert any(list(place.glob(name)) for place in places), name
        for name in re.findall(r"`(tests/[\w/]*)`", line):
            assert (ROOT / name).is_dir(), name


def test_the_demonstration_shows_what_it_promises(tmp_path: Path) -> None:
    """examples/demo.py ends well and shows a merge, both kinds, other languages, a near miss and a forgotten lesson."""
    demo = runpy.run_path(str(ROOT / "examples" / "demo.py"))
    printed = StringIO()
    with redirect_stdout(printed):
        assert demo["main"](["--keep", str(tmp_path / "store")]) == 0
    shown = printed.getvalue()
    merged = next(
        line for line in shown.splitlines() if "mocked the clock to fix the flaky login test" in line
    )
    assert merged.split()[:3] == ["merged", "0.95", "3"]
    for expected in (
        "worked",
        "failed",
        "给支付接口加上幂等键",
        "<agenthood-lessons>",
        "nearest",
        "forgotten",
    ):
        assert expected in shown
    assert (tmp_path / "store" / "memory").is_dir()
