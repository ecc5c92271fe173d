"""`agenthood run` and `feedback`, against a real provider on loopback, in processes and at terminals."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agenthood.block import CLOSING, OPENING, SYSTEM_WARNING
from agents import KEY, run_files, score_of
from cli_support import Done, Run, at_terminal, read_terminal, spawn
from runtime.provider_server import Call, Server, hang, provider_server, refuse, say

TASK = "fix the flaky login test"
SECRET = "zX9-provider-key-of-no-known-shape-44"
HOSTILE = "\x1b[2J\x1b]0;owned\x07 \u202egnp.exe \x9b31m done\r gone"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A provider whose script a test sets before it runs; `OPENAI_API_KEY` and its address are set."""
    with provider_server() as started:
        monkeypatch.setenv("OPENAI_BASE_URL", started.base_url)
        monkeypatch.setenv("OPENAI_API_KEY", SECRET)
        yield started


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The directory the agent works in; the store is beside it."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.txt").write_text("the clock\n", encoding="utf-8")
    return folder


@pytest.fixture
def agent(run: Run, project: Path) -> Run:
    """A function: runs the member `developer` on `TASK` in the project with these options."""

    def run_agent(*options: object, task: str = TASK, **more: Any) -> Done:
        return run("run", "--project", project, *options, "developer", task, **more)

    return run_agent


def command(store: Path, project: Path, *options: object) -> list[object]:
    """The arguments of a run for a process of its own."""
    return ["--dir", store, "run", "--project", project, *options, "developer", TASK]


def the_run(store: Path) -> dict[str, Any]:
    """The only run file of the store."""
    (found,) = run_files(store)
    return found


def system(request: Any) -> str:
    """The system prompt that the server received."""
    return str(request.json["messages"][0]["content"])


def user(request: Any) -> str:
    """The first user message that the server received."""
    return str(request.json["messages"][1]["content"])


# -- answers and exit codes ----------------------------------------------------------------------------------


def test_only_the_answer_goes_to_a_pipe(agent: Run, server: Server, store: Path) -> None:
    """Standard output is the last answer; what happened is on standard error and in the file."""
    server.script = [say("I look first.", [Call("read_file", {"path": "a.txt"})]), say("It is\nthe clock.")]
    done = agent("--check", "true")
    assert (done.code, done.out) == (0, "It is\nthe clock.\n")
    kept = the_run(store)
    assert kept["id"] in done.err
    assert "check: true: 1, passed (check)" in done.err
    assert "learned lesson stored" in done.err
    assert (kept["status"], kept["provider"], kept["tools"]) == ("done", "openai", {"read_file": 1})
    assert "the clock" in server.requests[1].json["messages"][-1]["content"]
    assert not server.requests[0].stream


WITHOUT = (
    "import sys; sys.modules[sys.argv.pop(1)] = None; import agenthood.cli; sys.exit(agenthood.cli.main())"
)
"""A program that runs agenthood where a package is not installed."""


