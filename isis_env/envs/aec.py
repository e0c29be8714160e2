"""The game as a PettingZoo AEC environment."""

import copy
import secrets
import warnings
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv

from isis_env import deal, game, notation, observation, secrecy
from isis_env.config import MAX_PLAYERS, GameConfig, check_choice, shown
from isis_env.deal import Deal
from isis_env.envs import saving
from isis_env.envs.spaces import action_space, as_integer, observation_space
from isis_env.game import IllegalActionError
from isis_env.kernels.jit import gil_kernel
from isis_env.render import render_text
from isis_env.reward import ILLEGAL, REWARDS, forfeit, returns
from isis_env.secrecy import Recall

RENDER_MODES = ("ansi", "human")
OPTIONS = ("start_player", "deck", "deal_id")

_OVER, _ILLEGAL = -1, -2
_FLOAT32, _INT8 = np.dtype(np.float32), np.dtype(np.int8)  # numpy looks a type up faster by its dtype


class IsisOsirisEnv(AECEnv[str, dict[str, np.ndarray], int]):
    """Isis & Osiris for 2 to 4 players.

    Observation of every agent: `{"observation": float32[L], "action_mask": int8[A]}`, fresh arrays at every call (see
    `isis_env.observation.layout`); the mask is all zero for agents not on turn and after the end. Actions: a cell
    places a stone or the drawn tile on it; action `A - 1` draws a tile, which the same agent then places.

    Args:
        players: 2, 3 or 4 (2 on the small boards).
        common_reserve: all draw from one reserve of 22 tiles.
        board: `"standard"`, `"mini4"` or `"mini3"`.
        recall: how many of its own turns an agent keeps seeing the face of a placed tile, an integer >= 1, or `"full"`.
        reward: `"win"` or `"margin"`, see `isis_env.reward`; paid when the game ends and at no other time.
        illegal: what an action outside the mask does: `"raise"` an `IllegalActionError`, or `"lose"` the game (rules,
            decision 15).
        render_mode: `"ansi"`: `render` returns text. `"human"`: every reset, step and `render` prints it.

    Raises:
        ValueError: an argument is not one of those.
    """

    metadata = {
        "name": "isis_osiris_v0",
        "render_modes": list(RENDER_MODES),
        "is_parallelizable": False,
        "render_fps": 1,
    }

    def __init__(
        self,
        players: int = 2,
        common_reserve: bool = False,
        board: str = "standard",
        recall: Recall = 1,
        reward: str = "win",
        illegal: str = "raise",
        render_mode: str | None = None,
    ) -> None:
        super().__init__()
        self.config = GameConfig(board, players, common_reserve)
        self._recall = secrecy.check_recall(recall)
        self._reward = REWARDS[check_choice("reward", reward, tuple(REWARDS))]
        self._illegal = check_choice("illegal", illegal, ILLEGAL)
        self.render_mode = check_choice("render_mode", render_mode, (None, *RENDER_MODES))
        self._settings = {
            "players": self.config.players,
            "common_reserve": self.config.common_reserve,
            "board": board,
            "recall": recall if isinstance(recall, str) else int(recall),
            "reward": reward,
            "illegal": illegal,
            "render_mode": render_mode,
        }

        self.possible_agents = [f"player_{seat}" for seat in range(self.config.players)]
        self._seats = {agent: seat for seat, agent in enumerate(self.possible_agents)}
        self._length = observation.observation_size(board)
        self._num_actions = self.config.num_actions
        self.observation_spaces = {agent: observation_space(board) for agent in self.possible_agents}
        self.action_spaces = {agent: action_space(board) for agent in self.possible_agents}
        self.state_space = spaces.Box(-1.0, 1.0, (observation.state_size(board),), np.float32)

        self._seed: int | None = None
        self._episode = 0
        self._deal: Deal | None = None  # None until the first reset
        self._running = False
        self._offender: int | None = None  # the seat that ended the game by an illegal action

    def observation_space(self, agent: str) -> spaces.Dict:
        """The same object at every call for one agent."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Discrete:
        """The same object at every call for one agent."""
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begin a game.

        Args:
            seed: fixes deck and start player of this episode and, with a running episode number, of all that follow.
                Without one the next episode of the last seed begins; the very first takes fresh entropy.
            options: for this episode alone: `start_player` (seat index), `deck` (all tiles in order, box included),
                `deal_id` (as read from `env.deal_id`).
        """
        # Everything given is checked before anything of the running game is touched.
        named, start, deck = self._read_options(options)
        if seed is not None:
            self._seed, self._episode = deal.check_seed(seed), 0
        elif self._seed is None:
            self._seed, self._episode = secrets.randbits(53), 0
        else:
            self._episode += 1
        source = named or Deal(self._seed, self._episode)
        start = source.start if start is None else start
        deck = source.deck if deck is None else deck
        if deck is not None and start is None:
            start = source.lay_out(self.config)[1]
        self._begin(Deal(source.seed, source.episode, start, deck))
        if self.render_mode == "human":
            self.render()

    def observe(self, agent: str) -> dict[str, np.ndarray]:
        """What `agent` may know now; valid at every moment after `reset`, for dead agents too."""
        seat = self._seats.get(agent)
        if seat is None or self._deal is None:
            self._require_reset("observe()")
            raise ValueError(f"agent={shown(agent)}: must be one of {', '.join(self.possible_agents)}")
        vector = np.empty(self._length, _FLOAT32)
        mask = np.empty(self._num_actions, _INT8)
        _observe(self._raw, seat, self._recall, self._running and agent == self.agent_selection, vector, mask)
        return {"observation": vector, "action_mask": mask}

    def last(self, observe: bool = True) -> tuple[dict[str, np.ndarray] | None, float, bool, bool, dict[str, Any]]:
        """Observation, return so far, terminated, truncated and info of `agent_selection`."""
        agent = self.agent_selection
        seen = self.observe(agent) if observe else None
        if self._running:  # nothing is paid and nobody terminated yet
            return seen, 0.0, False, False, self.infos[agent]
        return (
            seen,
            self._cumulative_rewards[agent],
            self.terminations[agent],
            self.truncations[agent],
            self.infos[agent],
        )

    def step(self, action: int | None) -> None:
        """Take an action for `agent_selection`; `None` once it is terminated.

        Raises:
            IllegalActionError: the action is outside the mask and `illegal="raise"`. The game is as it was.
            TypeError: the action is no integer.
        """
        if not self._running:
            self._dead_step(action)
            return
        # Rewards are zero until the end, so there is nothing to clear or to accumulate before it.
        if type(action) is not int:
            action = as_integer(action)
        on_space = 0 <= action < self._num_actions
        outcome = _advance(self._raw, self._deck, action) if on_space else _ILLEGAL
        if outcome >= 0:
            self.agent_selection = self.possible_agents[outcome]
        elif outcome == _OVER:
            self._end(returns)
        elif self._illegal == "lose":
            self._offender = self._seats[self.agent_selection]
            self._end(forfeit)
        else:
            legal = game.legal_actions(self._states[0])
            raise IllegalActionError(f"action {shown(action)} of {self.agent_selection} is illegal; legal are {legal}")
        if self.render_mode == "human":
            self.render()

    def state(self) -> np.ndarray:
        """Everything that has happened, faces included, as float32 (`observation.state_layout`): for critics only.

        Never the order of undrawn tiles.
        """
        self._require_reset("state()")
        out = np.empty(self.state_space.shape, np.float32)
        observation.observe_everything(self._states[0], out)
        return out

    def scores(self) -> list[int]:
        """Running scores in seat order; they count face-down tiles, so no seat may see them before the end."""
        self._require_reset("scores()")
        return game.scores(self._states[0])

    def winners(self) -> list[int]:
        """The winning seats of a finished game.

        Raises:
            RuntimeError: the game is not over.
        """
        self._require_reset("winners()")
        if self._running:
            raise RuntimeError("winners() before the end: the board is not full")
        if self._offender is not None:
            return [seat for seat in range(self.config.players) if seat != self._offender]
        won = np.empty(MAX_PLAYERS, np.bool_)
        game.winners(self._states[0], won)
        return [int(seat) for seat in np.flatnonzero(won)]

    @property
    def skipped(self) -> list[tuple[int, int]]:
        """Skipped turns of stuck seats as (cells filled, seat)."""
        self._require_reset("skipped")
        return game.skipped(self._states[0])

    @property
    def deal_id(self) -> str:
        """A readable id of the deal that `reset(options={"deal_id": ...})` restores. It tells the hidden order."""
        self._require_reset("deal_id")
        return str(self._deal)

    def render(self) -> str | None:
        """The position as the agent on turn may know it, face up after the end: text returned or printed."""
        self._require_reset("render()")
        if self.render_mode is None:
            gymnasium.logger.warn("render() without a render_mode: pass render_mode='ansi' or 'human' to env()")
            return None
        states = self._states.copy()
        if self._running:
            secrecy.conceal(states[0], states[0].seat, self._recall)
        text = render_text(states[0], ended=not self._running)
        if self.render_mode == "ansi":
            return text
        print(text)
        return None

    def close(self) -> None:
        """Nothing to release."""

    def __copy__(self) -> "IsisOsirisEnv":
        """A deep copy: two environments on one board would corrupt each other."""
        return copy.deepcopy(self)

    def to_dict(self) -> dict[str, Any]:
        """The whole environment as JSON types; `from_dict` plays on identically. It tells the hidden order."""
        running = self._deal is not None
        return {
            "name": self.metadata["name"],
            "settings": dict(self._settings),
            "seed": self._seed,
            "episode": self._episode,
            "deal_id": str(self._deal) if running else None,
            "game": notation.dumps(self._states[0]) if running else None,
            "agents": list(self.agents) if running else None,
            "offender": self._offender if running else None,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "IsisOsirisEnv":
        """The environment that `to_dict` described.

        Raises:
            ValueError: a key is missing or unknown, a value is none of its kind, or the game is not one that the deal
                allows; the message names the key, the value and what was allowed.
        """
        saving.check_known(data, saving.KEYS, "environment")
        saving.check_complete(data, saving.KEYS, "environment")
        if data["name"] != cls.metadata["name"]:
            raise ValueError(f"name={shown(data['name'])}: must be {cls.metadata['name']!r}")
        env = cls(**saving.check_known(data["settings"], saving.SETTINGS, "settings"))
        saving.check_complete(data["settings"], saving.SETTINGS, "settings")
        seed, episode = saving.read_seed(data)
        saved = saving.read_game(data, env.config, env._illegal)
        env._seed, env._episode = seed, episode
        if saved is not None:
            env._go_on(saved)
        return env

    def _go_on(self, saved: saving.SavedGame) -> None:
        """Begin the saved game anew and bring it to where it stood."""
        self._begin(saved.deal)
        self._raw = saved.states.view(np.uint8)
        state = saved.states[0]
        self.agent_selection = self.possible_agents[state.seat]
        self._offender = saved.offender
        if self._offender is not None:
            self._end(forfeit)
        elif game.is_over(state):
            self._end(returns)
        left = len(saved.agents)
        if self._running and saved.agents != self.agents:
            raise ValueError(f"agents={shown(saved.agents)}: must be all of {self.agents} while the game runs")
        if left > len(self.agents) or saved.agents != self.agents[len(self.agents) - left :]:
            raise ValueError(f"agents={shown(saved.agents)}: must be the last of {self.agents}")
        while len(self.agents) > left:
            self._dead_step(None)

    def __getattr__(self, name: str) -> Any:
        # Reached only for attributes that are not there: those that `reset` makes get an error that says so.
        if name in ("agents", "agent_selection", "rewards", "terminations", "truncations", "infos", "num_agents"):
            raise AttributeError(f"{name} cannot be accessed before reset()")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def _states(self) -> np.ndarray:
        """The position as an array of one `STATE`, a view."""
        return self._raw.view(game.STATE)

    def _begin(self, source: Deal) -> None:
        """The position before the first turn of a deal."""
        self._deal = source
        self._deck, start = source.lay_out(self.config)
        # The one STATE, kept as plain bytes: numba takes those at half the cost of an array of records.
        self._raw = game.new_state(self.config, start).view(np.uint8)
        self._offender = None
        self._running = True
        self.agents = self.possible_agents[:]
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, dict[str, Any]] = {agent: {} for agent in self.agents}
        self._skip_agent_selection = None
        self.agent_selection = self.agents[start]

    def _end(self, pay) -> None:
        """Terminate all agents at once with their returns; dead steps then go in seat order."""
        paid = np.empty(MAX_PLAYERS)
        pay(self._states[0], self._reward, paid)
        self._running = False
        self.rewards = {agent: float(paid[seat]) for seat, agent in enumerate(self.agents)}
        self._cumulative_rewards = dict(self.rewards)
        self.terminations = dict.fromkeys(self.agents, True)
        self.agent_selection = self.agents[0]

    def _dead_step(self, action: int | None) -> None:
        self._require_reset("step()")
        if self.agents:
            self._was_dead_step(action)
        else:
            gymnasium.logger.warn("step() after all agents are done does nothing; call reset()")

    def _require_reset(self, what: str) -> None:
        if self._deal is None:
            raise gymnasium.error.ResetNeeded(f"{what} before reset(): call reset() first")

    def _read_options(self, options: dict[str, Any] | None) -> tuple[Deal | None, int | None, tuple[int, ...] | None]:
        """What the reset options fix: the deal, the start player, the deck."""
        if options is None:
            return None, None, None
        if not isinstance(options, dict):
            raise TypeError(f"options={shown(options)}: must be a dict with keys among {', '.join(OPTIONS)}")
        unknown = [key for key in options if key not in OPTIONS]
        if unknown:
            warnings.warn(
                f"reset options {', '.join(map(repr, unknown))} ignored: known are {', '.join(OPTIONS)}", stacklevel=3
            )
        named, start, deck = options.get("deal_id"), options.get("start_player"), options.get("deck")
        return (
            None if named is None else Deal.parse(named, self.config),
            None if start is None else deal.check_start(start, self.config),
            None if deck is None else deal.check_deck(deck, self.config),
        )


@gil_kernel
def _advance(raw, deck, action):
    """Take an action of the seat on turn, and return the next seat on turn, `_OVER`, or `_ILLEGAL`: nothing done."""
    s = raw.view(game.STATE)[0]
    if not game.legal(s, action):
        return _ILLEGAL
    deal.play(s, deck, action)
    return _OVER if game.is_over(s) else s.seat


@gil_kernel
def _observe(raw, seat, recall, on_turn, vector, mask):
    s = raw.view(game.STATE)[0]
    observation.observe(s, seat, recall, vector)
    if on_turn:
        game.legal_mask(s, mask)
    else:
        mask[:] = 0
