"""Minari takes exported datasets for its own, offline: episodes, spaces, seeds, environments."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import covgame as cg
from covgame.data.to_minari import write_minari
from covgame.sources.observations import space_to_json
from covgame.storage.observations import arrow_type
from tests.exported import ENDING, ending_run, episodes_of, lake_run

minari = pytest.importorskip("minari")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    return tmp_path


def check_whole(dataset: Any) -> None:
    """What Minari's own tests ask of a dataset, and that all lies in its spaces."""
    episodes = list(dataset.iterate_episodes())
    assert len(episodes) == len(dataset) == dataset.total_episodes
    assert sum(len(episode) for episode in episodes) == dataset.total_steps
    about = dataset.storage.get_episode_metadata(dataset.episode_indices)
    for number, (episode, said) in enumerate(zip(episodes, about, strict=True)):
        assert episode.id == number == said["id"]
        steps = len(episode)
        assert steps == said["total_steps"] == len(episode.actions)
        assert episode.rewards.dtype == np.float64
        for flags in (episode.terminations, episode.truncations):
            assert flags.dtype == np.bool_
            assert flags.shape == (steps,)
            assert not flags[:-1].any()
        assert episode.terminations[-1] != episode.truncations[-1]
        assert len(episode.observations) == steps + 1
        assert all(dataset.observation_space.contains(one) for one in episode.observations)
        assert all(dataset.action_space.contains(one) for one in episode.actions)
        assert repr(episode).startswith("EpisodeData(")


def test_an_id_is_loaded_as_minari_loads_its_own() -> None:
    run = lake_run(Path())
    done = cg.export(run, to="minari", out="covgame/toy/lake-v2")
    assert done.load == 'minari.load_dataset("covgame/toy/lake-v2")'
    dataset = minari.load_dataset("covgame/toy/lake-v2")
    check_whole(dataset)
    assert dataset.spec.namespace == "covgame/toy"
    assert dataset.spec.version == 2
    assert list(minari.list_local_datasets()) == ["covgame/toy/lake-v2"]
    assert minari.namespace.list_local_namespaces() == ["covgame", "covgame/toy"]
    for mine, episode in zip(dataset, episodes_of(run), strict=True):
        seen = [step["state"] for step in episode] + [episode[-1]["next_state"]]
        assert mine.observations.tolist() == seen
        assert mine.actions.tolist() == [step["action"] for step in episode]
        assert mine.rewards.tolist() == [step["reward"] for step in episode]
        assert bool(mine.terminations[-1]) == episode[-1]["terminated"]
        assert bool(mine.truncations[-1]) == episode[-1]["truncated"]
    minari.delete_dataset("covgame/toy/lake-v2")
    assert not minari.list_local_datasets()


def test_the_recovered_environment_plays_the_same_episodes() -> None:
    """From the seeds alone: spaces, seeds, actions and ends are all the environment's."""
    dataset_path = cg.export(lake_run(Path()), to="minari", out="./lake-v0").out
    dataset = minari.MinariDataset(f"{dataset_path}/data")
    env = dataset.recover_environment()
    assert env.observation_space == dataset.observation_space
    assert env.action_space == dataset.action_space
    seeds = [about["seed"] for about in dataset.storage.get_episode_metadata(range(len(dataset)))]
    ended = 0
    for episode, seed in zip(dataset, seeds, strict=True):
        seen, _ = env.reset(seed=seed)
        assert seen == episode.observations[0]
        for step, action in enumerate(episode.actions):
            seen, reward, terminated, truncated, _ = env.step(int(action))
            assert seen == episode.observations[step + 1]
            assert reward == episode.rewards[step]
            assert terminated == episode.terminations[step]
            assert (truncated and not terminated) == episode.truncations[step]
        ended += terminated
    assert 0 < ended < len(dataset)


def test_a_model_that_ends_in_no_state_gets_one_more() -> None:
    run = ending_run(Path())
    cg.export(run, to="minari", out="test/ending-v0")
    dataset = minari.load_dataset("test/ending-v0")
    check_whole(dataset)
    states = ENDING["states"]
    assert dataset.observation_space.n == int(str(states)) + 1
    last = {int(episode.observations[-1]) for episode in dataset}
    assert last == {states}
    assert all((episode.observations[:-1] < states).all() for episode in dataset)
    about = dataset.storage.metadata["covgame"]
    assert about["no_state"] == states
    assert about["states"] == ENDING["state_names"]
    assert about["actions"] == ENDING["action_names"]
    assert dataset.env_spec is None
    assert not any("seed" in said for said in dataset.storage.get_episode_metadata([0, 1]))


