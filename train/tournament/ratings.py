"""What the games of a tournament say: who scores how much against whom, ratings, and how sure all this is.

All arrays of games are `GAME[T, B, n]`: T tables of agents, each with the same B blocks (deals) of n rotations. Block b
is one deal at all tables, so whatever is summed over tables has its interval over the B deals.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import choix
import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from isis_env.config import MAX_PLAYERS, GameConfig
from train.evaluate import RECORD, offended, t_interval, turn_order

GAME = np.dtype(
    [
        *RECORD.descr,
        ("seed", "u8"),
        ("decisions", "i8", MAX_PLAYERS),  # per seat
        ("choices", "i8", MAX_PLAYERS),  # of them those that could draw or place a stone
        ("draws", "i8", MAX_PLAYERS),  # of them those that drew
    ]
)

# The rating of the agent so called is 0; where it takes no part the mean is.
ANCHOR = "greedy"

ELO = 400 / np.log(10)

RESAMPLES = 1000

# Rounding of sums of thirds.
EPSILON = 1e-9


@dataclass(frozen=True)
class Cell:
    """What `agent` on one seat reached with `against` on all others.

    Attributes:
        score_rate: mean share of the win, as `train.evaluate` has it.
        interval: its 95 % interval over blocks, see `train.evaluate.t_interval`.
        separated: whether the interval leaves out the equal share, 1 / players.
    """

    agent: str
    against: str
    score_rate: float
    interval: tuple[float, float]
    separated: bool


@dataclass(frozen=True)
class Standing:
    """What one agent reached over all its games.

    Attributes:
        rating, rating_interval: in Elo-like units, 95 % by bootstrap over blocks; see `ratings`.
        score_rate, interval: mean over the tables at which it holds one seat, 95 % interval over blocks.
        margin: mean per seat of own score minus the mean of the others'; forfeited games as `reward.forfeit` pays.
        tied_games: share of its games that had several winners.
        by_turn: score rate of one of its seats by order of play from the start player.
        draw_share: how often it drew where a stone was possible, too.
        illegal: choices outside the mask; each ended its game.
        ms_per_decision: mean time on one core, when asked for many games at once.
    """

    agent: str
    rating: float
    rating_interval: tuple[float, float]
    score_rate: float
    interval: tuple[float, float]
    margin: float
    tied_games: float
    by_turn: list[float]
    draw_share: float
    illegal: int
    games: int
    ms_per_decision: float


@dataclass(frozen=True)
class Neighbours:
    """Two agents next to each other in the ranking.

    Attributes:
        lead, interval: difference of their ratings, 95 % from the same bootstrap.
        overlap: whether the intervals of the two ratings do.
    """

    ahead: str
    behind: str
    lead: float
    interval: tuple[float, float]
    overlap: bool


@dataclass(frozen=True)
class Ranking:
    """The result of a tournament.

    Attributes:
        games, blocks: at each table.
        tables: agents by seat, the last on all remaining seats.
        tied_games: share of all games.
        by_turn: score rate by order of play from the start player, whoever plays.
        agents: the best first.
        cells: the crosstable, row by row in the same order.
        neighbours: in the same order.
        groups: the agents of a group were ahead of those of later ones in every game, so that how far their ratings are
            apart rests on the tie that is added (see `ratings`); one group where there is no such gap.
        secret: what the deals follow from besides the seed (see `train.secret`), or None.
    """

    board: str
    players: int
    common_reserve: bool
    seed: int
    games: int
    blocks: int
    tables: list[list[str]]
    tied_games: float
    by_turn: list[float]
    agents: list[Standing]
    cells: list[Cell]
    neighbours: list[Neighbours]
    groups: list[list[str]]
    secret: str | None = None


def rank(
    games: np.ndarray,
    tables: Sequence[Sequence[int]],
    names: Sequence[str],
    seconds: np.ndarray,
    config: GameConfig,
    secret: str | None = None,
) -> Ranking:
    """Rank the agents: ratings, scores, the crosstable and their intervals, all from these games.

    Args:
        games: `GAME[T, B, n]`, with `agent` an index into `names`.
        tables: the agents of every table, of two or of n; the last fills the remaining seats.
        names: the agents' specs.
        seconds: float[len(names)], what each took for all its decisions.
        secret: what the deals followed from besides the seed, if there was one.
    """
    n = config.players
    wins = pairwise_wins(games, len(names))
    anchor = names.index(ANCHOR) if ANCHOR in names else None
    rating = ratings(wins.sum(axis=0), anchor)
    samples = _resampled_ratings(wins, anchor)
    order = sorted(range(len(names)), key=lambda index: (-rating[index], names[index]))
    low, high = _percentiles(samples)

    standings = []
    for index in order:
        intervals = (float(low[index]), float(high[index]))
        standings.append(_standing(index, games, tables, names, float(rating[index]), intervals, seconds[index], n))
    neighbours = []
    for ahead, behind in itertools.pairwise(order):
        lead_low, lead_high = _percentiles(samples[:, ahead] - samples[:, behind])
        lead, overlap = float(rating[ahead] - rating[behind]), bool(low[ahead] <= high[behind])
        neighbours.append(Neighbours(names[ahead], names[behind], lead, (float(lead_low), float(lead_high)), overlap))

    share, turn = games["share"][..., :n], turn_order(games, n)
    return Ranking(
        board=config.board,
        players=n,
        common_reserve=config.common_reserve,
        seed=int(games["seed"].min()),
        games=games.shape[1] * n,
        blocks=games.shape[1],
        tables=[[names[index] for index in table] for table in tables],
        tied_games=float(_tied(games, n).mean()),
        by_turn=[float(share[turn == place].mean()) for place in range(n)],
        agents=standings,
        cells=_crosstable(games, tables, names, order, n),
        neighbours=neighbours,
        groups=_groups(wins.sum(axis=0), names, order),
        secret=secret,
    )


def pairwise_wins(games: np.ndarray, k: int) -> np.ndarray:
    """For every block how often agent i was ahead of agent j, a tie counting half: float[B, k, k].

    Every game is broken into the comparisons of all its pairs of seats. Margins rank the seats of a game as the scores
    do, and one who forfeited behind all others.
    """
    n = games.shape[2]
    wins = np.zeros((games.shape[1], k, k))
    block = np.broadcast_to(np.arange(games.shape[1])[:, None], games.shape)
    for one, other in itertools.permutations(range(n), 2):
        ours, theirs = games["agent"][..., one], games["agent"][..., other]
        margins = games["margin"]
        ahead = (margins[..., one] > margins[..., other]) + 0.5 * (margins[..., one] == margins[..., other])
        met = ours != theirs
        np.add.at(wins, (block[met], ours[met], theirs[met]), ahead[met])
    return wins


def ratings(wins: np.ndarray, anchor: int | None) -> np.ndarray:
    """Elo-like ratings float[k]: 400 / ln 10 times the log-strengths of the Bradley-Terry model, that of `anchor` 0.

    With two players a lead of 100 stands for a score rate of 0.64 and one of 400 for 0.91. Games of three and four are
    given as all their pairwise comparisons: under the Plackett-Luce model of rankings this estimates the same strengths
    consistently (Azari Soufiani, Chen, Parkes and Xia, Generalized Method-of-Moments for Rank Aggregation, 2013). One
    tie is added between any two agents that met. It keeps an agent that lost or won everything at a finite rating, and
    matters little where both won some games.

    Args:
        wins: float[k, k], how often i was ahead of j, a tie counting half.
        anchor: whose rating is 0; None: the mean is.
    """
    strengths = choix.ilsr_pairwise_dense(wins + 0.5 * (wins + wins.T > 0))
    return ELO * (strengths - (strengths.mean() if anchor is None else strengths[anchor]))


def _resampled_ratings(wins: np.ndarray, anchor: int | None) -> np.ndarray:
    """The ratings of as many blocks drawn with replacement, again and again: float[RESAMPLES, k]."""
    rng = np.random.default_rng(0)
    blocks = len(wins)
    samples = []
    for _ in range(RESAMPLES):
        times = np.bincount(rng.integers(blocks, size=blocks), minlength=blocks)
        samples.append(ratings(np.tensordot(times, wins, 1), anchor))
    return np.array(samples)


def _percentiles(samples: np.ndarray) -> np.ndarray:
    """The ends of the middle 95 % along the first axis."""
    return np.percentile(samples, [2.5, 97.5], axis=0)


def _groups(wins: np.ndarray, names: Sequence[str], order: Sequence[int]) -> list[list[str]]:
    """Agents between which wins or ties go both ways, directly or around, stand together."""
    _, label = connected_components(csr_array(wins > 0), connection="strong")
    return [[names[index] for index in group] for _, group in itertools.groupby(order, key=lambda index: label[index])]


def _standing(
    index: int,
    games: np.ndarray,
    tables: Sequence[Sequence[int]],
    names: Sequence[str],
    rating: float,
    rating_interval: tuple[float, float],
    seconds: float,
    n: int,
) -> Standing:
    seats = games["agent"][..., :n] == index  # bool[T, B, n, n]
    share = games["share"][..., :n]
    turn = turn_order(games, n)
    alone = [number for number, table in enumerate(tables) if index in _holders_of_one_seat(table, n)]
    blocks = np.where(seats, share, 0.0)[alone].sum(axis=-1).mean(axis=(0, 2))  # per deal, over all those tables
    took_part = seats.any(axis=-1)
    return Standing(
        agent=names[index],
        rating=rating,
        rating_interval=rating_interval,
        score_rate=float(blocks.mean()),
        interval=t_interval(blocks),
        margin=float(games["margin"][..., :n][seats].mean()),
        tied_games=float(_tied(games, n)[took_part].mean()),
        by_turn=[float(share[seats & (turn == place)].mean()) for place in range(n)],
        draw_share=float(games["draws"][..., :n][seats].sum() / games["choices"][..., :n][seats].sum()),
        illegal=int(offended(games, seats).sum()),
        games=int(took_part.sum()),
        ms_per_decision=float(1000 * seconds / games["decisions"][..., :n][seats].sum()),
    )


def _holders_of_one_seat(table: Sequence[int], n: int) -> Sequence[int]:
    """All agents of the table but the one that fills several seats."""
    return table if len(table) == n else table[:-1]


def _tied(games: np.ndarray, n: int) -> np.ndarray:
    """Whether a game had several winners by score: bool[T, B, n]. A forfeit is no tie."""
    return ((games["share"][..., :n] > 0).sum(axis=-1) > 1) & (games["offender"] < 0)


def _crosstable(
    games: np.ndarray, tables: Sequence[Sequence[int]], names: Sequence[str], order: Sequence[int], n: int
) -> list[Cell]:
    cells = {}
    for table, played in zip(tables, games, strict=True):
        if len(table) == 2:
            for agent in _holders_of_one_seat(table, n):
                shares = np.where(played["agent"][..., :n] == agent, played["share"][..., :n], 0.0)
                blocks = shares.sum(axis=-1).mean(axis=-1)
                low, high = t_interval(blocks)
                separated = not low - EPSILON <= 1 / n <= high + EPSILON
                (against,) = (other for other in table if other != agent)
                cells[agent, against] = Cell(names[agent], names[against], float(blocks.mean()), (low, high), separated)
    return [cells[pair] for pair in itertools.permutations(order, 2)]
