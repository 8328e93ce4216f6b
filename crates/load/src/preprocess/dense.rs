//! Numerical features: the logarithm of an integer as a half or a float.
