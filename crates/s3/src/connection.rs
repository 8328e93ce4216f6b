//! One keep-alive connection.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{Request, Response};
use http_body::Body;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use storlab_base::monotonic_ns;
use tokio::io::{AsyncRead, AsyncWrite, BufReader};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::failure::Failure;
use crate::store::{Endpoint, Store};
use crate::xml;

/// Reads grow up to this while bodies keep them full. GETs of 4 MiB on loopback, one thread, three
/// interleaved rounds on a busy machine, medians of CPU per GB and of the time to first byte:
/// hyper's own 400 KiB 0.25 s and 19 ms, 1 MiB 0.22 s and 27 ms, 4 MiB 0.21 s and 35 ms. Less CPU
/// for a first byte that is seen later where the client is the bottleneck; the spread of the
/// latter was as large as the step.
const READ_BYTES: usize = 1 << 20;
/// Of a TLS connection, read from the socket at once. rustls on its own asks for 4 KiB each time:
/// GETs of 4 MiB from versitygw took 0.95 to 1.05 s of CPU per GB then, and 0.77 to 0.80 s so.
const SEALED_BYTES: usize = 256 << 10;
/// An error's body is short; what is longer is no error of S3.
const REFUSAL_BYTES: usize = 64 << 10;

/// One keep-alive HTTP/1.1 connection, with one request at a time. Its I/O is a task of the
/// current tokio runtime (`tokio::spawn`, so bodies are `Send`); dropping it closes the socket.
#[derive(Debug)]
pub struct Connection<B> {
    sender: http1::SendRequest<B>,
    task: AbortHandle,
}

impl<B> Connection<B>
where
    B: Body + Send + 'static,
    B::Data: Send,
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
        let endpoint = store.endpoint(endpoint);
        let everything = async {
            let stream = connect(endpoint, timeout).await?;
            let Some((config, server)) = &endpoint.tls else {
                return Connection::over(stream).await;
            };
            let tls = handshake(stream, config, server);
            let stream = tls.await.map_err(|e| match Failure::of_io(&e, Failure::Closed) {
                Failure::Tls(what) => Failure::Tls(format!("{}: {what}", endpoint.name)),
                Failure::Closed | Failure::Reset => {
                    let what = format!("{}: hung up during the handshake", endpoint.name);
                    Failure::Tls(what)
                }
                other => other,
            })?;
            Connection::over(stream).await
        };
        tokio::time::timeout(timeout, everything).await.unwrap_or(Err(Failure::TimeOut))
    }

    async fn over<S>(stream: S) -> Result<Connection<B>, Failure>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let mut builder = http1::Builder::new();
        builder.max_buf_size(READ_BYTES);
        let handshake = builder.handshake(TokioIo::new(stream)).await;
        let (sender, driver) = handshake.map_err(|e| Failure::of_exchange(&e))?;
        // What ends the driver is told to the request or the body that waits for it.
        let task = tokio::spawn(async move { drop(driver.await) }).abort_handle();
        Ok(Connection { sender, task })
    }

    /// Sends a request and waits for the head of the answer, of any status. The body of the last
    /// answer must have been read to its end.
    ///
    /// # Errors
    /// Closed, Reset, Tls, Protocol. There is no time-out here.
    pub async fn send(&mut self, request: Request<B>) -> Result<Response<Incoming>, Failure> {
        self.sender.ready().await.map_err(|e| Failure::of_exchange(&e))?;
        self.sender.send_request(request).await.map_err(|e| Failure::of_exchange(&e))
    }

    /// Whether another request can be sent.
    pub fn usable(&self) -> bool {
        !self.sender.is_closed()
    }
}

impl<B> Drop for Connection<B> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// TLS over a stream, which is asked for many records at once.
async fn handshake<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    config: &Arc<ClientConfig>,
    server: &ServerName<'static>,
) -> io::Result<TlsStream<BufReader<S>>> {
    let stream = BufReader::with_capacity(SEALED_BYTES, stream);
    TlsConnector::from(config.clone()).connect(server.clone(), stream).await
}

/// The first address that takes the connection; each gets its share of the time that is left.
async fn connect(endpoint: &Endpoint, timeout: Duration) -> Result<TcpStream, Failure> {
    let deadline = monotonic_ns().saturating_add(timeout.as_nanos() as u64);
    let addresses = endpoint.in_turn();
    let count = addresses.len();
    let mut last = Failure::TimeOut;
    for (tried, address) in addresses.enumerate() {
        let left = deadline.saturating_sub(monotonic_ns()) / (count - tried) as u64;
        let attempt = TcpStream::connect(address);
        match tokio::time::timeout(Duration::from_nanos(left), attempt).await {
            Err(_) => last = Failure::TimeOut,
            Ok(Err(e)) => last = refused(&endpoint.name, &e),
            Ok(Ok(stream)) => {
                // Small requests would wait for acknowledgements of the ones before them.
                stream.set_nodelay(true).map_err(|e| refused(&endpoint.name, &e))?;
                return Ok(stream);
            }
        }
    }
    Err(last)
}

fn refused(name: &str, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Failure::Refused(name.to_owned()),
        io::ErrorKind::ConnectionReset => Failure::Reset,
        io::ErrorKind::TimedOut => Failure::TimeOut,
        _ => Failure::Connect { what: format!("{name}: {error}"), errno: error.raw_os_error() },
    }
}

/// Reads a body to its end.
///
/// # Errors
/// What reading it gives, and Protocol where it is longer than `limit` bytes.
pub async fn drain(mut body: Incoming, limit: usize) -> Result<Bytes, Failure> {
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|e| Failure::of_body(&e))?;
        let Ok(data) = frame.into_data() else { continue };
        if whole.len() + data.len() > limit {
            return Err(Failure::Protocol(format!("a body of more than {limit} bytes")));
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.freeze())
}

/// What an answer with an error status says: reads its body (64 KiB at most) for S3's code.
pub async fn refusal(response: Response<Incoming>) -> Failure {
    let status = response.status().as_u16();
    // The status is the news, even where the rest of the answer is lost.
    let body = drain(response.into_body(), REFUSAL_BYTES).await.unwrap_or_default();
    let refused = xml::error(&body);
    let message = match refused.region {
        Some(region) => format!("{} (the bucket is in region {region})", refused.message),
        None => refused.message,
    };
    Failure::Http { status, code: refused.code, message }
}

#[cfg(test)]
mod tests;
