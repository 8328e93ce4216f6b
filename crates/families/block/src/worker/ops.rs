//! Build the operations that the backend submits.

use storlab_base::OpKind;
use storlab_io::Op;

use crate::layout::Part;

/// Pack the number of the operation in flight, the number of its part, and the part's length into a
/// tag.
pub const fn tag(flight: u16, part: u16, len: u32) -> u64 {
    flight as u64 | (part as u64) << 16 | (len as u64) << 32
}

/// Build the backend operation for one part of an operation. `number` holds the numbers of the
/// operation in flight and of the part; `at` is the part's start in the buffer.
#[inline]
pub fn part_op(kind: OpKind, slot: u32, number: (u16, u16), at: u32, part: Part) -> Op {
    Op {
        kind,
        file: part.member,
        data_only: false,
        slot,
        slot_offset: at,
        len: part.len,
        offset: part.offset,
        tag: tag(number.0, number.1, part.len),
    }
}
