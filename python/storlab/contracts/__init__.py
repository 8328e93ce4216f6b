"""What the parts promise one another: protocols and typed records, and how parts are found."""
