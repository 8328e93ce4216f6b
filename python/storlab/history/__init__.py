"""A static site over many result directories: each point over time, and where it changed."""
