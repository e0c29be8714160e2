"""Tournaments: `play` plays, `workers` shares the work among cores, `store` keeps it, `ratings` ranks the agents."""