def without(package: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the program where `package` is not installed."""
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, package, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_missing_sdk_is_noticed_before_anything_is_made(server: Server, store: Path, project: Path) -> None:
    """One line says what to install: no run, no episode, no store; a dry run warns of it."""
    done = without("openai", *command(store, project))
    told = "openai is not installed: pip install 'agenthood-learning[openai]'\n"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"agenthood: error: {told}")
    dry = without("openai", *command(store, project, "--dry-run"))
    assert dry.returncode == 0
    assert dry.stderr.endswith(f"agenthood: warning: {told}")
    assert not store.exists()
    assert server.requests == []


def test_without_one_sdk_the_provider_of_another_is_asked(
    server: Server, store: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a missing key: the first choice is left out, and said to be."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    store.mkdir()
    (store / "config.json").write_text(json.dumps({"providers": ["anthropic", "openai"]}))
    server.script = [say("done")]
    done = without("anthropic", *command(store, project))
    assert (done.returncode, done.stdout) == (0, "done\n")
    assert "warning: anthropic is not installed: pip install 'agenthood-learning[anthropic]'" in done.stderr


def test_json_is_the_record(agent: Run, server: Server, store: Path) -> None:
    """With `--json` the one document is the run's file."""
    server.script = [say("done")]
    done = agent("--json", "--check", "false")
    assert done.code == 0
    assert done.json == the_run(store)
    assert done.json["receipts"][0]["kind"] == "antipattern"


def test_quiet_leaves_the_answer(agent: Run, server: Server) -> None:
    """With `--quiet` nothing but the answer is printed."""
    server.script = [say("done")]
    done = agent("-q", "--check", "true")
    assert (done.code, done.out, done.err) == (0, "done\n", "")


def test_the_system_prompt_is_the_members_with_the_warning(agent: Run, server: Server) -> None:
    """A member of the project is used, and the warning about recalled text follows its instructions."""
    server.script = [say("done")]
    agent("--check", "true")
    assert "You are" in system(server.requests[0]) or system(server.requests[0]).strip()
    assert system(server.requests[0]).endswith(SYSTEM_WARNING)


def test_a_member_of_the_project_is_run(run: Run, server: Server, project: Path, store: Path) -> None:
    """Its file's body is the system prompt, and its name the skill unless another is given."""
    folder = project / ".agenthood" / "members" / "tester"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(
        "---\nname: tester\ndescription: tests\n---\nTest well.\n", encoding="utf-8"
    )
    server.script = [say("done")]
    done = run("run", "--project", project, "--check", "true", "tester", "test", "the", "login")
    assert done.code == 0
    assert system(server.requests[0]).startswith("Test well.\n\n")
    assert user(server.requests[0]) == "Task:\ntest the login"
    assert (the_run(store)["member"], the_run(store)["skill"]) == ("tester", "tester")


def test_an_unknown_member_is_named_with_what_may_be_meant(run: Run, store: Path) -> None:
    """One line, exit code 1, no run file, no need of a key."""
    done = run("run", "develper", TASK)
    assert (done.code, done.out) == (1, "")
    assert done.err.count("\n") == 1
    assert "did you mean 'developer'" in done.err
    assert not store.exists()


def test_a_missing_key_is_one_line(agent: Run, store: Path) -> None:
    """It says which variable to set; nothing was begun, so nothing is recorded."""
    done = agent("--provider", "anthropic")
    assert (done.code, done.out) == (1, "")
    assert done.err.count("\n") == 1
    assert "set ANTHROPIC_API_KEY" in done.err
    assert not (store / "runs").exists()


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--score", "x"), 2, "NAME=0.9"),
        (("--score", "a=2"), 2, "from 0 to 1"),
        (("--seconds", "nan"), 2, "no number of seconds"),
        (("--steps", "0"), 2, "range"),
        (("--provider", "no-such"), 1, "no-such"),
    ],
)
def test_options_that_cannot_work_are_refused(
    options: tuple[str, ...], code: int, said: str, agent: Run, server: Server
) -> None:
    """Nothing is sent for a mistake on the command line."""
    done = agent(*options)
    assert done.code == code
    assert said in done.err
    assert server.requests == []


def test_a_task_that_is_no_text_is_refused(agent: Run, server: Server) -> None:
    """An argument that is no UTF-8 cannot be sent."""
    for task in (" ", "caf\udce9"):
        assert agent(task=task).code == 1
    assert server.requests == []


def test_a_provider_that_fails_is_one_clear_line(agent: Run, server: Server, store: Path) -> None:
    """Exit code 1, status failed, and nothing learned against the member, whatever the checks say."""
    server.script = lambda _: refuse(401, f"no such key {SECRET}", "authentication_error")
    done = agent("--check", "false", "--judge")
    assert (done.code, done.out) == (1, "")
    kept = the_run(store)
    assert (kept["status"], kept["scores"]) == ("failed", [])
    assert kept["receipts"][0]["status"] == "skipped"
    lines = [line for line in done.err.splitlines() if kept["id"] in line and " failed: " in line]
    assert len(lines) == 1
    assert kept["reason"] in lines[0]


@pytest.mark.parametrize(
    ("options", "status"),
    [(("--steps", "2"), "steps"), (("--tokens", "20"), "tokens"), ((), "repeated")],
)
def test_a_limit_is_exit_code_one(
    options: tuple[str, ...], status: str, agent: Run, server: Server, store: Path
) -> None:
    """The run says on standard error which limit it reached."""
    server.script = lambda _: say("again", [Call("list_files", {"path": "."})])
    done = agent("--check", "true", *options)
    assert done.code == 1
    assert the_run(store)["status"] == status
    assert the_run(store)["reason"] in done.err


