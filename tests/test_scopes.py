"""Scopes from the front door: agents of a project, the layer they share, tenants; and a user who names none."""

from __future__ import annotations

import asyncio
import io
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import agenthood
from agenthood.embedding.testing import HashedEmbedder
from agenthood.errors import ConfigError
from agenthood.stores.base import SHARED
from agenthood.stores.settings import EMBEDDED
from agenthood.stores.testing import WRITES, Fault
from cli_support import spawn
from engines import ENGINES, engine
from hoods import bodies, good, opened, shared_rows, small
from outages import FaultyHood
from stores.backends import everything, fields
from stores.qdrant_local import remove_qdrant

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from agenthood.engine import AsyncHood

MINE = "rotated the key of the payment gateway by hand"
YOURS = "wrote the changelog of the release in Malay"
OURS = "fixed the flaky login test by mocking the clock"


class Project:
    """One project on one backend, opened by whoever is named."""

    def __init__(self, backend: str, folder: Path) -> None:
        self.backend = backend
        self.folder = folder / "shop"

    def open(self, agent: str | None = None, embedder: Any = None, **options: Any) -> AsyncHood:
        """What `agent` sees; without one what all share."""
        return engine(self.backend, self.folder, embedder, agent=agent, **options)

    async def raw(self) -> list[Any]:
        """All rows of all scopes, as they are stored."""
        async with self.open() as hood:
            store: Any = hood.store
            while hasattr(store, "inner"):
                store = store.inner
            found = [
                (one.name, *fields(row), list(row.metadata))
                for one in await store.collections()
                for row in await everything(store, one)
            ]
        return sorted(found, key=repr)


@pytest.fixture(params=ENGINES)
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Project]:
    """A project on each backend; on embedded ones the directory's own records are what agents share."""
    yield Project(request.param, tmp_path)
    remove_qdrant(tmp_path / "shop")


async def _all_seen(hood: AsyncHood) -> str:
    """Everything that a hood shows of what was learned, by whatever way."""
    file = io.StringIO()
    await hood.export(file)
    async with hood.session("gateways, changelogs and logins", limit=20) as session:
        block = session.block
        session.end("looked")
    shown = [
        [one.text for one in await hood.recall(text, threshold=0, limit=50)] for text in (MINE, YOURS, OURS)
    ]
    archived = await hood.lessons(tier="archive")
    hints = await asyncio.to_thread(hood.residual.to_prompt_hints)
    kept = [
        await hood.lessons(),
        archived,
        await hood.episodic.recall(limit=100),
        await hood.long_term.keys(),
    ]
    return repr([shown, block, file.getvalue(), hints, kept, await hood.status()])


async def test_what_an_agent_learns_for_itself_nobody_else_sees(project: Project):
    """Not in a recall, a list, a block, an export, hints or figures; and nobody else can forget or archive it."""
    async with project.open("A") as hood:
        mine = await hood.learn(MINE, score=0.9, outcome="gateway outcome")
        await hood.learn(OURS, score=0.9, shared=True)
    async with project.open("B") as hood:
        await hood.learn(YOURS, score=0.9)
        seen = await _all_seen(hood)
        assert OURS in seen
        assert YOURS in seen
        assert "gateway outcome" not in seen
        assert MINE not in seen
        assert [one.text for one in await hood.lessons()] == [YOURS]
        assert (await hood.status()).lessons == {"learned": 1, "antipattern": 0}
        assert MINE not in [one.text for one in await hood.recall(MINE, threshold=0, limit=50)]

    async def of_others() -> list[Any]:
        return [row for row in await project.raw() if row[3].get("agent_id") != "B"]

    before = await of_others()
    async with project.open("B", start_migration=False) as hood:
        assert (await hood.forget(mine.id or "", episodes=True)).missing == (mine.id,)
        assert (await hood.archive(mine.id or "")).missing == (mine.id,)
        assert (await hood.pin(mine.id or "")).missing == (mine.id,)
    assert await of_others() == before
    async with project.open("A") as hood:
        assert [one.text for one in await hood.lessons()] == [MINE]
        assert [(one.text, one.shared) for one in await hood.recall(MINE, limit=1)] == [(MINE, False)]
        assert "Malay" not in await _all_seen(hood)


