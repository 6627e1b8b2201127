"""``covgame``: the commands. What they need is imported when they run."""

from __future__ import annotations

import functools
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import click

from covgame.cli.common import (
    INTERRUPTED,
    Command,
    as_range,
    common_options,
    complain,
    print_json,
    say,
    say_unless,
)

if TYPE_CHECKING:
    from covgame.runs.cover import Run
    from covgame.runs.learn import AnyRun, Settings

LARGE = 20_000
TARGETS = "uniform:50, uniform:50/pair, uniform:50/state, proportional:500, or a file"


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="covgame", prog_name="covgame")
def main() -> None:
    """Cover an episodic environment in close to the fewest episodes possible.

    \b
    Examples:
      covgame plan riverswim:states=8 --target uniform:50
      covgame cover riverswim:states=8 --target uniform:50
    """


def world_and_target(command: Command, *, required: bool = True) -> Command:
    """ENV, ``--target``, ``--horizon`` and ``--min-reach``: what every game is about."""
    for option in (
        click.option(
            "--min-reach",
            type=float,
            default=0.0,
            show_default=True,
            help="Leave out cells that no policy reaches with this probability.",
        ),
        click.option("--horizon", type=int, help="Number of stages, where ENV leaves it open."),
        click.option("--target", required=required, help=f"What to cover: {TARGETS}."),
        click.argument("env"),
    ):
        command = option(command)
    return command