def test_a_provider_that_hangs_ends_at_the_time_limit(agent: Run, server: Server, store: Path) -> None:
    """`--seconds` holds whatever the provider does."""
    server.script = [hang]
    start = time.monotonic()
    assert agent("--seconds", "1", "--check", "true").code == 1
    assert time.monotonic() - start < 15
    assert the_run(store)["status"] == "seconds"


# -- evidence ------------------------------------------------------------------------------------------------


def test_evidence_of_every_source(agent: Run, run: Run, server: Server, store: Path) -> None:
    """Checks before and after, a given score, the judge where asked, and feedback later: each with its source."""
    server.script = [say("done"), say('{"faithfulness": 1, "relevance": 0.9}')]
    options = (
        "--check",
        "true",
        "--check",
        "test -e none",
        "--check-before",
        "--score",
        "own=0.5",
        "--judge",
    )
    assert agent(*options).code == 0
    run("feedback", the_run(store)["id"][:17], "--score", "0.2", "--note", "slow")
    kept = the_run(store)
    assert [(one["name"], one["value"], one["source"]) for one in kept["scores"]] == [
        ("own", 0.5, "given"),
        ("check: true", 1.0, "check"),
        ("check: test -e none", 0.0, "check"),
        ("faithfulness", 1.0, "judge"),
        ("relevance", 0.9, "judge"),
        ("feedback", 0.2, "feedback"),
    ]
    assert score_of(kept, "check: test -e none")["detail"] == "exit status 1, failed before"


def test_a_judge_that_rambles_is_not_zero(agent: Run, server: Server, store: Path) -> None:
    """Exit code 0, and the score is told as not judged."""
    server.script = [say("done"), say("Somewhere between 3 and 9, I feel.")]
    done = agent()
    assert done.code == 0
    assert "judge: not judged: " in done.err
    assert the_run(store)["receipts"][0]["status"] == "skipped"


def test_a_check_without_end_is_stopped(agent: Run, server: Server, store: Path) -> None:
    """`--check-seconds` bounds it; the exit code stays the agent's."""
    server.script = [say("done")]
    assert agent("--check", "sleep 99", "--check-seconds", "0.3").code == 0
    assert score_of(the_run(store), "check: sleep 99")["detail"] == "ran out of time"


# -- lessons ---------------------------------------------------------------------------------------------------


def test_the_dry_run_is_what_the_server_would_receive(agent: Run, run: Run, server: Server) -> None:
    """Byte for byte, with lessons; nothing is sent and nothing recorded."""
    run("learn", "--episode", f"{TASK} by mocking the clock", "--score", "0.9", "--member", "developer")
    run("learn", "--episode", f"{TASK} by sleeping \x1b[31mlonger", "--score", "0.1", "--skill", "qa")
    dry = agent("--dry-run", "--json")
    plain = agent("--dry-run")
    assert (dry.code, plain.code, server.requests) == (0, 0, [])
    server.script = [say("done")]
    agent("--check", "true")
    (request,) = server.requests
    assert (system(request), user(request)) == (dry.json["system"], dry.json["user"])
    assert plain.out == f"--- system ---\n{system(request)}\n\n--- user ---\n{user(request)}\n"
    assert {one["kind"] for one in dry.json["lessons"]} == {"learned", "antipattern"}
    assert dry.json["tools"] == [tool["function"]["name"] for tool in request.json["tools"]]
    assert (dry.json["provider"], dry.json["model"]) == ("openai", request.json["model"])
    assert user(request).count(OPENING) == user(request).count(CLOSING) == 1


def test_the_dry_run_needs_no_key_and_makes_no_store(agent: Run, store: Path) -> None:
    """It says which variable a real run would need."""
    done = agent("--dry-run", "--provider", "anthropic")
    assert done.code == 0
    assert done.out.endswith(f"--- user ---\nTask:\n{TASK}\n")
    assert "ANTHROPIC_API_KEY" in done.err
    assert not store.exists()


