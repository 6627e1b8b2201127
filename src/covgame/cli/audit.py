"""``covgame audit``: what data cover, what is missing, and how good data could be."""

from __future__ import annotations

from pathlib import Path

import click

import covgame
from covgame.cli.messages import print_json, say_unless, show
from covgame.cli.options import TARGETS, IntervalType, common_options, complete_env, parse_columns
from covgame.errors import BadInput
from covgame.targets.resolve import NO_TARGET


@click.command()
@click.argument("data", nargs=-1, required=True)
@click.option(
    "--target",
    help=f"What DATA should cover: {TARGETS}.  [default: uniform:10/pair]",
)
@click.option(
    "--env",
    shell_complete=complete_env,
    help="The environment DATA is from; if its transition table is known, costs are exact.",
)
@click.option("--horizon", type=int, help="Count only the first so many steps of every episode.")
@click.option(
    "--states",
    help="What counts as a state, if DATA holds observations: bins:12[-1.2,0.6]x8[-1,1], "
    "round:2, keys:NAME,..., image:hash, py:MODULE:FUNCTION.",
)
@click.option("--actions", help="grid:N, for an ENV whose actions are real numbers.")
@click.option(
    "--columns",
    help="What a table's columns are called, as OURS=THEIRS: state=s,action=a,done=over; state=x+y "
    "makes a state of two columns.",
)
@click.option("--epsilon", type=float, help="Also say what explore and identify would certify.")
@click.option(
    "--delta",
    type=float,
    default=0.1,
    show_default=True,
    help="Probability that a certificate may be wrong (with --epsilon).",
)
@click.option(
    "--reward-range",
    type=IntervalType(),
    metavar="LO,HI",
    default="0,1",
    show_default=True,
    help="The least and most a step can pay (with --epsilon).",
)
@click.option("--most-states", type=int, help="There are at most so many states (with --epsilon).")
@click.option("--stage-dependent", is_flag=True, help="Do not assume that all stages behave alike.")
@click.option(
    "--at-any-price",
    is_flag=True,
    help="Compute exact costs in large worlds too, however long it takes.",
)
@click.option(
    "--top",
    type=click.IntRange(min=0),
    default=12,
    show_default=True,
    help="How many holes to show.",
)
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw visits against the target into this file (.svg, .png or .pdf).",
)
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the audit as one HTML page.",
)
@common_options
def audit(
    data: tuple[str, ...],
    target: str | None,
    env: str | None,
    horizon: int | None,
    states: str | None,
    actions: str | None,
    columns: str | None,
    epsilon: float | None,
    delta: float,
    reward_range: tuple[float, float],
    most_states: int | None,
    stage_dependent: bool,
    at_any_price: bool,
    top: int,
    plot: Path | None,
    report: Path | None,
    as_json: bool,
    quiet: bool,
) -> None:
    """What a dataset covers, what is missing, and what that would cost to collect.

    \b
    DATA is a run, a Parquet, CSV or Feather file or a folder of them,
    or a Minari dataset (minari:ID). Several add up.
    Exits with 0 whether or not the target is covered; --json has "covered".
    Examples:
      covgame audit runs/grid-1 --target uniform:50/pair
      covgame audit steps.csv --columns state=x+y,action=a,done=over --target uniform:10/pair
      covgame audit minari:corridor/test-v0 --env gym:FrozenLake-v1 --report audit.html
    """
    say_unless(quiet or target is not None, NO_TARGET)
    if plot is not None:
        from covgame.report.figures import check_can_draw

        check_can_draw(plot)
    if report is not None and not report.absolute().parent.is_dir():
        raise BadInput(f"{report}: there is no folder {report.absolute().parent}")
    found = covgame.audit(
        list(data),
        target,
        env=env,
        horizon=horizon,
        states=states,
        actions=actions,
        columns=parse_columns(columns),
        epsilon=epsilon,
        delta=delta,
        reward_range=reward_range,
        most_states=most_states,
        stage_dependent=stage_dependent,
        at_any_price=at_any_price,
    )
    answer = found.to_dict() if as_json else {}
    text = "" if as_json else found.to_text(top)
    if plot is not None:
        found.plot(plot)
        say_unless(quiet, f"drew {plot}")
    if report is not None:
        found.save_html(report)
        say_unless(quiet, f"wrote {report}")
    if as_json:
        print_json(answer)
    else:
        show(text)
