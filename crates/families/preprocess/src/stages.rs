//! The three stages, each a kind of operation.

use storlab_run::sampling::Kind;

/// Place of a stage in the counters.
pub const INGEST: usize = 0;
/// Place of a stage in the counters.
pub const VOCABULARY: usize = 1;
/// Place of a stage in the counters.
pub const ENCODE: usize = 2;
/// All of them.
pub const KINDS: [Kind; 3] =
    [Kind::new(INGEST, "ingest"), Kind::new(VOCABULARY, "vocabulary"), Kind::new(ENCODE, "encode")];
