"""A slow, plain twin of the rules of Isis & Osiris, written to be read beside the rulebook.

It is the independent check of the fast engine and shares no code with it. Numbers in brackets, as in
[decision 3], are those of docs/rules.md; [rules] is the rulebook.
"""

from collections import Counter
from fractions import Fraction

Piece = tuple[str, int]  # ("stone", seat) or ("tile", face)
Board = list[Piece | None]

SIDE = {"standard": 6, "mini4": 4, "mini3": 3}
FACES = {
    "standard": [1] * 2 + [2] * 6 + [3] * 2 + [4] + [-1] * 2 + [-2] * 6 + [-3] * 2 + [-4],
    "mini4": [1, 2, 2, 3, 4, -1, -2, -2, -3, -4],
    "mini3": [1, 2, 3, -1, -2, -3],
}
PIECES_EACH = {  # (board, players): stones and tiles of each player
    ("standard", 2): (8, 11),
    ("standard", 3): (6, 7),
    ("standard", 4): (5, 5),
    ("mini4", 2): (4, 5),
    ("mini3", 2): (2, 3),
}


def neighbours(cell: int, side: int) -> list[int]:
    """The cells above, below, left and right of a cell, not the diagonal ones [rules]."""
    row, column = divmod(cell, side)
    around = [(row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)]
    return [r * side + c for r, c in around if 0 <= r < side and 0 <= c < side]


def count_scores(board: Board, side: int, players: int) -> list[int]:
    """Each stone earns its owner the sum of the tiles beside it [rules]."""
    scores = [0] * players
    for cell, piece in enumerate(board):
        if piece is not None and piece[0] == "stone":
            for other in neighbours(cell, side):
                beside = board[other]
                if beside is not None and beside[0] == "tile":
                    scores[piece[1]] += beside[1]
    return scores


def margin(scores: list[int], seat: int) -> Fraction:
    """Own score minus the mean of the others' scores [decision 9]."""
    others = scores[:seat] + scores[seat + 1 :]
    return scores[seat] - Fraction(sum(others), len(others))


def strip(score: int) -> tuple[str, int, int]:
    """Colour of the strip, number of +/-20 markers and space of the scoring stone [decision 10]."""
    if score == 0:
        return "off", 0, 0
    markers = (abs(score) - 1) // 20
    return "blue" if score > 0 else "red", markers, abs(score) - 20 * markers


