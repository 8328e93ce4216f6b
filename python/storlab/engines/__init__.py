"""Engines that execute runs, one folder each, found by ``storlab.contracts.registry``."""
