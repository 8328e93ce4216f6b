"""What is done to targets before runs."""