def test_no_lessons_shows_none(agent: Run, run: Run, server: Server, store: Path) -> None:
    """The run is learned from all the same."""
    run("learn", "--episode", f"{TASK} by mocking the clock", "--score", "0.9")
    server.script = [say("done")]
    agent("--no-lessons", "--check", "true")
    assert user(server.requests[0]) == f"Task:\n{TASK}"
    assert the_run(store)["receipts"][0]["kind"] == "learned"


# -- feedback --------------------------------------------------------------------------------------------------


def test_feedback_by_the_start_of_the_id(agent: Run, run: Run, server: Server, store: Path) -> None:
    """The opposite verdict is a lesson of its own; the same verdict again is no further evidence."""
    server.script = [say("done")]
    agent("--check", "true")
    start = the_run(store)["id"][:8]
    other = run("feedback", start, "--score", "0.1", "--note", "it only hid the fault")
    assert (other.code, other.out) == (0, "antipattern lesson stored, evidence 1\n")
    same = run("--json", "feedback", start, "--score", "0.9")
    assert (same.code, same.json["status"], same.json["evidence"]) == (0, "skipped", 1)
    lessons = run("--json", "lessons").json
    assert sorted(lesson["kind"] for lesson in lessons) == ["antipattern", "learned"]
    assert all(lesson["evidence"] == 1 for lesson in lessons)


@pytest.mark.parametrize(("arguments", "code"), [(("x", "--score", "0.5"), 1), (("x", "--score", "2"), 2)])
def test_feedback_that_cannot_be_given(arguments: tuple[str, ...], code: int, run: Run) -> None:
    """A run that is not there, or a score that is none, is one line."""
    done = run("feedback", *arguments)
    assert done.code == code
    assert done.err.count("\n") == 1


def test_feedback_of_nan_is_refused(agent: Run, run: Run, server: Server, store: Path) -> None:
    """`nan` is no score, and leaves the file as it was."""
    server.script = [say("done")]
    agent("--check", "true")
    before = the_run(store)
    assert run("feedback", before["id"], "--score", "nan").code == 2
    assert the_run(store) == before


# -- secrets ---------------------------------------------------------------------------------------------------


def test_no_key_is_kept_or_shown(agent: Run, run: Run, server: Server, tmp_path: Path, store: Path) -> None:
    """Neither the provider's key nor one in the task is in any file, row, or line that is printed."""
    server.script = lambda _: say(f"I saw {KEY}.") if len(server.requests) < 2 else refuse(400, SECRET)
    first = agent("--check", f"echo {KEY}; false", task=f"log in with {KEY}")
    second = agent("--json", task=f"log in with {KEY}")
    assert (first.code, second.code) == (0, 1)
    assert KEY in user(server.requests[0])
    shown = first.err + second.err + second.out + run("--json", "lessons").out
    for secret in (KEY[:20], SECRET):
        assert secret not in shown
        for path in store.rglob("*"):
            assert not path.is_file() or secret.encode() not in path.read_bytes(), path
    assert SECRET not in first.out


# -- memory that is down ---------------------------------------------------------------------------------------


def no_store(store: Path) -> None:
    """A file stands where the store should be."""
    (store / "memory").write_text("no store", encoding="utf-8")


def rubbish(store: Path) -> None:
    """A table that is none."""
    (store / "memory" / "vectors.lance").mkdir(parents=True)
    (store / "memory" / "vectors.lance" / "data").write_bytes(b"rubbish")


@pytest.mark.parametrize("harm", [no_store, rubbish])
@pytest.mark.parametrize("code", [0, 1])
def test_without_memory_the_exit_code_is_the_agents(
    harm: Any, code: int, agent: Run, server: Server, store: Path
) -> None:
    """A store that cannot be opened is a warning; the run goes its way and has its file."""
    store.mkdir()
    harm(store)
    server.script = [refuse(400, "no") if code else say("done")]
    done = agent("--check", "true")
    assert done.code == code
    assert re.search(r"warning: (the run goes (on )?without memory|memory is degraded)", done.err)
    assert the_run(store)["status"] == ("done" if code == 0 else "failed")


