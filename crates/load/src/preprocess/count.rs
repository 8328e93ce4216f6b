//! Counting the values of a column within a budget: see `Counting`.
