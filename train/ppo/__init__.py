"""PPO by self-play: `trainer` is the loop, the other modules are its parts."""
