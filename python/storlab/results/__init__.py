"""Write, read and check the result directories of campaigns."""
