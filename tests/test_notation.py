"""Text and back, and what is said of text that is no game."""

import random

import pytest
from conftest import ALL_FORMS, config_of, form_id, golden, random_game, replay

from isis_env import notation, secrecy
from isis_env.notation import NotationError


@pytest.mark.parametrize("record", golden("games"), ids=lambda record: record["id"])
def test_golden_games_read_and_write(record):
    config = config_of(record)
    variant = "common" if config.common_reserve else "personal"
    header = f"[isis-osiris 1] board={config.board} players={config.players} variant={variant} start={record['start']}"
    text = f"{header} result={','.join(map(str, record['scores']))}\n{' '.join(record['moves'])}\n"
    assert notation.dumps(notation.loads(text)[0]) == text


@pytest.mark.parametrize("form", ALL_FORMS, ids=form_id)
def test_every_position_of_a_game_survives_the_round_trip(form):
    rng = random.Random(1)
    for _ in range(5):
        game = list(random_game(form, rng))
        deck, actions = game[0][1], [action for _, _, action in game]
        start = game[-1][0].history[0][0]
        states, _ = replay(form, deck, start, actions)
        for state in states:  # held tiles and the finished game included
            text = notation.dumps(state)
            assert notation.loads(text)[0] == state
            assert notation.loads(text.upper().lower())[0] == state


def test_cells_are_named_by_column_letter_and_row_number():
    assert [notation.cell_name(cell) for cell in (0, 1, 6, 35)] == ["a1", "b1", "a2", "f6"]
    assert [notation.cell_name(cell, 3) for cell in (0, 3, 8)] == ["a1", "a2", "c3"]
    for side in (3, 4, 6):
        assert [notation.parse_cell(notation.cell_name(c, side), side) for c in range(side**2)] == list(range(side**2))


HEADER = "[isis-osiris 1] board=standard players=2 variant=personal start=0"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must begin with"),
        ("a1 b1", "must begin with"),
        ("[isis-osiris 2] board=standard", "version 2: must be 1"),
        ("[isis-osiris 1] players=2 variant=personal start=0", "board missing"),
        (HEADER + " colour=red", "header item 'colour=red'"),
        (HEADER + " start=0", "header item 'start=0'"),
        (HEADER.replace("players=2", "players=5"), "players=5: must be 2 or 3 or 4"),
        (HEADER.replace("players=2", "players=two"), "players='two': must be"),
        (HEADER.replace("personal", "shared"), "variant=shared: must be personal or common"),
        (HEADER.replace("start=0", "start=2"), "start=2: must be a seat from 0 to 1"),
        (HEADER + "\na1 a1", "move 2 ('a1'): cell a1 is not free"),
        (HEADER + "\ng1", "move 1 ('g1'): cell 'g1': must be a1 to f6"),
        (HEADER + "\na1+9", "face +9 is not left"),
        (HEADER + "\na1+4 b1+4", "move 2 ('b1+4'): face +4 is not left; unrevealed are -4 -3 -2 -1 +1 +2 +3"),
        (HEADER + "\n?+3 a1", "nothing may follow"),
        (HEADER + "\n?", "needs its face"),
        (HEADER + "\nA1", "must be a cell (c3)"),
        (HEADER + " result=1,2\na1", "the board is not full"),
        (HEADER + "\n" + " ".join(f"{c}{r}" for c in "abc" for r in range(1, 7)), "no stone left"),
    ],
)
def test_text_that_is_no_game_is_an_error_of_one_line(text, message):
    with pytest.raises(NotationError) as caught:
        notation.loads(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_wrong_result_is_an_error_that_names_the_right_one():
    record = golden("games")[0]
    text = f"[isis-osiris 1] board=standard players=2 variant=personal start={record['start']} result=0,0\n"
    with pytest.raises(NotationError, match="result=0,0: the moves give 9,-2"):
        notation.loads(text + " ".join(record["moves"]))


def test_a_concealed_state_has_no_moves_to_write():
    states = notation.loads(HEADER + "\na1 b1+2")
    with pytest.raises(NotationError, match="no history"):
        notation.dumps(secrecy.known_states(states, [0], 1)[0])
