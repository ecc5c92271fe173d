"""Proposals of members for a task."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from agenthood.embedding.bundled import BundledEmbedder
from agenthood.embedding.testing import HashedEmbedder
from agenthood.learning.calibration import Calibration, reference_texts
from agenthood.runtime.detect import propose
from agenthood.runtime.members import Member, built_in

MEMBERS = built_in()
ENGLISH = [
    ("review the last commit for security problems", "reviewer"),
    ("fix the crash when the config file is empty", "developer"),
    ("write test cases for the login form", "qa"),
    ("plan the migration from SQLite to Postgres", "architect"),
    ("refactor the parser into smaller functions", "developer"),
]
OTHERS = [
    ("tulis ujian untuk borang pendaftaran", "qa"),
    ("reka bentuk seni bina sistem pembayaran", "architect"),
    ("betulkan pepijat dalam fungsi log masuk", "developer"),
    ("审查这次提交的代码变更", "reviewer"),
    ("修复登录页面的错误", "developer"),
    ("为注册表单编写测试用例", "qa"),
    ("设计支付系统的架构", "architect"),
]


@pytest.fixture(scope="module")
async def bundled() -> AsyncIterator[tuple[BundledEmbedder, Calibration]]:
    """The bundled embedder and its calibration."""
    embedder = BundledEmbedder()
    yield embedder, Calibration.fit(await embedder.embed(reference_texts()))
    await embedder.aclose()


@pytest.mark.parametrize(("task", "expected"), ENGLISH)
async def test_shared_words_decide_without_an_embedder(task: str, expected: str) -> None:
    """The member whose words the task uses comes first, and the words are named as they stand in the task."""
    first = (await propose(task, MEMBERS))[0]
    assert first.member.name == expected
    named = first.why.removeprefix("matches ").partition(";")[0].partition(" and ")[0].split(", ")
    assert named
    assert all(word in task for word in named)


@pytest.mark.parametrize(("task", "expected"), ENGLISH + OTHERS)
async def test_meaning_decides_across_languages(
    task: str, expected: str, bundled: tuple[BundledEmbedder, Calibration]
) -> None:
    """With the bundled embedder tasks in Malay and Chinese find their member, without a common word."""
    embedder, calibration = bundled
    proposals = await propose(task, MEMBERS, embedder=embedder, calibration=calibration)
    assert proposals[0].member.name == expected
    assert len(proposals) == 3
    assert all(0 <= one.score <= 1 and one.why for one in proposals)
    assert [one.score for one in proposals] == sorted((one.score for one in proposals), reverse=True)


async def test_nothing_in_common_gives_nothing() -> None:
    """Without words to compare, and for no task or no members, nobody is proposed."""
    assert await propose("zzz qqq", MEMBERS) == []
    assert await propose("  ", MEMBERS) == []
    assert await propose("review", []) == []
    assert await propose("review", MEMBERS, limit=0) == []


async def test_equal_scores_keep_the_order() -> None:
    """Of members that say the same the first one given comes first, every time."""
    twins = [Member("twin", "Reviews changes", f"Look {n}.", "built in") for n in range(3)]
    for members in (twins, twins[::-1]):
        proposals = await propose("review the changes", members)
        assert [one.member for one in proposals] == members


async def test_headings_of_the_prompt_count() -> None:
    """A word that only stands in a heading of the prompt is found."""
    member = Member("m", "", "Text.\n\n## Kubernetes manifests\n\nMore.", "built in")
    proposals = await propose("kubernetes upgrade", [*MEMBERS, member])
    assert proposals[0].member == member
    assert proposals[0].why.startswith("matches kubernetes")


async def test_an_embedder_that_fails_is_done_without() -> None:
    """With the embedder down wording decides, as without one."""
    task = "review the last commit"
    assert await propose(task, MEMBERS, embedder=HashedEmbedder(fail_after=0)) == await propose(task, MEMBERS)
