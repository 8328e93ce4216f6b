"""Preprocess family: data preparation that reads raw files and writes outputs."""