@pytest.mark.parametrize("place", ["/proc/self/agenthood", "a.txt/.agenthood"])
def test_where_nothing_can_be_written_nothing_fails(
    place: str, run: Run, server: Server, project: Path
) -> None:
    """With neither store nor file to be had, the answer still comes with its exit code, and two warnings."""
    server.script = [say("done")]
    where = project / place  # an absolute place stands for itself
    arguments = ("run", "--project", project, "--check", "true", "developer", TASK)
    done = run(*arguments, directory=where)
    assert (done.code, done.out) == (0, "done\n")
    assert "warning: the run is not recorded in a file" in done.err
    assert re.search(r"warning: (the run goes without memory|memory is degraded)", done.err)


def test_an_embedding_server_that_is_down_fails_nothing(
    agent: Run, server: Server, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an embedder that cannot be reached the lesson waits, and the exit code is 0."""
    monkeypatch.setenv("AGENTHOOD_EMBEDDER", "http")
    monkeypatch.setenv("AGENTHOOD_EMBED_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("AGENTHOOD_EMBED_MODEL", "none")
    monkeypatch.setenv("AGENTHOOD_EMBED_DIMENSION", "64")
    server.script = [say("done")]
    start = time.monotonic()
    done = agent("--check", "true")
    assert (done.code, done.out) == (0, "done\n")
    assert time.monotonic() - start < 60
    assert the_run(store)["receipts"][0]["status"] in {"pending", "rejected"}


# -- interrupts and kills --------------------------------------------------------------------------------------


def until(condition: Any, seconds: float = 30) -> None:
    """Wait until it holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.02)


def test_ctrl_c_is_recorded(run: Run, server: Server, store: Path, project: Path) -> None:
    """Exit code 130; the file and the episode say interrupted; nothing is learned."""
    server.script = [hang]
    process = spawn(*command(store, project, "--check", "false"))
    until(lambda: server.requests)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, b"")
    assert b"Traceback" not in err
    assert err.endswith(b"agenthood: error: interrupted\n")
    assert (the_run(store)["status"], the_run(store)["scores"]) == ("interrupted", [])
    assert the_run(store)["episode_id"].startswith("ep:")
    assert run("--json", "lessons").json == []


def test_ctrl_c_while_a_check_runs_kills_what_it_started(server: Server, store: Path, project: Path) -> None:
    """The check and its children end with the run, which is recorded as interrupted."""
    server.script = [say("done")]
    process = spawn(*command(store, project, "--check", "(sleep 50; touch late) & echo > begun; sleep 50"))
    until((project / "begun").exists)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 130
    assert the_run(store)["status"] == "interrupted"
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert "touch late" not in listed


