"""Example family: workers write files, flush them, and read them."""
