//! From a value to its id: see `Lookup`.
