"""Interfaces between the parts of storlab: protocols, typed records and the registry of parts."""
