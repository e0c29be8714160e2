"""Many games at once: step, legal masks, observations, rewards and auto-reset in kernels over slices of rows.

Game i of a batch with seed s plays what the AEC environment plays after `reset(seed=s + i)`, and so do its later
episodes, whatever the batch size and the number of threads.
"""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from isis_env import deal, game
from isis_env.batch_kernels import check_rows, deal_rows, decide_rows, look_rows, step_rows
from isis_env.config import FACES, MAX_PLAYERS, MAX_TILES, GameConfig, check_choice, check_configs, check_positive
from isis_env.game import STATE, IllegalActionError
from isis_env.kernels.threads import SharedKernel, available_cores, run_shared
from isis_env.observation import observation_size
from isis_env.reward import ILLEGAL, REWARDS
from isis_env.secrecy import Recall, check_recall

# What states and configs both hold of a game's form.
SETTINGS = ("side", "players", "common_reserve")


@dataclass(frozen=True)
class Decisions:
    """A batch of pending decisions, one row each; every array has n rows.

    Attributes:
        states: `STATE[n]`, what the seat may know under the agent's recall (`secrecy.conceal`).
        observations: float32[n, L], the same as a vector (`observation.layout`).
        action_masks: int8[n, A], 1 where an action is legal.
        seats: int64[n], the seat on turn.
        games: int64[n], the row that the game is played in; memory belongs to (game, seat), and `first` says when the
            row has gone on to another game.
        first: bool[n], whether this is the seat's first decision of the game: forget what went before.
        seeds: uint64[n], fresh randomness per decision.
    """

    states: np.ndarray
    observations: np.ndarray
    action_masks: np.ndarray
    seats: np.ndarray
    games: np.ndarray
    first: np.ndarray
    seeds: np.ndarray

    def __len__(self) -> int:
        return len(self.seats)

    def __getitem__(self, rows) -> "Decisions":
        """The decisions of some rows (a slice, index array or boolean mask)."""
        return Decisions(*(getattr(self, field.name)[rows] for field in fields(self)))


class TimeStep(NamedTuple):
    """The pending decisions of n games, and which of the games ended in the last step.

    Attributes:
        observations: float32[n, L], what the seat on turn may know.
        action_masks: int8[n, A], its legal actions.
        seats: int64[n], the seat on turn.
        rewards: float64[n, 4], the returns of every seat in rows that are `done`, else 0.
        done: bool[n], whether the row's game ended in the last step; the row shows the next game already, and
            `Batch.final_states` holds how the ended one stood.
    """

    observations: np.ndarray
    action_masks: np.ndarray
    seats: np.ndarray
    rewards: np.ndarray
    done: np.ndarray


