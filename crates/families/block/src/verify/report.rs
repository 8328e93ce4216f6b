//! What verification found: `VerifyReport` of `storlab/model/result.py`.

use std::collections::BTreeMap;

use serde::Serialize;

/// Bad blocks listed in full; later ones are counted.
const EXAMPLES_MAX: usize = 1000;

/// What is wrong with a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BadKind {
    /// An acknowledged write left no trace: zeros, or data that no verified write made.
    Lost,
    /// A header of ours over a body that is not its own.
    Torn,
    /// Whole, but older than what was acknowledged last.
    Stale,
    /// Whole, but written for another place.
    Misplaced,
    /// The device refused to read it.
    Unreadable,
}

/// One block that failed verification.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BadBlock {
    /// What is wrong.
    pub kind: BadKind,
    /// The member's name.
    pub path: String,
    /// In the file or device, in bytes.
    pub offset: u64,
    /// What should be there, for people.
    pub expected: String,
    /// What is there, for people.
    pub found: String,
}

/// How many blocks were checked, and what was wrong.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VerifyReport {
    /// Blocks that had been written in verify mode.
    pub checked_blocks: u64,
    /// How many were bad, by kind.
    pub bad_blocks: BTreeMap<BadKind, u64>,
    /// The first 1,000.
    pub examples: Vec<BadBlock>,
    /// Blocks that hold a mix of an acknowledged generation and one whose write never completed:
    /// what a crash leaves on a device that does not promise atomic writes of this size. Not bad.
    #[serde(skip)]
    pub torn_in_flight: u64,
    /// How it was done, where that is worth a note beside the result.
    #[serde(skip)]
    pub notes: Vec<String>,
}

impl VerifyReport {
    /// True when no checked block was bad.
    pub fn ok(&self) -> bool {
        self.bad_blocks.values().all(|&count| count == 0)
    }

    /// Blocks of a kind.
    pub fn count(&self, kind: BadKind) -> u64 {
        self.bad_blocks.get(&kind).copied().unwrap_or(0)
    }

    /// Adds what another job or pass found.
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

    /// Counts a bad block; `describe` is asked only while there is room for examples.
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
