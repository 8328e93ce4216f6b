//! Which buffers are free. Reads and writes have their own: a read would leave old data in a
//! write's payload.

use std::collections::VecDeque;

use storlab_base::OpKind;

/// Free buffers of one job.
pub struct Slots {
    first_write: u32,
    /// The last one freed is warm in the cache.
    reads: Vec<u32>,
    /// In turn, so that the payload pool is used evenly.
    writes: VecDeque<u32>,
}

impl Slots {
    /// `reads` buffers for reads, then `writes` for writes.
    pub fn new(reads: usize, writes: usize) -> Self {
        let (reads, writes) = (reads as u32, writes as u32);
        Slots {
            first_write: reads,
            reads: (0..reads).rev().collect(),
            writes: (reads..reads + writes).collect(),
        }
    }

    /// A free buffer for an operation of this kind; trims and flushes need none.
    #[inline]
    pub fn take(&mut self, kind: OpKind) -> Option<u32> {
        match kind {
            OpKind::Read => self.reads.pop(),
            OpKind::Write => self.writes.pop_front(),
            OpKind::Trim | OpKind::Sync => Some(0),
        }
    }

    /// The operation is over.
    #[inline]
    pub fn give_back(&mut self, kind: OpKind, slot: u32) {
        match kind {
            OpKind::Read => self.reads.push(slot),
            OpKind::Write => self.writes.push_back(slot),
            OpKind::Trim | OpKind::Sync => {}
        }
    }

    /// Number of a write buffer within the payload pool.
    #[inline]
    pub fn payload_index(&self, slot: u32) -> usize {
        (slot - self.first_write) as usize
    }

    /// All buffers for writes, when none is in use.
    pub fn write_slots(&self) -> impl Iterator<Item = u32> + '_ {
        self.writes.iter().copied()
    }
}
