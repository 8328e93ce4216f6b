//! Pools of free I/O buffers. Reads and writes have separate buffers, because a read would leave
//! its data in the payload of a later write.

use std::collections::VecDeque;

use storlab_base::OpKind;

/// Free I/O buffers of one job, separate for reads and writes.
pub struct Slots {
    first_write: u32,
    /// Used last in, first out: the buffer freed last is still warm in the CPU cache.
    reads: Vec<u32>,
    /// Used first in, first out, so that all payload buffers are written equally often.
    writes: VecDeque<u32>,
}

impl Slots {
    /// Create the pools. Buffers `0..reads` are for reads, the `writes` buffers after them for
    /// writes.
    pub fn new(reads: usize, writes: usize) -> Self {
        let (reads, writes) = (reads as u32, writes as u32);
        Slots {
            first_write: reads,
            reads: (0..reads).rev().collect(),
            writes: (reads..reads + writes).collect(),
        }
    }

    /// Take a free buffer for an operation; `None` if all are in use. Trims and flushes need no
    /// buffer and always get number 0.
    #[inline]
    pub fn take(&mut self, kind: OpKind) -> Option<u32> {
        match kind {
            OpKind::Read => self.reads.pop(),
            OpKind::Write => self.writes.pop_front(),
            OpKind::Trim | OpKind::Sync => Some(0),
        }
    }

    /// Return the operation's buffer to its pool.
    #[inline]
    pub fn give_back(&mut self, kind: OpKind, slot: u32) {
        match kind {
            OpKind::Read => self.reads.push(slot),
            OpKind::Write => self.writes.push_back(slot),
            OpKind::Trim | OpKind::Sync => {}
        }
    }

    /// Convert the number of a write buffer to its index in the payload pool.
    #[inline]
    pub fn payload_index(&self, slot: u32) -> usize {
        (slot - self.first_write) as usize
    }

    /// Yield the numbers of all free write buffers.
    pub fn write_slots(&self) -> impl Iterator<Item = u32> + '_ {
        self.writes.iter().copied()
    }
}