def test_sampling_filtering_splitting_and_combining() -> None:
    run = ending_run(Path())
    cg.export(run, to="minari", out="ending-v0")
    dataset = minari.load_dataset("ending-v0")
    dataset.set_seed(1)
    assert len({episode.id for episode in dataset.sample_episodes(9)}) == 9
    ended = dataset.filter_episodes(lambda episode: bool(episode.terminations[-1]))
    expected = [episode for episode in episodes_of(run) if episode[-1]["terminated"]]
    assert 0 < len(ended) == len(expected) < len(dataset)
    assert ended.total_steps == sum(len(episode) for episode in expected)
    parts = minari.split_dataset(dataset, sizes=[5, 4], seed=1)
    assert [len(part) for part in parts] == [5, 4]
    cg.export(run, to="minari", out="ending-v1")
    both = minari.combine_datasets([dataset, minari.load_dataset("ending-v1")], "both-v0")
    assert len(both) == 2 * len(dataset)
    assert both.total_steps == 2 * dataset.total_steps


def test_minari_adds_episodes_of_its_own() -> None:
    from minari.data_collector import EpisodeBuffer

    cg.export(ending_run(Path()), to="minari", out="ending-v0")
    dataset = minari.load_dataset("ending-v0")
    before, steps = len(dataset), dataset.total_steps
    more = EpisodeBuffer(
        id=None,
        seed=7,
        observations=[0, 1, 1],
        actions=[0, 1],
        rewards=[0.5, 1.0],
        terminations=[False, True],
        truncations=[False, False],
        infos={},
    )
    dataset.update_dataset_from_buffer([more])
    dataset = minari.load_dataset("ending-v0")
    check_whole(dataset)
    assert (len(dataset), dataset.total_steps) == (before + 1, steps + 2)
    assert dataset[before].rewards.tolist() == [0.5, 1.0]


def test_it_is_what_minaris_own_writer_makes() -> None:
    """The same episodes written by Minari and by covgame are read alike."""
    from minari.data_collector import EpisodeBuffer

    run = lake_run(Path())
    cg.export(run, to="minari", out="mine-v0")
    mine = minari.load_dataset("mine-v0")
    buffers = [
        EpisodeBuffer(
            id=None,
            seed=episode[0]["seed"],
            observations=[step["state"] for step in episode] + [episode[-1]["next_state"]],
            actions=[step["action"] for step in episode],
            rewards=[step["reward"] for step in episode],
            terminations=[step["terminated"] for step in episode],
            truncations=[step["truncated"] for step in episode],
            infos={},
        )
        for episode in episodes_of(run)
    ]
    theirs = minari.create_dataset_from_buffers(
        "theirs-v0",
        buffers,
        env=mine.recover_environment(),
        eval_env=mine.recover_environment(),  # it warns where there is none
        algorithm_name="the same",
        code_permalink="none",
        author="nobody",
        author_email="none",
        description="the same",
    )
    assert mine.spec.env_spec == theirs.spec.env_spec
    assert mine.observation_space == theirs.observation_space
    assert mine.action_space == theirs.action_space
    for one, other in zip(mine, theirs, strict=True):
        for name in ("observations", "actions", "rewards", "terminations", "truncations"):
            first, second = getattr(one, name), getattr(other, name)
            assert first.dtype == second.dtype, name
            assert first.tolist() == second.tolist()
        assert one.infos == other.infos
    numbers = range(len(mine))
    ours = [dict(one) for one in mine.storage.get_episode_metadata(numbers)]
    assert ours == [dict(one) for one in theirs.storage.get_episode_metadata(numbers)]
    written = set(json.loads(Path("minari/theirs-v0/data/metadata.json").read_text()))
    said = set(json.loads(Path("minari/mine-v0/data/metadata.json").read_text()))
    assert written - said == {"author", "author_email", "code_permalink", "eval_env_spec"}


def test_a_path_is_a_folder_of_its_own() -> None:
    run = ending_run(Path())
    done = cg.export(run, to="minari", out=Path("deep/er/ending-v3"))
    assert done.out == "deep/er/ending-v3"
    dataset = minari.MinariDataset("deep/er/ending-v3/data")
    assert done.load == 'minari.MinariDataset("deep/er/ending-v3/data")'
    assert dataset.id == "ending-v3"
    assert not Path("deep/er/namespace_metadata.json").exists()


