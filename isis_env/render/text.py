"""A position as text."""

import numpy as np

from isis_env import game
from isis_env.game import EMPTY, NOTHING, TILE, UNKNOWN
from isis_env.notation import cell_name


def render_text(s: np.record, ended: bool = False) -> str:
    """The position drawn in text, with what every seat has left and, where known, its score.

    A stone is its seat in round brackets, a tile its face in square ones, empty where the face is not known.

    Args:
        s: an element of an array of `STATE`, as far as the viewer may know it (`secrecy.conceal`).
        ended: whether the game is over although the board is not full, so that nobody is to move.
    """
    side = int(s.side)
    lines = ["    " + "    ".join(cell_name(column, side)[0] for column in range(side))]
    for row in range(side):
        cells = " ".join(_cell(s, row * side + column) for column in range(side))
        lines.append(f"{row + 1:>2} {cells}".rstrip())
    lines.append("")
    if s.common_reserve:
        lines.append(f"reserve {s.pile[0]}")
    lines += [_seat(s, seat, ended) for seat in range(s.players)]
    return "\n".join(lines) + "\n"


def _cell(s: np.record, cell: int) -> str:
    piece = s.board[cell]
    if piece == EMPTY:
        return " .  "
    if piece == TILE:
        face = s.face[cell]
        return "[  ]" if face == UNKNOWN else f"[{face:+d}]"
    return f"({piece}) "


def _seat(s: np.record, seat: int, ended: bool) -> str:
    line = f"player_{seat}  stones {s.stones[seat]}"
    if not s.common_reserve:
        line += f"  tiles {s.pile[seat]:>2}"
    if s.score[seat] != UNKNOWN:
        line += f"  score {s.score[seat]:+d}"
    if s.seat == seat and not ended and not game.is_over(s):
        line += "  to move" if s.held == NOTHING else f"  to place {s.held:+d}"
    elif game.is_over(s) and s.score[seat] != UNKNOWN:
        colour, markers, space = game.strip(int(s.score[seat]))
        line += f"  {colour} strip: space {space}, markers {markers}" if space else "  off both strips"
    return line
