"""A result directory with its brief, made once for all tests of this directory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from integration.brief.brief_fixture import build_store
from integration.brief.fixed_fixture import PUBLISHED
from integration.checkpoint.checkpoint_fixture import build_checkpoint_store
from integration.object.object_fixture import BLOCK, WARP, build_object_store
from integration.preprocess.preprocess_fixture import build_preprocess_store
from integration.training.training_fixture import build_training_store
from storlab.analysis.compare import Comparison, compare
from storlab.analysis.dataset import load_dataset
from storlab.brief import write_brief
from storlab.lab.results.store import ResultStore

MIXES = (30, 70)


@dataclass(frozen=True)
class Made:
    """A complete campaign and its brief."""

    store: ResultStore
    path: Path

    @property
    def html(self) -> str:
        return self.path.read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def full_store(tmp_path_factory: pytest.TempPathFactory) -> ResultStore:
    return build_store(tmp_path_factory.mktemp("brief") / "full", mixes=MIXES)


@pytest.fixture(scope="session")
def comparison(full_store: ResultStore) -> Comparison:
    return compare(load_dataset([full_store]))


@pytest.fixture(scope="session")
def partial_store(tmp_path_factory: pytest.TempPathFactory) -> ResultStore:
    """Three runs failed, and the campaign was interrupted in its second round of repeats."""
    directory = tmp_path_factory.mktemp("brief") / "partial"
    return build_store(directory, mixes=MIXES, fail=3, stop_after=37)


@pytest.fixture(scope="session")
def made(full_store: ResultStore) -> Made:
    return Made(full_store, write_brief(full_store))


@pytest.fixture(scope="session")
def made_partial(partial_store: ResultStore) -> Made:
    return Made(partial_store, write_brief(partial_store, pdf=False))


@pytest.fixture(scope="session")
def object_store(tmp_path_factory: pytest.TempPathFactory) -> ResultStore:
    directory = tmp_path_factory.mktemp("object") / "full"
    return build_object_store(directory, header=f'published = ["{WARP}"]')


@pytest.fixture(scope="session")
def object_made(object_store: ResultStore) -> Made:
    return Made(object_store, write_brief(object_store))


@pytest.fixture(scope="session")
def object_comparison(object_store: ResultStore) -> Comparison:
    return compare(load_dataset([object_store]))


@pytest.fixture(scope="session")
def two_families(tmp_path_factory: pytest.TempPathFactory) -> Made:
    directory = tmp_path_factory.mktemp("object") / "both"
    store = build_object_store(
        directory, mixes=(30, 90), repeats=2, power=False, ssd="embedded:objects", more=BLOCK
    )
    return Made(store, write_brief(store))


@pytest.fixture(scope="session")
def training_store(tmp_path_factory: pytest.TempPathFactory) -> ResultStore:
    directory = tmp_path_factory.mktemp("training") / "full"
    return build_training_store(directory, header=f'published = ["{PUBLISHED}"]', capacity=True)


@pytest.fixture(scope="session")
def training_made(training_store: ResultStore) -> Made:
    return Made(training_store, write_brief(training_store))


@pytest.fixture(scope="session")
def checkpoint_store(tmp_path_factory: pytest.TempPathFactory) -> ResultStore:
    directory = tmp_path_factory.mktemp("checkpoint") / "full"
    return build_checkpoint_store(directory, header=f'published = ["{PUBLISHED}"]')


@pytest.fixture(scope="session")
def checkpoint_made(checkpoint_store: ResultStore) -> Made:
    return Made(checkpoint_store, write_brief(checkpoint_store))


@pytest.fixture(scope="session")
def preprocess_store(tmp_path_factory: pytest.TempPathFactory) -> ResultStore:
    return build_preprocess_store(tmp_path_factory.mktemp("preprocess") / "full")


@pytest.fixture(scope="session")
def preprocess_made(preprocess_store: ResultStore) -> Made:
    return Made(preprocess_store, write_brief(preprocess_store))
