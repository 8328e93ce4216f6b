"""Power and energy beside runs."""
