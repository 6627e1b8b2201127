"""A dataset of somebody else: audited, topped up, and learnt from before and after.

    python3 dev.py bench offline [--quick]

Somebody wanted to cross the frozen lake (Gymnasium's, 8 x 8, slippery) and recorded how a policy
does that takes the best way nine times out of ten: a Minari dataset, written by Minari. Somebody
else wants to use it for other errands on the same lake: to be at some square as long as possible.
We ask what the data cover, play what is missing, and run fitted Q iteration on what there is: on
the data alone, on the data and as many more episodes of the same policy, and on the data and what
covgame has added. Losses are exact, from the table of the lake, which no learner sees.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import covgame as cg
from benchmarks import _results
from covgame.mdp import dp
from covgame.mdp.model import TabularMDP
from covgame.types import FloatArray, FloatHSA, IntArray, Policy

LAKE, HORIZON = "gym:FrozenLake-v1?map_name=8x8", 60
TARGET = "uniform:30/pair"
EPISODES = 300
CARELESS = 0.1
SEEDS = 10

Steps = dict[str, Any]
"""state, action, next_state, terminated: arrays with an entry per step."""


def collect(policy: Policy, episodes: int, seed: int) -> list[dict[str, Any]]:
    """Episodes of a policy that takes any action now and then."""
    env = gymnasium.make("FrozenLake-v1", map_name="8x8", max_episode_steps=HORIZON)
    rng, found = np.random.default_rng(seed), []
    for number in range(episodes):
        begin = 100_000 * seed + number
        state, _ = env.reset(seed=begin)
        seen: dict[str, list[Any]] = {"observations": [int(state)]}
        over = False
        while not over:
            h = len(seen["observations"]) - 1
            careless = rng.random() < CARELESS
            action = int(rng.integers(4)) if careless else int(policy.table[h, state])
            state, reward, terminated, truncated, _ = env.step(action)
            seen["observations"].append(int(state))
            step = {
                "actions": action,
                "rewards": float(reward),
                "terminations": bool(terminated),
                "truncations": bool(truncated),
            }
            for name, value in step.items():
                seen.setdefault(name, []).append(value)
            over = terminated or truncated
        found.append({"seed": begin, **seen})
    return found


def write_minari(name: str, episodes: list[dict[str, Any]]) -> None:
    """As its own library writes a dataset."""
    import minari
    from minari.data_collector import EpisodeBuffer

    buffers = [EpisodeBuffer(id=i, **episode) for i, episode in enumerate(episodes)]
    space = gymnasium.spaces.Discrete
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it would like to know the author and much more
        minari.create_dataset_from_buffers(
            name, buffers, observation_space=space(64), action_space=space(4), data_format="hdf5"
        )


def steps_of(episodes: list[dict[str, Any]]) -> Steps:
    """All steps one after another."""
    states = [np.array(one["observations"]) for one in episodes]
    return {
        "state": np.concatenate([one[:-1] for one in states]),
        "next_state": np.concatenate([one[1:] for one in states]),
        "action": np.concatenate([one["actions"] for one in episodes]),
        "terminated": np.concatenate([one["terminations"] for one in episodes]),
    }


def joined(*parts: Steps) -> Steps:
    """Several datasets as one."""
    names = ("state", "action", "next_state", "terminated")
    return {name: np.concatenate([part[name] for part in parts]) for name in names}


def fitted_q(steps: Steps, reward: FloatArray) -> IntArray:
    """The policy that fitted Q iteration finds: a table as its function, nothing for the unseen."""
    states, actions = reward.shape
    pair = steps["state"] * actions + steps["action"]
    times = np.maximum(np.bincount(pair, minlength=states * actions), 1)
    goes_on = ~steps["terminated"]
    value, chosen = np.zeros(states), np.zeros((HORIZON, states), dtype=np.int64)
    tried = np.bincount(pair, minlength=states * actions).reshape(states, actions) > 0
    for h in reversed(range(HORIZON)):
        goal = reward.reshape(-1)[pair] + np.where(goes_on, value[steps["next_state"]], 0.0)
        q = (np.bincount(pair, goal, minlength=states * actions) / times).reshape(states, actions)
        q = np.where(tried, q, 0.0)
        chosen[h], value = q.argmax(axis=1), q.max(axis=1)
    return chosen


def errands(model: TabularMDP) -> list[tuple[str, FloatHSA]]:
    """What the data were made for, and to be at a square: every one that can be stood on."""
    found = [("to cross the lake", model.rewards)]
    squares = np.flatnonzero(dp.reachable(model.transitions).any(axis=0))
    for square in squares[squares > 0].tolist():
        reward = np.zeros(model.shape.hsa)
        reward[:, square] = 1.0
        found.append(("to be at a square", reward))
    return found


def loss(model: TabularMDP, chosen: IntArray, reward: FloatHSA) -> float:
    """What a policy loses of the best value, as a share of it."""
    transitions, policy = model.transitions, Policy.deterministic(chosen, model.shape.actions)
    best = dp.initial_value(transitions, dp.backward_induction(transitions, reward).values)
    had = dp.initial_value(transitions, dp.evaluate(transitions, policy, reward))
    return (best - had) / best


def case(seed: int, folder: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """One dataset from its beginning to what was learnt from it."""
    env = cg.make(LAKE, HORIZON)
    model = env.require_model("a benchmark")
    crossing = dp.backward_induction(model.transitions, model.rewards).policy
    recorded, name = collect(crossing, EPISODES, seed), f"lake/crossing-{seed}-v0"
    write_minari(name, recorded)
    before = cg.audit(f"minari:{name}", TARGET, env=env)
    run = cg.cover(env, TARGET, start_from=f"minari:{name}", seed=seed, out=folder / str(seed))
    more = collect(crossing, run.n_episodes, 1000 + seed)
    after = cg.audit([f"minari:{name}", str(folder / str(seed))], TARGET, env=env)
    own = {n: run.steps()[n].to_numpy() for n in ("state", "action", "next_state", "terminated")}
    given = steps_of(recorded)
    data = {
        "the data": given,
        "and more of the same": joined(given, steps_of(more)),
        "and what was missing": joined(given, own),
    }
    rows = []
    for what, reward in errands(model):
        for kind, steps in data.items():
            lost = loss(model, fitted_q(steps, reward[0]), reward)
            rows.append({"seed": seed, "errand": what, "data": kind, "loss": lost})
    about = {
        "seed": seed,
        "episodes": before.episodes,
        "open": len(before.uncovered),
        "rows": len(before.target),
        "missing_episodes": before.missing_episodes,
        "played": run.n_episodes,
        "open after": len(after.uncovered),
    }
    return about, rows


def means(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The mean loss over errands of one kind, for every dataset and what was added to it."""
    kinds = list(dict.fromkeys((row["seed"], row["errand"], row["data"]) for row in rows))
    found = []
    for seed, errand, data in kinds:
        asked = {"seed": seed, "errand": errand, "data": data}
        losses = [row["loss"] for row in rows if asked.items() <= row.items()]
        mean, worst = float(np.mean(losses)), max(losses)
        found.append({**asked, "errands": len(losses), "loss": mean, "worst": worst})
    return found


def main() -> None:
    """Every seed its own dataset."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    seeds = 2 if parser.parse_args().quick else SEEDS
    cases, rows = [], []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MINARI_DATASETS_PATH"] = f"{folder}/minari"
        for seed in range(seeds):
            about, measured = case(seed, Path(folder))
            cases.append(about)
            rows += measured
            print(about, flush=True)
    _results.write("offline", means(rows), cases=cases)


if __name__ == "__main__":
    main()
