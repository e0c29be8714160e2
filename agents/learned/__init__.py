"""What is learned: the network, its checkpoints, and the agents that ask it."""
