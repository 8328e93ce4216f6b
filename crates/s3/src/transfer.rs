//! Transfers of whole objects in parts over several connections, for workloads that do not measure
//! single requests.

mod bucket;
mod join;
mod parts;
mod place;

pub use bucket::{Bucket, Moved, RequestPolicy};
pub use join::try_join_all;
pub use parts::{Part, Parts, is_missing};
pub use place::PlaceSpec;
