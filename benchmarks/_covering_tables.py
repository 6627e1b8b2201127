"""Tables of what covering costs: programs, episodes, their time, and the limits of learners."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from benchmarks import _results
from benchmarks._formats import beside, in_seconds, mean_with_error, solved, with_error
from benchmarks.comparison.markdown import table


def min_flow() -> str:
    """phi* beside scipy: seconds, ratio, memory, certified gap."""
    content = _results.read("min_flow")
    rows = [
        [
            f"`{row['env']}`",
            f"`{row['target']}`",
            f"{row['covgame variables']:,}",
            in_seconds(row["covgame seconds"]),
            beside(row, "scipy default", content["limit"]),
            beside(row, "scipy interior point", content["limit"]),
            f"{row['covgame MB']:,.0f} MB",
            f"{row['covgame gap']:.0e}",
        ]
        for row in content["rows"]
    ]
    heads = ["world", "target", "variables", "covgame", "linprog", "linprog, interior point"]
    return table([*heads, "memory", "certified gap"], rows)


def min_flow_long() -> str:
    """phi* of worlds with long episodes: variables, value, seconds, certified gap."""
    body = []
    for row in _results.read("min_flow")["long"]:
        name, states, horizon, slip = row["env"].split()
        rooms = f"{states} x {states}" if name == "maze" else states
        world = f"{name}, {rooms} states, {horizon} stages, slip {slip}"
        value, seconds, gap = f"{row['phi']:.6g}", in_seconds(row["seconds"]), f"{row['gap']:.0e}"
        body.append([world, f"`{row['target']}`", f"{row['variables']:,}", value, seconds, gap])
    return table(["world", "target", "variables", "phi*", "covgame", "certified gap"], body)


def cheap_bound() -> str:
    """Shares of phi* by what proves them, and what they cost beside the run."""
    content = _results.read("cheap_bound")
    solved_ones = [row for row in content["rows"] if "phi" in row]

    def share(row: dict[str, Any], value: float | None) -> str:
        return "-" if value is None else f"{value / row['phi']:.3f}"

    body = [
        [
            f"`{row['world']}`",
            f"`{row['target']}`",
            f"{row['cells']:,}",
            share(row, row.get("own weights")),
            *(share(row, bound) for bound in row["rounds"]),
            share(row, row["estimate"]),
            *_beside_the_run(row),
        ]
        for row in solved_ones
    ]
    heads = ["world", "target", "cells", "own weights"]
    heads += [f"{rounds} rounds" for rounds in content["rounds"]]
    return table([*heads, "estimate", "quick bound", "takes", "phi* takes"], body)


def _beside_the_run(row: dict[str, Any]) -> list[str]:
    """The bound for a run of this length, its time, and that of phi*, over the time of the run."""
    exact = f"{row['exact seconds'] / row['run seconds']:.1f} x"
    takes = f"{row['printed seconds'] / row['run seconds']:.2f} x"
    return [f"{row['printed'] / row['phi']:.3f}", takes, exact]


def cheap_bound_largest() -> str:
    """The worlds that are too large for the program: a run, and the bound beside it."""
    body = [
        [
            f"`{row['world']}`",
            f"`{row['target']}`",
            f"{row['cells']:,}",
            f"{row['episodes']:,}",
            f"{row['printed']:.1f}",
            f"{row['attained']:.1f}",
            in_seconds(row["run seconds"]),
            in_seconds(row["printed seconds"]),
            f"{row['memory']:,.0f} MB",
        ]
        for row in _results.read("cheap_bound")["rows"]
        if "phi" not in row
    ]
    heads = ["world", "target", "cells", "episodes", "phi* at least", "phi* at most"]
    return table([*heads, "the run", "the bound", "memory"], body)


def backward_induction() -> str:
    """Seconds a backward induction, sparse and dense, and per transition."""
    rows = [
        [
            f"{row['cells']:,}",
            f"{row['transitions']:,}",
            f"{1e3 * row['seconds']:.2f} ms",
            f"{1e9 * row['seconds'] / row['transitions']:.1f} ns",
            "-"
            if row["dense seconds"] is None
            else f"{row['dense seconds'] / row['seconds']:.1f} x",
        ]
        for row in _results.read("backward_induction")["rows"]
    ]
    return table(["cells", "transitions", "time", "per transition", "dense takes"], rows)


def units() -> str:
    """Methods and units side by side: seconds, and the gap where it is not small."""
    content = _results.read("units")
    variants = [name for name in content["rows"][0] if name not in {"env", "variables"}]
    rows = [
        [f"`{row['env']}`", f"{row['variables']:,}"]
        + [solved(row[variant], content["limit"]) for variant in variants]
        for row in content["rows"]
    ]
    return table(["world", "variables", *variants], rows)


def episode_time() -> str:
    """An exact episode on the double chain: microseconds, and the readable game beside it."""
    content = _results.read("episodes")
    rows = [
        [row["kind"], f"{row['us']:.1f} us", f"{row['readable us'] / row['us']:.0f} x"]
        for row in content["chain"]
    ]
    return table(["1,240 cells, 2 successors", "an exact episode", "the readable game"], rows)


def episode_growth() -> str:
    """Time and memory by size."""
    rows = [
        [
            f"{row['cells']:,}",
            row["kind"],
            f"{row['us']:,.1f} us",
            f"{1e3 * row['us'] / row['cells']:.1f} ns",
            f"{row['bytes']:.0f} bytes",
        ]
        for row in _results.read("episodes")["rows"]
    ]
    return table(["cells", "", "an exact episode", "a cell", "memory a cell"], rows)


def episode_costs() -> str:
    """Compilation and recording."""
    content = _results.read("episodes")
    compiling, record = content["compilation"], content["recording"]
    rows = [
        ["first run, compiling included", f"{compiling['first']:.1f} s"],
        ["next run, from the cache", f"{compiling['cached']:.1f} s"],
        ["an episode, not recorded", f"{record['off']:.1f} us"],
        ["an episode, recorded as Parquet", f"{record['on'] / record['off']:.2f} x"],
    ]
    return table(["", ""], rows)


def gym_envs() -> str:
    """Gymnasium's toy text: episodes over phi*, and our share of the time."""
    rows = [
        [
            f"`{row['env']}`",
            f"{row['horizon']}",
            f"`{row['target']}`" + (f", reach >= {row['reach']}" if row["reach"] else ""),
            f"{row['episodes']:,.0f}",
            "-" if row["phi"] is None else f"{row['episodes'] / row['phi']:.2f}",
            f"{row['share']:.0%}",
        ]
        for row in _results.read("gym_envs")["rows"]
    ]
    heads = ["environment", "H", "target", "episodes", "over phi*", "time outside `step`"]
    return table(heads, rows)


