"""What a game is set up with: `GameConfig`, the three boards, and tables computed once from them."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np

MAX_SIDE = 6
MAX_CELLS = MAX_SIDE * MAX_SIDE
MAX_PLAYERS = 4
MAX_FACE = 4
MAX_TILES = 22


@dataclass(frozen=True)
class Board:
    """One board: its side, its tiles, and what each player starts with for every player count it allows."""

    side: int
    faces: tuple[int, ...]
    stones_each: dict[int, int]
    tiles_each: dict[int, int]
    common_reserve: bool


BOARDS = {
    "standard": Board(
        side=6,
        faces=(1,) * 2 + (2,) * 6 + (3,) * 2 + (4,) + (-1,) * 2 + (-2,) * 6 + (-3,) * 2 + (-4,),
        stones_each={2: 8, 3: 6, 4: 5},
        tiles_each={2: 11, 3: 7, 4: 5},
        common_reserve=True,
    ),
    "mini4": Board(4, (1, 2, 2, 3, 4, -1, -2, -2, -3, -4), {2: 4}, {2: 5}, common_reserve=False),
    "mini3": Board(3, (1, 2, 3, -1, -2, -3), {2: 2}, {2: 3}, common_reserve=False),
}


@dataclass(frozen=True)
class GameConfig:
    """The settings of one game, checked when made.

    Args:
        board: `"standard"` (6x6), `"mini4"` (4x4) or `"mini3"` (3x3).
        players: 2, 3 or 4 on the standard board, 2 on the small ones.
        common_reserve: the variant in which all draw from one reserve (standard board only).

    Raises:
        ValueError: a value is not one of those; the message names it and the allowed ones.
    """

    board: str = "standard"
    players: int = 2
    common_reserve: bool = False

    def __post_init__(self) -> None:
        check_choice("board", self.board, tuple(BOARDS))
        allowed = tuple(self._board.stones_each)
        if isinstance(self.players, np.integer):
            object.__setattr__(self, "players", int(self.players))
        if isinstance(self.common_reserve, np.bool_):
            object.__setattr__(self, "common_reserve", bool(self.common_reserve))
        if type(self.players) is not int or self.players not in allowed:
            raise ValueError(
                f"players={shown(self.players)}: must be {' or '.join(map(str, allowed))} on board {self.board!r}"
            )
        if type(self.common_reserve) is not bool:
            raise ValueError(f"common_reserve={shown(self.common_reserve)}: must be True or False")
        if self.common_reserve and not self._board.common_reserve:
            raise ValueError(f"common_reserve=True: must be False on board {self.board!r}")

    @property
    def _board(self) -> Board:
        return BOARDS[self.board]

    @cached_property
    def side(self) -> int:
        """Cells along one edge of the board."""
        return self._board.side

    @cached_property
    def cells(self) -> int:
        """Cells of the board, which is also the number of placements in a game."""
        return self.side**2

    @cached_property
    def draw_action(self) -> int:
        """The action that draws a tile; actions 0 .. `cells - 1` are the cells."""
        return self.cells

    @cached_property
    def num_actions(self) -> int:
        """Size of the action space: every cell, and draw."""
        return self.cells + 1

    @cached_property
    def faces(self) -> tuple[int, ...]:
        """The faces of all tiles, those of the box included."""
        return self._board.faces

    @cached_property
    def stones_each(self) -> int:
        """Stones each player starts with."""
        return self._board.stones_each[self.players]

    @cached_property
    def pile_size(self) -> int:
        """Tiles in each pile at the start: a player's own reserve, or the one common reserve."""
        return len(self.faces) if self.common_reserve else self._board.tiles_each[self.players]

    @cached_property
    def box_tiles(self) -> int:
        """Tiles that go to the box unseen."""
        piles = 1 if self.common_reserve else self.players
        return len(self.faces) - piles * self.pile_size


def check_choice(name: str, value: object, allowed: tuple) -> Any:
    """`value`, or a ValueError that names it and what is allowed."""
    if not isinstance(value, str | None) or value not in allowed:
        raise ValueError(f"{name}={shown(value)}: must be one of {', '.join(map(repr, allowed))}")
    return value


def _neighbours(side: int) -> np.ndarray:
    """For every cell its orthogonal neighbours (up, left, right, down), padded with -1 at the end."""
    table = np.full((MAX_CELLS, 4), -1, np.int8)
    for cell in range(side * side):
        row, column = divmod(cell, side)
        around = [(row - 1, column), (row, column - 1), (row, column + 1), (row + 1, column)]
        on_board = [r * side + c for r, c in around if 0 <= r < side and 0 <= c < side]
        table[cell, : len(on_board)] = on_board
    return table


def _by_side(value_of) -> np.ndarray:
    """A table indexed by side from a value per board; rows of sides that no board has are zero."""
    values = {board.side: np.asarray(value_of(board), np.int8) for board in BOARDS.values()}
    shape = next(iter(values.values())).shape
    table = np.zeros((MAX_SIDE + 1, *shape), np.int8)
    for side, value in values.items():
        table[side] = value
    return table


def _per_players(numbers: dict[int, int]) -> list[int]:
    return [numbers.get(players, 0) for players in range(MAX_PLAYERS + 1)]


# int8 tables that kernels read; the first index is the side of the board.
NEIGHBOURS = _by_side(lambda board: _neighbours(board.side))  # [side, cell, 4]
STONES_EACH = _by_side(lambda board: _per_players(board.stones_each))  # [side, players]
TILES_EACH = _by_side(lambda board: _per_players(board.tiles_each))  # [side, players]
TILES_TOTAL = _by_side(lambda board: len(board.faces))  # [side]
COPIES = _by_side(lambda board: [board.faces.count(f) for f in range(-MAX_FACE, MAX_FACE + 1)])  # [side, face + 4]
FACES = _by_side(lambda board: board.faces + (0,) * (MAX_TILES - len(board.faces)))  # [side, tile]


def shown(value: object, longest: int = 120) -> str:
    """`repr(value)` for an error message: on one line, and cut where it is longer than `longest` characters."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # a number of too many digits, a structure nested too deep, or somebody else's __repr__
        text = f"<{type(value).__name__}>"
    return text if len(text) <= longest else text[: longest - 3] + "..."


def check_positive(name: str, value: object) -> int:
    """`value` as an int if it is an integer of 1 or more; otherwise a ValueError that names it as `name`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name}={shown(value)}: must be an integer >= 1")
    return int(value)


def check_configs(config: object, count: int | None, name: str) -> list[GameConfig]:
    """The settings of `count` games, which the caller knows as `name`: `config` for all, or a sequence with one each.

    Raises:
        TypeError: it is neither.
        ValueError: there are not so many games, or none.
    """
    if isinstance(config, GameConfig):
        return [config] * check_positive(name, count)
    configs = list(config) if isinstance(config, Iterable) and not isinstance(config, str) else [config]
    for given in configs:
        if not isinstance(given, GameConfig):
            raise TypeError(f"config={shown(given)}: must be a GameConfig, or a sequence of them")
    if count is not None:
        count = check_positive(name, count)
    if not configs or count not in (None, len(configs)):
        raise ValueError(f"{name}={count!r}: must be the number of configs, {len(configs)}, and not 0")
    return cast(list[GameConfig], configs)
