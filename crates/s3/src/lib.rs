//! S3 client for load generation.
//!
//! A request is a signed head and a body. A connection is a keep-alive HTTP/1.1 connection that the
//! caller owns. The client neither retries nor follows redirects, so that the load generator sees,
//! times and counts every request.
//!
//! ```no_run
//! # async fn get(store: &storlab_s3::Store) -> Result<(), storlab_s3::Failure> {
//! use storlab_s3::body::RequestBody;
//! use storlab_s3::{Call, Connection};
//! let timeout = std::time::Duration::from_secs(60);
//! let connection = Connection::open(store, 0, timeout).await?;
//! let head = store.request(0, &Call::get("some/key")).head;
//! let mut response = connection.send(head, RequestBody::none()).await?;
//! let body = response.drain(1 << 20).await?;
//! // Keep the connection for the next request.
//! let connection = response.into_connection();
//! # drop((body, connection));
//! # Ok(())
//! # }
//! ```

mod addresses;
pub mod body;
mod checksum;
pub mod chunked;
mod connection;
pub mod content;
mod failure;
mod one_shot;
mod request;
mod retry_policy;
mod sign;
mod spec;
mod store;
mod tls;
pub mod transfer;
mod uri;
pub mod xml;

pub use checksum::{Sha256, content_md5, crc32, sha256};
pub use connection::{Connection, Headers, Response};
pub use failure::Failure;
pub use one_shot::{OneShot, Reply};
pub use request::{Call, Head, PayloadHash, Signed};
pub use retry_policy::RetryPolicy;
pub use spec::{Addressing, Credentials, StoreSpec};
pub use store::Store;
pub use tls::TlsFault;
