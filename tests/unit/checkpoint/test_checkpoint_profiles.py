"""Checkpoint profiles: published totals and counts, and user profiles."""

from __future__ import annotations

from pathlib import Path

import pytest

from storlab.base.errors import StudyError
from storlab.workloads.checkpoint.profiles import (
    SAFETENSORS_HEADER,
    Profile,
    files_of,
    load_profile,
    profile_names,
    scaled,
)

GIB = 1 << 30


def by_rank(profile: Profile) -> dict[int, int]:
    sums: dict[int, int] = {}
    for file in profile.files:
        sums[file.rank] = sums.get(file.rank, 0) + file.bytes
    return sums


@pytest.mark.parametrize(
    ("name", "ranks", "files", "total", "model", "least", "most"),
    [
        ("llama3-8b", 8, 16, 104.7, 15, 13.1, 13.1),
        ("llama3-70b", 64, 128, 911, 130, 14.2, 14.2),
        ("llama3-405b", 512, 1544, 5292, 756, 8.9, 12.3),
        ("llama3-1t", 1024, 2072, 15425, 2204, 12.9, 18.0),
    ],
)
def test_mlperf_storage_models_come_out_as_published(
    name: str, ranks: int, files: int, total: float, model: float, least: float, most: float
) -> None:
    profile = load_profile(name)
    assert (profile.ranks, len(profile.files)) == (ranks, files)
    assert f"{profile.total_bytes / GIB:.1f}" == f"{total:.1f}" or total == round(
        profile.total_bytes / GIB
    )
    weights = sum(f.bytes for f in profile.files if f.name.endswith("model_states.pt"))
    assert round(weights / GIB) == model
    sums = by_rank(profile)
    assert len(sums) == ranks
    assert (round(min(sums.values()) / GIB, 1), round(max(sums.values()) / GIB, 1)) == (least, most)


def test_the_subset_is_the_first_ranks() -> None:
    """Check the rank order: tensor-parallel part, then stage, then replica."""
    profile = load_profile("llama3-405b")
    files = files_of(profile, "profile", 1, 8)
    assert {file.rank for file in files} == set(range(8))
    own = [file.name for file in files if file.rank == 3]
    assert own == [
        *[f"layer_{layer}-model_3_model_states.pt" for layer in range(5)],
        "zero_pp_rank_0_mp_rank_3_optim_states.pt",
    ]
    last = [file.name for file in profile.files if file.rank == 255]
    assert last[:-1] == [f"layer_{n}-model_255_model_states.pt" for n in (124, 125, 126, 127, 128)]
    replica = [file.name for file in profile.files if file.rank == 256]
    assert replica == ["zero_pp_rank_1_mp_rank_0_optim_states.pt"]


def test_every_parameter_is_in_one_file() -> None:
    profile = load_profile("llama3-8b")
    parameters = 8_030_261_248  # as published for Llama 3 8B
    assert profile.total_bytes == 14 * parameters


