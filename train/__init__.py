"""Training and measuring agents; every command is a module, such as `python -m train` or `python -m train.evaluate`."""

import signal
import sys

# Python loads this package first when it starts one of its commands, and says so by this name. What the command needs
# takes seconds to load, and Ctrl-C is to end that without a traceback; then `run_command` sees to it.
if sys.argv[:1] == ["-m"] and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
