"""Where `agenthood store check` takes place: collections of its own, two handles, and records of all kinds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from agenthood.stores.base import LEXICAL_DIMENSION, Collection, Record
from agenthood.stores.checksum import digest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from agenthood.stores.base import Vector, VectorStore
    from agenthood.stores.filters import Filter

DIMENSION: Final = 8
CREATED = "2026-06-0{}T00:00:00.000Z"
TEXTS: Final = (
    "plain",
    'it\'s 100% a_b\\c "quoted" {json} [list]',
    "naïve café Ünïcødé",
    "北京大学很好",
    "👩‍💻 مرحبا",
    "line\nbreak\ttab\r\n",
    " spaces around ",
    "x" * 20_000,
)


class UnmetError(Exception):
    """A promise was not kept; says what was expected and what was found."""


class Ground:
    """Where the checks take place.

    Attributes:
        store: what is written through.
        other: another handle of the same store, to read through.
        typed: a collection of our own kind, made by the checks.
    """

    def __init__(self, store: VectorStore, other: VectorStore, name: str) -> None:
        """Args: two handles of one store, and a name that no collection has."""
        self.store = store
        self.other = other
        self._name = name
        self._made = 0
        self.typed = self.fresh()

    def fresh(self) -> Collection:
        """A collection that is not there yet."""
        self._made += 1
        return Collection(f"{self._name}_{self._made}", DIMENSION, typed=True, lexical=True)

    async def reach(self) -> None:
        """Make a collection, and see it through the other handle."""
        await self.store.ensure_collection(self.typed)
        self.expect("a new collection", self.typed, await self.other.find(self.typed))

    async def left(self) -> set[str]:
        """The names of the collections these checks made that are there."""
        names = {one.name for one in await self.other.collections()}
        return {name for name in names if name.removeprefix("scoped_").startswith(f"{self._name}_")}

    async def remove(self) -> None:
        """Remove them."""
        for name in sorted(await self.left()):
            await self.store.drop_collection(name)

    async def close(self) -> None:
        """Close both handles."""
        await self.store.close()
        await self.other.close()

    @staticmethod
    def expect(what: str, expected: object, found: object) -> None:
        """Fail unless the two are equal.

        Raises:
            UnmetError: they are not.
        """
        if expected != found:
            raise UnmetError(f"{what}: expected {_shown(expected)}, found {_shown(found)}")

    async def expect_rows(self, what: str, collection: Collection, rows: Iterable[Record]) -> None:
        """Fail unless `get`, `scan`, `ids` and `count` all give exactly these records, each field of them.

        Raises:
            UnmetError: they do not.
        """
        expected = {row.id: row for row in rows}
        got = await self.other.get(collection, list(expected), vectors=True)
        scanned = await scan_all(self.other, collection, None)
        self.expect(f"{what}, by id", set(expected), set(got))
        self.expect(f"{what}, by scan", sorted(expected), sorted(row.id for row in scanned))
        self.expect(f"{what}, ids", set(expected), await self.other.ids(collection))
        self.expect(f"{what}, count", len(expected), await self.other.count(collection))
        for row in [*got.values(), *scanned]:
            if digest(row) != digest(expected[row.id]):
                raise UnmetError(
                    f"{what}: expected {shown_fields(expected[row.id])}, found {shown_fields(row)}"
                )


def _shown(value: object) -> str:
    """The value, of fixed order and bounded length."""
    if isinstance(value, set):
        value = sorted(value, key=repr)
    return f"{value!r:.200}"


def shown_fields(row: Record) -> str:
    """The fields of a record, each cut to what tells it apart."""
    vectors = ["none" if one is None else one[:4].tolist() for one in (row.vector, row.lexical)]
    texts = (row.id, row.content, dict(row.metadata), row.created_at, row.terms)
    return " ".join([*(f"{text!r:.100}" for text in texts), str(vectors)])


async def scan_all(store: VectorStore, collection: Collection, condition: Filter | None) -> list[Record]:
    """All records that `scan` gives, with vectors."""
    found = store.scan(collection, condition=condition, vectors=True)
    return [row async for batch in found for row in batch]


def sample(number: int, **changes: object) -> Record:
    """A record with all fields, different for each number; most of them alike in some."""
    numbers = np.random.default_rng(number)
    metadata: dict[str, object] = {
        "type": "check",
        "kind": ("learned", "antipattern")[number % 2],
        "member": f"member {number % 3}",
        "z": number,
        "a": number / 4,
        "none": None,
        "yes": number % 2 == 0,
    }
    row = Record(
        id=f"row-{number:03d}",
        content=TEXTS[number % len(TEXTS)],
        metadata=metadata,
        created_at=CREATED.format(1 + number % 5),
        vector=_unit(numbers, DIMENSION),
        lexical=_unit(numbers, LEXICAL_DIMENSION),
        terms=f"all word{number} third{number % 3}",
    )
    return replace(row, **changes)  # type: ignore[arg-type]


def _unit(numbers: np.random.Generator, dimension: int) -> Vector:
    values = numbers.standard_normal(dimension)
    return np.asarray(values / np.linalg.norm(values), dtype=np.float32)


def axis_vector(position: int) -> Vector:
    """float32 (DIMENSION,) along one axis, of length 1."""
    vector = np.zeros(DIMENSION, dtype=np.float32)
    vector[position] = 1
    return vector
