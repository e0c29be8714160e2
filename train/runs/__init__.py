"""Training runs: their folder, their report, and the same run under several seeds."""
