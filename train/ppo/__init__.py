"""PPO by self-play: `trainer` is the loop, `run` what is before and after it, the other modules are its parts."""
