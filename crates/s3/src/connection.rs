//! Keep-alive HTTP/1.1 connection to an S3 endpoint.

mod framing;
mod head;
mod outgoing;
mod response;
mod stream;
mod tls_stream;

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use http::Method;
use storlab_base::monotonic_ns;
use tokio::net::TcpStream;

use crate::body::RequestBody;
use crate::failure::Failure;
use crate::request::{self, Call};
use crate::store::{Endpoint, Store};
use head::Head;
use outgoing::Outgoing;
pub use response::{Headers, Response};
use stream::Stream;
use tls_stream::TlsStream;

/// Maximum number of bytes per read until the head of the answer is complete. Body bytes that
/// arrive with it are copied; a small object arrives completely with its head.
const HEAD_READ_BYTES: usize = 16 << 10;

/// Keep-alive HTTP/1.1 connection that handles one request at a time. Dropping it closes the
/// socket.
///
/// The task that awaits the answer also drives the socket. HTTP libraries with a task per
/// connection must pass every request and answer between two tasks.
#[derive(Debug)]
pub struct Connection {
    stream: Stream,
    /// Address of the server that accepted the connection.
    peer: SocketAddr,
    /// Bytes received of the current answer: its head, and the part of its body that arrived with
    /// it.
    received: Vec<u8>,
    /// Smallest receive buffer, in bytes, with which the reader of a long body is woken less often.
    wake_buffer_bytes: usize,
}

impl Connection {
    /// Connect to an endpoint. Its addresses are tried in rotation until one accepts.
    ///
    /// `timeout` covers all attempts and the TLS handshake.
    ///
    /// # Errors
    /// [`Failure::Refused`] or [`Failure::Connect`] if no address accepts, [`Failure::TimeOut`]
    /// after `timeout`, [`Failure::Handshake`] or [`Failure::Tls`] if the TLS handshake fails.
    pub async fn open(
        store: &Store,
        endpoint: usize,
        timeout: Duration,
    ) -> Result<Connection, Failure> {
        let endpoint = store.endpoint(endpoint);
        let everything = async {
            let (socket, peer) = connect(endpoint, timeout).await?;
            let Some((config, server)) = &endpoint.tls else {
                return Ok((Stream::Plain(socket), peer));
            };
            match TlsStream::over(socket, config, server).await {
                Ok(sealed) => Ok((Stream::TlsStream(Box::new(sealed)), peer)),
                Err(e) => Err(unsealed(&endpoint.name, &e)),
            }
        };
        let opened = tokio::time::timeout(timeout, everything).await;
        let (stream, peer) = opened.unwrap_or(Err(Failure::TimeOut))?;
        let wake_buffer_bytes = response::WAKE_BUFFER_BYTES;
        Ok(Connection { stream, peer, received: Vec::new(), wake_buffer_bytes })
    }

    /// Return the address of the server that accepted the connection.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Send a request, and wait for the head of the answer, which may have any status.
    ///
    /// The body of the previous answer must have been read. If the server answers with an error
    /// before it has received the whole body, the rest is not sent. There is no time-out.
    ///
    /// # Errors
    /// [`Failure::Closed`], [`Failure::Reset`], [`Failure::Lost`] or [`Failure::Tls`] if the
    /// connection ends or fails; [`Failure::Protocol`] if the answer is not valid HTTP, or reports
    /// success before the whole body was sent.
    pub async fn send(
        mut self,
        head: request::Head,
        body: RequestBody,
    ) -> Result<Response, Failure> {
        self.received.clear();
        let method = head.method;
        let mut outgoing = Outgoing::new(head.bytes, body);
        let sent = poll_fn(|cx| self.poll_send(cx, &mut outgoing, &method)).await;
        let head = match sent {
            Ok(None) => poll_fn(|cx| self.poll_head(cx, &method)).await?,
            Ok(Some(early)) if early.status.is_success() => return Err(too_early()),
            Ok(Some(early)) => Head { keeps: false, ..early },
            // The server may have sent an answer with the reason before it closed the connection.
            Err(cut) => match poll_fn(|cx| self.poll_head(cx, &method)).await {
                Ok(last) if !last.status.is_success() => Head { keeps: false, ..last },
                _ => return Err(cut),
            },
        };
        Ok(Response::new(self, head))
    }

    /// Send a request over the connection in `kept`, or over a new one, and wait for the head of
    /// the answer.
    ///
    /// `kept` is left empty; [`Response::into_connection`] returns the connection for it. A server
    /// may close an idle connection at any time: if the kept connection turns out to be closed, the
    /// request is sent once more over a new one. A request that is not idempotent always gets a new
    /// connection. `body` is called each time that the request is sent.
    ///
    /// # Errors
    /// The failures of [`Connection::open`] and [`Connection::send`].
    pub(crate) async fn exchange(
        store: &Store,
        endpoint: usize,
        kept: &mut Option<Connection>,
        call: &Call<'_>,
        body: &dyn Fn() -> RequestBody,
        timeout: Duration,
    ) -> Result<Response, Failure> {
        let head = || store.request(endpoint, call).head;
        let reusable = kept.take().filter(|_| call.is_idempotent());
        if let Some(connection) = reusable.and_then(Connection::if_open) {
            match connection.send(head(), body()).await {
                Err(Failure::Closed | Failure::Reset) => {}
                ended => return ended,
            }
        }
        let connection = Connection::open(store, endpoint, timeout).await?;
        connection.send(head(), body()).await
    }

    /// Return the connection, unless it is already known that the server closed it.
    pub fn if_open(mut self) -> Option<Connection> {
        // Unexpected data also makes a connection unusable.
        let cx = &mut Context::from_waker(Waker::noop());
        self.stream.poll_read(cx, 1, &mut |_| ()).is_pending().then_some(self)
    }

