"""A family of work and its engine in a package of their own: point lookups in one file."""
