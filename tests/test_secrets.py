"""Nothing leaks: what a seat does not know changes nothing that it sees or does."""

import random

import numpy as np
import pytest
from aec_play import FACES, every_board, every_form, make, part
from conftest import ALL_FORMS, BUILT_INS, random_game

import agents  # noqa: F401  (registers the search agents)
from isis_env import game, policy
from isis_env.batch import Batch
from isis_env.observation import layout
from isis_env.secrecy import known_states

RECALLS = [1, 2, 5, "full"]
SEARCHERS = [
    "expectimax",
    "flat_mc:simulations=60",
    "mcts:simulations=40",
    "mcts:simulations=40,leaf=evaluation",
    "exact",
]


class Record:
    """A random game, and where in the deck each of its tiles came from."""

    def __init__(self, config, rng):
        self.config = config
        self.actions = []
        self.known = []  # before every decision and after the end: (seat, recall) -> deck positions it sees the face of
        origin = {}  # cell -> position in the deck
        held_from = None
        for twin, deck, action in random_game(config, rng):
            if not self.actions:
                self.deck, self.start = list(deck), twin.seat
            self.known.append(self._known(twin, origin, held_from))
            self.actions.append(action)
            if action == config.draw_action:
                pile = 0 if config.common_reserve else twin.seat
                held_from = (pile + 1) * config.pile_size - len(twin.pile(twin.seat))
            elif twin.held is not None:
                origin[action] = held_from
        self.known.append(self._known(twin, origin, held_from))
        self.skipped = twin.skipped

    def _known(self, twin, origin, held_from):
        held = set() if twin.held is None else {held_from}
        return {
            (seat, recall): held | {origin[cell] for cell in twin.visible(seat, recall)}
            for seat in range(self.config.players)
            for recall in RECALLS
        }

    def other_deck(self, known, rng):
        """The same deck but for the tiles that are not known, which are shuffled among each other."""
        unknown = [position for position in range(len(self.deck)) if position not in known]
        faces = [self.deck[position] for position in unknown]
        rng.shuffle(faces)
        other = self.deck.copy()
        for position, face in zip(unknown, faces, strict=True):
            other[position] = face
        return other

    def replay(self, env, decisions, deck=None):
        env.reset(seed=1, options={"deck": deck or self.deck, "start_player": self.start})
        for action in self.actions[:decisions]:
            env.step(action)


@every_form
@pytest.mark.parametrize("recall", RECALLS)
def test_tiles_that_a_seat_does_not_know_change_nothing_that_it_is_shown(config, recall):
    """Undrawn tiles, the box and faces no longer seen are dealt anew; observation, mask, info and picture stay."""
    rng = random.Random(1)
    real, other = (make(config, recall=recall, render_mode="ansi") for _ in range(2))
    changed = 0
    for _ in range(6):
        record = Record(config, rng)
        for decisions in [*rng.sample(range(len(record.actions)), 5), len(record.actions)]:
            record.replay(real, decisions)
            over = decisions == len(record.actions)
            for seat, agent in enumerate(real.possible_agents):
                record.replay(other, decisions, record.other_deck(record.known[decisions][seat, recall], rng))
                changed += real.scores() != other.scores()
                assert real.agent_selection == other.agent_selection
                assert real.terminations == other.terminations
                for seen, expected in zip(other.observe(agent).values(), real.observe(agent).values(), strict=True):
                    assert np.array_equal(seen, expected)
                assert real.infos == other.infos
                if agent == real.agent_selection and not over:
                    assert real.render() == other.render()
                known = [known_states(env._states, [seat], recall).tobytes() for env in (real, other)]
                assert known[0] == known[1]
                if recall == "full":
                    assert np.array_equal(real.state(), other.state())
    assert changed or recall not in (1, 2)  # or the test would be empty
    assert not changed or recall != "full"  # who knows all faces knows the scores


@every_form
@pytest.mark.parametrize("recall", RECALLS)
def test_undrawn_tiles_of_a_running_game_change_nothing_that_anybody_is_shown(config, recall):
    """The same done to the deal behind the back of one env, for all agents at once and at every decision."""
    rng = random.Random(2)
    env = make(config, recall=recall, render_mode="ansi")
    for _ in range(3):
        record = Record(config, rng)
        record.replay(env, 0)
        for decisions, action in enumerate(record.actions):
            before = everything_shown(env)
            undrawn = [p for p in range(len(record.deck)) if p not in ever_drawn(record, decisions)]
            env._deck[undrawn] = rng.sample(env._deck[undrawn].tolist(), len(undrawn))
            assert everything_shown(env) == before
            env.step(action)


def ever_drawn(record, decisions):
    """Deck positions drawn by now: those that a seat with full recall knows."""
    return record.known[decisions][0, "full"]


def everything_shown(env):
    seen = [array.tobytes() for agent in env.possible_agents for array in env.observe(agent).values()]
    return seen, env.agent_selection, repr(env.infos), repr(env.rewards), env.render(), env.state().tobytes()


@every_board
@pytest.mark.parametrize("recall", RECALLS)
def test_tiles_that_a_seat_does_not_know_change_nothing_that_an_agent_is_given(board, recall):
    """The same for the decisions of a batch: states, observations, masks, flags and seeds."""
    for real, other in batches_that_differ_in_the_unknown(board, recall):
        real, other = real.decisions(recall=recall), other.decisions(recall=recall)
        assert real.states.tobytes() == other.states.tobytes()
        for field in ("observations", "action_masks", "seats", "games", "first", "seeds"):
            assert np.array_equal(getattr(real, field), getattr(other, field)), field


