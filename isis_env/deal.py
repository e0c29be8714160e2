"""Where the cards come from: seed -> deck and start player. The only module that knows what is face down and undrawn.

A deck lists all tiles in order. With personal reserves of k tiles, seat p holds `deck[p*k : (p+1)*k]` and draws from
the front, and what is left over is the box; a common reserve is the whole deck, drawn from the front. So the j-th draw
from a pile depends on the seed alone, never on what was played (rules, decision 13).

The generator is counter-based, our own, and the same on every platform and library version: SplitMix64's output
function (Steele, Lea & Flood 2014, constants of Stafford's variant 13) applied to key + counter * golden ratio.
"""

import operator
import re
from dataclasses import dataclass

import numpy as np

from isis_env import game
from isis_env.config import FACES, MAX_TILES, TILES_EACH, TILES_TOTAL, GameConfig, shown
from isis_env.kernels.jit import inlined, kernel

MAX_SEED = 2**64 - 1

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLY_1 = np.uint64(0xBF58476D1CE4E5B9)
_MULTIPLY_2 = np.uint64(0x94D049BB133111EB)
_SHIFT_30, _SHIFT_27, _SHIFT_31 = np.uint64(30), np.uint64(27), np.uint64(31)
_SHIFT_11 = np.uint64(11)


@inlined
def random_bits(key, counter):
    """64 random bits (uint64) for a place in the stream of `key`."""
    x = np.uint64(key) + (np.uint64(counter) + np.uint64(1)) * _GOLDEN
    x = (x ^ (x >> _SHIFT_30)) * _MULTIPLY_1
    x = (x ^ (x >> _SHIFT_27)) * _MULTIPLY_2
    return x ^ (x >> _SHIFT_31)


@inlined
def random_below(key, counter, n):
    """A uniform integer in 0 .. n-1; the bias of the modulus is below n / 2**53."""
    return np.int64((random_bits(key, counter) >> _SHIFT_11) % np.uint64(n))


@kernel
def decision_seed(seed, episode, seat, decision):
    """The seed (uint64) handed to an agent for one decision of one seat in one game.

    Each step of the generator can be inverted, so a chain of them would tell the game's seed, and with it the deck; two
    streams combined cannot. Whoever tries all seeds up to the right one still finds it: where agents are not trusted,
    take large random seeds for the games.
    """
    key = random_bits(random_bits(seed, episode), 1 + np.uint64(seat))
    return random_bits(key, decision) ^ random_bits(~key, decision)


@kernel
def deal(seed, episode, side, players, deck):
    """Shuffle all tiles of the board into `deck` (int8[22], zeros beyond the last) and return the start player.

    Both follow from the seed and the episode alone (rules, decisions 7 and 13).
    """
    key = random_bits(random_bits(seed, episode), 0)
    deck[:] = FACES[side]
    for last in range(TILES_TOTAL[side] - 1, 0, -1):  # Fisher-Yates
        chosen = random_below(key, last, last + 1)
        deck[last], deck[chosen] = deck[chosen], deck[last]
    return random_below(key, 0, players)


@inlined
def next_face(s, deck):
    """The face that the seat on turn draws from its pile of `deck` in state `s`."""
    if s.common_reserve:
        return deck[TILES_TOTAL[s.side] - s.pile[0]]
    size = TILES_EACH[s.side, s.players]
    return deck[(s.seat + 1) * size - s.pile[s.seat]]


@inlined
def play(s, deck, action):
    """Take a legal `action` of the action space: draw from `deck`, or place on a cell."""
    if action == game.cells_of(s):
        game.draw(s, next_face(s, deck))
    else:
        game.place(s, action)


def lead_to(decks: np.ndarray, states: np.ndarray) -> np.ndarray:
    """bool[n]: whether legal play from each of `decks` (int8[n, 22]) leads to the state (`STATE[n]`) of its row.

    The settings of the states are taken for granted, all else is played again.
    """
    again = states.copy()
    legal = np.empty(len(states), np.bool_)
    _replay_all(decks, again, legal)
    same = again.view(np.uint8) == states.view(np.uint8)
    return legal & same.reshape(len(states), states.dtype.itemsize).all(axis=1)


@kernel
def _replay_all(decks, states, legal):
    for row in range(len(states)):
        legal[row] = _replay(decks[row], states[row : row + 1])


@kernel
def _replay(deck, state):
    """Begin anew in `state` (`STATE[1]`) and go on by its own history while that is legal; whether all of it is."""
    claimed = state.copy()[0]
    s = state[0]
    cells = game.cells_of(s)
    if not (0 <= claimed.start < s.players and 0 <= claimed.placed <= cells):
        return False
    game.reset(s, s.side, s.players, s.common_reserve, claimed.start)
    for turn in range(claimed.placed):
        cell = claimed.order[turn]
        if not 0 <= cell < cells:
            return False
        if claimed.board[cell] == game.TILE:
            if not game.can_draw(s):
                return False
            play(s, deck, cells)
        if not game.legal(s, cell):
            return False
        play(s, deck, cell)
    if claimed.held != game.NOTHING:
        if not game.can_draw(s):
            return False
        play(s, deck, cells)
    return True


