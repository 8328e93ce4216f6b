//! Tests against servers that end an answer in unusual ways.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use super::*;
use crate::{Addressing, RetryPolicy, StoreSpec};

/// Start a store that gives one of `answers` to each connection and then closes it. Returns the
/// store and the number of connections accepted.
fn store(answers: &'static [&'static str]) -> (Store, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let connections = Arc::new(AtomicUsize::new(0));
    let counted = connections.clone();
    std::thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            counted.fetch_add(1, SeqCst);
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                head.extend(byte);
            }
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let spec = StoreSpec {
        endpoints: vec![endpoint],
        bucket: "bucket".to_owned(),
        region: "us-east-1".to_owned(),
        addressing: Addressing::Path,
        ca_file: None,
        verify_tls: true,
    };
    (Store::new(&spec, None).unwrap(), connections)
}

fn get(store: Store, range: (u64, u64)) -> Result<(Option<u64>, Vec<u8>)> {
    let retry = RetryPolicy { retries: 1, backoff_ns: 0 };
    let policy = RequestPolicy::new(60_000_000_000, retry, &RetryLog::default());
    let mut bucket = Bucket::new(store, 1, 0, &policy, || false)?;
    let mut whole = Vec::new();
    let take = |_, data: &[u8]| {
        whole.extend_from_slice(data);
        Ok(())
    };
    let count = bucket.get("k", Some(range), &|| false, take)?;
    Ok((count, whole))
}

#[test]
fn a_range_that_came_whole_is_not_asked_for_again_though_its_end_was_lost() {
    let (store, connections) = store(&[
        "HTTP/1.1 206 Partial Content\r\ntransfer-encoding: chunked\r\n\r\n4\r\nabcd\r\n",
        "HTTP/1.1 416 Range Not Satisfiable\r\ncontent-length: 0\r\n\r\n",
    ]);
    assert_eq!(get(store, (2, 4)).unwrap(), (Some(4), b"abcd".to_vec()));
    assert_eq!(connections.load(SeqCst), 1);
}

#[test]
fn the_whole_object_is_no_range() {
    for range in [(0, 4), (2, 4)] {
        let (store, _) = store(&["HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\n..abcd"]);
        assert!(get(store, range).unwrap_err().to_string().contains("instead of 206"));
    }
}