# ------------------------------------------------------------------------------ kept observations


def kept(space: Any, inside: Any, after: Any) -> Any:
    """A recording of two episodes, of two steps and one, whose observations were kept."""
    import pyarrow as pa

    from covgame.data.recording import Recording
    from covgame.names import Names
    from covgame.storage.folder import RunFolder
    from covgame.types import Shape

    last = [None, after[0], after[1]]
    table = pa.table(
        {
            "episode": [0, 0, 1],
            "state": [0, 1, 0],
            "action": [1, 0, 1],
            "reward": [0.5, 0.0, 1.0],
            "next_state": [1, 0, 1],
            "terminated": [False, False, True],
            "truncated": [False, True, False],
            "observation": inside,
            "final_observation": pa.array(last, inside.type),
        }
    )
    folder = RunFolder(Path("run"), {"environment": "py:some:thing", "command": "cover", "seed": 0})
    values = np.array([[-1.0], [1.0]], dtype=np.float32)
    actions = spaces.Box(-1.0, 1.0, (1,), np.float32)
    described = None if space is None else space_to_json(space)
    spaces_of = (described, space, actions, values)
    return Recording(
        folder, Shape(2, 2, 2), Names(), lambda: iter([table]), table.schema, *spaces_of
    )


def as_values(column: Any, space: Any) -> Any:
    """What ``values_of`` promises, the simple way."""
    rows = column.to_pylist()
    if isinstance(space, spaces.Dict):
        return {k: as_values(_part(column, k), part) for k, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(as_values(_part(column, str(i)), s) for i, s in enumerate(space.spaces))
    if isinstance(space, spaces.Box):
        return np.array(rows, dtype=space.dtype).reshape(len(rows), *space.shape)
    if isinstance(space, spaces.Discrete):
        return np.array(rows, dtype=np.int64)
    return rows


def _part(column: Any, name: str) -> Any:
    import pyarrow as pa

    return pa.chunked_array([pa.array([row[name] for row in column.to_pylist()])])


PICTURE = spaces.Box(0, 255, (40, 33), np.uint8)
OBSERVED = [
    (spaces.Box(-9.0, 9.0, (2, 2), np.float64), [[0.0, 1.0, 2.0, 3.0]] * 3, [[4.0] * 4, [5.0] * 4]),
    (PICTURE, [list(range(250)) * 5 + [7] * 70] * 3, [[1] * 1320, [2] * 1320]),
    (spaces.Discrete(5, start=3), [3, 4, 5], [6, 7]),
    (spaces.Text(20), ["abc", "de", "f"], ["longerthanothers", "x"]),
    (
        spaces.Dict({"where": spaces.Box(0, 9, (2,), np.int32), "key": spaces.Discrete(2)}),
        [{"where": [1, 2], "key": 0}, {"where": [3, 4], "key": 1}, {"where": [5, 6], "key": 0}],
        [{"where": [7, 8], "key": 1}, {"where": [9, 0], "key": 1}],
    ),
    (
        spaces.Tuple([spaces.Discrete(3), spaces.Text(5)]),
        [{"0": 0, "1": "ab"}, {"0": 1, "1": "c"}, {"0": 2, "1": "d"}],
        [{"0": 2, "1": "e"}, {"0": 0, "1": "fghij"}],
    ),
    (None, ['{"a": "ü"}', "[1]", "null"], ["2", '"three"']),
]


@pytest.mark.parametrize(("space", "inside", "after"), OBSERVED, ids=lambda part: str(part)[:12])
def test_kept_observations_are_what_minari_shows(space: Any, inside: Any, after: Any) -> None:
    import pyarrow as pa

    column = pa.array(inside, arrow_type(None if space is None else space_to_json(space)))
    recording = kept(space, column, after)
    write_minari(recording, Path("kept-v0"), "kept-v0")
    dataset = minari.MinariDataset("kept-v0/data")
    if space is not None:
        assert dataset.observation_space == space
    assert dataset.action_space == spaces.Box(-1.0, 1.0, (1,), np.float32)
    shown = [[inside[0], inside[1], after[0]], [inside[2], after[1]]]
    for episode, rows in zip(dataset, shown, strict=True):
        expected = as_values(pa.chunked_array([pa.array(rows, column.type)]), space)
        assert_same(episode.observations, expected)
    assert dataset[0].actions.tolist() == [[1.0], [-1.0]]
    assert dataset[1].terminations.tolist() == [True]
    text = dataset.observation_space
    if isinstance(text, spaces.Text):
        assert all(text.contains(one) for episode in dataset for one in episode.observations)


def test_a_binned_run_can_train_a_real_agent(tmp_path: Path) -> None:
    """Observations and actions of a run that kept them are those of the environment."""
    for name, actions in (("MountainCar-v0", None), ("MountainCarContinuous-v0", "grid:3")):
        run = cg.cover(
            f"gym:{name}", "uniform:1/pair", horizon=30, states="bins:4x4", actions=actions,
            max_episodes=8, keep_observations=True, out=tmp_path / "runs" / name,
        )  # fmt: skip
        cg.export(tmp_path / "runs" / name, to="minari", out=f"./{name}")
        dataset = minari.MinariDataset(f"{name}/data")
        env = gymnasium.make(name)
        assert dataset.observation_space == env.observation_space
        assert dataset.action_space == env.action_space
        for mine, theirs in zip(run.episodes(), dataset, strict=True):
            np.testing.assert_array_equal(np.array(mine.observations), theirs.observations)
            seen, _ = env.reset(seed=mine.seed)
            for step, action in enumerate(theirs.actions):
                np.testing.assert_array_equal(seen, theirs.observations[step])
                seen, *_ = env.step(action)
        cg.export(run, to="csv", out=tmp_path / f"{name}.csv")
        head = (tmp_path / f"{name}.csv").read_text().splitlines()[0]
        assert "observation_0" in head or "observation.0" in head, head


def test_observations_with_a_mission_keep_their_parts(tmp_path: Path) -> None:
    """MiniGrid's mission has a space of its own kind, of text."""
    pytest.importorskip("minigrid")
    name = "minigrid:MiniGrid-Empty-5x5-v0"
    cg.cover(
        f"gym:{name}", "uniform:1/pair", horizon=8, states="keys:direction", max_episodes=3,
        keep_observations=True, out=tmp_path / "run",
    )  # fmt: skip
    cg.export(tmp_path / "run", to="minari", out="./mini-v0")
    dataset = minari.MinariDataset("mini-v0/data")
    env = gymnasium.make(name)
    assert isinstance(env.observation_space, spaces.Dict)
    assert isinstance(dataset.observation_space, spaces.Dict)
    for part in ("image", "direction"):
        assert dataset.observation_space[part] == env.observation_space[part]
    seeds = [about["seed"] for about in dataset.storage.get_episode_metadata(range(len(dataset)))]
    for episode, seed in zip(dataset, seeds, strict=True):
        seen, _ = env.reset(seed=seed)
        assert dataset.observation_space.contains(seen)
        for step, action in enumerate(episode.actions):
            assert episode.observations["mission"][step] == seen["mission"]
            assert episode.observations["direction"][step] == seen["direction"]
            np.testing.assert_array_equal(episode.observations["image"][step], seen["image"])
            seen, *_ = env.step(action)


def assert_same(one: Any, other: Any) -> None:
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for name, part in one.items():
            assert_same(part, other[name])
    elif isinstance(one, tuple):
        for part, its in zip(one, other, strict=True):
            assert_same(part, its)
    elif isinstance(one, np.ndarray):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)
    else:
        assert one == other


FULL_DISK = """
import resource, sys
import covgame as cg
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
for size in map(int, sys.argv[2:]):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        cg.export(sys.argv[1], to="minari", out="./full-v0")
    except cg.BadInput as error:
        assert "full-v0 cannot be written: File too large" in str(error), error
    else:
        raise AssertionError(size)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="limits of file sizes are POSIX")
def test_a_full_disk_is_one_sentence_wherever_it_happens() -> None:
    """HDF5 itself crashes on a write that fails, so it must not see one."""
    run = ending_run(Path(), target="uniform:300/pair")
    whole = Path(cg.export(run, to="minari", out="./whole-v0").out) / "data" / "main_data.hdf5"
    size = whole.stat().st_size
    before = sorted(Path().iterdir())
    limits = [str(int(size * share)) for share in (0.0, 0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99)]
    command = [sys.executable, "-c", FULL_DISK, "run", *limits]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(Path().iterdir()) == before
