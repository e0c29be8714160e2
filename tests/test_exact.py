"""The exact solver: counted by hand, and against the slow solver on the ends of random games."""

import random
import re

import numpy as np
import pytest
from conftest import STANDARD_FORMS, form_id, random_game, replay

pytest.importorskip("torch")  # `agents` needs it

import naive_exact
from naive import NaiveGame

from agents.search.exact import BudgetExceededError, Solver, solve
from isis_env import GameConfig, game, notation, symmetry
from isis_env.secrecy import known_states

pytestmark = pytest.mark.slow

# A form, how many cells are free at most, and seeds of random games: some in which stone or tile is a choice among
# these last cells, some in which a stuck seat is skipped, some in which a seat is indifferent and others are not.
ENDS = [
    (GameConfig("standard", 2), 4, (0, 2, 4, 5, 11, 14)),
    (GameConfig("standard", 2, True), 4, (0, 3, 5, 6, 7, 14)),
    (GameConfig("standard", 3), 4, (0, 1, 2, 4, 5, 8)),
    (GameConfig("standard", 3, True), 4, (6, 7, 8, 14, 15, 22, 23)),
    (GameConfig("standard", 4), 4, (0, 4, 5, 15, 20)),
    (GameConfig("standard", 4, True), 4, (0, 3, 6, 8, 13, 17, 23)),
    (GameConfig("mini4"), 5, (1, 4, 9)),
    (GameConfig("mini3"), 5, (0, 1, 3, 10, 12)),
]


def played(form: GameConfig, seed: int, free: int):
    """The positions of a random game with at most `free` cells free: twin and engine state of each."""
    twins, actions, deck = [], [], []
    for twin, deck, action in random_game(form, random.Random(seed)):  # noqa: B007 (the deck is the same throughout)
        twins.append(naive_exact.copy_of(twin))
        actions.append(action)
    states, _ = replay(form, deck, twins[0].seat, actions)
    return [(twin, states[i]) for i, twin in enumerate(twins) if len(twin.free_cells()) <= free]


def end_of_game(form: GameConfig, seed: int, free: int) -> np.ndarray:
    """The engine state when a random game has just come to `free` free cells."""
    return played(form, seed, free)[0][1]


def from_text(text: str) -> tuple[NaiveGame, np.record]:
    """A position in notation as a twin and an engine state."""
    states = notation.loads(text)
    s = states[0]
    config = {3: GameConfig("mini3"), 4: GameConfig("mini4"), 6: GameConfig(players=int(s.players))}[int(s.side)]
    twin = NaiveGame(config.board, config.players, False, list(config.faces), int(s.start))
    for move in notation.moves(s):
        cell, face = re.fullmatch(r"(\?|[a-f]\d)(.*)", move).groups()
        if face:
            naive_exact.draw(twin, int(face))
        if cell != "?":
            twin.step(notation.parse_cell(cell, config.side))
    return twin, s


def assert_same(twin: NaiveGame, state: np.record, reward: str) -> dict:
    """Both solvers find the same; returns the slow one's value of every action."""
    values, after = naive_exact.solve(twin, reward)
    solution = solve(state, reward)
    assert solution.values.shape == (twin.players,)
    assert solution.action_values.shape == (twin.cells + 1, twin.players)
    np.testing.assert_allclose(solution.values, np.array(values, float), rtol=0, atol=1e-9)
    expected = np.full(solution.action_values.shape, np.nan)
    for action, vector in after.items():
        expected[action] = np.array(vector, float)
    np.testing.assert_allclose(solution.action_values, expected, rtol=0, atol=1e-9)
    return after


# Against the slow solver


@pytest.mark.parametrize("reward", ["win", "margin"])
@pytest.mark.parametrize(("form", "free", "seeds"), ENDS, ids=[f"{form_id(form)}-{free}" for form, free, _ in ENDS])
def test_every_action_has_the_value_that_the_slow_solver_finds(form, free, seeds, reward):
    held = choices = skips = averages = 0
    for seed in seeds:
        positions = played(form, seed, free)
        for twin, state in positions:
            after = assert_same(twin, state, reward)
            best = max(vector[twin.seat] for vector in after.values())
            held += twin.held is not None
            choices += twin.held is None and twin.cells in after and len(after) > 1
            averages += len({vector for vector in after.values() if vector[twin.seat] == best}) > 1
        skips += any(filled >= form.cells - free for filled, _ in positions[-1][0].skipped)
    assert held > 0
    assert choices > 0
    assert skips > 0 or not form.common_reserve
    assert averages > 0 or form.players == 2 or reward == "margin"


