//! Counters of single HTTP requests by endpoint and server address.
//!
//! The run's own metrics are sums over all endpoints, which hide that one of three nodes is slow.
//! Here each HTTP request counts for the server it was sent to: a multipart upload counts as many
//! requests, and an attempt that is retried counts as failed.

use std::net::SocketAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use serde_json::{Value, json};
use storlab_base::Histogram;
use storlab_s3::Call;

/// Maximum number of rows per endpoint. Stores with many addresses change them every few seconds;
/// requests to further addresses are counted without an address.
const MOST_ROWS: usize = 64;

/// Kind of a single HTTP request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum WireKind {
    Get,
    Put,
    /// Part of a multipart upload, of full part size.
    Part,
    Head,
    List,
    Delete,
    MultiDelete,
    /// Every other request of a multipart upload: create, last part, complete, abort.
    Upload,
}

impl WireKind {
    /// Classify an S3 call that sends `object_bytes` bytes of an object, with parts of `part_size`
    /// bytes.
    pub fn of(call: &Call<'_>, object_bytes: u64, part_size: Option<u64>) -> Self {
        match (&call.method, call.query.first()) {
            (&Method::GET, None) => WireKind::Get,
            (&Method::GET, Some(("list-type", _))) => WireKind::List,
            (&Method::PUT, None) => WireKind::Put,
            (&Method::PUT, Some(_)) if part_size == Some(object_bytes) => WireKind::Part,
            (&Method::HEAD, _) => WireKind::Head,
            (&Method::DELETE, None) => WireKind::Delete,
            (&Method::POST, Some(("delete", _))) => WireKind::MultiDelete,
            _ => WireKind::Upload,
        }
    }

    /// Return the name of the kind in results.
    const fn name(self) -> &'static str {
        match self {
            WireKind::Get => "get",
            WireKind::Put => "put",
            WireKind::Part => "part",
            WireKind::Head => "head",
            WireKind::List => "list",
            WireKind::Delete => "delete",
            WireKind::MultiDelete => "multi_delete",
            WireKind::Upload => "upload",
        }
    }
}

/// Destination of a request: index of the endpoint in the job description; address of the server,
/// `None` if no connection was made; kind of request.
pub type Destination = (usize, Option<SocketAddr>, WireKind);

/// Counters of requests of one kind to one address of an endpoint.
#[derive(Debug)]
struct Row {
    /// Address of the server; `None` if no connection was made, or if the endpoint has too many
    /// addresses.
    peer: Option<SocketAddr>,
    kind: WireKind,
    /// Number of successful requests; `bytes` and latencies count these only.
    requests: u64,
    /// Object bytes moved by the successful requests.
    bytes: u64,
    errors: u64,
    /// Sum of the exact latencies, for the mean; the histogram rounds each latency.
    latency_ns: u64,
    latency: Histogram,
}

/// Counters of requests by endpoint, server address and kind.
#[derive(Debug, Default)]
pub struct EndpointTable(Vec<Vec<Row>>);

impl EndpointTable {
    /// Count a successful request, its latency and the object bytes that it moved.
    pub fn succeed(&mut self, to: Destination, latency_ns: u64, bytes: u64) {
        let row = self.row(to);
        row.requests += 1;
        row.bytes += bytes;
        row.latency_ns = row.latency_ns.saturating_add(latency_ns);
        row.latency.record(latency_ns);
    }

    /// Count a failed request at its destination.
    pub fn fail(&mut self, to: Destination) {
        self.row(to).errors += 1;
    }

    /// Add the counters of another worker.
    pub fn add(&mut self, other: &EndpointTable) {
        for (endpoint, rows) in other.0.iter().enumerate() {
            for row in rows {
                let sum = self.row((endpoint, row.peer, row.kind));
                sum.requests += row.requests;
                sum.bytes += row.bytes;
                sum.errors += row.errors;
                sum.latency_ns = sum.latency_ns.saturating_add(row.latency_ns);
                sum.latency.add(&row.latency);
            }
        }
    }

