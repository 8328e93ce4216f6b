"""Guard of a campaign: checks every target before any data are written."""
