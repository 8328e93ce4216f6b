"""Kinds of drawing, for every family alike."""
