"""DLIO engine: training reads by the DLIO benchmark."""
