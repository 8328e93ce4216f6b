//! Whole objects on their way: what they hold, request bodies of them, and a bucket for work that
//! is not about requests.

pub mod body;
mod bucket;
pub mod content;
mod join;
mod parts;
mod place;

pub use bucket::{Bucket, Moved, Patience};
pub use join::try_join_all;
pub use parts::{Part, Parts, is_missing};
pub use place::PlaceSpec;
