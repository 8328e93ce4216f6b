//! Encoding of operations for the backend.

use storlab_base::OpKind;
use storlab_io::Op;

use crate::layout::Part;

/// Encode the tag of an operation: flight, number of the part and its length.
pub const fn tag(flight: u16, part: u16, len: u32) -> u64 {
    flight as u64 | (part as u64) << 16 | (len as u64) << 32
}

/// Build the operation for one part; `number` is the flight and the index of the part in it.
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
