//! Tests with the signatures that AWS publishes: the examples of "Signature calculations for the
//! Authorization header" and of "transferring payload in multiple chunks" of the S3 documentation,
//! and cases of the general SigV4 test suite.

use bytes::Bytes;
use http::Method;
use http::header::HeaderName;

use super::*;
use crate::checksum::{SHA256_OF_NOTHING, Sha256, content_md5, crc32, crc32_base64};
use crate::request::{Call, Origin, PayloadHash, build};

/// 2013-05-24 00:00:00 UTC, the time of the S3 examples.
const S3_MOMENT: u64 = 1_369_353_600;
/// 2015-08-30 12:36:00 UTC, the time of the general suite.
const SUITE_MOMENT: u64 = 1_440_938_160;

fn example_signer() -> Signer {
    let credentials = Credentials {
        access_key: "AKIAIOSFODNN7EXAMPLE".to_owned(),
        secret_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
        session_token: None,
    };
    Signer::new(credentials, "us-east-1", "s3").expect("keys")
}

fn suite_signer(token: Option<&str>) -> Signer {
    let credentials = Credentials {
        access_key: "AKIDEXAMPLE".to_owned(),
        secret_key: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".to_owned(),
        session_token: token.map(str::to_owned),
    };
    Signer::new(credentials, "us-east-1", "service").expect("keys")
}

fn example_origin() -> Origin {
    Origin {
        host: HeaderValue::from_static("examplebucket.s3.amazonaws.com"),
        path_prefix: String::new(),
    }
}

/// Return the value of a header field in a request head.
fn value<'h>(head: &'h str, name: &str) -> &'h str {
    let line = head.split("\r\n").find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    line.unwrap_or_else(|| panic!("{name} in {head}"))
}

/// Return the head of a signed request of the S3 examples.
fn head_of(call: &Call<'_>) -> String {
    let signed = build(&example_origin(), Some(&example_signer()), S3_MOMENT, call);
    String::from_utf8(signed.head.bytes).expect("text")
}

fn headers(pairs: &[(&'static str, &'static str)]) -> Vec<(HeaderName, HeaderValue)> {
    pairs.iter().map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v))).collect()
}

/// Return SignedHeaders and Signature of a request head.
fn authorization(head: &str) -> (String, String) {
    let text = value(head, "authorization");
    let part = |name: &str| {
        let from = text.find(name).expect(name) + name.len();
        text[from..].split(',').next().expect("value").to_owned()
    };
    (part("SignedHeaders="), part("Signature="))
}

fn signature_of(call: &Call<'_>) -> String {
    authorization(&head_of(call)).1
}

/// Return the `authorization` line for a request with these headers and those of the signer.
fn sign(
    signer: &Signer,
    second: u64,
    subject: &Subject<'_>,
    headers: &[(&str, &str)],
) -> (String, ChunkSigner) {
    let stamp = stamp(second);
    let given = headers.iter().map(|(name, value)| (*name, value.as_bytes()));
    let mut fields: Vec<Field<'_>> = given.chain(signer.fields(&stamp)).collect();
    let mut line = Vec::new();
    let chunks = signer.sign(&stamp, subject, &mut fields, true, &mut line);
    (String::from_utf8(line).expect("text"), chunks.expect("a signer of chunks"))
}