@every_board
@pytest.mark.parametrize("spec", [*BUILT_INS, *(pytest.param(spec, marks=pytest.mark.slow) for spec in SEARCHERS)])
def test_undrawn_tiles_change_no_choice_of_an_agent(board, spec):
    agent = policy.make_agent(spec)
    for real, other in batches_that_differ_in_the_unknown(board, agent.recall):
        chosen = agent.act(real.decisions(recall=agent.recall))
        assert np.array_equal(chosen, agent.act(other.decisions(recall=agent.recall)))


def test_the_built_ins_are_all_tested():
    assert {"random", "uniform", "greedy"} <= set(BUILT_INS)


def batches_that_differ_in_the_unknown(board, recall):
    """Pairs of batches of the same moves, in which the seats on turn know the same and all else is dealt anew."""
    rng = random.Random(3)
    records = [Record(config, rng) for config in ALL_FORMS if config.board == board for _ in range(4)]
    configs, starts = [record.config for record in records], [record.start for record in records]
    real, other = Batch(configs), Batch(configs)
    for decisions in range(0, min(len(record.actions) for record in records), 5):
        real.reset(7, start_player=starts, deck=[record.deck for record in records])
        moves = [np.array([record.actions[step] for record in records]) for step in range(decisions)]
        for actions in moves:
            real.step(actions)
        known = [r.known[decisions][int(s), recall] for r, s in zip(records, real.states["seat"], strict=True)]
        decks = [record.other_deck(k, rng) for record, k in zip(records, known, strict=True)]
        assert decks != [record.deck for record in records] or decisions > 10
        other.reset(7, start_player=starts, deck=decks)
        for actions in moves:
            other.step(actions)
        yield real, other


@every_form
@pytest.mark.parametrize("recall", RECALLS)
def test_a_concealed_state_gives_the_odds_as_far_as_its_seat_can_tell(config, recall):
    """Odds of a face = (copies - those it sees) / (all tiles - those it sees), box and forgotten tiles included."""
    env, record, odds = make(config), Record(config, random.Random(9)), np.empty(9)
    record.replay(env, 0)
    for decisions, action in enumerate(record.actions):
        for seat in range(config.players):
            known = known_states(env._states, [seat], recall)
            game.outcomes(known[0], odds)
            unseen = [f for p, f in enumerate(record.deck) if p not in record.known[decisions][seat, recall]]
            expected = [unseen.count(face) / max(1, len(unseen)) for face in range(-4, 5)]
            assert odds.tolist() == expected
            if recall != "full":
                placed = known["placed"][0]
                for field, count in (("order", placed), ("placer", placed), ("score", config.players)):
                    assert set(known[field][0, :count].tolist()) <= {game.UNKNOWN}
        env.step(action)


@every_form
def test_under_recall_1_each_reveal_reaches_each_seat_exactly_once(config):
    """Over a seat's phase-1 observations and its final one, every placed face shows in exactly one."""
    rng, skips = random.Random(4), 0
    env = make(config, recall=1)
    for _ in range(12):
        record = Record(config, rng)
        record.replay(env, 0)
        shown = {agent: [] for agent in env.possible_agents}
        for action in record.actions:
            agent = env.agent_selection
            observation = env.observe(agent)
            if not part(observation, "held", config.board).any():
                shown[agent].append(part(observation, "faces", config.board))
            env.step(action)
        truth = env.state()[layout(config.board)["faces"].slice] * 4
        for agent in env.possible_agents:
            faces = np.array([*shown[agent], part(env.observe(agent), "faces", config.board)])
            assert (faces != 0).sum(0).tolist() == (truth != 0).astype(int).tolist()
            assert faces.sum(0).tolist() == truth.round().tolist()
        skips += len(record.skipped)
    assert bool(skips) == config.common_reserve  # seats that were skipped are among them


@every_form
@pytest.mark.parametrize("recall", RECALLS)
def test_the_held_face_is_shown_to_everybody(config, recall):
    rng = random.Random(5)
    env = make(config, recall=recall)
    for _ in range(3):
        record, drawn = Record(config, rng), set()
        record.replay(env, 0)
        for decisions, action in enumerate(record.actions, start=1):
            env.step(action)
            held = [part(env.observe(agent), "held", config.board) for agent in env.possible_agents]
            if action == config.draw_action:
                (position,) = ever_drawn(record, decisions) - drawn
                drawn.add(position)
                expected = [int(face == record.deck[position]) for face in FACES]
            else:
                expected = [0] * len(FACES)
            assert [row.tolist() for row in held] == [expected] * config.players


@every_form
@pytest.mark.parametrize("recall", [1, 2, 1000, "full"])
def test_memory_aids_are_zero_unless_recall_is_full(config, recall):
    """Counts of unrevealed faces and running scores would hand a forgetful seat what it should have remembered."""
    env, record = make(config, recall=recall), Record(config, random.Random(6))
    record.replay(env, 0)
    aids = {name for name, entry in layout(config.board).items() if entry.memory}
    assert aids == {"unrevealed", "scores"}
    scored = False
    for decisions in range(len(record.actions) + 1):
        for seat, agent in enumerate(env.possible_agents):
            observation = env.observe(agent)
            unrevealed, scores = (part(observation, name, config.board).tolist() for name in ("unrevealed", "scores"))
            if recall != "full":
                assert not any(unrevealed + scores)
                continue
            left = [f for p, f in enumerate(record.deck) if p not in ever_drawn(record, decisions)]
            assert unrevealed == [left.count(face) for face in FACES]
            expected = env.scores()[seat:] + env.scores()[:seat]
            assert scores == expected + [0] * (4 - config.players)
            scored |= any(scores)
        if decisions < len(record.actions):
            env.step(record.actions[decisions])
    assert scored == (recall == "full")
