"""The saved form of the PettingZoo environment (`to_dict`): its keys and the check of what is read back."""

from typing import Any, NamedTuple

import numpy as np

from isis_env import deal, game, notation
from isis_env.config import GameConfig, shown
from isis_env.deal import Deal

KEYS = ("name", "settings", "seed", "episode", "deal_id", "game", "agents", "offender")
SETTINGS = ("players", "common_reserve", "board", "recall", "reward", "illegal", "render_mode")


class SavedGame(NamedTuple):
    """A game under way or at its end.

    Attributes:
        deal: where its cards come from.
        states: `STATE[1]`, where it stands; one that play from that deal leads to.
        agents: the agents that have not taken their last step.
        offender: the seat that ended it by an illegal action, if one did.
    """

    deal: Deal
    states: np.ndarray
    agents: list[str]
    offender: int | None


def check_known(data: object, keys: tuple[str, ...], name: str) -> dict[str, Any]:
    """`data` if it is a dict with no other keys than these.

    Raises:
        ValueError: it is not; the message calls it `name`.
    """
    if not isinstance(data, dict):
        raise ValueError(f"{name}={shown(data)}: must be a dict with the keys {', '.join(keys)}")
    for key in data:
        if key not in keys:
            raise ValueError(f"{name}={shown(data)}: key {shown(key)} is unknown; must be {', '.join(keys)}")
    return data


def check_complete(data: dict[str, Any], keys: tuple[str, ...], name: str) -> None:
    """Refuse a dict that lacks one of these keys by a ValueError that calls it `name`."""
    for key in keys:
        if key not in data:
            raise ValueError(f"{name}={shown(data)}: key {key!r} is missing; must be {', '.join(keys)}")


def read_seed(data: dict[str, Any]) -> tuple[int | None, int]:
    """The seed, None before the first game, and the episode.

    Raises:
        ValueError: one of them is no such number, or the two do not fit together.
    """
    try:
        episode = deal.check_seed(data["episode"], "episode")
        seed = None if data["seed"] is None else deal.check_seed(data["seed"])
    except TypeError as error:
        raise ValueError(str(error)) from None
    begun = data["deal_id"] is not None
    if begun != (seed is not None):
        allowed = "an integer once a game has begun" if begun else "null before the first game"
        raise ValueError(f"seed={shown(data['seed'])}: must be {allowed}; deal_id={shown(data['deal_id'])}")
    if not begun and episode != 0:
        raise ValueError(f"episode={episode}: must be 0 before the first game; deal_id=None")
    return seed, episode


def read_game(data: dict[str, Any], config: GameConfig, illegal: str) -> SavedGame | None:
    """The game that was saved, None where none had begun.

    Args:
        data: as `to_dict` wrote it.
        config: the settings of the game.
        illegal: what an illegal action does, as the environment has it.

    Raises:
        ValueError: a value is none of its kind, or the game is not one that the deal allows.
    """
    if data["deal_id"] is None:
        for key in ("game", "agents", "offender"):
            if data[key] is not None:
                raise ValueError(f"{key}={shown(data[key])}: must be null where deal_id is, before the first game")
        return None
    source = Deal.parse(data["deal_id"], config)
    try:
        states = notation.loads(data["game"])
    except notation.NotationError as error:
        raise ValueError(f"game: {error}") from None
    deck, start = source.lay_out(config)
    setting = (config.side, config.players, int(config.common_reserve), start)
    if (
        states[["side", "players", "common_reserve", "start"]].tolist() != [setting]
        or not (deal.lead_to(deck[np.newaxis], states)[0])
    ):
        raise ValueError(f"game={shown(data['game'])}: is not one of deal {data['deal_id']!r}")
    agents = data["agents"]
    if not isinstance(agents, list) or not all(isinstance(agent, str) for agent in agents):
        raise ValueError(f"agents={shown(agents)}: must be a list of names such as 'player_0'")
    return SavedGame(source, states, agents, _read_offender(data["offender"], states[0], illegal))


def _read_offender(offender: object, s: np.record, illegal: str) -> int | None:
    if offender is None:
        return None
    if illegal != "lose":
        raise ValueError(f"offender={shown(offender)}: must be null where illegal is {illegal!r}")
    if game.is_over(s):
        raise ValueError(f"offender={shown(offender)}: must be null, the board is full")
    if type(offender) is not int or offender != s.seat:
        raise ValueError(f"offender={shown(offender)}: must be null or the seat on turn, {s.seat}")
    return offender