@main.command()
@functools.partial(world_and_target, required=False)
@click.option(
    "--functionals",
    "with_functionals",
    is_flag=True,
    help="What PCE, PRINCIPLE, MOCA and PEDEL pay for the precision --epsilon.",
)
@click.option("--epsilon", type=float, help="The precision of the functionals.")
@click.option(
    "--top",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="How many of the dearest cells to show.",
)
@click.option(
    "--all-bounds",
    is_flag=True,
    help="Compute the upper bounds also where they take longer than phi* itself.",
)
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw the optimal visits into this file (svg, png or pdf).",
)
@common_options
def plan(
    env: str,
    target: str | None,
    horizon: int | None,
    min_reach: float,
    with_functionals: bool,
    epsilon: float | None,
    top: int,
    all_bounds: bool,
    plot: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """What covering costs on a known model: phi*, bounds, the dearest cells, the policy.

    \b
    ENV is a family (covgame envs), gym:NAME or a covgame-mdp/1 file.
    Examples:
      covgame plan riverswim:states=8 --target uniform:50
      covgame plan gym:FrozenLake-v1 --horizon 12 --target uniform:50/pair --plot visits.svg
      covgame plan model.json --target target.json --json
      covgame plan twobranch --functionals --epsilon 0.1
    """
    import covgame
    from covgame.cli.plan import check_options, compare, price, warn_if_large

    wrong = check_options(target, with_functionals, epsilon, plot)
    if wrong is not None:
        raise click.UsageError(wrong)
    environment = covgame.make(env, horizon)
    if not quiet:
        warn_if_large(environment, with_functionals)
    answer: dict[str, Any] = {}
    pages = []
    if epsilon is not None:
        answer, page = compare(environment, epsilon)
        pages.append(page)
    if target is not None:
        priced, page = price(
            environment, target, min_reach=min_reach, all_bounds=all_bounds, top=top, plot=plot
        )
        answer |= priced
        pages.insert(0, page)
    if plot is not None and not quiet:
        say(f"drew {plot}")
    if as_json:
        print_json(answer)
    else:
        click.echo("\n\n".join(pages))


@main.command()
@world_and_target
@click.option("--seed", type=int, default=0, show_default=True, help="Same seed, same run.")
@click.option(
    "--preset",
    type=click.Choice(["default", "paper"]),
    default="default",
    show_default=True,
    help="How to play: as we recommend, or Algorithm 1 to the letter.",
)
@click.option(
    "--delta",
    type=float,
    default=0.1,
    show_default=True,
    help="Probability with which the paper's bounds may fail (preset paper).",
)
@click.option("--max-episodes", type=int, help="Stop after so many episodes (exit code 3).")
@click.option(
    "--play",
    "how",
    type=click.Choice(["exact", "lazy", "counts"]),
    default="exact",
    show_default=True,
    help="Plan before every episode, in batches, or play a model by its visit counts alone.",
)
@click.option(
    "--stage-dependent",
    is_flag=True,
    help="Do not pool what is learnt over stages, also where the environment is stationary.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder of the run; a fresh one in runs/ if left out.",
)
@common_options
def cover(
    env: str,
    target: str,
    horizon: int | None,
    seed: int,
    preset: Literal["default", "paper"],
    delta: float,
    max_episodes: int | None,
    how: Literal["exact", "lazy", "counts"],
    min_reach: float,
    stage_dependent: bool,
    out: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Play until every target is met; leaves a run with all episodes as Parquet files.

    \b
    ENV is a family (covgame envs), gym:NAME, py:MODULE:FACTORY or a covgame-mdp/1 file.
    Ctrl-C saves what there is; covgame resume goes on.
    Examples:
      covgame cover riverswim:states=8 --target uniform:10 --out my-run
      covgame cover grid --target uniform:50/pair --max-episodes 5000 --json
    """
    from covgame.runs.cover import Settings, create_folder, start

    settings = Settings(seed, preset, delta, stage_dependent, max_episodes, how)
    run = start(env, target, settings, horizon=horizon, min_reach=min_reach)
    create_folder(run, out, target)
    finish(run, as_json, quiet)


def learning_options(command: Command) -> Command:
    """What ``explore`` and ``identify`` share."""
    for option in (
        click.option(
            "--out",
            type=click.Path(file_okay=False, path_type=Path),
            help="The folder of the run; a fresh one in runs/ if left out.",
        ),
        click.option(
            "--most-successors",
            type=int,
            help="No state and action lead to more different successors (the end is one).",
        ),
        click.option(
            "--stage-dependent",
            is_flag=True,
            help="Do not pool what is learnt over stages, also where ENV is stationary.",
        ),
        click.option(
            "--force", is_flag=True, help="Begin also what is not likely to end in a lifetime."
        ),
        click.option(
            "--scale",
            type=float,
            default=1.0,
            show_default=True,
            help="Multiply the paper's thresholds; below 1 nothing is guaranteed.",
        ),
        click.option("--max-episodes", type=int, help="Stop after so many episodes (exit code 3)."),
        click.option(
            "--play",
            "how",
            type=click.Choice(["exact", "counts"]),
            help="Episode by episode, or a model by its visit counts alone (as --preset paper).",
        ),
        click.option(
            "--preset",
            type=click.Choice(["certified", "paper"]),
            default="certified",
            show_default=True,
            help="Whose confidence sets and stopping rule.",
        ),
        click.option("--seed", type=int, default=0, show_default=True, help="Same seed, same run."),
        click.option(
            "--delta",
            type=float,
            default=0.1,
            show_default=True,
            help="Probability with which the answer may be wrong.",
        ),
        click.option("--epsilon", type=float, required=True, help="How good it has to be."),
        click.option("--horizon", type=int, help="Number of stages, where ENV leaves it open."),
        click.argument("env"),
    ):
        command = option(command)
    return command


@main.command()
@learning_options
@common_options
def explore(
    env: str,
    horizon: int | None,
    epsilon: float,
    delta: float,
    seed: int,
    preset: Literal["certified", "paper"],
    how: Literal["exact", "counts"] | None,
    max_episodes: int | None,
    scale: float,
    most_successors: int | None,
    stage_dependent: bool,
    force: bool,
    out: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Reward-free exploration: a model that is good enough for any reward.

    \b
    Afterwards covgame policy RUN --reward FILE plans on it.
    Examples:
      covgame explore riverswim:states=6,horizon=10 --epsilon 1
      covgame explore garnet:states=3,actions=2,horizon=3 --epsilon 1.5 --preset paper
    """
    from covgame.runs.learn import Settings

    settings = Settings(
        "explore", epsilon, delta, seed, preset, how, max_episodes, scale,
        most_successors=most_successors, stage_dependent=stage_dependent,
    )  # fmt: skip
    begin_learning(env, settings, horizon, force, out, as_json, quiet)


@main.command()
@learning_options
@click.option(
    "--suprema",
    type=click.Choice(["exact", "relaxed"]),
    help="Targets by a program per cell, or by a bound that is quicker; by size if left out.",
)
@click.option(
    "--reward-range",
    default="0,1",
    show_default=True,
    help="LO,HI: what the environment may pay.",
)
@click.option("--return-range", help="LO,HI: a known range of the sum of an episode's rewards.")
@click.option(
    "--prune",
    is_flag=True,
    help="The published form, with PruneDataset: it biases the estimates and can be wrong.",
)
@common_options
def identify(
    env: str,
    horizon: int | None,
    epsilon: float,
    delta: float,
    seed: int,
    preset: Literal["certified", "paper"],
    how: Literal["exact", "counts"] | None,
    max_episodes: int | None,
    scale: float,
    most_successors: int | None,
    stage_dependent: bool,
    suprema: Literal["exact", "relaxed"] | None,
    reward_range: str,
    return_range: str | None,
    prune: bool,
    force: bool,
    out: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Best-policy identification: a policy close to the best for ENV's reward.

    \b
    Examples:
      covgame identify gym:FrozenLake-v1 --horizon 20 --epsilon 0.2 --return-range 0,1
      covgame identify garnet:states=3,actions=2,horizon=3 --epsilon 1 --preset paper
    """
    from covgame.runs.learn import Settings

    settings = Settings(
        "identify", epsilon, delta, seed, preset, how, max_episodes, scale, suprema, prune,
        as_range(reward_range), None if return_range is None else as_range(return_range),
        most_successors, stage_dependent,
    )  # fmt: skip
    if prune and not quiet:
        say("PruneDataset biases the estimates; what comes out may be far from the best policy")
    begin_learning(env, settings, horizon, force, out, as_json, quiet)


def begin_learning(
    env: str,
    settings: Settings,
    horizon: int | None,
    force: bool,
    out: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Say what it will take, give the run a folder, and play it."""
    from covgame.cli.learning import announce
    from covgame.runs.learn import create_folder, start

    run = start(env, settings, horizon=horizon, force=force)
    if not quiet:
        announce(run)
    create_folder(run, out)
    finish_learning(run, as_json, quiet)


def finish_learning(run: AnyRun, as_json: bool, quiet: bool) -> None:
    """Play a run to its end, print the answer, and exit as the contract says."""
    from covgame.cli.learning import EXIT_CODES, watch

    if run.stopped is None:
        watch(run, quiet=quiet)
    answer = run.to_dict()
    if as_json:
        print_json(answer)
    else:
        click.echo(run.to_text())
    code = EXIT_CODES[run.stopped or "interrupted"]
    leave(code, run.failure, run.path, quiet)


@main.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--reward",
    required=True,
    type=click.Path(path_type=Path),
    help="A covgame-reward/1 file: rows [stage, state, action, reward in [0,1]].",
)
@common_options
def policy(run: Path, reward: Path, as_json: bool, quiet: bool) -> None:
    """The best policy for a reward, on the model that a run has learnt.

    \b
    Example:
      covgame policy runs/garnet-1 --reward reward.json --json
    """
    del quiet
    from covgame.cli.learning import plan_on_run, show_policy

    answer = plan_on_run(run, reward)
    if as_json:
        print_json(answer)
    else:
        click.echo(show_policy(answer))


@main.command()
@click.argument("run", type=click.Path(path_type=Path))
@common_options
def certify(run: Path, as_json: bool, quiet: bool) -> None:
    """Check what a run claims, from its data alone; exits with 2 if it does not hold.

    \b
    Example:
      covgame certify runs/riverswim-states-6-1
    """
    del quiet
    from covgame.cli.learning import show_checked
    from covgame.runs.certify import certify as check

    checked = check(run)
    if as_json:
        print_json({**checked.to_dict(), "run": str(run)})
    else:
        click.echo(show_checked(checked))


@main.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--max-episodes", type=int, help="A new budget, counted from the first episode.")
@common_options
def resume(run: Path, max_episodes: int | None, as_json: bool, quiet: bool) -> None:
    """Go on where a stopped or killed run was.

    \b
    Example:
      covgame resume runs/riverswim-states-8-1
    """
    from covgame.runs import cover as covering
    from covgame.runs import learn as exploring
    from covgame.runs.taking_up import is_covering

    if is_covering(run):
        covered = covering.load(run, max_episodes)
        say_unless(quiet, covered.notice)
        finish(covered, as_json, quiet)
    else:
        learnt = exploring.load(run, max_episodes)
        say_unless(quiet, learnt.notice)
        finish_learning(learnt, as_json, quiet)


def finish(run: Run, as_json: bool, quiet: bool) -> None:
    """Play a run to its end, print the answer, and exit as the contract says."""
    from covgame.cli.cover import EXIT_CODES, watch
    from covgame.runs.cover import save_answer

    if run.stopped is None:
        watch(run, quiet=quiet)
    cells = run.target.shape.cells
    if cells > LARGE and run.environment.known and run.stopped != "interrupted" and not quiet:
        say(f"now phi*, a linear program over {cells:,} cells; all episodes are saved")
    answer = run.to_dict()
    save_answer(run, answer)
    if as_json:
        print_json(answer)
    else:
        click.echo(run.to_text())
    code = EXIT_CODES[run.stopped or "interrupted"]
    leave(code, run.failure, run.path, quiet)


def leave(code: int, failure: str | None, path: Path | None, quiet: bool) -> NoReturn:
    """Exit; where work is left, say why and how to go on."""
    if code and not quiet:
        why = {3: "the budget is spent", 4: failure, INTERRUPTED: "interrupted"}[code]
        more = " --max-episodes N" if code == 3 else ""
        say(f"{why}; all is saved, go on with: covgame resume {path}{more}")
    sys.exit(code)


def _stop(_signal: int, _frame: object) -> None:
    """Being asked to end is the same as Ctrl-C."""
    raise KeyboardInterrupt


def run() -> None:
    """The entry point: click's own complaints become one sentence, too."""
    signal.signal(signal.SIGTERM, _stop)
    try:
        sys.exit(main(standalone_mode=False))
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "covgame"
        complain(f"{error.format_message().rstrip('.')}; {command} --help says more", 2)
    except click.ClickException as error:
        complain(error.format_message(), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        complain("interrupted", INTERRUPTED)


@main.group(invoke_without_command=True)
@click.option(
    "--profile",
    default="quick",
    show_default=True,
    help="What to run: quick (a minute or two), tuning (the peers' forms) or full (an hour or so).",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("bench"),
    show_default=True,
    help="The folder of the results; what is done there is not done again.",
)
@click.option("--workers", type=int, help="Processes; as many as there are cores if left out.")
@click.option("--only", help="Only experiments whose name matches, such as 'cover|chain*'.")
@common_options
@click.pass_context
def bench(
    context: click.Context,
    profile: str,
    out: Path,
    workers: int | None,
    only: str | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """Compare covgame with its peers: experiments as data, one Parquet file of results.

    \b
    Ctrl-C keeps what is done; the same command goes on.
    Examples:
      covgame bench
      covgame bench --profile full --out bench-full
      covgame bench report bench-full --out bench-pages
    """
    if context.invoked_subcommand is not None:
        return
    from covgame.cli.bench import run_profile, show

    answer, results, complete = run_profile(profile, out, workers, only, quiet)
    if as_json:
        print_json(answer)
    else:
        click.echo(show(results))
    if not complete:
        if not quiet:
            say("interrupted; all is saved, the same command goes on")
        sys.exit(INTERRUPTED)


@bench.command("report")
@click.argument("results", type=click.Path(path_type=Path), default=Path("bench"))
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write tables.md and all figures into this folder; without it, tables are printed.",
)
@click.option(
    "--figures",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write the figures into this folder.",
)
@click.option(
    "--page",
    "pages",
    multiple=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Renew the tables in this page, between their markers; may be given several times.",
)
@common_options
def bench_report(
    results: Path,
    out: Path | None,
    figures: Path | None,
    pages: tuple[Path, ...],
    as_json: bool,
    quiet: bool,
) -> None:
    """Tables and figures from the results of covgame bench.

    \b
    Example:
      covgame bench report bench --out pages
    """
    del quiet
    from covgame.cli.bench import report

    answer, text = report(results, out, figures, pages)
    if as_json:
        print_json(answer)
    else:
        click.echo(text)


@main.command()
@click.argument("name", required=False)
@click.option("--horizon", type=int, help="Number of stages, where NAME leaves it open.")
@click.option(
    "--save",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the world NAME as a covgame-mdp/1 file.",
)
@common_options
def envs(
    name: str | None, horizon: int | None, save: Path | None, as_json: bool, quiet: bool
) -> None:
    """What ENV can name, with parameters and examples.

    \b
    Examples:
      covgame envs
      covgame envs grid
      covgame envs grid:rows=3,columns=3 --save grid.json
    """
    from covgame.cli.envs import describe_all, describe_one, save_world

    if save is not None:
        answer, text = save_world(name, horizon, save)
    elif name is not None:
        answer, text = describe_one(name, horizon)
    else:
        answer, text = describe_all()
    if as_json:
        print_json(answer)
    else:
        click.echo(text)