    /// Return the counters as JSON, sorted by endpoint, address and kind. Histograms are
    /// `HdrHistogram` V2 in base64.
    pub fn rows<'n>(&mut self, name: impl Fn(usize) -> &'n str) -> Vec<Value> {
        let mut values = Vec::new();
        for (endpoint, rows) in self.0.iter_mut().enumerate() {
            rows.sort_unstable_by_key(|row| (row.peer, row.kind));
            for row in rows {
                values.push(json!({
                    "endpoint": name(endpoint),
                    "address": row.peer.map(|peer| peer.to_string()),
                    "kind": row.kind.name(),
                    "requests": row.requests,
                    "bytes": row.bytes,
                    "errors": row.errors,
                    "mean_ns": row.latency_ns as f64 / row.requests.max(1) as f64,
                    "p50_ns": row.latency.percentile(50.0),
                    "p99_ns": row.latency.percentile(99.0),
                    "latency": STANDARD.encode(row.latency.to_v2()),
                }));
            }
        }
        values
    }

    #[inline]
    fn row(&mut self, (endpoint, peer, kind): Destination) -> &mut Row {
        if self.0.len() <= endpoint {
            self.0.resize_with(endpoint + 1, Vec::new);
        }
        let rows = &mut self.0[endpoint];
        let place = |rows: &[Row], peer| rows.iter().position(|r| r.peer == peer && r.kind == kind);
        let known = place(rows, peer).or_else(|| {
            let full = rows.len() >= MOST_ROWS;
            full.then(|| place(rows, None)).flatten()
        });
        let index = known.unwrap_or_else(|| {
            let peer = peer.filter(|_| rows.len() < MOST_ROWS);
            let latency = Histogram::compact();
            let (requests, bytes, errors, latency_ns) = (0, 0, 0, 0);
            rows.push(Row { peer, kind, requests, bytes, errors, latency_ns, latency });
            rows.len() - 1
        });
        &mut rows[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn peer(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    fn rows(table: &mut EndpointTable) -> Vec<Value> {
        table.rows(|endpoint| ["http://a", "http://b"][endpoint])
    }

    #[test]
    fn requests_count_at_their_endpoint_address_and_kind_over_all_workers() {
        let mut whole = EndpointTable::default();
        for worker in 0..2 {
            let mut own = EndpointTable::default();
            for request in 0..100 {
                own.succeed((1, Some(peer(2)), WireKind::Get), (1 + 50 * worker) * MS, 10);
                if request % 10 == 0 {
                    own.fail((1, None, WireKind::Get));
                    own.succeed((0, Some(peer(1 + worker as u16)), WireKind::Put), MS, 7);
                }
            }
            whole.add(&own);
        }
        let rows = rows(&mut whole);
        let told: Vec<_> = rows
            .iter()
            .map(|row| {
                let text = |name: &str| row[name].as_str().unwrap_or("none").to_owned();
                let number = |name: &str| row[name].as_u64().unwrap();
                (
                    text("endpoint"),
                    text("address"),
                    text("kind"),
                    ["requests", "bytes", "errors"].map(number),
                )
            })
            .collect();
        let row = |endpoint: &str, address: &str, kind: &str, numbers| {
            (endpoint.to_owned(), address.to_owned(), kind.to_owned(), numbers)
        };
        assert_eq!(
            told,
            [
                row("http://a", "127.0.0.1:1", "put", [10, 70, 0]),
                row("http://a", "127.0.0.1:2", "put", [10, 70, 0]),
                row("http://b", "none", "get", [0, 0, 20]),
                row("http://b", "127.0.0.1:2", "get", [200, 2000, 0]),
            ]
        );
        let both = &rows[3];
        assert!((both["mean_ns"].as_f64().unwrap() - 26e6).abs() < 1.0, "{both}");
        assert!(both["p50_ns"].as_u64().unwrap().abs_diff(MS) <= MS / 100, "{both}");
        assert!(both["p99_ns"].as_u64().unwrap().abs_diff(51 * MS) <= MS / 2, "{both}");
        let encoded = STANDARD.decode(both["latency"].as_str().unwrap()).unwrap();
        assert_eq!(Histogram::from_v2(&encoded).unwrap().count(), 200);
    }

    #[test]
    fn addresses_beyond_the_limit_are_counted_together() {
        let mut table = EndpointTable::default();
        for port in 0..1000 {
            table.succeed((0, Some(peer(port)), WireKind::Get), MS, 1);
            table.fail((0, Some(peer(port)), WireKind::Head));
        }
        let rows = rows(&mut table);
        assert!(rows.len() <= MOST_ROWS + 2, "{}", rows.len());
        let sum = |name: &str| rows.iter().map(|row| row[name].as_u64().unwrap()).sum::<u64>();
        assert_eq!((sum("requests"), sum("errors")), (1000, 1000));
    }

    #[test]
    fn requests_of_an_upload_that_differ_in_size_are_no_parts() {
        let of = |method: Method, key, query: &[(&str, &str)], bytes| {
            let call = Call { query, ..Call::new(method, key) };
            WireKind::of(&call, bytes, Some(8))
        };
        let (key, part) = (Some("k"), [("partNumber", "1"), ("uploadId", "u")]);
        assert_eq!(of(Method::PUT, key, &part, 8), WireKind::Part);
        assert_eq!(of(Method::PUT, key, &part, 3), WireKind::Upload);
        assert_eq!(of(Method::POST, key, &[("uploads", "")], 0), WireKind::Upload);
        assert_eq!(of(Method::POST, key, &[("uploadId", "u")], 0), WireKind::Upload);
        assert_eq!(of(Method::DELETE, key, &[("uploadId", "u")], 0), WireKind::Upload);
        assert_eq!(of(Method::GET, None, &[("uploads", "")], 0), WireKind::Upload);
        assert_eq!(of(Method::GET, None, &[("list-type", "2")], 0), WireKind::List);
        assert_eq!(of(Method::POST, None, &[("delete", "")], 0), WireKind::MultiDelete);
        assert_eq!(of(Method::PUT, key, &[], 8), WireKind::Put);
        assert_eq!(of(Method::GET, key, &[], 0), WireKind::Get);
        assert_eq!(of(Method::HEAD, key, &[], 0), WireKind::Head);
        assert_eq!(of(Method::DELETE, key, &[], 0), WireKind::Delete);
    }
}
