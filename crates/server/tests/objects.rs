//! Tests of single objects: content comes back intact, under any key, also during overwrites.

mod support;

use std::sync::atomic::{AtomicBool, Ordering};

use support::{Running, content};

#[test]
fn put_get_head_delete() {
    let running = Running::new();
    let mut client = running.client();
    client.get("a/b").refused(404, "NoSuchKey");
    for length in [0, 1, 4096, 262_143, 262_144, 262_145, 3_000_000] {
        let body = content(length as u64, length);
        let put = client.put("a/b", &body).ok();
        let got = client.get("a/b").ok();
        assert_eq!(got.body, body, "{length} bytes");
        assert_eq!(got.etag(), put.etag());
        let head = client.head("a/b").ok();
        assert_eq!(head.header("content-length"), Some(length.to_string().as_str()));
        assert_eq!(head.etag(), put.etag());
        assert_eq!(head.header("last-modified"), got.header("last-modified"));
    }
    assert_eq!(client.delete("a/b").status, 204);
    client.get("a/b").refused(404, "NoSuchKey");
    assert_eq!(client.head("a/b").status, 404);
    assert_eq!(client.delete("a/b").status, 204, "a second delete is none of S3's errors");
}

#[test]
fn the_same_content_again_is_another_version() {
    let running = Running::new();
    let mut client = running.client();
    let etags: std::collections::BTreeSet<String> =
        (0..50).map(|_| client.put("k", b"same").ok().etag()).collect();
    assert_eq!(etags.len(), 50);
    let quoted_md5 = 34;
    assert!(etags.iter().all(|etag| etag.len() != quoted_md5), "{etags:?}");
}

#[test]
fn any_key_is_safe_and_its_own() {
    let running = Running::new();
    let mut client = running.client();
    let mut keys: Vec<String> = [
        "..",
        ".",
        "../../escape",
        "a/../../escape",
        "/absolute",
        "//",
        "a//b",
        "a/",
        "a",
        "a/b",
        "%2e%2e",
        "sp ace",
        "pl+us",
        "日本/語",
        "q?x=1&y",
        "#",
        "back\\slash",
        "semi;colon",
        "é",
        "e\u{301}",
        ".hidden",
        ".aside-0",
    ]
    .map(String::from)
    .to_vec();
    keys.push("x".repeat(1024));
    keys.push(format!("{}y", "x".repeat(1023)));
    keys.push("/".repeat(700));
    for key in &keys {
        client.put(key, key.as_bytes()).ok();
    }
    for key in &keys {
        assert_eq!(client.get(key).ok().text(), *key);
    }
    let listed = client.list(&[("encoding-type", "url")]).ok();
    assert_eq!(listed.texts_of("Key").len(), keys.len());
    let outside: Vec<_> = std::fs::read_dir(running.directory.path()).expect("readable").collect();
    assert_eq!(outside.len(), 1, "nothing beside the store: {outside:?}");

    let running = running.restart();
    let mut client = running.client();
    for key in &keys {
        assert_eq!(client.get(key).ok().text(), *key, "after a restart");
        assert_eq!(client.delete(key).status, 204);
    }
    assert_eq!(running.files(), Vec::<std::path::PathBuf>::new());
    assert_eq!(client.list(&[]).text_of("KeyCount"), "0");
    client.put(&"x".repeat(1025), b"").refused(400, "KeyTooLongError");
}

#[test]
fn ranges() {
    let running = Running::new();
    let mut client = running.client();
    let body = content(1, 600_000);
    client.put("k", &body).ok();
    client.put("empty", b"").ok();
    for (range, from, to) in [
        ("bytes=0-0", 0, 1),
        ("bytes=0-", 0, 600_000),
        ("bytes=599999-", 599_999, 600_000),
        ("bytes=100-300000", 100, 300_001),
        ("bytes=599000-9999999", 599_000, 600_000),
        ("bytes=-1", 599_999, 600_000),
        ("bytes=-9999999", 0, 600_000),
    ] {
        let got = client.range("k", range);
        assert_eq!(got.status, 206, "{range}");
        assert_eq!(got.body, body[from..to], "{range}");
        let stretch = format!("bytes {from}-{}/600000", to - 1);
        assert_eq!(got.header("content-range"), Some(stretch.as_str()));
    }
    for range in ["bytes=600000-", "bytes=600000-600001", "bytes=-0"] {
        client.range("k", range).refused(416, "InvalidRange");
    }
    for range in ["bytes=0-0", "bytes=-5"] {
        client.range("empty", range).refused(416, "InvalidRange");
    }
    assert_eq!(client.get("empty").ok().body, b"");
}

#[test]
fn an_order_that_is_too_large_is_refused_with_the_reason() {
    let running = Running::new();
    let mut client = running.client();
    let key = "k".repeat(1024);
    let keys = format!("<Object><Key>{key}</Key></Object>").repeat(30_000);
    let order = format!("<Delete>{keys}</Delete>");
    assert!(order.len() > 30_000_000);
    client
        .bucket("POST", &[("delete", "")], order.as_bytes())
        .refused(400, "MaxMessageLengthExceeded");
    assert_eq!(client.put("large", &vec![0; 30_000_000]).status, 200, "content is no order");
}

