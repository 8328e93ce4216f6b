"""Interfaces of storlab's plug-ins (families, engines, meters, importers), and their registry."""