# By hand

LAST_TILE = "[isis-osiris 1] board=mini3 players=2 variant=personal start=0\na1 a3 a2 c3 b2+2 b3+3 c1-1 c2-3"
TWO_CELLS = "[isis-osiris 1] board=mini3 players=2 variant=personal start=0\na1 c3 a2 b1+3 b2+1 a3-2 b3-3"
INDIFFERENT = """[isis-osiris 1] board=standard players=3 variant=personal start=0
b1 e1 e2 c1 f1 f2 d1 c2 e3 b2 d2 f3 a6 f6 d6 a2-4 a3+2 b3+3 c3+2 d3-2 a4+2 b4+2 c4+3 d4-1 e4-3 f4-3 a5+2 b5-1 c5-2
d5-2 e5-2 f5+1 b6+2 c6-2 e6+1"""


def assert_values(text: str, reward: str, values: list[float], after: dict[str, list[float]]) -> None:
    """The values counted by hand are those of both solvers; actions are cells in notation, and `draw`."""
    twin, state = from_text(text)
    assert_same(twin, state, reward)
    solution = solve(state, reward)
    assert solution.values == pytest.approx(values, abs=1e-12)
    for action in range(len(solution.action_values)):
        name = "draw" if action == twin.cells else notation.cell_name(action, twin.side)
        if name in after:
            assert solution.action_values[action] == pytest.approx(after[name], abs=1e-12)
        else:
            assert np.isnan(solution.action_values[action]).all()


def test_a_last_tile_to_draw():
    """Seat 0 is left with a tile, +1 or -2, for the last cell, b1, beside its stone on a1.

         0   .  -1
         0  +2  -3
         1  +3   1

    Seat 0 has 0 on a1 and +2 on a2; seat 1 has +3 on a3 and +3 - 3 on c3. With +1 it is 3 to 3, with -2 it is 0 to 3.
    """
    assert_values(LAST_TILE, "win", [-1 / 2, 1 / 2], {"draw": [-1 / 2, 1 / 2]})
    assert_values(LAST_TILE, "margin", [-3 / 2, 3 / 2], {"draw": [-3 / 2, 3 / 2]})
    assert_values(LAST_TILE + " ?+1", "win", [0, 0], {"b1": [0, 0]})
    assert_values(LAST_TILE + " ?-2", "win", [-1, 1], {"b1": [-1, 1]})
    assert_values(LAST_TILE + " ?-2", "margin", [-3, 3], {"b1": [-3, 3]})


def test_a_stone_before_the_last_tile():
    """Seat 1 has a stone and a tile left, seat 0 a tile; +2 and -1 are unrevealed, c1 and c2 free.

         0  +3   .
         0  +1   .
        -2  -3   1

    Seat 0 has 3 on a1 and 1 - 2 on a2, 2 in all, and seat 1 has -3.
    A stone on c1 brings 3, and seat 0's tile on c2 counts twice, on c1 and c3: 4 or -2, against 2.
    A stone on c2 brings 1, and the tile on c1 counts once: 0 or -3.
    Two tiles: the one on c2 counts for c3. Seat 1 puts a +2 there, or leaves c2 to it, and has -1.
    """
    win = {"c1": [0, 0], "c2": [1, -1], "draw": [1, -1]}
    assert_values(TWO_CELLS, "win", [0, 0], win)
    margin = {"c1": [1, -1], "c2": [3.5, -3.5], "draw": [3, -3]}
    assert_values(TWO_CELLS, "margin", [1, -1], margin)
    assert_values(TWO_CELLS + " ?+2", "margin", [3, -3], {"c1": [6, -6], "c2": [3, -3]})
    assert_values(TWO_CELLS + " ?-1", "margin", [3, -3], {"c1": [3, -3], "c2": [6, -6]})


