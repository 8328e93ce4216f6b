//! Whole objects on their way: in parts, over several connections; and a bucket for work that is
//! not about requests.

mod bucket;
mod join;
mod parts;
mod place;

pub use bucket::{Bucket, Moved, Patience};
pub use join::try_join_all;
pub use parts::{Part, Parts, is_missing};
pub use place::PlaceSpec;
