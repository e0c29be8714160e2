"""The table of results: several configs under several seeds, `python -m train.results CONFIG ... --seeds 0,1,2`.

Keys after the configs override those of each config. The same command continues after an interruption.
"""

import itertools
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from train.__main__ import split_seeds
from train.command import run_command
from train.config import ConfigError
from train.config_file import read_config
from train.runs.seeds import SUMMARY_FILE, train_seeds


def main(argv: Sequence[str]) -> int:
    """Entry point: the exit status, see `isis_env.command_line.run_command`."""
    return run_command(lambda: _main(argv), stopped="stopped; the same command goes on")


def _main(argv: Sequence[str]) -> int:
    if "-h" in argv or "--help" in argv:
        print(__doc__)
        return 0
    arguments, seeds = split_seeds(argv)
    files = list(itertools.takewhile(lambda argument: not argument.startswith("--"), arguments))
    if not files or not seeds:
        raise ConfigError("usage: python -m train.results CONFIG.yaml ... --seeds 0,1,2 [--key value ...]")
    overrides = arguments[len(files) :]
    folders = train_seeds([read_config(Path(file), overrides) for file in files], seeds)
    print("\n".join(table(folders)))
    return 0


def table(folders: Sequence[Path]) -> list[str]:
    """A Markdown table of the runs' summaries."""
    lines = ["| config | game | against | mean score rate | 95 % interval | runs |", "|---|---|---|---|---|---|"]
    for folder in folders:
        for entry in json.loads((folder / SUMMARY_FILE).read_text())["results"]:
            low, high = entry["interval"]
            scores = ", ".join(f"{score:.3f}" for score in entry["scores"])
            lines.append(
                f"| `{folder.name}` | {entry['game']} | `{entry['opponent']}` | {entry['mean']:.3f} "
                f"| {low:.3f} to {high:.3f} | {scores} |"
            )
    return lines


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