def test_who_cannot_win_takes_either_of_two_actions_and_the_others_get_the_mean():
    """Seat 2 has lost and has a stone and a tile for the last cell, a1, beside a stone of seat 0.

         .   0   0   0   1   1
        -4   0   1   1   2   2
        +2  +3  +2  -2   2   2
        +2  +2  +3  -1  -3  -3
        +2  -1  -2  -2  -2  +1
         0  +2  -2   2  +1   1

    Seat 0 has 3 - 4 on b2 and 2 + 2 on a6; seat 1 has 2 on c2, -2 on d2 and 1 + 1 on f6; seat 2 has -2 - 3 on e3, -3 on
    f3 and 1 - 2 - 2 on d6: 3, 2, -11. Two tiles are unrevealed, +4 and -2, one of them in the box. A stone leaves it
    at that, but for its own -4; so does a +4, while after a -2 seat 1 wins. Seat 2 has -1/2 however it goes.
    """
    stone, tile = [1, -1 / 2, -1 / 2], [1 / 4, 1 / 4, -1 / 2]
    assert_values(INDIFFERENT, "win", [5 / 8, -1 / 8, -1 / 2], {"a1": stone, "draw": tile})
    stone, tile = [9.5, 8, -17.5], [8.5, 5.5, -14]
    assert_values(INDIFFERENT, "margin", tile, {"a1": stone, "draw": tile})


# What else is asked of it


@pytest.mark.parametrize("form", [*STANDARD_FORMS, GameConfig("mini4"), GameConfig("mini3")], ids=form_id)
def test_a_mapped_position_has_the_same_values_with_its_actions_mapped(form):
    for seed, reward in ((1, "win"), (2, "margin")):
        states = np.array([end_of_game(form, seed, 4)])
        solution = solve(states[0], reward)
        for k in range(1, symmetry.SYMMETRIES):
            mapped = solve(symmetry.apply_to_state(states, k)[0], reward)
            actions = symmetry.apply_to_action(np.arange(form.num_actions), k, form.board)
            np.testing.assert_allclose(mapped.values, solution.values, rtol=0, atol=1e-9)
            np.testing.assert_allclose(mapped.action_values[actions], solution.action_values, rtol=0, atol=1e-9)


def test_what_a_solver_has_found_before_changes_no_answer():
    """One solver for all forms of a game, with room for everything and with room for little."""
    positions = [state for form, free, seeds in ENDS for _, state in played(form, seeds[0], free)]
    fresh = [solve(state, "margin") for state in positions]
    most = max(solution.nodes for solution in fresh)
    for solver in (Solver("margin"), Solver("margin", max_nodes=most)):
        again = [solver.solve(state) for state in positions + positions[::-1]]
        for before, after in zip(fresh + fresh[::-1], again, strict=True):
            np.testing.assert_allclose(after.values, before.values, rtol=0, atol=1e-9)
            np.testing.assert_allclose(after.action_values, before.action_values, rtol=0, atol=1e-9)
    assert 0 in {solution.nodes for solution in again}, "something should have been known already"


def test_win_is_the_default_and_returns_sum_to_zero():
    state = end_of_game(GameConfig(players=3), 1, 4)
    solution = solve(state)
    for name in ("values", "action_values"):
        np.testing.assert_array_equal(getattr(solution, name), getattr(solve(state, "win"), name))
    assert np.flatnonzero(~np.isnan(solution.action_values[:, 0])).tolist() == game.legal_actions(state)
    assert solution.values.sum() == pytest.approx(0, abs=1e-12)
    assert np.nansum(solution.action_values, axis=1) == pytest.approx(0, abs=1e-12)


def test_the_state_is_left_as_it_was():
    for free in (1, 4):
        states = np.array([end_of_game(GameConfig(players=3, common_reserve=True), 5, free)])
        before = states.tobytes()
        solve(states[0], "margin")
        assert states.tobytes() == before


def test_a_position_that_takes_too_long_is_refused():
    states = game.new_state(GameConfig())
    before = states.tobytes()
    with pytest.raises(BudgetExceededError, match=r"1[,_]?000\b"):
        solve(states[0], max_nodes=1000)
    assert states.tobytes() == before
    state = end_of_game(GameConfig(), 0, 4)
    nodes = solve(state).nodes
    assert solve(state, max_nodes=nodes).nodes == nodes
    with pytest.raises(BudgetExceededError, match=f"{nodes - 1}"):
        solve(state, max_nodes=nodes - 1)


def test_finished_and_concealed_states_and_unknown_rewards_are_errors():
    form = GameConfig("mini3")
    states = np.array([end_of_game(form, 0, 2)])
    finished = states.copy()
    while not game.is_over(finished[0]):
        if not game.can_place(finished[0]):
            game.draw(finished[0], int(np.flatnonzero(finished[0].unrevealed)[0]) - 4)
        game.place(finished[0], game.legal_actions(finished[0])[0])
    with pytest.raises(ValueError, match="finished"):
        solve(finished[0])
    with pytest.raises(ValueError, match="concealed"):
        solve(known_states(states, states["seat"], 1)[0])
    with pytest.raises(ValueError, match="score"):
        solve(states[0], "score")
