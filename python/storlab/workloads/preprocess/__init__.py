"""Preprocess family: preparation of training data, from raw click logs to binary files."""
