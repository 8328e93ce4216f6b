//! Floor 1: the embedded S3 server. The protocol is that of the `s3s` crate; this crate has the
//! files behind it.

mod answers;
mod body;
mod bucket;
mod conditions;
mod digest;
mod errors;
mod kept;
mod limits;
mod listing;
mod names;
mod object;
mod range;
mod receive;
mod send;
mod serve;
mod service;
mod store;
mod uploads;

pub use serve::{Config, Credentials, Server, serve_for_parent};
