"""Planning of a campaign: all runs of a study in order, with their cost and problems."""
