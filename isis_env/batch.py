"""Many games at once: step, legal masks, observations, rewards and auto-reset in kernels over slices of rows.

Game i of a batch with seed s plays what the AEC environment plays after `reset(seed=s + i)`, and so do its later
episodes, whatever the batch size and the number of threads.
"""

import copy
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from isis_env import batch_arguments, deal, game
from isis_env.batch_arguments import SETTINGS
from isis_env.batch_kernels import check_rows, deal_rows, decide_rows, look_rows, step_rows
from isis_env.config import MAX_TILES, GameConfig, check_choice, check_configs
from isis_env.game import STATE, IllegalActionError
from isis_env.kernels.threads import available_cores, check_threads, run_shared
from isis_env.observation import observation_size
from isis_env.reward import ILLEGAL, REWARDS
from isis_env.secrecy import Recall, check_recall


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
        if isinstance(config, GameConfig):
            batch_arguments.check_num_games(num_games, config)
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
        self.threads = available_cores() if threads is None else check_threads(threads)

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
        self._wanted = batch_arguments.time_step_arrays(self.num_games, configs[0])
        self._checked_out: tuple[TimeStep, ...] = ()  # the last two `out` that overlapped nothing

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
        starts = (
            None
            if start_player is None
            else batch_arguments.per_row("start_player", start_player, self.configs, deal.check_start)
        )
        decks = None if deck is None else batch_arguments.per_row("deck", deck, self.configs, deal.check_deck)
        if seed is None and episode is not None:
            raise ValueError(f"episode={episode!r}: must be given with a seed")
        if seed is None and self._has_reset:
            seeds, episodes = self.seeds, self.episodes + np.uint64(1)
        else:
            seeds = batch_arguments.check_seed_rows(secrets.randbits(53) if seed is None else seed, self.configs)
            episodes = batch_arguments.check_episode_rows(0 if episode is None else episode, self.configs)
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
        step = self._new_time_step(self.num_games)
        step.rewards[:], step.done[:] = 0.0, False
        seen = (step.observations, step.action_masks, step.seats)
        self._run(look_rows, self._all_rows, self.states, self._recall, seen)
        return step

    def snapshot(self) -> dict[str, np.ndarray]:
        """Copies of all that the games depend on, as plain arrays; `restore` plays on identically.

        They hold hidden tiles: give them to no agent.
        """
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
        return batch_arguments.check_snapshot(arrays, self.states, self.configs[0].side)

    def step(self, actions: np.ndarray, rows: np.ndarray | None = None, out: TimeStep | None = None) -> TimeStep:
        """Take one decision in every game, or in some; one that ends is followed at once by its row's next episode.

        Args:
            actions: integers [m], one per game that is stepped.
            rows: int[m], which games, without repeats; all by default.
            out: a `TimeStep` of m rows whose arrays are written instead of fresh ones. They must be plain arrays of
                the same shapes and types, writeable, aligned and C-contiguous, and overlap neither each other nor the
                batch's own.

        Returns:
            the next pending decisions of the games that were stepped, in the order of `rows`.

        Raises:
            IllegalActionError: an action is outside its mask and `illegal="raise"`; no game has changed.
            RuntimeError, TypeError, IndexError: as `check_actions` has them; no game has changed.
            ValueError: rows are repeated, or `out` cannot be written; no game has changed.
        """
        rows, actions = self.check_actions(actions, rows)
        step = self._new_time_step(len(rows)) if out is None else self._check_out(out, len(rows))
        options = (self.lose, self._recall, self._reward)
        self._run(step_rows, rows, self.arrays, actions, options, tuple(step))
        return step

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """All that `batch_kernels.play_row` changes: states, decks, seeds, episodes, final states, forfeited."""
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
        actions = batch_arguments.check_actions(actions, len(rows))
        if not self.lose:
            self.check_legal(rows, actions)
        return rows, actions

    def check_legal(self, rows: np.ndarray, actions: np.ndarray) -> None:
        """Raise an IllegalActionError if one of `actions` (int64[m]) is outside the mask of its row (int64[m])."""
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
        seen = (decisions.observations, decisions.action_masks, decisions.seats, decisions.first, decisions.seeds)
        self._run(decide_rows, rows, decisions.states, self.seeds, self.episodes, check_recall(recall), seen)
        return decisions

    def __copy__(self) -> "Batch":
        """A deep copy: two batches on the same arrays would corrupt each other."""
        return copy.deepcopy(self)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_checked_out": ()}  # a caller's arrays are no part of the batch

    def _check_rows(self, rows: np.ndarray | None) -> np.ndarray:
        return self._all_rows if rows is None else batch_arguments.check_rows(rows, self.num_games)

    def _check_out(self, out: TimeStep, m: int) -> TimeStep:
        if not isinstance(out, TimeStep):
            raise TypeError(f"out of type {type(out).__name__}: must be a TimeStep")
        # Arrays can be reshaped or made read-only between two steps, but not moved to other memory.
        batch_arguments.check_out(out, self._time_step_arrays(m))
        if not any(out is known for known in self._checked_out):
            batch_arguments.check_apart(out, TimeStep._fields, (*self.arrays, self._all_rows))
            self._checked_out = (out, *self._checked_out[:1])
        return out

    def _new_time_step(self, m: int) -> TimeStep:
        arrays = self._time_step_arrays(m)
        return TimeStep(**{name: np.empty(shape, dtype) for name, (shape, dtype) in arrays.items()})

    def _time_step_arrays(self, m: int) -> dict[str, tuple[tuple[int, ...], np.dtype]]:
        return self._wanted if m == self.num_games else batch_arguments.time_step_arrays(m, self.configs[0])

    def _require_reset(self) -> None:
        if not self._has_reset:
            raise RuntimeError("this batch has no games yet: call reset() first")

    def _run(self, shared: Callable[..., None], rows: np.ndarray, *arguments: Any) -> None:
        """Have a kernel work on all of `rows`, its first argument."""
        run_shared(shared, len(rows), self.threads, rows, *arguments)
