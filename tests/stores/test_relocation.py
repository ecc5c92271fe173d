"""Where records go between a directory and a server, and back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenthood.errors import StoreError
from agenthood.scope import LOCAL, Scope
from agenthood.stores.base import SHARED, Collection
from agenthood.stores.checksum import Checksum, digest
from agenthood.stores.relocation import Layer, Origins, Relocation
from agenthood.stores.scoped import into_scope, scoped
from stores.backends import axis, fields, full, record, unit
from stores.hostile import texts

HOME = Scope("acme", "shop")
OUT, BACK = Relocation("to a server", HOME), Relocation("from a server", HOME)
PATTERNS = Collection("patterns_x", 8, typed=True, lexical=True)
names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)


def test_a_directorys_own_records_get_the_home_scope():
    """They lie on the server where the engine of that project looks, and lose nothing."""
    layer, moved = OUT(PATTERNS, full(1))
    assert layer == Layer(scoped(PATTERNS), HOME)
    assert fields(moved) == fields(into_scope(full(1), HOME))
    assert moved.id == "acme/shop//row-00001"


@pytest.mark.parametrize(
    ("scope", "there"),
    [
        (Scope(agent="a"), Scope("acme", "shop", "a")),
        (Scope("globex", "", "a"), Scope("globex", "shop", "a")),
        (Scope(LOCAL, "other"), Scope(LOCAL, "other")),
        (Scope("globex", "other", "a"), Scope("globex", "other", "a")),
    ],
)
def test_who_has_no_project_gets_that_of_the_directory(scope: Scope, there: Scope):
    """A server knows no directory, so a scope without a project would be found by nobody there."""
    layer, moved = OUT(scoped(PATTERNS), into_scope(full(1), scope))
    assert layer.scope == there
    assert fields(moved) == fields(into_scope(full(1), there))


@given(tenant=names.filter(bool), project=names.filter(bool), agent=names, text=texts)
def test_what_goes_to_a_server_comes_back_the_same(tenant: str, project: str, agent: str, text: str):
    """The own records and those of the own agents return to their place, each field of them."""
    home = Scope(tenant, project)
    out, back = Relocation("to a server", home), Relocation("from a server", home)
    row = record("r", text, metadata={"type": "t", "a": 1, "z": 1.0})
    for collection, one in (
        (SHARED, row),
        (scoped(SHARED), into_scope(row, Scope(agent=agent or "a"))),
        (scoped(SHARED), into_scope(row, Scope("x" + tenant, "", agent))),
        (scoped(SHARED), into_scope(row, Scope("x" + tenant, "x" + project, agent))),
        (scoped(SHARED), into_scope(row, Scope(tenant, "x" + project, agent))),
    ):
        there, moved = out(collection, one)
        here, returned = back(there.collection, moved)
        assert here.collection == collection
        assert fields(returned) == fields(one)
        assert list(returned.metadata) == list(one.metadata)


@pytest.mark.parametrize(
    ("scope", "there"),
    [
        (Scope("zeta", "shop"), Scope("zeta")),
        (Scope("zeta", "shop", "a"), Scope("zeta", "", "a")),
        (Scope("zeta", "other"), Scope("zeta", "other")),
        (Scope(LOCAL, "shop"), Scope(LOCAL, "shop")),
        (Scope(LOCAL, "shop", "a"), Scope(LOCAL, "shop", "a")),
    ],
)
def test_what_is_of_the_directorys_project_needs_no_name_there(scope: Scope, there: Scope):
    """Of any tenant; but `local` without a project would be the directory's own, which another tenant's are here."""
    layer, moved = BACK(scoped(PATTERNS), into_scope(full(1), scope))
    assert layer == Layer(scoped(PATTERNS), there)
    assert fields(moved) == fields(into_scope(full(1), there))


def test_who_has_no_project_on_a_server_either_is_not_mixed_up():
    """A tenant with and without the project's name would become one: that is refused."""
    origins = Origins()
    for scope in (Scope("zeta"), Scope("zeta", "shop")):
        layer, _ = BACK(scoped(PATTERNS), into_scope(full(1), scope))
        if scope.project:
            with pytest.raises(StoreError, match="tenant 'zeta' and tenant 'zeta' project 'shop' would both"):
                origins.note(layer, scope)
        else:
            origins.note(layer, scope)


def test_between_two_of_a_kind_everything_stays():
    """Neither collection nor record changes."""
    for collection, row in ((SHARED, full(1)), (scoped(SHARED), into_scope(full(1), HOME))):
        layer, moved = Relocation()(collection, row)
        assert (layer.collection, moved) == (collection, row)


def test_a_server_has_nothing_outside_of_scopes():
    """What nobody can have put there has no place in a directory; it is named."""
    with pytest.raises(StoreError, match=r"'stray'.*belongs to no scope"):
        BACK(SHARED, record("stray"))


def test_two_scopes_never_become_one():
    """The second that comes to the same place is refused, and both are named."""
    origins = Origins()
    origins.note(Layer(scoped(SHARED), HOME), None)
    origins.note(Layer(scoped(PATTERNS), HOME), None)
    with pytest.raises(StoreError, match=r"directory's own and tenant 'acme' project 'shop'.*--project"):
        origins.note(Layer(scoped(PATTERNS), HOME), HOME)


CHANGES: tuple[dict[str, Any], ...] = (
    {"id": "other"},
    {"content": "other"},
    {"created_at": "2026-06-01T00:00:00.001Z"},
    {"terms": None},
    {"terms": ""},
    {"vector": None},
    {"vector": axis(1)},
    {"lexical": None},
    {"metadata": {}},
    {"metadata": dict(reversed(full(1).metadata.items()))},
    {"metadata": {**full(1).metadata, "n": 1}},
    {"metadata": {**full(1).metadata, "n": 1.0}},
    {"metadata": {**full(1).metadata, "n": True}},
    {"metadata": {**full(1).metadata, "n": "1"}},
    {"metadata": {**full(1).metadata, "n": None}},
)


def test_every_field_counts_in_the_checksum():
    """Any change gives another digest, the smallest of a vector too; so does text that moves to the next field."""
    nudged = unit(1)
    nudged[3] *= 1 + 2e-7
    versions = [full(1), *(replace(full(1), **change) for change in CHANGES), replace(full(1), vector=nudged)]
    versions += [record("ab", "c"), record("a", "bc"), record("a:", "b"), record("a", ":b")]
    assert len({digest(one) for one in versions}) == len(versions)
    assert digest(full(1)) == digest(replace(full(1), metadata=dict(full(1).metadata)))


def test_the_order_of_records_does_not_count_but_their_number_does():
    """A sum: the same records in any order, and not one of them twice."""
    sums = [Checksum() for _ in range(3)]
    for one, order in zip(sums, ([1, 2, 3], [3, 1, 2], [1, 2, 3, 3, 3]), strict=True):
        for number in order:
            one.add(digest(full(number)))
    assert sums[0] == sums[1]
    assert str(sums[0]) == str(sums[1])
    assert sums[0] != sums[2]
    assert str(sums[0]) != str(sums[2])
