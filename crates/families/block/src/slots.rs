//! Pools of free buffers. Reads and writes have separate buffers, because a read would leave old
//! data in the payload of a later write.

use std::collections::VecDeque;

use storlab_base::OpKind;

/// Free I/O buffers of one job, separate for reads and writes.
pub struct Slots {
    first_write: u32,
    /// Last in, first out: the buffer that was freed last is warm in the CPU cache.
    reads: Vec<u32>,
    /// First in, first out: the payload pool is used evenly.
    writes: VecDeque<u32>,
}

impl Slots {
    /// Create the pools with `reads` buffers for reads, followed by `writes` buffers for writes.
    pub fn new(reads: usize, writes: usize) -> Self {
        let (reads, writes) = (reads as u32, writes as u32);
        Slots {
            first_write: reads,
            reads: (0..reads).rev().collect(),
            writes: (reads..reads + writes).collect(),
        }
    }

    /// Take a free buffer for an operation of this kind; trims and flushes need none.
    #[inline]
    pub fn take(&mut self, kind: OpKind) -> Option<u32> {
        match kind {
            OpKind::Read => self.reads.pop(),
            OpKind::Write => self.writes.pop_front(),
            OpKind::Trim | OpKind::Sync => Some(0),
        }
    }

    /// Return a buffer after the operation.
    #[inline]
    pub fn give_back(&mut self, kind: OpKind, slot: u32) {
        match kind {
            OpKind::Read => self.reads.push(slot),
            OpKind::Write => self.writes.push_back(slot),
            OpKind::Trim | OpKind::Sync => {}
        }
    }

    /// Return the index of a write buffer within the payload pool.
    #[inline]
    pub fn payload_index(&self, slot: u32) -> usize {
        (slot - self.first_write) as usize
    }

    /// Yield all buffers for writes, while none is in use.
    pub fn write_slots(&self) -> impl Iterator<Item = u32> + '_ {
        self.writes.iter().copied()
    }
}
