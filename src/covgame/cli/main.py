"""``covgame``: the commands. What they need is imported when they run."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from covgame.cli.common import INTERRUPTED, Command, common_options, complain, print_json, say

if TYPE_CHECKING:
    from covgame.covering import Run

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


def world_and_target(command: Command) -> Command:
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
        click.option("--target", required=True, help=f"What to cover: {TARGETS}."),
        click.argument("env"),
    ):
        command = option(command)
    return command


@main.command()
@world_and_target
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
    target: str,
    horizon: int | None,
    min_reach: float,
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
    """
    import covgame

    if plot is not None:
        from covgame.report.figures import check_can_draw

        check_can_draw(plot)
    environment = covgame.make(env, horizon)
    model = environment.require_model("a plan")
    if model.shape.cells > LARGE and not quiet:
        click.echo(
            f"covgame: a linear program over {model.shape.cells:,} cells; this can take a while",
            err=True,
        )
    result = covgame.plan(environment, target, min_reach=min_reach, all_bounds=all_bounds)
    answer, text = result.to_dict(top), result.to_text(top)
    if plot is not None:
        result.plot(plot)
        if not quiet:
            click.echo(f"covgame: drew {plot}", err=True)
    if as_json:
        print_json(answer)
    else:
        click.echo(text)


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
    from covgame.covering import Settings, create_folder, start

    settings = Settings(seed, preset, delta, stage_dependent, max_episodes, how)
    run = start(env, target, settings, horizon=horizon, min_reach=min_reach)
    create_folder(run, out, target)
    finish(run, as_json, quiet)


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
    from covgame.covering import load

    finish(load(run, max_episodes), as_json, quiet)


def finish(run: Run, as_json: bool, quiet: bool) -> None:
    """Play a run to its end, print the answer, and exit as the contract says."""
    from covgame.cli.cover import EXIT_CODES, watch
    from covgame.covering import save_answer

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
    if code and not quiet:
        why = {3: "the budget is spent", 4: run.failure, INTERRUPTED: "interrupted"}[code]
        more = " --max-episodes N" if code == 3 else ""
        say(f"{why}; all is saved, go on with: covgame resume {run.path}{more}")
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
