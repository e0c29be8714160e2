"""A slow, plain solver of the end of a game on top of the slow twin, written from the rules alone.

It is the independent check of the fast solver and shares no code with it: no pruning, no symmetries, exact fractions.
All play on with perfect recall, so a position is public and only the next face is unknown [facts].
"""

from fractions import Fraction

from naive import NaiveGame

Vector = tuple[Fraction, ...]  # one expected return per seat


def solve(game: NaiveGame, reward: str) -> tuple[Vector, dict[int, Vector]]:
    """Expected return of every seat in an unfinished position, and after each legal action.

    Whoever is on turn maximises its own expected return. Where several actions do, it is as likely to take any of
    them, so their vectors are averaged: to the others they need not be equal. `reward` is "win" or "margin".
    """
    return _solve(game, reward, {})


def _solve(game: NaiveGame, reward: str, solved: dict) -> tuple[Vector, dict[int, Vector]]:
    """`solved` holds the answers to positions met before, by all that their future depends on."""
    position = (tuple(game.board), game.seat, game.held, tuple(game.stones), tuple(game.tiles), game.reserve)
    if position not in solved:
        after = {action: _value_after(game, action, reward, solved) for action in game.legal()}
        best = max(vector[game.seat] for vector in after.values())
        chosen = [vector for vector in after.values() if vector[game.seat] == best]
        mean = tuple(sum(vector[seat] for vector in chosen) / len(chosen) for seat in range(game.players))
        solved[position] = mean, after
    return solved[position]


def _value_after(game: NaiveGame, action: int, reward: str, solved: dict) -> Vector:
    if action != game.cells:
        after = copy_of(game)
        after.step(action)
        if after.over:
            return tuple(after.win_returns() if reward == "win" else after.margin_returns())
        return _solve(after, reward, solved)[0]
    mean = [Fraction(0)] * game.players
    for face, odds in game.outcomes().items():
        after = copy_of(game)
        draw(after, face)
        vector, _ = _solve(after, reward, solved)
        mean = [total + odds * value for total, value in zip(mean, vector, strict=True)]
    return tuple(mean)


def draw(game: NaiveGame, face: int) -> None:
    """The seat on turn draws this face, whatever lay on top.

    From then on the faces in the piles are no longer those of a deck; their numbers are right, and nothing here or in
    `outcomes` looks at more than these.
    """
    game.pile(game.seat)[0] = face
    game.step(game.cells)


def copy_of(game: NaiveGame) -> NaiveGame:
    """The same position, to be played on by itself."""
    copy = object.__new__(NaiveGame)
    copy.__dict__.update(game.__dict__)
    copy.board, copy.stones = list(game.board), list(game.stones)
    copy.common_pile, copy.own_piles = list(game.common_pile), [list(pile) for pile in game.own_piles]
    copy.history, copy.skipped = list(game.history), list(game.skipped)
    return copy
