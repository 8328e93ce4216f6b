"""Plans: every run of a study in its order."""
