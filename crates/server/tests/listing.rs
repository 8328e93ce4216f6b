//! Tests of listings: order, completeness, paging.

mod support;

use std::collections::BTreeSet;

use support::{BUCKET, Client, Running};

/// Read all pages of a listing. Returns the keys, the common prefixes and the number of pages.
fn walk(client: &mut Client, query: &[(&str, &str)]) -> (Vec<String>, Vec<String>, usize) {
    let (mut keys, mut prefixes, mut pages) = (Vec::new(), Vec::new(), 0);
    let mut token = None::<String>;
    loop {
        let mut asked = query.to_vec();
        if let Some(token) = &token {
            asked.push(("continuation-token", token));
        }
        let page = client.list(&asked).ok();
        pages += 1;
        let listed = page.texts_of("Key");
        let rolled: Vec<String> = page
            .texts_of("CommonPrefixes")
            .iter()
            .map(|inner| inner.replace("<Prefix>", "").replace("</Prefix>", ""))
            .collect();
        assert_eq!(page.text_of("KeyCount"), (listed.len() + rolled.len()).to_string());
        keys.extend(listed);
        prefixes.extend(rolled);
        if page.text_of("IsTruncated") == "false" {
            return (keys, prefixes, pages);
        }
        token = Some(page.text_of("NextContinuationToken"));
    }
}

#[test]
fn prefix_delimiter_and_pages_agree_with_the_definition() {
    let running = Running::new();
    let mut client = running.client();
    let keys: BTreeSet<&str> =
        ["a", "a-", "a/", "a/b", "a/b/c", "a/b/d", "a/c", "a0", "b/x", "b/y/z", "ä/ö", "z"].into();
    for key in &keys {
        client.put(key, b"").ok();
    }
    for prefix in ["", "a", "a/", "a/b", "b", "nothing", "z"] {
        for delimiter in ["", "/", "b"] {
            let (mut wanted, mut rolled) = (Vec::new(), BTreeSet::new());
            for key in keys.iter().filter(|key| key.starts_with(prefix)) {
                match key[prefix.len()..].find(delimiter).filter(|_| !delimiter.is_empty()) {
                    Some(at) => {
                        rolled.insert(key[..prefix.len() + at + delimiter.len()].to_owned());
                    }
                    None => wanted.push((*key).to_owned()),
                }
            }
            for limit in ["1", "2", "3", "1000"] {
                let query = [("prefix", prefix), ("delimiter", delimiter), ("max-keys", limit)];
                let (keys, prefixes, pages) = walk(&mut client, &query);
                assert_eq!(keys, wanted, "{query:?}");
                assert_eq!(prefixes, rolled.iter().cloned().collect::<Vec<_>>(), "{query:?}");
                let entries = wanted.len() + rolled.len();
                let limit: usize = limit.parse().expect("a number");
                assert_eq!(pages, entries.div_ceil(limit).max(1), "{query:?}");
            }
        }
    }
}

#[test]
fn limits_and_starts() {
    let running = Running::new();
    let mut client = running.client();
    for key in ["a", "b", "c&<>", "d e"] {
        client.put(key, b"12345").ok();
    }
    let none = client.list(&[("max-keys", "0")]).ok();
    assert_eq!(
        (none.text_of("KeyCount"), none.text_of("IsTruncated")),
        ("0".into(), "false".into())
    );
    assert_eq!(client.list(&[("max-keys", "5000")]).text_of("MaxKeys"), "1000");
    assert_eq!(client.list(&[("start-after", "b")]).texts_of("Key"), ["c&<>", "d e"]);
    assert_eq!(client.list(&[("start-after", "bb"), ("max-keys", "1")]).texts_of("Key"), ["c&<>"]);
    assert_eq!(
        client.list(&[("encoding-type", "url")]).texts_of("Key")[2..],
        ["c%26%3C%3E", "d%20e"]
    );
    let first = client.list(&[("max-keys", "1")]).ok();
    assert_eq!((first.text_of("Size"), first.text_of("IsTruncated")), ("5".into(), "true".into()));
    assert_eq!(first.text_of("ETag"), client.head("a").etag());
    client.list(&[("continuation-token", "nonsense")]).refused(400, "InvalidArgument");
    client
        .raw("GET", "/missing-bucket", &[("list-type", "2")], &[], b"")
        .refused(404, "NoSuchBucket");
}

