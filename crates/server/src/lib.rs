//! Embedded S3 server that stores objects as files. The `s3s` crate implements the S3 protocol.

mod answers;
mod body;
mod bucket;
mod conditions;
mod digest;
mod errors;
mod limits;
mod listing;
mod names;
mod object;
mod receive;
mod send;
mod serve;
mod service;
mod store;
mod stored_headers;
mod uploads;

pub use serve::{Config, Credentials, Server, serve_for_parent};
