"""Run by a Python that has d3rlpy and no covgame: runs the recipe of docs/export.md.

Prints what d3rlpy has read, and what it has learnt, as JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import d3rlpy
import numpy as np

recipe, states = sys.argv[1], int(sys.argv[2])
names: dict[str, Any] = {}
exec(recipe, names)  # as it stands in the documentation
dataset = names["dataset"]
found = {
    "action_size": dataset.dataset_info.action_size,
    "discrete": dataset.dataset_info.action_space == d3rlpy.ActionSpace.DISCRETE,
    "transitions": dataset.transition_count,
    "batch": list(dataset.sample_transition_batch(16).observations.shape),
    "episodes": [
        {
            "states": episode.observations.argmax(axis=1).tolist(),
            "actions": episode.actions[:, 0].tolist(),
            "rewards": episode.rewards[:, 0].tolist(),
            "terminated": bool(episode.terminated),
        }
        for episode in dataset.episodes
    ],
}
learner = d3rlpy.algos.DiscreteCQLConfig(batch_size=32).create()
learner.fit(dataset, n_steps=20, n_steps_per_epoch=10, show_progress=False,
            logger_adapter=d3rlpy.logging.NoopAdapterFactory())  # fmt: skip
found["learnt"] = learner.predict(np.eye(states, dtype=np.float32)).tolist()
print(json.dumps(found))  # noqa: T201
