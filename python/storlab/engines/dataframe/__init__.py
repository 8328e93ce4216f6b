"""Dataframe engines: preprocessing with pandas or Polars."""
