"""The dataframe engine."""
