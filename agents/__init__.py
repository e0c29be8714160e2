"""Agents of the checkout. Importing this package registers them under the specs of `isis_env.policy`."""

import signal
import sys

# Python loads this package first when it starts `python -m agents`, and says so by this name. That takes seconds, and
# Ctrl-C is to end it without a traceback; then `run_command` sees to it.
if sys.argv[:1] == ["-m"] and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)

from agents import remember  # noqa: F401  (registers it, as the next lines do)
from agents.learned import agent  # noqa: F401
from agents.search import endgame, expectimax, flat_mc, mcts  # noqa: F401
