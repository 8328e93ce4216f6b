//! Tests that stored headers and user metadata are returned with the content.

mod support;

use support::{Answer, Payload, Running};

const HEADERS: [(&str, &str); 7] = [
    ("content-type", "text/plain; charset=utf-8"),
    ("cache-control", "max-age=60"),
    ("content-disposition", "attachment; filename=\"a b.txt\""),
    ("content-encoding", "gzip"),
    ("content-language", "de, en"),
    ("expires", "Thu, 01 Jan 2032 00:00:00 GMT"),
    ("x-amz-meta-origin", "a test: of = metadata"),
];

#[track_caller]
fn says(answer: &Answer, headers: &[(&str, &str)]) {
    for (name, value) in headers {
        assert_eq!(answer.header(name), Some(*value), "{name}");
    }
}

#[test]
fn headers_and_metadata_come_back() {
    let running = Running::new();
    let mut client = running.client();
    client.put("plain", b"x").ok();
    client.call("PUT", "k", &[], &HEADERS, b"first").ok();
    let running = running.restart();
    let mut client = running.client();
    says(&client.get("k").ok(), &HEADERS);
    says(&client.head("k").ok(), &HEADERS);
    let range = client.range("k", "bytes=1-2");
    says(&range, &HEADERS);
    assert_eq!(range.body, b"ir");
    for plain in [client.get("plain").ok(), client.head("plain").ok()] {
        assert_eq!(plain.header("content-type"), Some("binary/octet-stream"));
        assert_eq!(plain.header("x-amz-meta-origin"), None);
    }
    client.put("k", b"second").ok();
    assert_eq!(client.get("k").ok().header("x-amz-meta-origin"), None, "another object");
    let large = "m".repeat(2048);
    client
        .call("PUT", "k", &[], &[("x-amz-meta-a", &large)], b"third")
        .refused(400, "MetadataTooLarge");
    assert_eq!(client.get("k").ok().body, b"second");
}

#[test]
fn the_way_it_was_sent_is_not_kept() {
    let running = Running::new();
    let mut client = running.client();
    client.payload = Payload::Streaming;
    client.put("k", b"body").ok();
    client.payload = Payload::Unsigned;
    assert_eq!(client.get("k").ok().header("content-encoding"), None);
}

#[test]
fn an_upload_in_parts_keeps_what_its_begin_said() {
    let running = Running::new();
    let mut client = running.client();
    let id = client.call("POST", "k", &[("uploads", "")], &HEADERS, b"").ok().text_of("UploadId");
    let query = [("partNumber", "1"), ("uploadId", &*id)];
    let etag = client.call("PUT", "k", &query, &[], b"part").ok().etag();
    let parts = format!(
        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>{etag}</ETag></Part>\
         </CompleteMultipartUpload>"
    );
    client.call("POST", "k", &[("uploadId", &id)], &[], parts.as_bytes()).ok();
    let got = client.get("k").ok();
    says(&got, &HEADERS);
    assert_eq!(got.body, b"part");
}
