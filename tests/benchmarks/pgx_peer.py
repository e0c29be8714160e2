"""pgx's `connect_four`, timed; prints JSON. Runs by itself under the Python that has pgx.

Usage: pgx_peer.py GAMES

It compiles and says which versions it found; then it measures once per line of its input, so that others can be
measured in between.
"""

import json
import sys
import time
from importlib.metadata import version

import jax
import jax.numpy as jnp
import pgx
from pgx.experimental.wrappers import auto_reset

STEPS = 200  # per compiled call
SECONDS = 0.3  # per measurement, or somewhat more


def main() -> None:
    """Random legal actions in all games, which begin anew as they end; everything compiled into one loop."""
    jax.config.update("jax_platforms", "cpu")
    games = int(sys.argv[1])
    env = pgx.make("connect_four")
    begin_all = jax.jit(jax.vmap(env.init))
    step_all = jax.vmap(auto_reset(env.step, env.init))

    def step(carry, _):
        state, key = carry
        key, of_actions, of_games = jax.random.split(key, 3)
        logits = jnp.where(state.legal_action_mask, 0.0, -jnp.inf)
        actions = jax.random.categorical(of_actions, logits, axis=-1)
        return (step_all(state, actions, jax.random.split(of_games, games)), key), None

    @jax.jit
    def play(carry):
        return jax.lax.scan(step, carry, None, length=STEPS)[0]

    carry = begin_all(jax.random.split(jax.random.key(0), games)), jax.random.key(1)
    carry = jax.block_until_ready(play(carry))  # compile and warm up
    print(json.dumps({name: version(name) for name in ("pgx", "jax")}), flush=True)
    for _ in sys.stdin:
        steps = 0
        begin = time.perf_counter()
        while (seconds := time.perf_counter() - begin) < SECONDS:
            carry = jax.block_until_ready(play(carry))
            steps += STEPS
        print(json.dumps({"steps_per_second": steps * games / seconds}), flush=True)


if __name__ == "__main__":
    main()
