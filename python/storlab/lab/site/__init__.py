"""Sites of a campaign, which generate its load: this machine, or the clients of a cluster."""
