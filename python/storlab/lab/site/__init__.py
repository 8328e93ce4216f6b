"""Sites of a campaign: this machine, or the clients of a cluster, where the load is generated."""
