"""Deals that follow from a secret besides the seed, for agents that are not trusted.

An agent is handed a seed per decision, which follows from the seed of the block. Seeds of evaluations are public, so an
agent that knows how deals follow from seeds can try them all and learn the order of the undrawn tiles. With a secret
the deals follow from it and the block's seed together, while the seeds that agents are handed stay as they are.

The secret keeps deals from whoever computes with seeds, not from code that reads the memory, the arguments or the files
of this process.
"""

import hashlib
import secrets

import numpy as np

from isis_env.config import GameConfig

# What `--secret` takes for a text made up on the spot.
RANDOM = "random"

MAX_LENGTH = 1000


def resolve_secret(text: str | None) -> str | None:
    """The secret to deal by: fresh text of 128 random bits for `"random"`, else the text itself.

    Raises:
        ValueError: it is empty, too long, or no text that a file can hold.
    """
    if text is None:
        return None
    if text == RANDOM:
        return secrets.token_hex(16)
    if not 1 <= len(text) <= MAX_LENGTH or not text.isprintable():
        raise ValueError(f"secret={text[:40]!r}: must be {RANDOM!r} or from 1 to {MAX_LENGTH} printable characters")
    return text


def secret_deals(secret: str, seeds: np.ndarray, config: GameConfig) -> tuple[np.ndarray, np.ndarray]:
    """The deals of some blocks, as `Batch.reset` takes them.

    SHAKE-256 of the secret and the block's seed gives 64 bits per tile, by which the tiles are sorted, and 64 more for
    the start player.

    Args:
        secret: what `resolve_secret` made.
        seeds: uint64[m], one per block.

    Returns:
        Decks int8[m, tiles] and start players int64[m].
    """
    faces = np.array(config.faces, np.int8)
    decks = np.empty((len(seeds), len(faces)), np.int8)
    starts = np.empty(len(seeds), np.int64)
    for row, seed in enumerate(seeds.tolist()):
        stream = hashlib.shake_256(seed.to_bytes(8, "little") + secret.encode()).digest(8 * (len(faces) + 1))
        numbers = np.frombuffer(stream, "<u8")
        decks[row] = faces[np.argsort(numbers[1:], kind="stable")]
        starts[row] = int(numbers[0]) % config.players
    return decks, starts
