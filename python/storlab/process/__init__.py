"""Processes: children that carry out runs, what they and the machine use while they do."""
