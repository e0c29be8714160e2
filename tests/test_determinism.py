"""Randomness stays at home: seeded games are the same everywhere, and no global generator is touched or heard."""

import hashlib
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from aec_play import FACES, every_form, make, part
from conftest import ALL_FORMS, BUILT_INS, STANDARD_FORMS, form_id

import agents  # noqa: F401  (registers the search agents)
from isis_env import policy
from isis_env.batch import Batch


def stories(config, seeds=(0, 1, 2**64 - 1), episodes=2, moves=None):
    """Seeded games played by a fixed rule, as text: whose turn, what it did, what was drawn, the scores.

    It yields after every decision, so that games can be interleaved.
    """
    env, board = make(config), config.board
    for seed in seeds:
        for episode in range(episodes):
            env.reset(seed=seed if episode == 0 else None)
            for decision in range(100):
                agent = env.agent_selection
                if env.terminations[agent]:
                    break
                legal = np.flatnonzero(env.observe(agent)["action_mask"]).tolist()
                action = legal[-1] if decision % 3 else legal[31 * decision % len(legal)]
                env.step(action)
                held = part(env.observe(agent), "held", board)
                yield f"{agent} {action} {FACES[held.argmax()] if held.any() else 0}"
            yield f"{env.scores()} {env.winners()} {env.skipped}"


def fingerprint():
    text = "\n".join(f"{form_id(config)} {line}" for config in ALL_FORMS for line in stories(config))
    return hashlib.sha256(text.encode()).hexdigest()


# Changing the deal or the rules changes it: then raise the version of the env.
GOLDEN = "19e033662d25be0dbccdae3529b083a2962d686090cc914c1a51fd0defc1c0d7"


def test_seeded_games_are_the_same_forever():
    assert fingerprint() == GOLDEN


@pytest.mark.slow
def test_seeded_games_are_the_same_in_another_process():
    """Another hash seed, another start of the interpreter, nothing used before."""
    environment = os.environ | {"PYTHONHASHSEED": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    code = "import test_determinism; print(test_determinism.fingerprint())"
    here = Path(__file__).parent
    done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=here, capture_output=True, text=True)
    assert done.stdout.strip() == GOLDEN, done.stderr


def test_interleaved_envs_do_not_disturb_each_other():
    alone = [list(stories(config)) for config in ALL_FORMS for _ in range(2)]
    running = [stories(config) for config in ALL_FORMS for _ in range(2)]
    mixed = [[] for _ in running]
    rng = random.Random(7)
    open_ends = list(range(len(running)))
    while open_ends:
        index = rng.choice(open_ends)
        line = next(running[index], None)
        if line is None:
            open_ends.remove(index)
        else:
            mixed[index].append(line)
    assert mixed == alone


@every_form
def test_other_seeds_and_next_episodes_are_other_games(config):
    games = {(seed, episodes): tuple(stories(config, [seed], episodes)) for seed in range(5) for episodes in (1, 2)}
    opening, both = ([games[seed, count] for seed in range(5)] for count in (1, 2))
    following = [both[seed][len(opening[seed]) :] for seed in range(5)]
    assert len({*opening, *following}) == 10


@every_form
def test_the_jth_draw_of_a_pile_does_not_depend_on_what_was_played(config):
    """Or the same deal could not be replayed from every seat (decision 13)."""
    rng, env = random.Random(8), make(config)
    for seed in range(3):
        longest = {}
        for _ in range(6):
            env.reset(seed=seed)
            piles, taste = {}, {agent: rng.choice((0.1, 0.5, 1)) for agent in env.agents}
            while not env.terminations[agent := env.agent_selection]:
                legal = np.flatnonzero(env.observe(agent)["action_mask"]).tolist()
                draws = legal[-1] == config.draw_action and (len(legal) == 1 or rng.random() < taste[agent])
                cells = [action for action in legal if action != config.draw_action]
                env.step(config.draw_action if draws else rng.choice(cells))
                if draws:
                    face = FACES[part(env.observe(agent), "held", config.board).argmax()]
                    piles.setdefault("common" if config.common_reserve else agent, []).append(face)
            for pile, faces in piles.items():
                known = longest.setdefault(pile, faces)
                shared = min(len(known), len(faces))
                assert known[:shared] == faces[:shared]
                longest[pile] = max(known, faces, key=len)


def test_no_global_random_generator_is_touched_or_heard():
    """Neither does our randomness move numpy's and Python's global ones, nor do they move ours."""
    results = []
    for foreign in (1, 2):
        random.seed(foreign)
        np.random.seed(foreign)  # noqa: NPY002
        before = random.getstate(), repr(np.random.get_state())  # noqa: NPY002
        make(STANDARD_FORMS[0]).reset()  # fresh entropy too
        batch = Batch(STANDARD_FORMS)
        batch.reset()
        batch.reset(5)
        chosen = [stories_of_all()]
        for spec in BUILT_INS:
            agent = policy.make_agent(spec)
            for _ in range(60):
                actions = agent.act(batch.decisions(recall=agent.recall))
                chosen.append(batch.step(actions).rewards.tolist())
                chosen.append(actions.tolist())
        assert (random.getstate(), repr(np.random.get_state())) == before  # noqa: NPY002
        results.append(chosen)
    assert results[0] == results[1]


def stories_of_all():
    return [list(stories(config)) for config in ALL_FORMS]