def step_overhead() -> str:
    """What a step costs beyond the environment's own."""
    rows = [
        [
            f"`{row['env']}`",
            f"{row['horizon']}",
            f"`{row['target']}`" + (", recorded" if row["recorded"] else ""),
            f"{row['bare']:.1f}",
            f"{row['beyond']:.1f}",
            f"{row['ratio']:.2f}",
        ]
        for row in _results.read("step_overhead")["rows"]
    ]
    heads = ["environment", "H", "target", "bare loop, us", "beyond it, us", "ratio"]
    return table(heads, rows)


def recording() -> str:
    """What recording every episode costs."""
    rows = [
        [
            f"`{row['env']}`",
            f"{row['horizon']}",
            f"`{row['target']}`",
            f"{row['without']:.0f}",
            f"{row['with']:.0f}",
            f"{row['ratio']:.3f} ({' to '.join(f'{one:.3f}' for one in row['quartiles'])})",
        ]
        for row in _results.read("recording")["rows"]
        if "env" in row
    ]
    heads = ["environment", "H", "target", "without, us", "with it, us", "ratio (quartiles)"]
    return table(heads, rows)


def journal_modes() -> str:
    """What a committed episode costs by SQLite's journal mode."""
    (found,) = (row["modes"] for row in _results.read("recording")["rows"] if "modes" in row)
    return table(list(found), [[f"{microseconds:.0f} us" for microseconds in found.values()]])


def auditing() -> str:
    """Audits beside the bare read of the same files."""
    rows = [
        [
            f"{row['steps']:,}",
            f"{row['megabytes']:,.0f} MB",
            f"{row['bare_seconds']:.2f} s ({' to '.join(f'{s:.2f}' for s in row['bare_range'])})",
            f"{row['audit_seconds']:.1f} s ({' to '.join(f'{s:.1f}' for s in row['audit_range'])})",
            f"{row['ratio']:.1f}",
            f"{row['bare_memory']:,.0f} MB",
            f"{row['audit_memory']:,.0f} MB",
        ]
        for row in _results.read("auditing")["rows"]
    ]
    heads = ["steps", "files", "bare read", "audit", "ratio", "memory, bare", "memory, audit"]
    return table(heads, rows)