class NaiveGame:
    """One game, from the deal to the last placement."""

    def __init__(self, board: str, players: int, common_reserve: bool, deck: list[int], start: int) -> None:
        """Deal the face-down tiles in the order of the deck; anything but the listed settings is an error
        [decision 14]."""
        if (board, players) not in PIECES_EACH:
            raise ValueError(f"no game for {players} players on board {board!r}")
        if common_reserve and board != "standard":
            raise ValueError(f"board {board!r} is played with personal reserves")
        if sorted(deck) != sorted(FACES[board]):
            raise ValueError(f"the deck must hold exactly the {len(FACES[board])} tiles of board {board!r}")
        if start not in range(players):
            raise ValueError(f"start must be a seat, 0 to {players - 1}")
        stones, each = PIECES_EACH[board, players]
        self.side = SIDE[board]
        self.cells = self.side * self.side
        self.faces = FACES[board]
        self.players = players
        self.common_reserve = common_reserve
        self.common_pile: list[int] = []
        self.own_piles: list[list[int]] = [[] for _ in range(players)]
        if common_reserve:  # all tiles, whatever the player count [decision 4]
            self.common_pile = list(deck)
            self.box = 0
        else:
            self.own_piles = [deck[seat * each : (seat + 1) * each] for seat in range(players)]
            self.box = len(deck) - players * each
        self.board: Board = [None] * self.cells
        self.stones = [stones] * players
        self.seat: int | None = start
        self.held: int | None = None
        self.skipped: list[tuple[int, int]] = []
        self.history: list[tuple[int, int]] = []

    @property
    def tiles(self) -> list[int]:
        """Tiles left in each seat's own reserve."""
        return [len(pile) for pile in self.own_piles]

    @property
    def reserve(self) -> int:
        """Tiles left in the common reserve."""
        return len(self.common_pile)

    @property
    def over(self) -> bool:
        """The game ends when the last free cell is filled [rules]."""
        return None not in self.board

    def free_cells(self) -> list[int]:
        """The cells with nothing on them."""
        return [cell for cell in range(self.cells) if self.board[cell] is None]

    def pile(self, seat: int) -> list[int]:
        """The pile this seat draws from, top first."""
        return self.common_pile if self.common_reserve else self.own_piles[seat]

    def legal(self) -> list[int]:
        """Any free cell for a held tile; else any free cell for a stone, and drawing [decisions 1 and 2]."""
        if self.seat is None:
            return []
        if self.held is not None:
            return self.free_cells()
        actions = []
        if self.stones[self.seat] > 0:
            actions += self.free_cells()
        if self.pile(self.seat):
            actions.append(self.cells)
        return actions

    def step(self, action: int) -> None:
        """Draw a tile, or place the held tile or else a stone [decision 1]."""
        if action not in self.legal():
            raise ValueError(f"illegal action {action!r}")
        if action == self.cells:
            self.held = self.pile(self.seat).pop(0)
            return
        if self.held is not None:
            self.board[action] = ("tile", self.held)
            self.held = None
        else:
            self.board[action] = ("stone", self.seat)
            self.stones[self.seat] -= 1
        self.history.append((self.seat, action))
        self.pass_the_turn()

    def pass_the_turn(self) -> None:
        """Clockwise to the next seat [decision 7], skipping those that are stuck [decision 3]."""
        if self.over:
            self.seat = None
            return
        self.seat = (self.seat + 1) % self.players
        while self.stones[self.seat] == 0 and not self.pile(self.seat):
            self.skipped.append((len(self.history), self.seat))
            self.seat = (self.seat + 1) % self.players

    def scores(self) -> list[int]:
        """The score of each seat, counted on the board as it stands."""
        return count_scores(self.board, self.side, self.players)

    def winners(self) -> list[int]:
        """All seats with the top score [decision 8]; nobody before the end."""
        if not self.over:
            return []
        scores = self.scores()
        return [seat for seat in range(self.players) if scores[seat] == max(scores)]

    def win_returns(self) -> list[Fraction]:
        """k winners get 1/k each, the others -1/(n - k); nothing if all tie or before the end [decision 9]."""
        winners = self.winners()
        losers = self.players - len(winners)
        if not winners or not losers:
            return [Fraction(0)] * self.players
        won, lost = Fraction(1, len(winners)), Fraction(-1, losers)
        return [won if seat in winners else lost for seat in range(self.players)]

    def margin_returns(self) -> list[Fraction]:
        """Each seat's margin; nothing before the end [decision 9]."""
        if not self.over:
            return [Fraction(0)] * self.players
        return [margin(self.scores(), seat) for seat in range(self.players)]

    def visible(self, seat: int, recall: int | str) -> dict[int, int]:
        """Faces by cell of the tiles placed since the seat's recall-th last turn, that turn's own included; all
        of them while it has had fewer turns or with recall "full" [decision 6]."""
        if recall != "full" and (not isinstance(recall, int) or recall < 1):
            raise ValueError('recall must be "full" or an integer of at least 1')
        own_turns = [turn for turn, (who, _) in enumerate(self.history) if who == seat]
        first = 0 if recall == "full" or len(own_turns) < recall else own_turns[-recall]
        recent = [(cell, self.board[cell]) for _, cell in self.history[first:]]
        return {cell: value for cell, (kind, value) in recent if kind == "tile"}

    def unrevealed(self) -> dict[int, int]:
        """How many tiles of each face nobody has seen: all tiles but the placed and the held [decision 5]."""
        revealed = Counter(piece[1] for piece in self.board if piece is not None and piece[0] == "tile")
        if self.held is not None:
            revealed[self.held] += 1
        return dict(Counter(self.faces) - revealed)

    def outcomes(self) -> dict[int, Fraction]:
        """Odds of each face for a draw now: its share of the unrevealed tiles, the box included [facts]."""
        unrevealed = self.unrevealed()
        return {face: Fraction(count, sum(unrevealed.values())) for face, count in unrevealed.items()}

    def best_cells(self, piece: Piece) -> tuple[Fraction, list[int]]:
        """Best margin that the seat on turn gets by placing this piece, and all cells that give it [decision 16]."""
        values = {}
        for cell in self.free_cells():
            after = self.board.copy()
            after[cell] = piece
            values[cell] = margin(count_scores(after, self.side, self.players), self.seat)
        best = max(values.values())
        return best, [cell for cell, value in values.items() if value == best]

    def greedy_actions(self) -> list[int]:
        """All best actions one ply deep: a stone if its best value is at least that of drawing [decision 16]."""
        if self.seat is None:
            return []
        if self.held is not None:
            return self.best_cells(("tile", self.held))[1]
        if self.stones[self.seat] == 0:
            return [self.cells]
        stone_value, stone_cells = self.best_cells(("stone", self.seat))
        if not self.pile(self.seat):
            return stone_cells
        draw_value = sum(odds * self.best_cells(("tile", face))[0] for face, odds in self.outcomes().items())
        return stone_cells if stone_value >= draw_value else [self.cells]