async def test_what_is_learned_for_all_is_seen_by_all(project: Project):
    """Also in the block of a session, marked as shared; whoever names no agent learns for all."""
    async with project.open("A") as hood:
        receipts = await hood.learn_many([good(OURS)], shared=True)
        assert [one.status for one in receipts] == ["stored"]
        assert await hood.lessons() == []
    async with project.open() as hood:
        assert [one.text for one in await hood.lessons()] == [OURS]
        await hood.learn(YOURS, score=0.9, shared=True)  # where nothing else is, it is no other place
        assert [one.shared for one in await hood.recall(OURS)] == [False]
    for agent in ("A", "B"):
        async with project.open(agent) as hood:
            for text in (OURS, YOURS):
                assert [(one.text, one.shared) for one in await hood.recall(text, limit=1)] == [(text, True)]
            async with hood.session(OURS) as session:
                assert OURS in session.block


async def test_evidence_of_private_and_shared_never_mix(project: Project):
    """One lesson known twice is shown once, as one's own, with one's own evidence; forgotten, the other shows."""
    async with project.open("A") as hood:
        for number in range(3):
            receipt = await hood.learn(OURS, score=0.9, shared=number == 2)
        assert receipt.evidence == 1
        (found,) = await hood.recall(OURS)
        assert (found.evidence, found.shared) == (2, False)
    async with project.open("B") as hood:
        (found,) = await hood.recall(OURS)
        assert (found.evidence, found.shared) == (1, True)
    async with project.open("A") as hood:
        assert len((await hood.forget(receipt.id or "", episodes=True)).episodes) == 2
        (found,) = await hood.recall(OURS)
        assert (found.evidence, found.shared) == (1, True)
    async with project.open() as hood:
        assert (await hood.forget(receipt.id or "", episodes=True)).lessons == (receipt.id,)
    async with project.open("A") as hood:
        assert len(await hood.recall(OURS)) == 0


async def test_forgetting_what_all_share_leaves_what_is_ones_own(project: Project):
    """Every row of an agent stays byte for byte, its index row of the same text among them, and is found."""
    async with project.open("A") as hood:
        await hood.learn(OURS, score=0.9)
        receipt = await hood.learn(OURS, score=0.9, shared=True)

    async def of_agent() -> list[Any]:
        return [row for row in await project.raw() if row[3].get("agent_id") == "A"]

    before = await of_agent()
    assert len(before) >= 3
    async with project.open() as hood:
        await hood.forget(receipt.id or "", episodes=True)
        await hood.maintain()
    assert await of_agent() == before
    async with project.open("A", start_migration=False) as hood:
        (found,) = await hood.recall(OURS)
        assert (found.semantic, found.shared) == (True, False)


async def test_a_tenant_nobody_wrote_for_finds_nothing_and_says_so(project: Project):
    """Neither what others have nor silence: the reason names whom it was looked for."""
    async with project.open("A") as hood:
        await hood.learn(OURS, score=0.9, shared=True)
    for _ in range(2):  # also after it was opened once
        async with project.open("A", tenant="nobody") as hood:
            found = await hood.recall(OURS, threshold=0)
            assert not found
            assert "nothing is stored for tenant 'nobody'" in found.reason
            assert "agent 'A'" in found.reason
    async with project.open("A", tenant="nobody") as hood:
        assert OURS not in await _all_seen(hood)
    async with project.open("A", project="another") as hood:
        assert not await hood.recall(OURS, threshold=0)
    with pytest.raises(ConfigError, match="without a tenant sees nothing"):
        await project.open(tenant="").start()


async def test_upkeep_of_an_agent_counts_the_uses_of_each_layer(project: Project):
    """A use of a shared lesson counts for that, one of a private lesson for this; both are looked after."""
    async with project.open("A") as hood:
        await hood.learn(MINE, score=0.9)
        await hood.learn(OURS, score=0.9, shared=True)
        assert len(await hood.recall(MINE, limit=1)) == len(await hood.recall(OURS, limit=1)) == 1
        await hood.recall(OURS, limit=1)
    async with project.open("B") as hood:
        await hood.recall(OURS, limit=1)
        report = await hood.maintain()
        assert report.lessons.uses == 3
        kept_up = [name.removeprefix("shared ") for name in report.collections]
        # Tables that the directory has for itself are kept up beside those that scopes share; no table twice.
        twice = {SHARED.name, hood.index.main.name} if project.backend in EMBEDDED else set()
        assert {name for name in kept_up if kept_up.count(name) > 1} == twice
    async with project.open("A") as hood:
        assert (await hood.maintain()).lessons.uses == 1
        assert [(one.text, one.uses) for one in await hood.lessons()] == [(MINE, 1)]
    async with project.open() as hood:
        assert [(one.text, one.uses) for one in await hood.lessons()] == [(OURS, 3)]


