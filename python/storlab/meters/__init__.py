"""Power meters, one module per source, found by ``storlab.contracts.registry``."""
