"""Study files: read, checked, explained."""