    /// Send the request. Returns None when it is sent, or the head of an answer that arrives
    /// earlier.
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        outgoing: &mut Outgoing,
        method: &Method,
    ) -> Poll<Result<Option<Head>, Failure>> {
        let of_io = |e: io::Error| Failure::of_io(&e, Failure::Closed);
        loop {
            let over = outgoing.is_sent();
            let stream = &mut self.stream;
            let sent = if over {
                stream.poll_flush(cx)
            } else {
                match stream.poll_writable(cx) {
                    Poll::Ready(Ok(())) => {
                        outgoing.poll_write(|slices| stream.poll_write(cx, slices))
                    }
                    waiting => waiting,
                }
            };
            match sent.map_err(of_io)? {
                Poll::Ready(()) if over => return Poll::Ready(Ok(None)),
                Poll::Ready(()) => {}
                Poll::Pending => {
                    ready!(self.poll_receive(cx))?;
                    if let Some(head) = self.received_head(method)? {
                        return Poll::Ready(Ok(Some(head)));
                    }
                }
            }
        }
    }

    fn poll_head(&mut self, cx: &mut Context<'_>, method: &Method) -> Poll<Result<Head, Failure>> {
        loop {
            if let Some(head) = self.received_head(method)? {
                return Poll::Ready(Ok(head));
            }
            ready!(self.poll_receive(cx))?;
        }
    }

    /// Parse the head of the answer; None if it is incomplete. Informational answers (1xx) are
    /// dropped.
    fn received_head(&mut self, method: &Method) -> Result<Option<Head>, Failure> {
        while let Some(head) = Head::parse(&self.received, method)? {
            if !head.status.is_informational() {
                return Ok(Some(head));
            }
            self.received.drain(..head.length);
        }
        Ok(None)
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        let Connection { stream, received, .. } = self;
        let mut take = |bytes: &[u8]| received.extend_from_slice(bytes);
        Poll::Ready(match ready!(stream.poll_read(cx, HEAD_READ_BYTES, &mut take)) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Failure::Closed),
            Err(e) => Err(Failure::of_io(&e, Failure::Closed)),
        })
    }
}

/// Connect to the first address of the endpoint that accepts.
///
/// If all addresses fail, the name is resolved again, and new addresses are tried. A quarter of the
/// time is reserved for that.
async fn connect(
    endpoint: &Endpoint,
    timeout: Duration,
) -> Result<(TcpStream, SocketAddr), Failure> {
    let deadline_ns = monotonic_ns().saturating_add(timeout.as_nanos() as u64);
    let addresses = endpoint.addresses.in_turn();
    // Without this reserve, addresses that do not answer would use up the time for resolving the
    // name again.
    let kept_ns = if endpoint.addresses.may_change() { timeout.as_nanos() as u64 / 4 } else { 0 };
    let first_until_ns = deadline_ns.saturating_sub(kept_ns);
    let failure = match connect_to_any(&endpoint.name, &addresses, first_until_ns).await {
        Ok(stream) => return Ok(stream),
        Err(failure) => failure,
    };
    // Half of the remaining time is for the look-up, the other half for connecting.
    let half = Duration::from_nanos(deadline_ns.saturating_sub(monotonic_ns()) / 2);
    let others = tokio::time::timeout(half, endpoint.addresses.others_than(&addresses)).await;
    match others {
        Ok(others) if !others.is_empty() => {
            connect_to_any(&endpoint.name, &others, deadline_ns).await
        }
        _ => Err(failure),
    }
}

/// Connect to the first of `addresses` that accepts. Each address gets an equal part of the time
/// that remains until the deadline.
async fn connect_to_any(
    name: &str,
    addresses: &[SocketAddr],
    deadline_ns: u64,
) -> Result<(TcpStream, SocketAddr), Failure> {
    let mut last = Failure::TimeOut;
    for (tried, address) in addresses.iter().enumerate() {
        let left_ns = deadline_ns.saturating_sub(monotonic_ns()) / (addresses.len() - tried) as u64;
        let attempt = TcpStream::connect(address);
        match tokio::time::timeout(Duration::from_nanos(left_ns), attempt).await {
            Err(_) => last = Failure::TimeOut,
            Ok(Err(e)) => last = refused(name, &e),
            Ok(Ok(stream)) => {
                // Disables Nagle's algorithm, which would delay small requests until earlier data
                // is acknowledged.
                stream.set_nodelay(true).map_err(|e| refused(name, &e))?;
                return Ok((stream, *address));
            }
        }
    }
    Err(last)
}

/// Return the failure for a success status that arrives before the whole body was sent: the object
/// cannot have been stored.
fn too_early() -> Failure {
    Failure::Protocol("the server reported success before the whole body was sent".to_owned())
}

/// Classify the error of a TLS handshake with the endpoint `name`.
fn unsealed(name: &str, error: &io::Error) -> Failure {
    match Failure::of_io(error, Failure::Closed) {
        Failure::Tls { fault, what } => Failure::Tls { fault, what: format!("{name}: {what}") },
        Failure::Closed | Failure::Reset => Failure::Handshake(name.to_owned()),
        Failure::Lost { what, errno } => {
            Failure::Connect { what: format!("{name}: {what}"), errno }
        }
        other => other,
    }
}

fn refused(name: &str, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Failure::Refused(name.to_owned()),
        io::ErrorKind::ConnectionReset => Failure::Reset,
        io::ErrorKind::TimedOut => Failure::TimeOut,
        _ => Failure::Connect { what: format!("{name}: {error}"), errno: error.raw_os_error() },
    }
}

#[cfg(test)]
mod tests;
