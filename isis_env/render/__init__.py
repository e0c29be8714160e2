"""Pictures of a position. They show a state as it is given: pass one through `secrecy.conceal` first."""

from isis_env.render.text import render_text

__all__ = ["render_text"]