#[test]
fn s3_get_object() {
    let extra = headers(&[("range", "bytes=0-9")]);
    let call = Call { headers: &extra, ..Call::get("test.txt") };
    let head = head_of(&call);
    assert!(head.starts_with("GET /test.txt HTTP/1.1\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    assert_eq!(
        value(&head, "authorization"),
        "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, \
         SignedHeaders=host;range;x-amz-content-sha256;x-amz-date, \
         Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
    );
    assert_eq!(value(&head, "x-amz-date"), "20130524T000000Z");
    assert_eq!(value(&head, "range"), "bytes=0-9");
    let signed = build(&example_origin(), Some(&example_signer()), S3_MOMENT, &call);
    assert!(signed.chunks.is_none());
}

#[test]
fn s3_put_object() {
    let body = b"Welcome to Amazon S3.";
    let extra = headers(&[
        ("date", "Fri, 24 May 2013 00:00:00 GMT"),
        ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
    ]);
    let call = Call {
        headers: &extra,
        payload: PayloadHash::Sha256(sha256(body)),
        content_length: body.len() as u64,
        ..Call::new(Method::PUT, Some("test$file.text"))
    };
    let wanted = "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd";
    assert_eq!(signature_of(&call), wanted);
}

#[test]
fn s3_get_bucket_lifecycle() {
    let call = Call { query: &[("lifecycle", "")], ..Call::new(Method::GET, None) };
    let wanted = "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543";
    assert_eq!(signature_of(&call), wanted);
}

#[test]
fn s3_list_objects() {
    let query = [("prefix", "J"), ("max-keys", "2")];
    let call = Call { query: &query, ..Call::new(Method::GET, None) };
    let wanted = "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7";
    assert_eq!(signature_of(&call), wanted);
}

#[test]
fn s3_chunks() {
    // The example signs the content length as well; the client does not, because proxies change it.
    let headers = [
        ("host", "s3.amazonaws.com"),
        ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
        ("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"),
        ("content-encoding", "aws-chunked"),
        ("x-amz-decoded-content-length", "66560"),
        ("content-length", "66824"),
    ];
    let subject = Subject {
        method: "PUT",
        path: b"/examplebucket/chunkObject.txt",
        query: b"",
        payload: b"STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
    };
    let (line, mut chunks) = sign(&example_signer(), S3_MOMENT, &subject, &headers);
    assert_eq!(
        authorization(&line).1,
        "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"
    );
    let header = |bytes: Bytes| String::from_utf8(bytes.to_vec()).expect("text");
    assert_eq!(
        header(chunks.next(65_536, &sha256(&vec![b'a'; 65_536]))),
        "10000;chunk-signature=\
         ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648\r\n"
    );
    assert_eq!(
        header(chunks.next(1_024, &sha256(&[b'a'; 1_024]))),
        "\r\n400;chunk-signature=\
         0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497\r\n"
    );
    assert_eq!(
        header(chunks.finish()),
        "\r\n0;chunk-signature=\
         b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9\r\n\r\n"
    );
}

/// Return the signature of a case of the general suite, which has no `x-amz-content-sha256`.
fn suite(method: &str, query: &[(&str, &str)], extra: &[(&'static str, &'static str)]) -> String {
    let headers = [&[("host", "example.amazonaws.com")], extra].concat();
    let mut encoded = Vec::new();
    crate::uri::push_sorted(&mut encoded, query);
    let payload = SHA256_OF_NOTHING.as_bytes();
    let subject = Subject { method, path: b"/", query: &encoded, payload };
    authorization(&sign(&suite_signer(None), SUITE_MOMENT, &subject, &headers).0).1
}

#[test]
fn suite_plain_requests() {
    let get = "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31";
    let post = "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b";
    assert_eq!(suite("GET", &[], &[]), get);
    assert_eq!(suite("POST", &[], &[]), post);
}

#[test]
fn suite_query_order() {
    let by_name = "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500";
    assert_eq!(suite("GET", &[("Param2", "value2"), ("Param1", "value1")], &[]), by_name);
    let unreserved = "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let plain = "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197";
    assert_eq!(suite("GET", &[(unreserved, unreserved)], &[]), plain);
    let utf8 = "2cdec8eed098649ff3a119c94853b13c643bcf08f8b0a1d91e12c9027818dd04";
    assert_eq!(suite("GET", &[("\u{1234}", "bar")], &[]), utf8);
}

#[test]
fn suite_odd_headers() {
    let trimmed = "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736";
    let extra = [("my-header1", " value1"), ("my-header2", " \"a   b   c\"")];
    assert_eq!(suite("GET", &[], &extra), trimmed);
    let joined = "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea";
    let extra = [("my-header1", "value2"), ("my-header1", "value2"), ("my-header1", "value1")];
    assert_eq!(suite("GET", &[], &extra), joined);
}

#[test]
fn a_session_token_is_sent_and_signed() {
    let signer = suite_signer(Some("token/+="));
    let signed = build(&example_origin(), Some(&signer), SUITE_MOMENT, &Call::get("k"));
    let head = String::from_utf8(signed.head.bytes).expect("text");
    assert_eq!(value(&head, "x-amz-security-token"), "token/+=");
    let names = "host;x-amz-content-sha256;x-amz-date;x-amz-security-token";
    assert_eq!(authorization(&head).0, names);
}

#[test]
fn the_cached_day_changes_nothing() {
    let sign = |signer: &Signer, second: u64| {
        let payload = SHA256_OF_NOTHING.as_bytes();
        let subject = Subject { method: "GET", path: b"/", query: b"", payload };
        sign(signer, second, &subject, &[("host", "example.amazonaws.com")]).0
    };
    let (suite, other) = (suite_signer(None), example_signer());
    // The same second, the next one, the next day, back again; the two signers alternate.
    let moments = [0, 0, 1, 86_400, 86_400, 0, 59].map(|later| SUITE_MOMENT + later);
    let mixed: Vec<_> =
        moments.iter().flat_map(|&second| [sign(&suite, second), sign(&other, second)]).collect();
    let fresh: Vec<_> = moments
        .iter()
        .flat_map(|&second| {
            // A new thread has an empty cache.
            std::thread::scope(|scope| {
                let first = scope.spawn(|| sign(&suite, second)).join().expect("signed");
                let second = scope.spawn(|| sign(&other, second)).join().expect("signed");
                [first, second]
            })
        })
        .collect();
    assert_eq!(mixed, fresh);
    // A single signer keeps its cached key from one call to the next.
    let alone: Vec<_> = moments.iter().map(|&second| sign(&suite, second)).collect();
    assert_eq!(alone, fresh.into_iter().step_by(2).collect::<Vec<_>>());
}

#[test]
fn dates_of_all_kinds_of_years() {
    let stamped = |second| String::from_utf8(stamp(second).to_vec()).expect("ASCII");
    assert_eq!(stamped(0), "19700101T000000Z");
    assert_eq!(stamped(951_782_399), "20000228T235959Z");
    assert_eq!(stamped(951_782_400), "20000229T000000Z");
    assert_eq!(stamped(SUITE_MOMENT), "20150830T123600Z");
    assert_eq!(stamped(1_735_689_599), "20241231T235959Z");
    assert_eq!(stamped(4_107_542_400), "21000301T000000Z");
}

#[test]
fn checksums() {
    // MD5 of "abc" from RFC 1321, and the published check value of CRC-32.
    assert_eq!(content_md5(b"abc"), "kAFQmDzST7DWlj99KOF/cg==");
    assert_eq!(crc32_base64(crc32(b"123456789")), "y/Q5Jg==");
    let mut pieces = Sha256::new();
    pieces.update(b"a");
    pieces.update(b"bc");
    assert_eq!(pieces.finish(), sha256(b"abc"));
    assert_eq!(&hex(&sha256(b"")), SHA256_OF_NOTHING.as_bytes());
}

#[test]
fn keys_that_fit_no_header_are_refused_and_nothing_shows_them() {
    let credentials = Credentials {
        access_key: "AK".to_owned(),
        secret_key: "secret".to_owned(),
        session_token: Some("a\nb".to_owned()),
    };
    assert!(!format!("{credentials:?}").contains("secret"));
    assert!(Signer::new(credentials, "us-east-1", "s3").is_none());
    let signed = build(&example_origin(), Some(&example_signer()), 0, &Call::get("k"));
    let shown = format!("{:?} {:?}", signed, example_signer());
    assert!(!shown.contains("EXAMPLE") && !shown.contains("Signature"), "{shown}");
}
