"""Where a campaign's load is made: on this machine, or on the clients of a cluster."""
