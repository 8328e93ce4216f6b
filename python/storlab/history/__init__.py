"""Write a static site that shows the points of many result directories over time, with changes."""