def certifying() -> str:
    """Certifying runs beside the bare read of their files."""
    rows = [
        [
            f"{row['steps']:,}",
            f"{row['bare_seconds']:.2f} s",
            f"{row['certify_seconds']:.1f} s",
            f"{row['ratio']:.1f}",
            f"{row['bare_memory']:,.0f} MB",
            f"{row['certify_memory']:,.0f} MB",
        ]
        for row in _results.read("auditing")["certify"]
    ]
    heads = ["steps", "bare read", "certify", "ratio", "memory, bare", "memory, certify"]
    return table(heads, rows)


def found_states() -> str:
    """Who covers all that covgame has seen, and how many states each has found."""
    content = _results.read("found_states")
    rows = content["rows"]
    worlds = list(dict.fromkeys(row["world"] for row in rows))
    methods = list(dict.fromkeys(row["method"] for row in rows))

    def cell(world: str, method: str) -> str:
        mine = [row for row in rows if (row["world"], row["method"]) == (world, method)]
        if not mine:
            return "not measured"
        took = [row["episodes"] for row in mine if row["episodes"] is not None]
        ended = f"{sum(took) / len(took):,.0f}" if took else "-"
        ended += f" ({len(took)} of {len(mine)})" if len(took) < len(mine) else ""
        return f"{ended}; {sum(row['states'] for row in mine) / len(mine):,.0f}"

    body = [[method, *(cell(world, method) for world in worlds)] for method in methods]
    return table(["episodes; states found", *worlds], body)


def long_episodes() -> str:
    """Episodes until every pair is covered, beside the obvious explorer."""
    rows = _results.read("long_episodes")["rows"]
    methods = list(dict.fromkeys(row["method"] for row in rows))
    measured = {(row["world"], row["visits"], row["method"]): row for row in rows}

    def cell(world: str, visits: int, method: str) -> str:
        row = measured.get((world, visits, method))
        if row is None:
            return "-"
        took = [number for number in row["episodes"] if number is not None]
        failed = len(row["episodes"]) - len(took)
        if not took:
            return f"not covered ({sum(row['played']) / failed:,.0f})"
        mean = f"{sum(took) / len(took):,.1f}".removesuffix(".0")
        return f"{mean} ({len(took)} of {len(row['episodes'])})" if failed else mean

    cases = dict.fromkeys((row["world"], row["stages"], row["visits"]) for row in rows)
    body = [
        [world, f"{stages}", f"{visits}", *(cell(world, visits, method) for method in methods)]
        for world, stages, visits in cases
    ]
    return table(["world", "stages", "visits", *methods], body)


def batches() -> str:
    """Episodes over phi* by the size of batches."""
    content = _results.read("batches")
    sizes = [key.removeprefix("naive ") for key in content["rows"][0] if key.startswith("naive")]
    rows = [
        [f"`{row['env']}`", how] + [f"{row[f'{how} {size}']:.3f}" for size in sizes]
        for row in content["rows"]
        for how in ("anticipated", "naive")
    ]
    return table(["world", "", *(f"K = {size}" for size in sizes)], rows)


def by_counts() -> str:
    """Play by counts: episodes, ratio, seconds."""
    rows = [
        [
            row["preset"],
            f"{row['visits']:.0e}",
            f"{row['episodes']:.2e}",
            ("" if row["covered"] else "> ") + f"{row['ratio']:.3f}",
            in_seconds(row["seconds"]),
        ]
        for row in sorted(_results.read("batches")["by_counts"], key=lambda row: row["preset"])
    ]
    return table(["preset", "visits a cell", "episodes", "over phi*", "time"], rows)


def public_code() -> str:
    """An episode of rlberry-scool's UCBVI beside ours."""
    content = _results.read("public_code")
    rows = [
        [
            f"{row['cells']:,}, stages {'apart' if row['staged'] else 'together'}",
            f"{row['rlberry']:,.0f} us",
            f"{row['our UCBVI']:.1f} us",
            f"{row['rlberry'] / row['our UCBVI']:,.0f} x",
            f"{row['our game']:.1f} us",
            f"{row['dense plan']:.0f} us",
        ]
        for row in content["rows"]
    ]
    heads = ["cells", "rlberry-scool's UCBVI", "our UCBVI", "ratio", "our game", "a dense plan"]
    return table(heads, rows)


