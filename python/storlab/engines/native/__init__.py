"""Native engine: executes jobs in the Rust extension of storlab."""
