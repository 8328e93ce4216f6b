"""The preprocess family."""