def known_limit() -> str:
    """Players who know the model beside the exact optimum, on tiny worlds."""
    content = _results.read("known_limit")["rows"]
    players = list(dict.fromkeys(row["player"] for row in content))
    found = {(row["env"], row["target"], row["player"]): row for row in content}
    worlds = dict.fromkeys((row["env"], row["target"]) for row in content)
    rows = [
        [
            f"`{env}`",
            f"`{target}`",
            *(mean_with_error(found[env, target, player]) for player in players),
        ]
        for env, target in worlds
    ]
    mean = [
        statistics.geometric_mean(found[env, target, player]["mean"] for env, target in worlds)
        for player in players
    ]
    rows.append(["geometric mean", "", *(f"**{value:.2f}**" for value in mean)])
    return table(["world", "target", *players], rows)


def learner_limit() -> str:
    """The best learner beside those who know the model and the default, in episodes."""
    content = _results.read("learner_limit")["rows"]
    known, bayes = "model known, exact optimum", "Bayes-optimal learner"
    weights, default = "weights, model known", "covgame default"
    rows = [
        [
            f"`{row['env']}`",
            f"`{row['target']}`",
            f"{row['phi']:.2f}",
            f"{row[known]:.2f}",
            with_error(row, weights),
            ("" if row["told_after"] is None else ">= ") + f"{row[bayes]:.2f}",
            with_error(row, default),
            f"{row[default] / row[bayes]:.2f}",
        ]
        for row in content
    ]
    mean = statistics.geometric_mean(row[default] / row[bayes] for row in content)
    rows.append(["geometric mean", "", "", "", "", "", "", f"**{mean:.2f}**"])
    heads = ["world", "target", "phi*", known, weights, bayes, default, "default / Bayes"]
    return table(heads, rows)


def first_visit() -> str:
    """Every cell or pair once: the default beside those who know more, in episodes."""
    rows = [
        [
            f"`{row['env'].replace('@', ', H ')}`",
            f"`{row['target']}`",
            f"{row['phi']:.1f}",
            *(with_error(row, player) for player in ("covgame", "map known", "model known")),
            f"{row['covgame'] / row['model known']:.2f}",
            f"{row['worst']:.1f} of {row['runs']:,}",
        ]
        for row in _results.read("first_visit")["rows"]
    ]
    heads = ["world", "target", "phi*", "covgame", "map known", "model known"]
    return table([*heads, "covgame / model known", "longest run / median"], rows)


def exporting() -> str:
    """Seconds of every export beside the bare read, and memory."""
    rows, read = [], 1.0
    for row in _results.read("exporting")["rows"]:
        if row["what"] == "read":
            read = row["seconds"]
        rows.append(
            [
                f"{row['steps']:,}",
                f"{row['horizon']:,}",
                {"read": "bare read of the Parquet files"}.get(row["what"], row["what"]),
                in_seconds(row["seconds"]),
                f"{row['seconds'] / read:.1f} x",
                f"{row['written']:,.0f} MB" if row["written"] else "-",
                f"{row['MB']:,.0f} MB",
            ]
        )
    heads = ["steps", "steps an episode", "export", "time", "beside the read", "written", "memory"]
    return table(heads, rows)


TABLES: dict[str, Callable[[], str]] = {
    "min_flow": min_flow,
    "min_flow_long": min_flow_long,
    "cheap_bound": cheap_bound,
    "cheap_bound_largest": cheap_bound_largest,
    "backward_induction": backward_induction,
    "units": units,
    "episode_time": episode_time,
    "episode_growth": episode_growth,
    "episode_costs": episode_costs,
    "gym_envs": gym_envs,
    "step_overhead": step_overhead,
    "recording": recording,
    "journal_modes": journal_modes,
    "auditing": auditing,
    "certifying": certifying,
    "found_states": found_states,
    "long_episodes": long_episodes,
    "batches": batches,
    "by_counts": by_counts,
    "public_code": public_code,
    "known_limit": known_limit,
    "learner_limit": learner_limit,
    "first_visit": first_visit,
    "exporting": exporting,
}