def check_seed(seed: object, name: str = "seed") -> int:
    """`seed` as an int in 0 .. 2**64 - 1, or a TypeError / ValueError that names it."""
    if isinstance(seed, bool | np.bool_) or not isinstance(seed, int | np.integer):
        raise TypeError(f"{name}={shown(seed)}: must be an integer from 0 to 2**64 - 1")
    if not 0 <= seed <= MAX_SEED:
        raise ValueError(f"{name}={shown(seed)}: must be from 0 to 2**64 - 1")
    return int(seed)


def check_seeds(seed: object, count: int, of: str) -> int:
    """`seed` as the first of `count` that follow one another, one for each row or the like (`of`), or such an error."""
    first = check_seed(seed)
    check_seed(first + count - 1, f"seed of the last {of}")
    return first


def check_start(start: object, config: GameConfig, name: str = "start_player") -> int:
    """`start` as a seat index, or a TypeError / ValueError that names it."""
    if isinstance(start, bool | np.bool_) or not isinstance(start, int | np.integer):
        raise TypeError(f"{name}={shown(start)}: must be a seat index from 0 to {config.players - 1}")
    if not 0 <= start < config.players:
        raise ValueError(f"{name}={shown(start)}: must be a seat index from 0 to {config.players - 1}")
    return int(start)


def check_deck(deck: object, config: GameConfig, name: str = "deck") -> tuple[int, ...]:
    """`deck` as a tuple of ints, or a ValueError that names it: it must hold the board's tiles exactly."""
    try:
        faces = tuple(_face(face) for face in deck)  # type: ignore[attr-defined]
    except TypeError:
        faces = ()
    if sorted(faces) != sorted(config.faces):
        raise ValueError(
            f"{name}={shown(list(faces) or deck)}: must be the {len(config.faces)} tiles of board {config.board!r} "
            f"in some order: {sorted(config.faces)}"
        )
    return faces


def _face(face: object) -> int:
    if isinstance(face, bool | np.bool_):
        raise TypeError
    return operator.index(face)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Deal:
    """Where one deal comes from; `str()` gives its readable id, `parse` reads it back.

    Attributes:
        seed, episode: the place in the generator, unused where `deck` is given.
        start: the start player where it is not the seed's.
        deck: all tiles in order where they are not the seed's; then `start` is given too.
    """

    seed: int = 0
    episode: int = 0
    start: int | None = None
    deck: tuple[int, ...] | None = None

    def __str__(self) -> str:
        if self.deck is not None:
            parts = ["deck=" + "".join(f"{face:+d}" for face in self.deck)]
        else:
            parts = [f"seed={self.seed}", f"episode={self.episode}"]
        if self.start is not None:
            parts.append(f"start={self.start}")
        return " ".join(parts)

    @classmethod
    def parse(cls, text: object, config: GameConfig) -> "Deal":
        """The deal of an id such as `seed=42 episode=0`, `seed=42 episode=0 start=1` or `deck=+2-1... start=0`.

        Raises:
            ValueError: not such an id, or one that does not fit `config`.
        """
        match = _DEAL_ID.fullmatch(text) if isinstance(text, str) else None
        if not match:
            raise ValueError(
                f"deal_id={shown(text)}: must be 'seed=S episode=E', with start=P behind it, or 'deck=... start=P'"
            )
        start = None if match["start"] is None else check_start(int(match["start"]), config, "deal_id start")
        if match["deck"]:
            deck = [int(face) for face in re.findall(r"[+-]\d", match["deck"])]
            return cls(start=start, deck=check_deck(deck, config, "deal_id deck"))
        seed = check_seed(int(match["seed"]), "deal_id seed")
        return cls(seed, check_seed(int(match["episode"]), "deal_id episode"), start)

    def lay_out(self, config: GameConfig) -> tuple[np.ndarray, int]:
        """The deck (int8[22], zeros beyond the last tile) and the start player."""
        deck = np.zeros(MAX_TILES, np.int8)
        start = int(deal(np.uint64(self.seed), np.uint64(self.episode), config.side, config.players, deck))
        if self.deck is not None:
            deck[: len(self.deck)] = self.deck
        return deck, start if self.start is None else self.start


_DEAL_ID = re.compile(
    r"(?:seed=(?P<seed>[0-9]{1,20}) episode=(?P<episode>[0-9]{1,20})|deck=(?P<deck>(?:[+-][1-4])+)(?= start))"
    r"(?: start=(?P<start>[0-9]))?"
)
