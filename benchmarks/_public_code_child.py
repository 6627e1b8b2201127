"""rlberry-scool's UCBVI on its own chain; runs in an environment of its own.

    python _public_code_child.py LENGTH HORIZON EPISODES STAGE_DEPENDENT

Prints one JSON object: the chain's table, and microseconds an episode (the first ones, which
compile, are left out).
"""

import json
import logging
import statistics
import sys
import time
import warnings

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)

from rlberry_scool.agents.ucbvi import UCBVIAgent  # noqa: E402
from rlberry_scool.envs.finite import Chain  # noqa: E402

STRETCHES = 5


def main() -> None:
    """Warm up, then the median of several stretches."""
    length, horizon, episodes, staged = (int(word) for word in sys.argv[1:])
    env = Chain(L=length, fail_prob=0.1)
    agent = UCBVIAgent(env, horizon=horizon, stage_dependent=bool(staged))
    agent.fit(budget=max(3, episodes // 10))
    times = []
    for _ in range(STRETCHES):
        began = time.perf_counter()
        agent.fit(budget=episodes)
        times.append((time.perf_counter() - began) / episodes)
    answer = {"us": 1e6 * statistics.median(times), "P": env.P.tolist(), "R": env.R.tolist()}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
