use std::collections::BTreeMap;

use super::*;

fn spec(endpoints: &[&str], addressing: Addressing) -> StoreSpec {
    StoreSpec {
        endpoints: endpoints.iter().map(|&e| e.to_owned()).collect(),
        bucket: "bucket".to_owned(),
        region: "us-east-1".to_owned(),
        addressing,
        ca_file: None,
        verify_tls: false,
    }
}

fn refused(spec: &StoreSpec) -> String {
    match Store::new(spec, None) {
        Err(error @ Error::Spec { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_json_of_python_is_read() {
    let text = r#"{"endpoints":["http://127.0.0.1:9000"],"bucket":"b","region":"eu-central-1",
        "addressing":"virtual","ca_file":null,"verify_tls":false}"#;
    let spec: StoreSpec = serde_json::from_str(text).expect("a spec");
    assert_eq!(spec.addressing, Addressing::Virtual);
    assert!(!spec.verify_tls && spec.ca_file.is_none());
    let short: StoreSpec = serde_json::from_str(r#"{"endpoints":[],"bucket":"b"}"#).expect("spec");
    assert!(short.verify_tls && short.region == "us-east-1");
}

#[test]
fn where_the_bucket_stands() {
    let target = |spec: &StoreSpec, key: Option<&str>| {
        let store = Store::new(spec, None).expect("a store");
        let call = Call { query: &[("x", "")], ..Call::new(http::Method::GET, key) };
        let head = String::from_utf8(store.request(0, &call).head.bytes).expect("text");
        let line = head.split("\r\n").next().expect("a line").to_owned();
        let host = head.split("\r\nhost: ").nth(1).and_then(|rest| rest.split("\r\n").next());
        (host.expect("a host").to_owned(), line)
    };
    let path = spec(&["http://127.0.0.1:9000/"], Addressing::Path);
    let at = |host: &str, uri: &str| (host.to_owned(), format!("GET {uri} HTTP/1.1"));
    assert_eq!(target(&path, Some("a b")), at("127.0.0.1:9000", "/bucket/a%20b?x="));
    assert_eq!(target(&path, None), at("127.0.0.1:9000", "/bucket?x="));
    let virtual_host = spec(&["http://LocalHost:80"], Addressing::Virtual);
    assert_eq!(target(&virtual_host, Some("k")), at("bucket.localhost", "/k?x="));
    assert_eq!(target(&virtual_host, None), at("bucket.localhost", "/?x="));
    let six = spec(&["https://[::1]:443"], Addressing::Path);
    assert_eq!(target(&six, Some("/k")), at("[::1]", "/bucket//k?x="));
}

#[test]
fn addresses_are_taken_in_turn() {
    let store = Store::new(&spec(&["http://a.localhost:1"], Addressing::Path), None).expect("ok");
    let first: Vec<_> =
        (0..4).filter_map(|_| store.endpoint(0).addresses.in_turn().pop()).collect();
    assert_eq!(store.endpoint(0).addresses.in_turn().len(), 2);
    assert_ne!(first[0], first[1]);
    assert_eq!(first[..2], first[2..]);
}

#[test]
fn odd_endpoints_are_refused() {
    for odd in [
        "127.0.0.1:9000",
        "ftp://127.0.0.1",
        "http://",
        "http://127.0.0.1:0",
        "http://127.0.0.1:99999",
        "http://127.0.0.1:",
        "http://127.0.0.1/bucket",
        "http://127.0.0.1?x",
        "http://user:word@127.0.0.1",
    ] {
        let message = refused(&spec(&[odd], Addressing::Path));
        assert!(message.starts_with("endpoints[0]: "), "{odd}: {message}");
    }
    assert!(refused(&spec(&[], Addressing::Path)).starts_with("endpoints: "));
    let message = refused(&spec(&["http://127.0.0.1"], Addressing::Virtual));
    assert!(message.contains("addressing"), "{message}");
}

#[test]
fn odd_buckets_regions_and_keys_are_refused() {
    for bucket in ["", "a/b", "a b", "..", "a?b", "ü"] {
        let bad =
            StoreSpec { bucket: bucket.to_owned(), ..spec(&["http://[::1]"], Addressing::Path) };
        assert!(refused(&bad).starts_with("bucket: "), "{bucket}");
    }
    let bad = StoreSpec { region: "a\nb".to_owned(), ..spec(&["http://[::1]"], Addressing::Path) };
    assert!(refused(&bad).starts_with("region: "));

    let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|&(k, v)| (k.to_owned(), v.to_owned())).collect()
    };
    assert_eq!(Credentials::from_map(&map(&[])).expect("nobody"), None);
    for (secrets, field) in [
        (map(&[("access_key", "a")]), "credentials.secret_key"),
        (map(&[("access_key", ""), ("secret_key", "s")]), "credentials.access_key"),
        (map(&[("access_key", "a"), ("secret_key", "s"), ("x", "hidden")]), "credentials.x"),
    ] {
        let message = Credentials::from_map(&secrets).expect_err("wrong").to_string();
        assert!(message.starts_with(field) && !message.contains("hidden"), "{message}");
    }
    let keys = Credentials::from_map(&map(&[("access_key", "a\n"), ("secret_key", "s")]));
    let error = Store::new(&spec(&["http://[::1]"], Addressing::Path), keys.expect("keys"));
    assert!(error.expect_err("no header").to_string().starts_with("credentials: "));
}

#[test]
fn names_and_files_that_are_not_there() {
    let error = Store::new(&spec(&["http://name.invalid:1"], Addressing::Path), None);
    assert!(matches!(error, Err(Error::Io { operation: "resolve", .. })), "{error:?}");
    let tls = |path: &str| StoreSpec {
        ca_file: Some(path.to_owned()),
        verify_tls: true,
        ..spec(&["https://localhost"], Addressing::Path)
    };
    let error = Store::new(&tls("/nowhere/ca.pem"), None);
    assert!(matches!(error, Err(Error::Io { operation: "open", .. })), "{error:?}");
    let file = tempfile::NamedTempFile::new().expect("a file");
    let path = file.path().to_str().expect("text");
    assert!(refused(&tls(path)).starts_with("ca_file: "));
    std::fs::write(path, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
        .expect("written");
    assert!(refused(&tls(path)).starts_with("ca_file: "));
}

#[test]
fn without_credentials_nothing_is_signed() {
    let store = Store::new(&spec(&["http://[::1]"], Addressing::Path), None).expect("a store");
    let head = String::from_utf8(store.request(0, &Call::get("k")).head.bytes).expect("text");
    assert!(!store.signs() && !head.contains("authorization"), "{head}");
}
