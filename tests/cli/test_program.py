"""The program as a whole: options anywhere, errors in one line, exit codes, pipes, completion."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

import agenthood
from agenthood.cli import main
from cli_support import Run, spawn


def test_common_options_may_stand_on_either_side(store: Path, tmp_path: Path, capfd, monkeypatch) -> None:
    """Before or after the command, and the variable where there is no --dir."""
    with agenthood.open(store):
        pass
    capfd.readouterr()
    for arguments in [
        ["--dir", str(store), "--json", "status"],
        ["status", "--dir", str(store), "--json"],
        ["--dir", "elsewhere", "status", "--json", "--dir", str(store)],
    ]:
        assert main(arguments) == 0
        assert json.loads(capfd.readouterr().out)["path"] == str(store)
    monkeypatch.setenv("AGENTHOOD_DIR", str(store))
    assert main(["status", "--json"]) == 0
    monkeypatch.delenv("AGENTHOOD_DIR")
    monkeypatch.chdir(tmp_path)
    assert main(["status"]) == 0


def test_a_mistyped_command_or_option_is_answered_with_the_right_one(run: Run) -> None:
    """Did you mean, exit code 2, one line."""
    done = run("lern")
    assert done.code == 2
    assert (
        done.err == "agenthood: error: No such command 'lern'. Did you mean 'learn'? See agenthood --help\n"
    )
    done = run("recall", "x", "--promt")
    assert done.code == 2
    assert "--prompt" in done.err


def test_without_arguments_the_help_is_shown(capfd) -> None:
    """Help on standard error and exit code 2, as the command line was not complete; --help is 0."""
    assert main([]) == 2
    assert "Usage: agenthood" in capfd.readouterr().err
    assert main(["--help"]) == 0
    assert "Usage: agenthood" in capfd.readouterr().out
    assert main(["--version"]) == 0
    assert capfd.readouterr().out == f"agenthood {agenthood.__version__}\n"


def test_errors_are_one_line_with_the_next_step(run: Run, store: Path) -> None:
    """Unusable settings, and a file where the store should be."""
    store.mkdir()
    (store / "config.json").write_text("{")
    done = run("learn", "--episode", "x", "--score", 1)
    assert done.code == 1
    assert done.err.startswith("agenthood: error: ")
    assert "is not JSON" in done.err
    assert done.err.count("\n") == 1
    in_the_way = run("learn", "--episode", "x", "--score", 1, directory=store / "config.json")
    assert in_the_way.code == 1
    assert in_the_way.err.count("\n") == 1
    assert "Traceback" not in in_the_way.err


def test_debugging_shows_where_an_error_arose(run: Run, tmp_path: Path, monkeypatch) -> None:
    """With AGENTHOOD_DEBUG=1 the error is raised."""
    monkeypatch.setenv("AGENTHOOD_DEBUG", "1")
    with pytest.raises(agenthood.StoreError, match="there is no store"):
        run("status", directory=tmp_path / "absent")


def test_warnings_about_settings_are_shown_unless_quiet(run: Run, store: Path) -> None:
    """A mistyped key in config.json is mentioned by every command that reads it."""
    run("learn", "--episode", "x", "--score", 1)
    (store / "config.json").write_text('{"embeder": "lexical"}')
    assert "did you mean 'embedder'?" in run("lessons").err
    assert run("lessons", "--quiet").err == ""


def test_a_reader_who_leaves_is_no_error(run: Run, store: Path) -> None:
    """`agenthood lessons | head -1`: exit code 141 and not a word."""
    lines = [
        json.dumps({"episode": f"number {i} " + "x" * 2000, "score": 1, "member": f"m{i}"})
        for i in range(100)
    ]
    assert run("learn", "-", stdin="\n".join(lines)).code == 0
    process = spawn("--dir", store, "lessons")
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(60) == 141


def test_a_stream_without_the_characters_shows_escapes(run: Run, store: Path) -> None:
    """On a terminal that speaks ASCII only nothing fails, and JSON stays JSON."""
    run("learn", "--episode", "修复 🙂", "--score", 1)
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    process = spawn("--dir", store, "lessons", env=environment)
    assert b"\\u4fee\\u590d \\U0001f642" in process.communicate(timeout=60)[0]
    process = spawn("--dir", store, "lessons", "--json", env=environment)
    (lesson,) = json.loads(process.communicate(timeout=60)[0].decode("ascii"))
    assert lesson["text"] == "修复 🙂"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_complete(shell: str, run: Run) -> None:
    """The script calls the program back in the way that the program answers."""
    done = run("completion", shell)
    assert done.code == 0
    assert f"_AGENTHOOD_COMPLETE={shell}_complete" in done.out


def test_the_program_completes_commands() -> None:
    """What the script for bash asks gets the commands that begin so."""
    asked = {"_AGENTHOOD_COMPLETE": "bash_complete", "COMP_WORDS": "agenthood le", "COMP_CWORD": "1"}
    process = spawn(env=os.environ | asked)
    out, err = process.communicate(timeout=60)
    assert (out.split(), err) == ([b"plain,learn", b"plain,lessons"], b"")


def test_the_installed_script_is_this_program() -> None:
    """`agenthood` on the path runs `agenthood.cli:main` and passes the exit code on."""
    script = Path(os.sys.executable).parent / "agenthood"
    if not script.exists():
        pytest.skip("the package is not installed here")
    assert subprocess.run([script, "lern"], capture_output=True, check=False).returncode == 2
