"""The result of a tournament for reading: a table on screen, and files of text, numbers and pictures in its folder."""

import csv
import io
import itertools
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from train.command import form_title, make_console, write_bytes, write_json, write_text
from train.tournament.ratings import ANCHOR, Ranking, Standing

TABLE_FILE, MARKDOWN_FILE = "table.json", "table.md"
CROSSTABLE_FILE, RATINGS_FILE = "crosstable.csv", "ratings.csv"
CROSSTABLE_PICTURE, RATINGS_PICTURE = "crosstable.png", "ratings.png"

# With more agents than this the intervals find no room in a crosstable on screen.
MAX_WIDE = 4

HEADINGS = ("rating", "score", "draws %", "ties %", "illegal", "ms")


@dataclass(frozen=True)
class _Table:
    """A table in words; the first two columns are place and agent."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


def print_ranking(ranking: Ranking) -> None:
    """The result on screen."""
    console = make_console()
    console.print(_title(ranking), highlight=False)
    for words in _tables(ranking, wide=len(ranking.agents) <= MAX_WIDE):
        table = Table(title=words.title, title_justify="left", box=box.SIMPLE_HEAD)
        table.add_column("", justify="right")
        table.add_column("agent", overflow="fold", min_width=10)
        for heading in words.headings:
            table.add_column(heading, justify="right", no_wrap=True)
        for row in words.rows:
            table.add_row(*row)
        console.print(table)
    for remark in remarks(ranking):
        console.print(remark, markup=False, highlight=False)


def write_ranking(ranking: Ranking, folder: Path) -> None:
    """`table.json`, `table.md`, `crosstable.csv`, `ratings.csv`, `crosstable.png` and `ratings.png`."""
    write_json(ranking, folder / TABLE_FILE)
    write_text(folder / MARKDOWN_FILE, "\n".join(_markdown(ranking)) + "\n")
    write_text(folder / CROSSTABLE_FILE, _csv([_flat(asdict(cell)) for cell in ranking.cells]))
    write_text(folder / RATINGS_FILE, _csv([_flat(asdict(standing)) for standing in ranking.agents]))
    _draw_crosstable(ranking, folder / CROSSTABLE_PICTURE)
    _draw_ratings(ranking, folder / RATINGS_PICTURE)


def remarks(ranking: Ranking) -> list[str]:
    """In words: which differences these games leave open."""
    names = [standing.agent for standing in ranking.agents]
    if ranking.players == 2:  # the two cells of a pair say the same
        title = "Pairs whose direct score leaves open which is better (its interval holds 1/2)"
        pairs = [
            f"{cell.agent} and {cell.against}"
            for cell in ranking.cells
            if not cell.separated and names.index(cell.agent) < names.index(cell.against)
        ]
    else:
        title = f"Direct scores that may be the equal share (the interval holds 1/{ranking.players})"
        pairs = [f"{cell.agent} among {cell.against}" for cell in ranking.cells if not cell.separated]
    close = [
        f"{pair.ahead} and {pair.behind} (lead {pair.lead:.0f}, {pair.interval[0]:.0f} to {pair.interval[1]:.0f})"
        for pair in ranking.neighbours
        if pair.overlap
    ]
    lines = [
        f"{title}: {'; '.join(pairs) or 'none'}.",
        f"Neighbours in the ranking whose rating intervals overlap: {'; '.join(close) or 'none'}.",
    ]
    for ahead, behind in itertools.pairwise(ranking.groups):
        lines.append(
            f"{', '.join(ahead)} came before {', '.join(behind)} in every game: how far their ratings are apart rests "
            "on the number of games and the added tie alone."
        )
    return lines


def _title(ranking: Ranking) -> str:
    r = ranking
    games = f"{r.games} games in {r.blocks} blocks at each of {len(r.tables)} tables"
    form = form_title(r.board, r.players, r.common_reserve)
    return f"{form}: {games}, seed {r.seed}{', secret deals' if r.secret else ''}"


def _crosstable_title(ranking: Ranking) -> str:
    if ranking.players == 2:
        return "score rate of the row's agent against the column's"
    n = ranking.players
    return f"score rate of the row's agent on one seat, the column's on {n - 1}; an equal share is 1/{n}"


def _tables(ranking: Ranking, wide: bool) -> list[_Table]:
    """The ranking, the crosstable (its cells with an interval where it is to be wide), the scores by order of play."""
    names = [standing.agent for standing in ranking.agents]
    cells = {(cell.agent, cell.against): _score(cell.score_rate, cell.interval, wide) for cell in ranking.cells}

    def table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> _Table:
        first = enumerate(names, 1)
        return _Table(
            title, headings, [[str(place), name, *row] for (place, name), row in zip(first, rows, strict=True)]
        )

    turns = [str(place) for place in range(1, ranking.players + 1)]
    return [
        table("ranking", HEADINGS, [_words(standing) for standing in ranking.agents]),
        table(
            _crosstable_title(ranking),
            [str(place) for place in range(1, len(names) + 1)],
            [[cells.get((agent, against), "") for against in names] for agent in names],
        ),
        table(
            "score rate of one seat by order of play from the start player",
            turns,
            [[f"{rate:.3f}" for rate in standing.by_turn] for standing in ranking.agents],
        ),
    ]


def _words(standing: Standing) -> list[str]:
    """One agent in the ranking, by `HEADINGS`."""
    s = standing
    low, high = s.rating_interval
    return [
        f"{s.rating:.0f} ({low:.0f} to {high:.0f})",
        _score(s.score_rate, s.interval, wide=True),
        f"{100 * s.draw_share:.1f}",
        f"{100 * s.tied_games:.1f}",
        str(s.illegal),
        f"{s.ms_per_decision:.2g}",
    ]


def _score(rate: float, interval: tuple[float, float], wide: bool) -> str:
    return f"{rate:.3f} ({interval[0]:.3f}-{interval[1]:.3f})" if wide else f"{rate:.2f}"


def _markdown(ranking: Ranking) -> list[str]:
    zero = f"`{ANCHOR}` at 0" if ANCHOR in [standing.agent for standing in ranking.agents] else "mean 0"
    lines = [
        "# Tournament",
        "",
        f"{_title(ranking)}.",
        "",
        f"Ratings are in Elo-like units, {zero}, with 95 % intervals by bootstrap over blocks; they count who came "
        "before whom, scores who won; theirs are 95 % t intervals over blocks on the logit scale, which keeps them "
        "between 0 and 1. Draws: how often a tile was drawn where a stone was possible, too. Ms: mean time of a "
        "decision on one core.",
        "",
    ]
    for table in _tables(ranking, wide=True):
        headings = ["", "agent", *table.headings]
        lines += [f"{table.title[0].upper()}{table.title[1:]}:", ""]
        lines += [f"| {' | '.join(row)} |" for row in (headings, ["---"] * len(headings), *table.rows)]
        lines.append("")
    by_turn = ", ".join(f"{rate:.3f}" for rate in ranking.by_turn)
    return [
        *lines,
        f"By order of play, whoever plays: {by_turn}. Tied games: {100 * ranking.tied_games:.1f} %.",
        "",
        *(f"- {remark}" for remark in remarks(ranking)),
        "",
        f"![crosstable]({CROSSTABLE_PICTURE})",
        "",
        f"![ratings]({RATINGS_PICTURE})",
        "",
        "To play it again:",
        "",
        "```",
        _command(ranking),
        "```",
    ]


def _command(ranking: Ranking) -> str:
    """The command that plays the same games."""
    agents = shlex.join(standing.agent for standing in ranking.agents)
    form = f"--board {ranking.board} --players {ranking.players}"
    form += " --common-reserve" if ranking.common_reserve else ""
    form += f" --secret {shlex.quote(ranking.secret)}" if ranking.secret else ""
    return f"python -m train.tournament {agents} {form} --games {ranking.games} --seed {ranking.seed} --out NEW_FOLDER"


def _flat(record: dict[str, Any]) -> dict[str, Any]:
    """Intervals and lists as columns of their own: `interval_low`, `interval_high`, `by_turn_1` and so on."""
    flat: dict[str, Any] = {}
    for key, value in record.items():
        if isinstance(value, tuple):
            flat[f"{key}_low"], flat[f"{key}_high"] = value
        elif isinstance(value, list):
            flat |= {f"{key}_{number}": part for number, part in enumerate(value, 1)}
        else:
            flat[key] = value
    return flat


def _csv(rows: Sequence[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _save(figure: Any, file: Path) -> None:
    """The picture is there as a whole, or as it was before."""
    picture = io.BytesIO()
    figure.savefig(picture, dpi=120, format="png")
    write_bytes(file, picture.getvalue())


def _draw_crosstable(ranking: Ranking, file: Path) -> None:
    from matplotlib.colors import TwoSlopeNorm
    from matplotlib.figure import Figure

    names = [standing.agent for standing in ranking.agents]
    k = len(names)
    figure = Figure(figsize=(3.5 + 0.7 * k, 1.5 + 0.5 * k), layout="constrained")
    axes = figure.add_subplot()
    rates = [[float("nan")] * k for _ in names]
    for cell in ranking.cells:
        row, column = names.index(cell.agent), names.index(cell.against)
        rates[row][column] = cell.score_rate
        axes.text(column, row, f"{cell.score_rate:.2f}", ha="center", va="center", fontsize="small")
    # White is the equal share.
    image = axes.imshow(rates, cmap="RdBu", norm=TwoSlopeNorm(1 / ranking.players, 0, 1), aspect="auto", alpha=0.7)
    axes.set_xticks(range(k), [str(place) for place in range(1, k + 1)])
    axes.set_yticks(range(k), [f"{name}  {place}" for place, name in enumerate(names, 1)], fontsize="small")
    axes.set_title(_crosstable_title(ranking), fontsize="small", loc="right")
    figure.colorbar(image, ax=axes, label="score rate")
    _save(figure, file)


def _draw_ratings(ranking: Ranking, file: Path) -> None:
    from matplotlib.figure import Figure

    agents = ranking.agents[::-1]  # the best on top
    figure = Figure(figsize=(8, 1.5 + 0.4 * len(agents)), layout="constrained")
    axes = figure.add_subplot()
    values = [standing.rating for standing in agents]
    below = [max(0.0, standing.rating - standing.rating_interval[0]) for standing in agents]
    above = [max(0.0, standing.rating_interval[1] - standing.rating) for standing in agents]
    axes.barh([standing.agent for standing in agents], values, xerr=[below, above], capsize=3, color="C0", alpha=0.7)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_xlabel("rating, with 95 % interval")
    axes.grid(axis="x", alpha=0.3)
    _save(figure, file)
