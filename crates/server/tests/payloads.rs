//! Tests of signatures and checksums: wrong signatures and altered content are refused.

mod support;

use support::{Payload, Running, content};

const ALL: [Payload; 4] =
    [Payload::Unsigned, Payload::Signed, Payload::Streaming, Payload::TrailerCrc];

#[test]
fn every_kind_of_payload_arrives() {
    let running = Running::new();
    let mut client = running.client();
    for length in [0, 1, 65_536, 65_537, 1_000_000] {
        let body = content(length as u64, length);
        for payload in ALL {
            client.payload = payload;
            client.put("k", &body).ok();
            client.payload = Payload::Unsigned;
            assert_eq!(client.get("k").ok().body, body, "{length} bytes");
        }
    }
}

#[test]
fn changed_content_is_refused_and_not_stored() {
    let running = Running::new();
    let mut client = running.client();
    client.tamper = |sent| {
        assert!(!sent.is_empty(), "there is something to change");
        let middle = sent.len() / 2;
        sent[middle] ^= 1;
    };
    let body = content(1, 300_000);
    for (payload, status, code) in [
        (Payload::Signed, 400, "XAmzContentSHA256Mismatch"),
        (Payload::Streaming, 403, "SignatureDoesNotMatch"),
        (Payload::TrailerCrc, 400, "BadDigest"),
    ] {
        client.payload = payload;
        client.put("k", &body).refused(status, code);
    }
    running.client().get("k").refused(404, "NoSuchKey");
    assert!(running.files().is_empty());
}

#[test]
fn announced_checksums_are_checked() {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    let running = Running::new();
    let mut client = running.client();
    let body = content(2, 1000);
    let crc = STANDARD.encode(support::crc32(&body).to_be_bytes());
    let put = client.call("PUT", "k", &[], &[("x-amz-checksum-crc32", &crc)], &body).ok();
    assert_eq!(put.header("x-amz-checksum-crc32"), Some(crc.as_str()));
    let wrong = STANDARD.encode([1, 2, 3, 4]);
    client
        .call("PUT", "k", &[], &[("x-amz-checksum-crc32", &wrong)], &body)
        .refused(400, "BadDigest");
    // MD5 of the empty string, from RFC 1321.
    let md5 = "1B2M2Y8AsgTpgAmY7PhCfg==";
    client.call("PUT", "k", &[], &[("content-md5", md5)], b"").ok();
    client.call("PUT", "k", &[], &[("content-md5", md5)], b"x").refused(400, "BadDigest");
}

#[test]
fn what_is_to_be_encrypted_is_not_stored_in_the_clear() {
    let running = Running::new();
    let mut client = running.client();
    let encrypt = [("x-amz-server-side-encryption", "AES256")];
    client.call("PUT", "k", &[], &encrypt, b"secret").refused(501, "NotImplemented");
    client.call("POST", "k", &[("uploads", "")], &encrypt, b"").refused(501, "NotImplemented");
    assert!(running.files().is_empty());
}

#[test]
fn a_wrong_key_gets_to_see_why_also_after_a_large_put() {
    let running = Running::new();
    let mut client = running.client();
    let body = content(3, 8 << 20);
    client.secret = "another".to_owned();
    client.get("k").refused(403, "SignatureDoesNotMatch");
    client.put("k", &body).refused(403, "SignatureDoesNotMatch");
    client.access = "another".to_owned();
    client.put("k", &body).refused(403, "InvalidAccessKeyId");
    assert!(running.files().is_empty());
}

#[test]
fn a_clock_that_is_off_is_refused() {
    let running = Running::new();
    let mut client = running.client();
    for skew in [-3_600, 3_600] {
        client.skew = skew;
        client.get("k").refused(403, "RequestTimeTooSkewed");
    }
    client.skew = 300;
    client.get("k").refused(404, "NoSuchKey");
}

#[test]
fn a_request_without_a_signature_is_refused() {
    use std::io::Write as _;
    let running = Running::new();
    let mut stream =
        std::net::TcpStream::connect(("127.0.0.1", running.server.port())).expect("up");
    stream.write_all(b"GET /bucket/k HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n").expect("sent");
    let answer = support::read_answer(&mut std::io::BufReader::new(stream), false);
    answer.refused(403, "AccessDenied");
}

#[test]
fn a_short_body_is_refused() {
    let running = Running::new();
    let mut client = running.client();
    client.payload = Payload::Streaming;
    client.chunk = 1000;
    client.tamper = |sent| sent.truncate(sent.len() / 2);
    client.put("k", &content(4, 10_000)).refused(400, "IncompleteBody");
    assert!(running.files().is_empty());
}

/// The content is complete and its signatures are right; only the final empty chunk is missing.
#[test]
fn a_signed_body_without_its_final_chunk_is_refused() {
    let running = Running::new();
    let mut client = running.client();
    client.payload = Payload::Streaming;
    for length in [0, 10_000] {
        let body = content(4, length);
        client.tamper = |sent| {
            let header = b"0;chunk-signature=";
            let at = sent.windows(header.len()).rposition(|text| text == header);
            sent.truncate(at.expect("the final chunk"));
        };
        client.put("k", &body).refused(400, "IncompleteBody");
        client.tamper = |_| {};
        client.put("whole", &body).ok();
    }
    client.get("k").refused(404, "NoSuchKey");
    assert_eq!(running.files().len(), 1);
}

#[test]
fn an_announced_checksum_that_does_not_follow_is_missed() {
    let running = Running::new();
    let mut client = running.client();
    client.payload = Payload::TrailerCrc;
    client.tamper = |sent| {
        let at = sent.windows(3).rposition(|text| text == b"0\r\n").expect("the final chunk");
        sent.truncate(at);
    };
    client.put("k", &content(5, 10_000)).refused(400, "IncompleteBody");
    client.tamper = |sent| {
        let at = sent.windows(3).rposition(|text| text == b"0\r\n").expect("the final chunk");
        sent.truncate(at + 3);
        sent.extend_from_slice(b"\r\n");
    };
    client.put("k", &content(5, 10_000)).refused(400, "IncompleteBody");
    assert!(running.files().is_empty());
}

#[test]
fn a_body_that_breaks_the_format_of_chunks_is_an_invalid_request() {
    let running = Running::new();
    let mut client = running.client();
    client.payload = Payload::TrailerCrc;
    let breaks: [fn(&mut Vec<u8>); 4] = [
        |sent| *sent = b"no chunk\r\n".to_vec(),
        |sent| *sent = vec![b'1'; 2_000],
        |sent| {
            sent.truncate(sent.len() - 2);
            sent.extend([b"a:", vec![b'b'; 20_000].as_slice(), b"\r\n\r\n"].concat());
        },
        |sent| {
            sent.truncate(sent.len() - 2);
            sent.extend(b"a:b\r\n".repeat(200));
            sent.extend(b"\r\n");
        },
    ];
    for tamper in breaks {
        client.tamper = tamper;
        client.put("k", &content(6, 10_000)).refused(400, "InvalidRequest");
    }
    assert!(running.files().is_empty());
}