def test_the_two_of_the_published_study() -> None:
    server = load_profile("llama3-405b-8gpu-415gb")
    assert (server.ranks, len(server.files), server.total_bytes) == (8, 8, 415_200_000_000)
    tool = load_profile("llama3-405b-352-files")
    assert (tool.ranks, len(tool.files), tool.total_bytes // 10**9) == (8, 352, 437)
    small = [file for file in tool.files if file.bytes == 16 << 10]
    layers = [file for file in tool.files if file.name.startswith("layer_")]
    assert (len(small), len(layers), {file.rank for file in layers}) == (8, 336, {0, 1, 2, 3})


@pytest.mark.parametrize("name", profile_names())
def test_every_profile_says_where_it_comes_from(name: str) -> None:
    profile = load_profile(name)
    assert profile.title
    assert profile.source
    names = [file.name for file in profile.files]
    assert len(set(names)) == len(names)


def test_layouts_move_the_same_data() -> None:
    profile = load_profile("llama3-405b-352-files")
    ranks = files_of(profile, "file_per_rank", 1, None)
    assert [(file.name, file.rank) for file in ranks[:2]] == [
        ("rank0000.bin", 0),
        ("rank0001.bin", 1),
    ]
    assert {file.rank: file.bytes for file in ranks} == by_rank(profile)
    tensors = files_of(profile, "safetensors", 1, None)
    assert tensors[0].name == "model_states-0.safetensors"
    more = sum(file.bytes for file in tensors) - profile.total_bytes
    assert more == SAFETENSORS_HEADER * len(profile.files)


def test_scaling_shrinks_every_file_and_empties_none() -> None:
    profile = load_profile("llama3-405b-352-files")
    small = files_of(profile, "profile", 0.00001, None)
    assert len(small) == 352
    assert min(file.bytes for file in small) == 1  # 0.16 bytes of 16 KiB
    assert max(file.bytes for file in small) == 12_850
    assert (scaled(0, 0.5), scaled(10, 1), scaled(3, 0.5)) == (0, 10, 2)


def profile_of(tmp_path: Path, text: str) -> Profile:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    return load_profile(str(path))


def test_a_profile_of_ones_own(tmp_path: Path) -> None:
    profile = profile_of(
        tmp_path,
        """
        title = "mine"
        ranks = 3
        [[file]]
        name = "rank{rank}/part-{number}.bin"
        bytes = "1MiB"
        ranks = [0, 2]
        count = 2
        """,
    )
    assert [(file.name, file.rank, file.bytes) for file in profile.files] == [
        ("rank0/part-0.bin", 0, 1 << 20),
        ("rank0/part-1.bin", 0, 1 << 20),
        ("rank2/part-0.bin", 2, 1 << 20),
        ("rank2/part-1.bin", 2, 1 << 20),
    ]


def test_a_profile_that_changed_is_read_again(tmp_path: Path) -> None:
    text = 'title = "t"\nranks = 1\n[[file]]\nname = "a"\nbytes = {}\n'
    assert profile_of(tmp_path, text.format(5)).total_bytes == 5
    assert profile_of(tmp_path, text.format(6)).total_bytes == 6


def test_without_zero_the_first_replica_writes_the_optimizer(tmp_path: Path) -> None:
    profile = profile_of(
        tmp_path,
        """
        title = "t"
        [model]
        layers = 3
        hidden = 8
        ffn = 16
        heads = 2
        kv_heads = 1
        vocabulary = 10
        [sharding]
        pipeline = 2
        data = 2
        """,
    )
    # By hand: a layer has 2 x 8 x (8 + 4) of attention, 3 x 8 x 16 of MLP and 2 x 8 of norms.
    layer = 192 + 384 + 16
    parameters = 3 * layer + 2 * 80 + 8
    assert profile.total_bytes == 14 * parameters
    assert set(by_rank(profile)) == {0, 1}
    first = [file for file in profile.files if file.rank == 0]
    assert [file.bytes for file in first] == [160, 2 * layer, 2 * layer, 6 * parameters]


HEAD = 'title = "t"\nranks = 2\n'
NAMED = (
    'title = "t"\nranks = 1\n[[file]]\nname = "{}"\nbytes = 1\n[[file]]\nname = "{}"\nbytes = 1\n'
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('title = "t"\n', "must define its files"),
        ('title = "t"\nranks = 2\n', "must define its files"),
        (HEAD + '[[file]]\nname = "a"\nbytes = 1\n', 'two files are named "a"'),
        (HEAD + '[[file]]\nname = "{rank}"\nbytes = 1\nranks = [2]\n', "there is no rank 2"),
        (HEAD + '[[file]]\nname = "../{rank}"\nbytes = 1\n', "is not a relative path"),
        (NAMED.format("a", "a.pt"), 'two files are named "a"'),
        (NAMED.format("storlab-checkpoint.json", "b"), "storlab stores its list of files"),
        (NAMED.format("a", "storlab-checkpoint.json.partial"), "storlab stores its list of files"),
        (NAMED.format("storlab-checkpoint.json/a", "b"), "storlab stores its list of files"),
        (NAMED.format("a", "a/b"), '"a" is both a file and the directory of "a/b"'),
        (NAMED.format("a/b/c", "a/b"), '"a/b" is both a file and the directory of "a/b/c"'),
        (HEAD + '[[file]]\nname = "{rank}"\nbytes = 0\n', "empty"),
        (HEAD + '[[file]]\nname = "{rank}"\nbyte = 1\n', "file.0.byte"),
        (HEAD + '[[file]]\nname = "{rank}"\nbytes = "1G"\n', "ambiguous"),
        ("title = ", "is not TOML"),
        (
            'title = "t"\n[model]\nlayers = 3\nhidden = 8\nffn = 16\nheads = 2\nkv_heads = 1\n'
            "vocabulary = 10\n[sharding]\npipeline = 4\n",
            "4 stages are more than the 3 layers",
        ),
    ],
)
def test_a_wrong_profile_is_refused_by_file_and_field(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(StudyError) as caught:
        profile_of(tmp_path, text)
    assert message in str(caught.value)
    assert "mine.toml" in str(caught.value)


def test_files_may_lie_beside_directories_of_like_names(tmp_path: Path) -> None:
    for names in (("a/b", "a/c"), ("a", "ab/c"), ("a/storlab-checkpoint.json", "b")):
        assert len(profile_of(tmp_path, NAMED.format(*names)).files) == 2


def test_a_name_that_is_not_there_is_answered_with_one_that_is(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="llama3-405b"):
        load_profile("llama-405b")
    with pytest.raises(StudyError, match="cannot be read"):
        load_profile(str(tmp_path / "absent.toml"))
