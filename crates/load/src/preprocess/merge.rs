//! Merging sorted runs of values into the files of a vocabulary.
