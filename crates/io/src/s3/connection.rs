//! One keep-alive connection.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;

use crate::s3::failure::Failure;
use crate::s3::store::Store;

/// One keep-alive HTTP/1.1 connection, with one request at a time. Its I/O is a task of the
/// current tokio runtime (`tokio::spawn`, so bodies are `Send`); dropping it closes the socket.
#[derive(Debug)]
pub struct Connection<B> {
    sender: hyper::client::conn::http1::SendRequest<B>,
}

impl<B> Connection<B>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    /// Connects to an endpoint: to its addresses in turn, to the next one where one refuses.
    /// `timeout` holds for everything together.
    ///
    /// # Errors
    /// Refused, Connect, TimeOut, Tls.
    pub async fn open(
        store: &Store,
        endpoint: usize,
        timeout: Duration,
    ) -> Result<Connection<B>, Failure> {
        let _ = (store, endpoint, timeout);
        todo!()
    }

    /// Sends a request and waits for the head of the answer, of any status. The body of the last
    /// answer must have been read to its end.
    ///
    /// # Errors
    /// Closed, Reset, Tls, Protocol. There is no time-out here.
    pub async fn send(&mut self, request: Request<B>) -> Result<Response<Incoming>, Failure> {
        let _ = request;
        todo!()
    }

    /// Whether another request can be sent.
    pub fn usable(&self) -> bool {
        !self.sender.is_closed()
    }
}

/// Reads a body to its end.
///
/// # Errors
/// What reading it gives, and Protocol where it is longer than `limit` bytes.
pub async fn drain(body: Incoming, limit: usize) -> Result<Bytes, Failure> {
    let _ = (body, limit);
    todo!()
}

/// What an answer with an error status says: reads its body (64 KiB at most) for S3's code.
pub async fn refusal(response: Response<Incoming>) -> Failure {
    let _ = response;
    todo!()
}