#[test]
fn objects_of_many_clients_page_in_order() {
    const OBJECTS: usize = 4_000;
    let mut running = Running::new();
    let keys: Vec<String> = (0..OBJECTS).map(|at| format!("p{}/k{at:06}", at % 7)).collect();
    std::thread::scope(|scope| {
        for part in keys.chunks(OBJECTS / 4) {
            let mut client = running.client();
            scope.spawn(move || part.iter().for_each(|key| drop(client.put(key, b"").ok())));
        }
    });
    let mut sorted = keys;
    sorted.sort();
    let (listed, _, pages) = walk(&mut running.client(), &[]);
    assert_eq!(pages, OBJECTS / 1000);
    assert!(listed == sorted, "all of them, in order");
    running = running.restart();
    let (listed, prefixes, pages) = walk(&mut running.client(), &[("delimiter", "/")]);
    assert_eq!((listed.len(), prefixes.len(), pages), (0, 7, 1));
    let (listed, ..) = walk(&mut running.client(), &[("prefix", "p3/")]);
    assert!(listed == sorted.iter().filter(|k| k.starts_with("p3/")).cloned().collect::<Vec<_>>());
}

#[test]
fn multi_delete_removes_what_it_names_and_says_so() {
    let running = Running::new();
    let mut client = running.client();
    for at in 0..20 {
        client.put(&format!("k{at}"), b"x").ok();
    }
    let body = |keys: std::ops::Range<usize>, quiet: bool| {
        let objects: Vec<String> =
            keys.map(|at| format!("<Object><Key>k{at}</Key></Object>")).collect();
        let objects = objects.concat();
        format!("<Delete><Quiet>{quiet}</Quiet>{objects}</Delete>").into_bytes()
    };
    let answer = client.bucket("POST", &[("delete", "")], &body(0..5, false)).ok();
    assert_eq!(answer.texts_of("Key"), ["k0", "k1", "k2", "k3", "k4"]);
    let quiet = client.bucket("POST", &[("delete", "")], &body(5..25, true)).ok();
    assert!(quiet.texts_of("Key").is_empty());
    assert_eq!(client.list(&[]).text_of("KeyCount"), "0");
    assert!(running.files().is_empty());
    client.bucket("POST", &[("delete", "")], &body(0..0, true)).refused(400, "MalformedXML");
}

#[test]
fn buckets() {
    let running = Running::new();
    let mut client = running.client();
    assert_eq!(client.bucket("HEAD", &[], b"").status, 200);
    client.bucket("GET", &[("location", "")], b"").ok();
    client.bucket("PUT", &[], b"").refused(409, "BucketAlreadyOwnedByYou");
    let mut on = |method: &str, path: &str| client.raw(method, path, &[], &[], b"");
    assert_eq!(on("HEAD", "/second").status, 404);
    on("PUT", "/second").ok();
    on("PUT", "/second/k").ok();
    on("GET", "/third/k").refused(404, "NoSuchBucket");
    on("PUT", "/third/k").refused(404, "NoSuchBucket");
    assert_eq!(on("GET", "/").ok().texts_of("Name"), [BUCKET, "second"]);
    on("DELETE", "/second").refused(409, "BucketNotEmpty");
    on("DELETE", "/second/k").ok();
    on("DELETE", "/second").ok();
    on("DELETE", "/second").refused(404, "NoSuchBucket");
    on("PUT", "/Wrong_Name").refused(400, "InvalidBucketName");
    assert!(!running.directory.path().join("store/second").exists());
}

#[test]
fn two_servers_never_share_a_directory() {
    let running = Running::new();
    let config = storlab_server::Config {
        directory: running.directory.path().join("store"),
        bucket: BUCKET.to_owned(),
        durable: false,
    };
    let second = storlab_server::Server::start(&config, support::credentials());
    let message = second.err().expect("refused").to_string();
    assert!(message.contains("another server is using"), "{message}");
    let wrong = storlab_server::Config { bucket: "../x".to_owned(), ..config };
    let started = storlab_server::Server::start(&wrong, support::credentials());
    assert!(started.err().expect("refused").to_string().contains("does not allow"));
}
