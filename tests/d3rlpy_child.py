"""Run by a Python that has d3rlpy and no covgame: loads an export and says what it found."""

from __future__ import annotations

import json
import sys

import d3rlpy
import numpy as np
from d3rlpy import ActionSpace
from d3rlpy.dataset import MDPDataset

load, states = sys.argv[1], int(sys.argv[2])
names = {"MDPDataset": MDPDataset, "np": np, "ActionSpace": ActionSpace}
dataset = eval(load, names)  # noqa: S307 (the call as covgame prints it)
batch = dataset.sample_transition_batch(16)
found = {
    "action_size": dataset.dataset_info.action_size,
    "discrete": dataset.dataset_info.action_space == ActionSpace.DISCRETE,
    "transitions": dataset.transition_count,
    "batch": list(batch.observations.shape),
    "episodes": [
        {
            "states": episode.observations[:, 0].tolist(),
            "actions": episode.actions[:, 0].tolist(),
            "rewards": episode.rewards[:, 0].tolist(),
            "terminated": bool(episode.terminated),
        }
        for episode in dataset.episodes
    ],
}

# As the page on exports has it: a place for every state.
arrays = dict(np.load(load.split('"')[1]))
arrays["observations"] = np.eye(states, dtype=np.float32)[arrays["observations"][:, 0]]
size = found["action_size"]
one_hot = MDPDataset(**arrays, action_space=ActionSpace.DISCRETE, action_size=size)
learner = d3rlpy.algos.DiscreteCQLConfig(batch_size=32).create()
learner.fit(one_hot, n_steps=20, n_steps_per_epoch=10, show_progress=False,
            logger_adapter=d3rlpy.logging.NoopAdapterFactory())  # fmt: skip
found["learnt"] = learner.predict(np.eye(states, dtype=np.float32)).tolist()
print(json.dumps(found))  # noqa: T201
