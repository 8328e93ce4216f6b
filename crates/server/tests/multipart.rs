//! Tests of multipart uploads.

mod support;

use support::{Client, Payload, Running, content};

const PART: usize = 5 << 20;

fn begin(client: &mut Client, key: &str) -> String {
    client.call("POST", key, &[("uploads", "")], &[], b"").ok().text_of("UploadId")
}

fn part(client: &mut Client, key: &str, id: &str, number: usize, body: &[u8]) -> support::Answer {
    let number = number.to_string();
    client.call("PUT", key, &[("partNumber", &number), ("uploadId", id)], &[], body)
}

fn complete(
    client: &mut Client,
    key: &str,
    id: &str,
    parts: &[(usize, String)],
) -> support::Answer {
    let parts: Vec<String> = parts
        .iter()
        .map(|(n, etag)| format!("<Part><PartNumber>{n}</PartNumber><ETag>{etag}</ETag></Part>"))
        .collect();
    let body = format!("<CompleteMultipartUpload>{}</CompleteMultipartUpload>", parts.concat());
    client.call("POST", key, &[("uploadId", id)], &[], body.as_bytes())
}

#[test]
fn parts_in_any_order_become_one_object() {
    let running = Running::new();
    let mut client = running.client();
    let bodies = [content(1, PART), content(2, PART + 1), content(3, 17)];
    let id = begin(&mut client, "a/b");
    let mut etags = vec![String::new(); 3];
    for (at, payload) in [(2, Payload::Streaming), (0, Payload::TrailerCrc), (1, Payload::Unsigned)]
    {
        client.payload = payload;
        etags[at] = part(&mut client, "a/b", &id, at + 1, &bodies[at]).ok().etag();
    }
    client.payload = Payload::Unsigned;
    client.get("a/b").refused(404, "NoSuchKey");
    let parts: Vec<_> = (1..).zip(etags).collect();
    let done = complete(&mut client, "a/b", &id, &parts).ok();
    let got = client.get("a/b").ok();
    assert!(got.body == bodies.concat(), "the parts, in order");
    assert_eq!(done.text_of("ETag"), got.etag());
    complete(&mut client, "a/b", &id, &parts).refused(404, "NoSuchUpload");
    assert_eq!(running.files().len(), 1, "no part is left");
}

#[test]
fn what_is_wrong_with_parts_is_said_and_can_be_mended() {
    let running = Running::new();
    let mut client = running.client();
    let id = begin(&mut client, "k");
    let first = part(&mut client, "k", &id, 1, &content(1, PART)).ok().etag();
    let short = part(&mut client, "k", &id, 2, b"short").ok().etag();
    let last = part(&mut client, "k", &id, 3, b"last").ok().etag();
    part(&mut client, "k", &id, 0, b"").refused(400, "InvalidArgument");
    part(&mut client, "k", &id, 10_001, b"").refused(400, "InvalidArgument");
    part(&mut client, "other", &id, 1, b"").refused(404, "NoSuchUpload");
    part(&mut client, "k", "../../objects", 1, b"").refused(404, "NoSuchUpload");
    let mut end = |parts: &[(usize, &String)]| {
        let parts: Vec<_> = parts.iter().map(|(n, etag)| (*n, (*etag).clone())).collect();
        complete(&mut client, "k", &id, &parts)
    };
    end(&[(3, &last), (1, &first)]).refused(400, "InvalidPartOrder");
    end(&[(1, &last)]).refused(400, "InvalidPart");
    end(&[(1, &first), (7, &last)]).refused(400, "InvalidPart");
    end(&[(1, &first), (2, &short), (3, &last)]).refused(400, "EntityTooSmall");
    end(&[]).refused(400, "MalformedXML");
    end(&[(1, &first), (3, &last)]).ok();
    assert_eq!(client.get("k").ok().body.len(), PART + 4);
}

#[test]
fn a_refused_completion_leaves_the_parts_as_they_were() {
    let running = Running::new();
    let mut client = running.client();
    client.put("k", b"there").ok();
    let id = begin(&mut client, "k");
    let parts = [
        (1, part(&mut client, "k", &id, 1, &content(1, PART)).ok().etag()),
        (2, part(&mut client, "k", &id, 2, b"end").ok().etag()),
    ];
    let headers = running.directory.path().join("store/bucket/uploads").join(&id).join("headers");
    let aside = running.directory.path().join("headers");
    std::fs::rename(&headers, &aside).expect("moved away");
    complete(&mut client, "k", &id, &parts).refused(500, "InternalError");
    assert_eq!(client.get("k").ok().body, b"there");
    std::fs::rename(&aside, &headers).expect("moved back");
    complete(&mut client, "k", &id, &parts).ok();
    assert!(client.get("k").ok().body == [content(1, PART), b"end".to_vec()].concat());
}

#[test]
fn abort_removes_the_parts() {
    let running = Running::new();
    let mut client = running.client();
    let ids = [begin(&mut client, "b"), begin(&mut client, "a"), begin(&mut client, "b")];
    part(&mut client, "b", &ids[0], 1, b"x").ok();
    let listed = client.bucket("GET", &[("uploads", "")], b"").ok();
    assert_eq!(listed.texts_of("Key"), ["a", "b", "b"]);
    assert_eq!(listed.texts_of("UploadId"), [&ids[1][..], &ids[0], &ids[2]]);
    let page = client.bucket("GET", &[("uploads", ""), ("max-uploads", "2")], b"").ok();
    assert_eq!(page.text_of("IsTruncated"), "true");
    let (key, id) = (page.text_of("NextKeyMarker"), page.text_of("NextUploadIdMarker"));
    let rest = [("uploads", ""), ("key-marker", key.as_str()), ("upload-id-marker", id.as_str())];
    assert_eq!(client.bucket("GET", &rest, b"").ok().texts_of("UploadId"), [ids[2].as_str()]);

    for (key, id) in [("b", &ids[0]), ("a", &ids[1]), ("b", &ids[2])] {
        client.call("DELETE", key, &[("uploadId", id)], &[], b"").ok();
        part(&mut client, key, id, 1, b"").refused(404, "NoSuchUpload");
    }
    client.call("DELETE", "b", &[("uploadId", &ids[0])], &[], b"").refused(404, "NoSuchUpload");
    assert!(client.bucket("GET", &[("uploads", "")], b"").texts_of("Key").is_empty());
    assert!(running.files().is_empty());
}

#[test]
fn uploads_outlive_a_restart_and_go_with_their_bucket() {
    let running = Running::new();
    let id = begin(&mut running.client(), "k");
    let etag = part(&mut running.client(), "k", &id, 1, b"part").ok().etag();
    let running = running.restart();
    let mut client = running.client();
    complete(&mut client, "k", &id, &[(1, etag)]).ok();
    assert_eq!(client.get("k").ok().body, b"part");
    client.delete("k").ok();
    begin(&mut client, "k");
    client.bucket("DELETE", &[], b"").ok();
    assert!(!running.directory.path().join("store/bucket").exists());
}
