//! Result of verification. In Python it is `VerifyReport` of `storlab/model/result.py`.

use std::collections::BTreeMap;

use serde::Serialize;

/// Maximum number of bad blocks described as examples; further ones are only counted.
const EXAMPLES_MAX: usize = 1000;

/// Kind of damage that verification found in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BadKind {
    /// An acknowledged write is missing: the block holds zeros, or data that no write in verify
    /// mode produced.
    Lost,
    /// The header was written by storlab, but the body does not match it.
    Torn,
    /// Intact, but from an earlier write than the last acknowledged one.
    Stale,
    /// Intact, but written for another offset or another file or device.
    Misplaced,
    /// The device failed to read the block.
    Unreadable,
}

/// Block that failed verification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BadBlock {
    /// Kind of damage of the block.
    pub kind: BadKind,
    /// Name of the file or device that contains the block.
    pub path: String,
    /// Offset in the file or device, in bytes.
    pub offset: u64,
    /// Description of the expected content, for the user.
    pub expected: String,
    /// Description of the actual content, for the user.
    pub found: String,
}

/// Number of checked blocks, number of bad blocks by kind, and examples.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VerifyReport {
    /// Number of checked blocks; only blocks written in verify mode are checked.
    pub checked_blocks: u64,
    /// Number of bad blocks by kind.
    pub bad_blocks: BTreeMap<BadKind, u64>,
    /// Descriptions of the first 1,000 bad blocks.
    pub examples: Vec<BadBlock>,
    /// Number of blocks that mix an acknowledged write with one that never completed. A crash
    /// leaves such blocks on a device that does not write blocks of this size atomically; they are
    /// not bad.
    #[serde(skip)]
    pub torn_in_flight: u64,
    /// Notes about how the verification was done.
    #[serde(skip)]
    pub notes: Vec<String>,
}

impl VerifyReport {
    /// Return whether no checked block was bad.
    pub fn ok(&self) -> bool {
        self.bad_blocks.values().all(|&count| count == 0)
    }

    /// Return the number of bad blocks of a kind.
    pub fn count(&self, kind: BadKind) -> u64 {
        self.bad_blocks.get(&kind).copied().unwrap_or(0)
    }

    /// Add the counts, examples and notes of `other` to this report.
    pub fn merge(&mut self, other: VerifyReport) {
        self.checked_blocks += other.checked_blocks;
        self.torn_in_flight += other.torn_in_flight;
        for (kind, count) in other.bad_blocks {
            *self.bad_blocks.entry(kind).or_default() += count;
        }
        let room = EXAMPLES_MAX.saturating_sub(self.examples.len());
        self.examples.extend(other.examples.into_iter().take(room));
        for note in other.notes {
            self.note(note);
        }
    }

    /// Count a bad block; `describe` is called only while fewer than 1,000 examples are stored.
    pub(super) fn bad(&mut self, kind: BadKind, describe: impl FnOnce() -> BadBlock) {
        *self.bad_blocks.entry(kind).or_default() += 1;
        if self.examples.len() < EXAMPLES_MAX {
            self.examples.push(describe());
        }
    }

    pub(super) fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }
}
