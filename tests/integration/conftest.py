"""Result directories with their briefs, each made once for all tests and processes."""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from conftest import locked, need_chromium
from integration.brief.brief_fixture import build_store
from integration.brief.fixed_fixture import PUBLISHED
from integration.checkpoint.checkpoint_fixture import build_checkpoint_store
from integration.gpudirect.gpudirect_fixture import build_gpudirect_store
from integration.object.object_fixture import BLOCK, WARP, build_object_store
from integration.preprocess.preprocess_fixture import build_preprocess_store
from integration.training.training_fixture import build_training_store
from storlab.analysis.compare import Comparison, compare
from storlab.analysis.dataset import load_dataset
from storlab.brief import write_brief
from storlab.results.store import ResultStore
from support.cluster_campaign import cluster_campaign

MIXES = (30, 70)
LIMIT_MS = 180_000  # for a browser on a busy machine; speed is not tested


@dataclass(frozen=True)
class Made:
    """A complete campaign and its brief."""

    store: ResultStore
    path: Path

    @property
    def html(self) -> str:
        return self.path.read_text(encoding="utf-8")


class Shared:
    """Data shared by all processes of a test run.

    The first process to request an item makes it; others wait.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def store(self, name: str, build: Callable[[Path], object]) -> ResultStore:
        place, done = self.root / name, self.root / f"{name}.done"
        place.parent.mkdir(exist_ok=True)
        with self._alone_with(place):
            if not done.exists():
                build(place)
                done.touch()
        return ResultStore.open(place)

    def brief(self, store: ResultStore, *, pdf: bool = True) -> Made:
        made = store.directory / "brief.html"
        with self._alone_with(store.directory):
            return Made(store, made if made.exists() else write_brief(store, pdf=pdf))

    def _alone_with(self, place: Path) -> AbstractContextManager[None]:
        lock = place.with_name(f"{place.name}.lock")
        lock.touch()
        return locked(lock, fcntl.LOCK_EX)


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Shared:
    base = tmp_path_factory.getbasetemp()
    root = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared"
    root.mkdir(exist_ok=True)
    return Shared(root)


@pytest.fixture(scope="session")
def full_store(shared: Shared) -> ResultStore:
    return shared.store("brief/full", lambda place: build_store(place, mixes=MIXES))


@pytest.fixture(scope="session")
def comparison(full_store: ResultStore) -> Comparison:
    return compare(load_dataset([full_store]))


@pytest.fixture(scope="session")
def partial_store(shared: Shared) -> ResultStore:
    """Provide a store with three failed runs, interrupted in its second round of repeats."""
    return shared.store(
        "brief/partial", lambda place: build_store(place, mixes=MIXES, fail=3, stop_after=37)
    )


@pytest.fixture(scope="session")
def made(shared: Shared, full_store: ResultStore) -> Made:
    return shared.brief(full_store)


@pytest.fixture(scope="session")
def made_partial(shared: Shared, partial_store: ResultStore) -> Made:
    return shared.brief(partial_store, pdf=False)


@pytest.fixture(scope="session")
def object_store(shared: Shared) -> ResultStore:
    header = f'published = ["{WARP}"]'
    return shared.store("object/full", lambda place: build_object_store(place, header=header))


@pytest.fixture(scope="session")
def object_made(shared: Shared, object_store: ResultStore) -> Made:
    return shared.brief(object_store)


@pytest.fixture(scope="session")
def object_comparison(object_store: ResultStore) -> Comparison:
    return compare(load_dataset([object_store]))


def _cluster(shared: Shared, name: str, **more: str) -> Made:
    def build(place: Path) -> object:
        return cluster_campaign(place, **more)  # type: ignore[arg-type]

    return shared.brief(shared.store(f"cluster/{name}", build))


@pytest.fixture(scope="session")
def cluster_made(shared: Shared) -> Made:
    """Provide six clients at several queue depths."""
    return _cluster(shared, "full")


@pytest.fixture(scope="session")
def swept_clients_made(shared: Shared) -> Made:
    """Provide a sweep over clients and queue depths."""
    return _cluster(shared, "swept", clients="[1, 3, 6]", depths="[1, 16]")


@pytest.fixture(scope="session")
def only_clients_made(shared: Shared) -> Made:
    """Provide a sweep over clients only."""
    return _cluster(shared, "clients", clients="[1, 3, 6]", depths="4")


@pytest.fixture(scope="session")
def two_families(shared: Shared) -> Made:
    def build(place: Path) -> object:
        return build_object_store(
            place, mixes=(30, 90), repeats=2, power=False, ssd="embedded:objects", more=BLOCK
        )

    return shared.brief(shared.store("object/both", build))


@pytest.fixture(scope="session")
def training_store(shared: Shared) -> ResultStore:
    header = f'published = ["{PUBLISHED}"]'
    return shared.store(
        "training/full", lambda place: build_training_store(place, header=header, capacity=True)
    )


@pytest.fixture(scope="session")
def training_made(shared: Shared, training_store: ResultStore) -> Made:
    return shared.brief(training_store)


@pytest.fixture(scope="session")
def checkpoint_store(shared: Shared) -> ResultStore:
    header = f'published = ["{PUBLISHED}"]'
    return shared.store(
        "checkpoint/full", lambda place: build_checkpoint_store(place, header=header)
    )


@pytest.fixture(scope="session")
def checkpoint_made(shared: Shared, checkpoint_store: ResultStore) -> Made:
    return shared.brief(checkpoint_store)


@pytest.fixture(scope="session")
def preprocess_store(shared: Shared) -> ResultStore:
    return shared.store("preprocess/full", build_preprocess_store)


@pytest.fixture(scope="session")
def preprocess_made(shared: Shared, preprocess_store: ResultStore) -> Made:
    return shared.brief(preprocess_store)


@pytest.fixture(scope="session")
def gpudirect_store(shared: Shared) -> ResultStore:
    return shared.store("gpudirect/full", build_gpudirect_store)


@pytest.fixture(scope="session")
def gpudirect_made(shared: Shared, gpudirect_store: ResultStore) -> Made:
    return shared.brief(gpudirect_store)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=LIMIT_MS)
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=need_chromium(), args=arguments)
        yield chromium
        chromium.close()


@pytest.fixture
def hangups_end_programs() -> Iterator[None]:
    """Restore SIGHUP: under nohup, programs started by tests would ignore it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)