async def test_a_change_of_model_reaches_every_layer(project: Project):
    """Opened with another model an agent's lessons and the shared ones are indexed; another agent's wait for it."""
    for agent, text in (("A", MINE), ("B", YOURS)):
        async with project.open(agent) as hood:
            await hood.learn(text, score=0.9)
            await hood.learn(OURS, score=0.9, shared=True)
    new = {"embedder": small(revision="two")}
    async with project.open("A", **new) as hood:
        assert hood.migration is not None
        assert (hood.migration.embedded, hood.migration.complete) == (2, True)
        assert (await hood.migrate(drop_old=True)).complete
        for text in (MINE, OURS):
            (found,) = await hood.recall(text, limit=1)
            assert (found.text, found.semantic) == (text, True)
    async with project.open("B") as hood:  # its own index of the former model is still there
        assert (await hood.recall(YOURS, limit=1))[0].semantic
    async with project.open("B", **new) as hood:
        assert hood.migration is not None
        assert hood.migration.embedded == 1
    async with project.open() as hood:  # with the former model
        await hood.learn("pinned the compiler", score=0.9)
    async with project.open("A", **new) as hood:
        assert hood.migration is not None
        assert hood.migration.embedded == 1
        assert (await hood.recall("pinned the compiler", limit=1))[0].semantic


async def test_an_embedder_that_comes_back_catches_up_in_every_layer(tmp_path: Path):
    """What was learned meanwhile, privately and for all, is findable by meaning at the next recall."""
    embedder = small(fail_after=0)
    async with opened(tmp_path, embedder, agent="A") as hood:
        receipts = [await hood.learn(MINE, score=0.9), await hood.learn(OURS, score=0.9, shared=True)]
        assert [one.status for one in receipts] == ["pending"] * 2
        embedder.fail_after = None
        found = [(await hood.recall(text, limit=1))[0] for text in (MINE, OURS)]
        assert [(one.text, one.semantic) for one in found] == [(MINE, True), (OURS, True)]
        assert (await hood.status()).pending == 0


async def test_what_waits_is_learned_where_it_belongs(tmp_path: Path):
    """Episodes queued while the store was down go to the layer they were for, when that is opened again."""
    async with FaultyHood(tmp_path, agent="A", deadline=5) as hood:
        hood.faulty.break_down(Fault("fail"), WRITES)
        receipts = [await hood.learn(MINE, score=0.9), await hood.learn(OURS, score=0.9, shared=True)]
        assert [(one.status, one.id) for one in receipts] == [("pending", None)] * 2
        assert (await hood.status()).queued == 1
    async with opened(tmp_path, agent="B") as hood:  # it shares the one, and knows nothing of the other
        assert await hood.lessons() == []
        assert [one.text for one in await hood.recall(OURS)] == [OURS]
        assert not [one for one in await hood.recall(MINE, threshold=0) if one.text == MINE]
    async with opened(tmp_path, agent="A") as hood:
        assert [one.text for one in await hood.lessons()] == [MINE]
        assert (await hood.status()).queued == 0


@pytest.mark.parametrize("backend", ["lancedb", "sqlite"])
def test_agents_in_processes_of_their_own(tmp_path: Path, backend: str, monkeypatch: pytest.MonkeyPatch):
    """Two that begin a store at once each find what is theirs and what both share."""
    monkeypatch.setenv("AGENTHOOD_EMBEDDER", "lexical")
    monkeypatch.setenv("AGENTHOOD_VECTOR_BACKEND", backend)
    place = ("--dir", tmp_path / ".agenthood")
    running = []
    for agent, text in (("A", MINE), ("B", YOURS)):
        monkeypatch.setenv("AGENTHOOD_AGENT", agent)
        running.append(spawn("learn", "--episode", text, "--score", "0.9", *place))
    for process in running:
        out, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, b""), err
        assert out.startswith(b"stored")
    monkeypatch.delenv("AGENTHOOD_AGENT")
    with agenthood.open(place[1]) as hood:
        assert hood.lessons() == []
        hood.learn(OURS, score=0.9)
    for agent, own in (("A", MINE), ("B", YOURS)):
        with agenthood.open(place[1], agent=agent) as hood:
            assert [one.text for one in hood.lessons()] == [own]
            found = {(one.text, one.shared) for one in hood.recall(f"{MINE} {YOURS} {OURS}", threshold=0)}
            assert found == {(own, False), (OURS, True)}


