"""The facts that follow from the rules, each by a game that shows it or by the count that bounds it."""

import itertools
import json

import pytest
from conftest import ALL_FORMS, DATA, actions_of, config_of, form_id, replay

from isis_env import game
from isis_env.config import BOARDS, GameConfig
from isis_env.notation import parse_cell

WITNESSES = {record["id"]: record for record in json.loads((DATA / "witnesses.json").read_text())}


def played(record: dict):
    """The final state and the number of decisions of a witness game."""
    config = config_of(record)
    actions = actions_of(record["moves"], config)
    states, masks = replay(config, record["deck"], record["start"], actions)
    assert all(mask[action] for mask, action in zip(masks, actions, strict=False)), "every action is legal"
    return states, len(actions)


@pytest.mark.parametrize("record", WITNESSES.values(), ids=list(WITNESSES))
def test_witness_games_are_legal_and_show_what_they_claim(record):
    states, decisions = played(record)
    last, expect = states[-1], record["expect"]
    assert game.is_over(last)
    assert game.scores(last) == expect["scores"]
    assert game.skipped(last) == [tuple(skip) for skip in expect["skipped"]]
    best = max(expect["scores"])
    assert expect["winners"] == [seat for seat, score in enumerate(expect["scores"]) if score == best]
    assert decisions == expect["decisions"]
    if "stone" in expect:
        cell = parse_cell(expect["stone"][0])
        assert last.board[cell] in range(last.players)
        around = [cell - 6, cell - 1, cell + 1, cell + 6]
        assert sum(int(last.face[c]) for c in around) == expect["stone"][1]


BEST_SCORE = {2: 69, 3: 58, 4: 51}
DECISIONS = {
    (2, False): (56, 58),
    (3, False): (54, 57),
    (4, False): (52, 56),
    (2, True): (56, 58),
    (3, True): (54, 58),
    (4, True): (52, 58),
}
EARLIEST_STUCK = {2: 30, 3: 28, 4: 27}
MOST_SKIPS = {2: 6, 3: 4, 4: 4}


@pytest.mark.parametrize("players", [2, 3, 4])
def test_extreme_scores_have_witnesses(players):
    assert max(WITNESSES[f"best-{players}p"]["expect"]["scores"]) == BEST_SCORE[players]
    assert min(WITNESSES[f"worst-{players}p"]["expect"]["scores"]) == -BEST_SCORE[players]


@pytest.mark.parametrize(("form", "bounds"), DECISIONS.items())
def test_decision_counts(form, bounds):
    """A game is 36 placements, and a draw for each of them that is a tile: so stones and tiles bound it."""
    players, common = form
    variant = "common" if common else "personal"
    for which, bound in zip(("min", "max"), bounds, strict=True):
        assert WITNESSES[f"decisions-{which}-{variant}-{players}p"]["expect"]["decisions"] == bound
    config = GameConfig(players=players, common_reserve=common)
    stones = config.stones_each * players
    fewest = 2 * config.cells - stones
    # Every stone unplayed is a tile played; personal reserves leave each seat one piece, and there are only 22 tiles.
    most = 2 * config.cells - max(stones - players, config.cells - min(22, config.pile_size * players))
    if common:
        most = 2 * config.cells - (config.cells - 22)
    assert (fewest, most) == bounds


@pytest.mark.parametrize("players", [2, 3, 4])
def test_stuck_players_have_witnesses(players):
    assert WITNESSES[f"stuck-earliest-{players}p"]["expect"]["skipped"][0][0] == EARLIEST_STUCK[players]
    assert len(WITNESSES[f"skips-most-{players}p"]["expect"]["skipped"]) == MOST_SKIPS[players]


@pytest.mark.parametrize("players", [3, 4])
def test_two_seats_can_be_skipped_in_a_row(players):
    skipped = WITNESSES[f"skips-two-in-a-row-{players}p"]["expect"]["skipped"]
    assert any(a[0] == b[0] and b[1] == (a[1] + 1) % players for a, b in itertools.pairwise(skipped))


@pytest.mark.parametrize(
    ("players", "tied"), [(2, 2), (3, 3), (4, 4), (3, 2), (4, 2), (4, 3)], ids=lambda value: str(value)
)
def test_ties_have_witnesses(players, tied):
    assert any(
        record["players"] == players and len(record["expect"]["winners"]) == tied for record in WITNESSES.values()
    )


def unplayed(record: dict) -> list[int]:
    """Pieces left to every seat of a finished game with personal reserves, the start player's first."""
    last = played(record)[0][-1]
    order = [(record["start"] + k) % record["players"] for k in range(record["players"])]
    return [int(last.stones[seat] + last.pile[seat]) for seat in order]


def test_personal_reserves_leave_everyone_one_piece_but_on_mini3():
    for record in WITNESSES.values():
        if not record["common_reserve"]:
            expected = [0, 1] if record["board"] == "mini3" else [1] * record["players"]
            assert unplayed(record) == expected


@pytest.mark.parametrize("form", ALL_FORMS, ids=form_id)
def test_a_side_is_told_by_the_number_of_cells(form):
    assert BOARDS[form.board].side ** 2 == form.cells == form.draw_action == form.num_actions - 1