class Batch:
    """n games in lockstep, each at its own decision.

    Args:
        config: one setting for all games, or a sequence with one per game, all on one board.
        num_games: n, where `config` is a single one.
        recall: what the observations show, see `isis_env.observation`.
        reward: `"win"` or `"margin"`.
        illegal: what an action outside the mask does. `"raise"`: an `IllegalActionError`, and no row is stepped.
            `"lose"`: it ends that row's game as `reward.forfeit` has it, and the row is marked in `forfeited`.
        threads: how many share the work on large batches; by default one per core that the process may use.

    Attributes:
        states: `STATE[n]`, how the games stand.
        final_states: `STATE[n]`, how the last ended game of each row stood at its end.
        forfeited: bool[n], whether that game was ended by an illegal action of the seat then on turn.
        seeds, episodes: uint64[n], where each row's deal comes from.
        lose: whether an illegal action loses the game rather than being an error.
    """

    def __init__(
        self,
        config: GameConfig | Sequence[GameConfig],
        num_games: int | None = None,
        *,
        recall: Recall = "full",
        reward: str = "win",
        illegal: str = "raise",
        threads: int | None = None,
    ) -> None:
        configs = check_configs(config, num_games, "num_games")
        boards = sorted({config.board for config in configs})
        if len(boards) > 1:
            raise ValueError(f"boards {', '.join(boards)}: all games of a batch must be on one board")
        self.configs = configs
        self.board = boards[0]
        self.num_games = len(configs)
        self.num_actions = configs[0].num_actions
        self.observation_size = observation_size(self.board)
        self._recall = check_recall(recall)
        self._reward = REWARDS[check_choice("reward", reward, tuple(REWARDS))]
        self.lose = check_choice("illegal", illegal, ILLEGAL) == "lose"
        self.threads = available_cores() if threads is None else check_positive("threads", threads)

        n = self.num_games
        self.states = np.zeros(n, STATE)
        for name in SETTINGS:  # every deal of a row keeps them
            self.states[name] = [getattr(config, name) for config in configs]
        self.final_states = np.zeros(n, STATE)
        self.forfeited = np.zeros(n, np.bool_)
        self.seeds = np.zeros(n, np.uint64)
        self.episodes = np.zeros(n, np.uint64)
        self._decks = np.zeros((n, MAX_TILES), np.int8)
        self._all_rows = np.arange(n)
        self._has_reset = False
        self._checked_out: TimeStep | None = None  # the caller's buffers are mostly the same from step to step

    def reset(
        self,
        seed: int | Sequence[int] | np.ndarray | None = None,
        episode: int | Sequence[int] | np.ndarray | None = None,
        *,
        start_player: Sequence[int] | np.ndarray | None = None,
        deck: Sequence[Sequence[int]] | np.ndarray | None = None,
    ) -> TimeStep:
        """Begin a game in every row.

        Args:
            seed: row i takes `seed + i`, or `seed[i]` of a sequence. Without one every row goes to the next episode
                of its seed; the very first time the seeds are fresh.
            episode: which episode of the seed to play, for all rows or one each; the first by default.
            start_player: a seat index per row that overrides the deal's, for this episode.
            deck: all tiles in order per row, likewise.

        Raises:
            ValueError, TypeError: an argument is none of those; the games are as they were.
        """
        starts = None if start_player is None else self._per_row("start_player", start_player, deal.check_start)
        decks = None if deck is None else self._per_row("deck", deck, deal.check_deck)
        if seed is None and episode is not None:
            raise ValueError(f"episode={episode!r}: must be given with a seed")
        if seed is None and self._has_reset:
            seeds, episodes = self.seeds, self.episodes + np.uint64(1)
        else:
            seeds = self._seeds(secrets.randbits(53) if seed is None else seed)
            episodes = self._episodes(0 if episode is None else episode)
        self.seeds[:], self.episodes[:] = seeds, episodes
        self._run(deal_rows, self._all_rows, self.states, self._decks, self.seeds, self.episodes)
        for row in range(self.num_games if starts or decks else 0):
            if decks:
                self._decks[row, : len(decks[row])] = decks[row]
            if starts:
                config = self.configs[row]
                game.reset(self.states[row], config.side, config.players, config.common_reserve, starts[row])
        self._has_reset = True
        return self.look()

    def look(self) -> TimeStep:
        """The pending decisions of all games as they stand, with nothing done and no rewards."""
        self._require_reset()
        turn = self._new_time_step(self.num_games)
        turn.rewards[:], turn.done[:] = 0.0, False
        looked = (turn.observations, turn.action_masks, turn.seats)
        self._run(look_rows, self._all_rows, self.states, self._recall, *looked)
        return turn

    def snapshot(self) -> dict[str, np.ndarray]:
        """Copies of all that the games depend on, as plain arrays; `restore` plays on identically. Tells the deals."""
        self._require_reset()
        return {
            "states": self.states.view(np.uint8).reshape(self.num_games, -1).copy(),
            "decks": self._decks.copy(),
            "seeds": self.seeds.copy(),
            "episodes": self.episodes.copy(),
        }

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Take the games of a `snapshot` of a batch with the same settings.

        Raises:
            ValueError: it is no such snapshot; the games are as they were.
        """
        taken = self.check_snapshot(arrays)
        self.states[:], self._decks[:], self.seeds[:], self.episodes[:] = taken
        self._has_reset = True

    def check_snapshot(self, arrays: dict[str, np.ndarray]) -> tuple[np.ndarray, ...]:
        """States (`STATE[n]`), decks, seeds and episodes of a snapshot that `restore` can take, or its ValueError."""
        n = self.num_games
        check_arrays(
            arrays,
            {
                "states": ((n, STATE.itemsize), np.uint8),
                "decks": (self._decks.shape, np.int8),
                "seeds": ((n,), np.uint64),
                "episodes": ((n,), np.uint64),
            },
        )
        states = np.ascontiguousarray(arrays["states"]).view(STATE).reshape(n)
        for name in SETTINGS:
            if (states[name] != self.states[name]).any():
                raise ValueError(f"states of another {name} than this batch has")
        decks = np.ascontiguousarray(arrays["decks"])
        fits = (np.sort(decks, axis=1) == np.sort(FACES[self.configs[0].side])).all(axis=1)
        if fits.all():
            fits = deal.lead_to(decks, states)
        if not fits.all():
            raise ValueError(f"row {fits.argmin()}: its deck does not lead to its state")
        return states, decks, arrays["seeds"], arrays["episodes"]

    def step(self, actions: np.ndarray, rows: np.ndarray | None = None, out: TimeStep | None = None) -> TimeStep:
        """Take one decision in every game, or in some; one that ends is followed at once by its row's next episode.

        Args:
            actions: integers [m], one per game that is stepped.
            rows: int[m], which games, without repeats; all by default.
            out: a `TimeStep` of m rows whose arrays are written instead of fresh ones; it is checked once, so they
                must keep their shapes.

        Returns:
            the next pending decisions of the games that were stepped, in the order of `rows`.

        Raises:
            IllegalActionError: an action is outside its mask and `illegal="raise"`; no game has changed.
        """
        rows, actions = self.check_actions(actions, rows)
        turn = self._new_time_step(len(rows)) if out is None else self._check_out(out, len(rows))
        self._run(step_rows, rows, *self.arrays, actions, self.lose, self._recall, self._reward, *turn)
        return turn

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """All that kernels such as `play_row` change: states, decks, seeds, episodes, final states, forfeited."""
        return self.states, self._decks, self.seeds, self.episodes, self.final_states, self.forfeited

    def check_actions(self, actions: np.ndarray, rows: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The arguments of `step` as int64[m] each, rows first.

        Raises:
            IllegalActionError: an action is outside its mask and `illegal="raise"`.
            RuntimeError: there are no games yet.
            TypeError, IndexError, ValueError: these are not distinct rows, or not m integers.
        """
        self._require_reset()
        rows = self._check_rows(rows)
        actions = np.asarray(actions)
        if actions.shape != rows.shape or actions.dtype.kind not in "iu":
            raise TypeError(f"actions of shape {actions.shape} and type {actions.dtype}: must be {len(rows)} integers")
        actions = actions.astype(np.int64, copy=False)
        if not self.lose:
            self._check_legal(rows, actions)
        return rows, actions

    def _check_legal(self, rows: np.ndarray, actions: np.ndarray) -> None:
        """Raise an IllegalActionError if one of the `actions` (int64[m]) of `rows` (int64[m]) is outside its mask."""
        illegal = np.zeros(1, np.bool_)
        self._run(check_rows, rows, self.states, actions, illegal)
        if illegal[0]:
            index = next(i for i, row in enumerate(rows) if not game.legal(self.states[row], actions[i]))
            state = self.states[rows[index]]
            raise IllegalActionError(
                f"row {rows[index]}: action {actions[index]} of seat {state.seat} is illegal; "
                f"legal are {game.legal_actions(state)}"
            )

    def decisions(self, rows: np.ndarray | None = None, recall: Recall = "full") -> Decisions:
        """The pending decisions of some rows (int[m], all by default), as an agent under `recall` is to be given them.

        `games` are the row numbers.
        """
        self._require_reset()
        rows = self._check_rows(rows)
        m = len(rows)
        decisions = Decisions(
            states=self.states[rows],
            observations=np.empty((m, self.observation_size), np.float32),
            action_masks=np.empty((m, self.num_actions), np.int8),
            seats=np.empty(m, np.int64),
            games=rows.copy(),
            first=np.empty(m, np.bool_),
            seeds=np.empty(m, np.uint64),
        )
        self._run(
            decide_rows,
            rows,
            decisions.states,
            self.seeds,
            self.episodes,
            check_recall(recall),
            decisions.observations,
            decisions.action_masks,
            decisions.seats,
            decisions.first,
            decisions.seeds,
        )
        return decisions

    def _check_rows(self, rows: np.ndarray | None) -> np.ndarray:
        """The rows asked for as int64[m]: distinct and all of them there, for kernels check nothing."""
        if rows is None:
            return self._all_rows
        given = np.asarray(rows)
        if given.ndim != 1 or (given.size and given.dtype.kind not in "iu"):
            shown = " ".join(str(rows).split())[:60]
            raise TypeError(f"rows={shown} of shape {given.shape} and type {given.dtype}: must be a list of integers")
        given = given.astype(np.int64)
        outside = (given < 0) | (given >= self.num_games)
        if outside.any():
            raise IndexError(f"rows: {given[outside][0]} must be from 0 to {self.num_games - 1}")
        repeated = np.flatnonzero(np.bincount(given, minlength=1) > 1)
        if repeated.size:
            raise ValueError(f"rows: {repeated[0]} must not be given twice")
        return given

    def _check_out(self, out: TimeStep, m: int) -> TimeStep:
        if out is self._checked_out and len(out.seats) == m:
            return out
        if not isinstance(out, TimeStep):
            raise TypeError(f"out of type {type(out).__name__}: must be a TimeStep")
        for name, given, (shape, dtype) in zip(TimeStep._fields, out, self._time_step_arrays(m), strict=True):
            flags = given.flags
            if given.shape != shape or given.dtype != dtype or not (flags.writeable and flags.c_contiguous):
                found = f"shape {given.shape}, type {given.dtype} and strides {given.strides}"
                wanted = f"of shape {shape} and type {np.dtype(dtype)}, writeable and C-contiguous"
                raise ValueError(f"out.{name} of {found}: must be {wanted}")
        self._checked_out = out
        return out

    def _new_time_step(self, m: int) -> TimeStep:
        return TimeStep(*(np.empty(shape, dtype) for shape, dtype in self._time_step_arrays(m)))

    def _time_step_arrays(self, m: int) -> list[tuple[tuple[int, ...], type]]:
        """Shape and type of every array of a `TimeStep` of m rows."""
        return [
            ((m, self.observation_size), np.float32),
            ((m, self.num_actions), np.int8),
            ((m,), np.int64),
            ((m, MAX_PLAYERS), np.float64),
            ((m,), np.bool_),
        ]

    def _require_reset(self) -> None:
        if not self._has_reset:
            raise RuntimeError("this batch has no games yet: call reset() first")

    def _seeds(self, seed: int | Sequence[int] | np.ndarray) -> np.ndarray:
        if isinstance(seed, int | np.integer):
            first = deal.check_seeds(seed, self.num_games, "row")
            return np.uint64(first) + np.arange(self.num_games, dtype=np.uint64)
        return np.array(self._per_row("seed", seed, lambda value, _, name: deal.check_seed(value, name)), np.uint64)

    def _episodes(self, episode: int | Sequence[int] | np.ndarray) -> np.ndarray:
        if isinstance(episode, int | np.integer):
            return np.full(self.num_games, deal.check_seed(episode, "episode"), np.uint64)
        return np.array(
            self._per_row("episode", episode, lambda value, _, name: deal.check_seed(value, name)), np.uint64
        )

    def _per_row(self, name: str, values: Any, check: Callable[[Any, GameConfig, str], Any]) -> list:
        """`values` checked row by row against that row's config; an error names the row."""
        try:
            values = list(values)
        except TypeError:
            raise TypeError(f"{name}={values!r}: must be a sequence with one per row") from None
        if len(values) != self.num_games:
            raise ValueError(f"{name}: {len(values)} given, must be {self.num_games}, one per row")
        return [
            check(value, config, f"{name}[{row}]")
            for row, (value, config) in enumerate(zip(values, self.configs, strict=True))
        ]

    def _run(self, shared: SharedKernel, *arguments: Any) -> None:
        """Have a kernel work on all rows of its first argument."""
        run_shared(shared, len(arguments[0]), self.threads, *arguments)


def check_arrays(arrays: dict[str, np.ndarray], wanted: dict[str, tuple[tuple[int, ...], type]]) -> None:
    """Raise a ValueError unless these are among `arrays`, each of its shape and type."""
    for name, (shape, dtype) in wanted.items():
        given = arrays.get(name)
        if not isinstance(given, np.ndarray) or given.shape != shape or given.dtype != dtype:
            found = f"of shape {given.shape} and type {given.dtype}" if isinstance(given, np.ndarray) else repr(given)
            raise ValueError(f"{name} {found}: must be of shape {shape} and type {np.dtype(dtype)}")
