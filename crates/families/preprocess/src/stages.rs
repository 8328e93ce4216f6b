//! The three stages; each is a kind of operation in the counters.

use storlab_run::sampling::Kind;

/// Index of the ingest stage in the counters.
pub const INGEST: usize = 0;
/// Index of the vocabulary stage in the counters.
pub const VOCABULARY: usize = 1;
/// Index of the encode stage in the counters.
pub const ENCODE: usize = 2;
/// Kinds of operations, one per stage.
pub const KINDS: [Kind; 3] =
    [Kind::new(INGEST, "ingest"), Kind::new(VOCABULARY, "vocabulary"), Kind::new(ENCODE, "encode")];