def test_a_second_ctrl_c_ends_at_once(server: Server, store: Path, project: Path) -> None:
    """While the first still waits to record, held up by another process, the second does not wait."""
    server.script = [hang]
    process = spawn(*command(store, project, "--check", "false"))
    until(lambda: server.requests)
    code = "import sys, filelock\nx = filelock.FileLock(sys.argv[1])\nx.acquire(); print(flush=True); input()"
    lock = store / "memory" / ".agenthood.lock"
    with subprocess.Popen(
        [sys.executable, "-c", code, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        process.send_signal(signal.SIGINT)
        until(lambda: the_run(store)["status"] == "interrupted")
        assert process.poll() is None
        start = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
        assert time.monotonic() - start < 2
        holder.kill()
    assert process.returncode == 130
    assert the_run(store)["status"] == "interrupted"


def test_a_killed_run_leaves_a_file_and_a_store_that_can_be_read(
    run: Run, server: Server, store: Path, project: Path
) -> None:
    """After kill -9 the file says `running`, the store opens, and the run can still be given feedback."""
    run("learn", "--episode", "mocked the clock", "--score", "0.9")
    server.script = [hang]
    process = spawn(*command(store, project))
    until(lambda: server.requests)
    process.kill()
    process.communicate()
    assert the_run(store)["status"] == "running"
    assert run("--json", "status").json["lessons"]["learned"] == 1
    assert run("feedback", the_run(store)["id"], "--score", "0").code == 0


def test_a_thread_that_hangs_does_not_hold_up_the_end() -> None:
    """What blocks in a worker thread is left behind, with the exit code the work had."""
    code = (
        "import asyncio, sys, time\n"
        "from agenthood.cli import interrupts\n"
        "interrupts.CLOSING_SECONDS = 0.5\n"
        "async def work():\n"
        "    asyncio.get_running_loop().run_in_executor(None, time.sleep, 60)\n"
        "    print('done')\n"
        "    return 3\n"
        "sys.exit(interrupts.run_to_its_end(work()))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=20, check=False)
    assert (done.returncode, done.stdout) == (3, b"done\n")


def test_a_second_ctrl_c_does_not_ask_the_work() -> None:
    """Work that will not be cancelled, or hangs in a thread, ends with the process."""
    code = (
        "import asyncio, sys\n"
        "from agenthood.cli.interrupts import run_to_its_end\n"
        "async def work():\n"
        "    print('begun', flush=True)\n"
        "    while True:\n"
        "        try:\n"
        "            await asyncio.sleep(60)\n"
        "        except asyncio.CancelledError:\n"
        "            print('cancelled', flush=True)\n"
        "sys.exit(run_to_its_end(work()))\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for expected in (b"begun\n", b"cancelled\n"):
            assert process.stdout.readline() == expected
            process.send_signal(signal.SIGINT)
        assert process.wait(timeout=10) == 130


# -- terminals -------------------------------------------------------------------------------------------------


def test_text_is_streamed_to_a_terminal(server: Server, store: Path, project: Path) -> None:
    """Text shows while it comes, calls on lines of their own, and the answer only once."""
    server.script = [
        say("First I look. ", [Call("read_file", {"path": "a.txt"})]),
        say("It is the clock, and that is all of it.", pause=0.05),
    ]
    with at_terminal(*command(store, project, "--check", "true")) as (process, terminal):
        early = read_terminal(terminal, until="It is")
        assert "that is all" not in early
        shown = early + read_terminal(terminal)
        assert process.wait(timeout=30) == 0
    assert all(request.stream for request in server.requests)
    assert shown.count("It is the clock") == 1
    assert "First I look. \r\n  read_file(path='a.txt')\r\nIt is the clock" in shown
    assert "learned lesson stored" in shown


def test_hostile_output_cannot_steer_the_terminal(server: Server, store: Path, project: Path) -> None:
    """Escape sequences in text, names and arguments of calls, and errors are shown, not obeyed."""
    server.script = [
        say(HOSTILE, [Call("x\x1b[2J", {"pa\x1b]0;th": HOSTILE})]),
        say(HOSTILE),
    ]
    with at_terminal(*command(store, project, "--check", "printf '\\033[2J'; false")) as (process, terminal):
        shown = read_terminal(terminal)
        process.wait(timeout=30)
    for steering in ("\x1b", "\x07", "\u202e", "\x9b"):
        assert steering not in shown
    assert "\r" not in shown.replace("\r\n", "\n")
    assert "\\x1b[2J" in shown


def test_hostile_output_cannot_steer_a_terminal_behind_a_pipe(agent: Run, server: Server) -> None:
    """The answer is made safe for whoever reads it; JSON has the exact text, escaped."""
    server.script = [say(HOSTILE), say(HOSTILE)]
    assert "\x1b" not in agent("--check", "true").out
    done = agent("--json", "--check", "true")
    assert "\x1b" not in done.out
    assert json.loads(done.out)["answer"] == HOSTILE


def test_a_hostile_member_cannot_steer_the_terminal_by_a_dry_run(store: Path, project: Path) -> None:
    """A SKILL.md may hold anything: at a terminal it is shown safely."""
    folder = project / "skills" / "developer"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(
        "---\nname: developer\n---\nBe good.\x1b]0;owned\x07\n", encoding="utf-8"
    )
    with at_terminal(*command(store, project, "--dry-run")) as (process, terminal):
        shown = read_terminal(terminal)
        assert process.wait(timeout=30) == 0
    assert "\x1b" not in shown
    assert "Be good.\\x1b]0;owned" in shown


def test_nobody_reading_is_no_failure_of_the_agent(server: Server, store: Path, project: Path) -> None:
    """A closed pipe ends quietly, and the run is recorded as done."""
    server.script = [say("done")]
    with spawn(*command(store, project, "--check", "true")) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert b"Traceback" not in process.stderr.read()
    assert the_run(store)["status"] == "done"
