"""storlab: which storage serves a workload better, by how much, and how sure are we?"""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("storlab")
except PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0+unknown"