#[test]
fn conditions() {
    let running = Running::new();
    let mut client = running.client();
    let old = client.put("k", b"one").ok().etag();
    let now = client.put("k", b"two").ok().etag();
    let put_if = |client: &mut support::Client, header, etag: &str| {
        client.call("PUT", "k", &[], &[(header, etag)], b"three")
    };
    put_if(&mut client, "if-none-match", "*").refused(412, "PreconditionFailed");
    put_if(&mut client, "if-match", &old).refused(412, "PreconditionFailed");
    client.call("DELETE", "k", &[], &[("if-match", &*now)], b"").refused(501, "NotImplemented");
    assert_eq!(client.get("k").ok().body, b"two", "refused requests change nothing");
    put_if(&mut client, "if-match", &now).ok();
    client.call("PUT", "new", &[], &[("if-none-match", "*")], b"first").ok();
    assert_eq!(running.files().len(), 2, "a refused PUT leaves no file");
}

/// Evicts the objects from the page cache, so that reads wait for the device.
#[test]
fn cold_objects_are_read_from_the_device() {
    use rustix::fs::{Advice, fadvise};
    let running = Running::new();
    let mut client = running.client();
    let body = content(5, 3_000_000);
    client.put("k", &body).ok();
    let evict = || {
        let file = std::fs::File::open(&running.files()[0]).expect("opened");
        file.sync_all().expect("on the device");
        fadvise(&file, 0, None, Advice::DontNeed).expect("evicted");
    };
    evict();
    assert!(client.get("k").ok().body == body);
    evict();
    assert!(client.range("k", "bytes=1000001-2999998").body == body[1_000_001..2_999_999]);
}

/// Each writer repeatedly writes one value; a reader must never see a mixture.
#[test]
fn overwriting_never_tears() {
    const LENGTH: usize = 1_000_000;
    let running = Running::new();
    running.client().put("k", &vec![0; LENGTH]).ok();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for value in 1..=3u8 {
            let (mut client, stop) = (running.client(), &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    client.put("k", &vec![value; LENGTH]).ok();
                }
            });
        }
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let mut client = running.client();
                scope.spawn(move || {
                    let mut seen = std::collections::BTreeSet::new();
                    let mut rounds = 0;
                    // Until readers have seen at least two writers' values.
                    while rounds < 60 || seen.len() < 2 {
                        rounds += 1;
                        let got = client.get("k").ok().body;
                        assert_eq!(got.len(), LENGTH);
                        assert!(got.iter().all(|byte| *byte == got[0]), "two values in one object");
                        seen.insert(got[0]);
                    }
                })
            })
            .collect();
        let joined: Vec<_> = readers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        stop.store(true, Ordering::Relaxed);
        assert!(joined.iter().all(Result::is_ok), "a reader saw a torn object");
    });
    assert_eq!(running.files().len(), 1, "nothing is left aside");
}

#[test]
fn deleting_beside_writing_keeps_listing_and_files_the_same() {
    let running = Running::new();
    std::thread::scope(|scope| {
        for seed in 0..4usize {
            let mut client = running.client();
            scope.spawn(move || {
                for round in 0..150 {
                    let key = format!("k{}", (round * 7 + seed) % 5);
                    if (round + seed) % 2 == 0 {
                        client.put(&key, b"x").ok();
                    } else {
                        client.delete(&key).ok();
                    }
                }
            });
        }
    });
    let mut client = running.client();
    let listed = client.list(&[]).texts_of("Key");
    assert_eq!(listed.len(), running.files().len());
    for key in listed {
        client.get(&key).ok();
    }
}

#[test]
fn an_upload_that_breaks_off_leaves_nothing() {
    use std::io::Write as _;
    let running = Running::new();
    let message = running.client().message("PUT", "/bucket/k", &[], &[], &content(1, 2_000_000));
    let mut stream =
        std::net::TcpStream::connect(("127.0.0.1", running.server.port())).expect("up");
    stream.write_all(&message[..1_000_000]).expect("sent");
    while running.files().is_empty() {
        std::thread::yield_now();
    }
    drop(stream);
    while !running.files().is_empty() {
        std::thread::yield_now();
    }
    running.client().get("k").refused(404, "NoSuchKey");
}

#[test]
fn left_overs_of_a_killed_server_are_removed_and_the_rest_is_kept() {
    let running = Running::new();
    running.client().put("k", b"kept").ok();
    let object = running.files().pop().expect("one");
    std::fs::write(object.with_file_name(".aside-0"), b"half").expect("written");
    let running = running.restart();
    assert_eq!(running.files(), [object]);
    assert_eq!(running.client().get("k").ok().body, b"kept");
}

#[test]
fn durable_stores_the_same() {
    let running = Running::over(tempfile::tempdir().expect("a directory"), true);
    let mut client = running.client();
    for key in ["k", "k", &"long".repeat(200)] {
        client.put(key, b"body").ok();
        assert_eq!(client.get(key).ok().body, b"body");
    }
    assert_eq!(client.delete(&"long".repeat(200)).status, 204);
    assert_eq!(client.list(&[]).texts_of("Key"), ["k"]);
}

#[test]
fn a_file_cut_short_by_somebody_else_is_a_broken_answer() {
    use std::io::{BufReader, Read as _, Write as _};
    /// More than the socket buffers between server and client can hold.
    const LENGTH: usize = 64 << 20;
    let running = Running::new();
    let mut client = running.client();
    client.put("k", &vec![7; LENGTH]).ok();
    let message = client.message("GET", "/bucket/k", &[], &[], b"");
    let mut stream =
        std::net::TcpStream::connect(("127.0.0.1", running.server.port())).expect("up");
    stream.write_all(&message).expect("sent");
    let mut stream = BufReader::new(stream);
    let mut first = [0; 100];
    stream.read_exact(&mut first).expect("it has begun");
    let path = running.files().pop().expect("one");
    std::fs::File::options().write(true).open(path).and_then(|f| f.set_len(100)).expect("cut");
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!(rest.len() < LENGTH, "the missing part was not made up");
}