async def test_patterns_of_a_scope_are_in_no_table_of_keys_and_values(tmp_path: Path):
    """Also at the dimension of the TypeScript program, which reads none of it: where a scope's rows are counts once."""
    async with opened(tmp_path, HashedEmbedder(), agent="A") as hood:
        await hood.learn(MINE, score=0.9)
        assert {id_.partition(":")[0] for id_ in await shared_rows(hood)} == {
            "ltm",
            "ep",
            "__index_version__",
        }
        assert [one.semantic for one in await hood.recall(MINE)] == [True]
    async with opened(tmp_path, HashedEmbedder()) as hood:
        await hood.learn(OURS, score=0.9)
        assert [id_ for id_ in await shared_rows(hood) if id_.startswith("pattern:")]


# -- who names no scope --------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["lancedb", "sqlite"])
async def test_who_names_no_scope_never_notices_that_there_are_any(tmp_path: Path, backend: str):
    """Rows keep the shape they had without scopes, whatever agents do beside; names of the defaults mean the same."""
    project = Project(backend, tmp_path)
    async with project.open() as hood:
        await hood.learn(OURS, score=0.9)
        rows = await shared_rows(hood)
        assert {tuple(row.metadata) for id_, row in rows.items() if id_.startswith("ltm:learnings/")} == {
            ("type", "key", "storedAt")
        }
        assert {tuple(row.metadata) for id_, row in rows.items() if id_.startswith("ep:")} == {
            ("type", "recordedAt")
        }
        names = {one.name for one in await hood.store.collections()}
        assert (await hood.status()).scope == ""
    before = await project.raw()
    assert {row[0] for row in before} == names
    async with project.open("A", tenant="acme", project="x") as hood:
        await hood.learn(MINE, score=0.9)
        await hood.learn(MINE, score=0.9, shared=True)
        await hood.forget(*[one.id for one in await hood.lessons()])
        await hood.maintain()
    assert [row for row in await project.raw() if row[0] in names] == before
    async with project.open("A") as hood:
        await hood.learn(MINE, score=0.9)
    async with project.open(tenant="local") as hood:
        assert [one.text for one in await hood.lessons()] == [OURS]
        assert (await hood.forget(*[one.id for one in await hood.lessons()])).missing == ()
    async with project.open("A") as hood:
        assert [one.text for one in await hood.lessons()] == [MINE]
    files = {path.name.partition(".")[0] for path in (tmp_path / "shop" / ".agenthood").iterdir()}
    assert files <= {"memory", "residual", "scopes", "uses"}


@pytest.mark.parametrize("backend", ["lancedb", "sqlite"])
async def test_a_directory_that_is_moved_keeps_everything(tmp_path: Path, backend: str):
    """The directory's own lessons and those of its agents are there under the new name."""
    project = Project(backend, tmp_path)
    async with project.open("A") as hood:
        await hood.learn(MINE, score=0.9)
        await hood.learn(OURS, score=0.9, shared=True)
        signals = [one.text for one in await asyncio.to_thread(hood.residual.get_active)]
        assert signals
    before = await project.raw()
    shutil.move(project.folder, tmp_path / "renamed")
    project.folder = tmp_path / "renamed"
    assert await project.raw() == before
    async with project.open("A") as hood:
        assert [one.text for one in await hood.lessons()] == [MINE]
        assert [(one.text, one.shared) for one in await hood.recall(OURS, limit=1)] == [(OURS, True)]
        assert [one.text for one in await asyncio.to_thread(hood.residual.get_active)] == signals


@pytest.mark.parametrize("way", ["", "a/../", "./"])
async def test_on_a_server_a_directory_is_a_project(tmp_path: Path, way: str):
    """Its name is the project, however it is written; the same name in another place is the same project."""
    database = {"database": tmp_path}
    (tmp_path / "x" / "shop" / "a").mkdir(parents=True)
    async with engine("postgres", tmp_path / "x" / "shop", **database) as hood:
        await hood.learn(OURS, score=0.9)
        assert (await hood.status()).scope == "tenant 'local' project 'shop'"
        assert await hood.store.count(SHARED) == len(await bodies(hood, ""))
    async with engine("postgres", tmp_path / "x" / "shop" / way, **database) as hood:
        assert [one.text for one in await hood.lessons()] == [OURS]
    async with engine("postgres", tmp_path / "y" / "shop", **database) as hood:
        assert [one.text for one in await hood.recall(OURS, limit=1)] == [OURS]
        assert (await hood.maintain()).lessons.uses == 1  # though nothing was in that directory
    async with engine("postgres", tmp_path / "other", **database) as hood:
        assert await hood.lessons() == []
    async with engine("postgres", tmp_path / "other", project="shop", **database) as hood:
        assert [one.text for one in await hood.lessons()] == [OURS]
