"""Study files: reading, validation, error messages and the starter study."""
