"""Static site over many result directories: each point over time, with its change points."""
