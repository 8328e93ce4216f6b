//! Tests of filling a pool and of cleaning up.

use bytes::Bytes;
use storlab_testing::{Fault, Seen};

use super::*;

fn clean(server: &Server) -> Value {
    let mut job = job(server);
    job["task"] = json!("clean");
    job["window_ns"] = json!(null);
    job
}

fn put(server: &Server, key: &str) {
    server.held().objects.insert(key.to_owned(), Bytes::from_static(b"x"));
}

#[test]
fn a_fill_makes_what_is_missing_or_has_the_wrong_size() {
    let server = Server::start();
    let mut job = job(&server);
    job["pool"]["objects"] = json!(100);
    job["list_max_keys"] = json!(7);
    let first = fill(&job);
    assert_eq!(operations(&first, "put"), 100);
    assert_eq!(first.summary.totals["put"].bytes, 2_000_000);
    assert!(server.held().objects.keys().all(|key| key.starts_with("p/pool-1/")));
    put(&server, "p/pool-1/0001/00000005");
    put(&server, "p/pool-1/0001/somebody-elses");
    server.held().objects.remove("p/pool-1/0002/00000002");
    let second = fill(&job);
    assert_eq!(operations(&second, "put"), 2);
    assert_eq!(operations(&fill(&job), "put"), 0);
    assert_eq!(all_errors(&good(&job)), 0);
}

#[test]
fn a_fill_shows_how_far_it_is() {
    let server = Server::start();
    let mut job = job(&server);
    job["task"] = json!("fill");
    job["pool"]["objects"] = json!(10_000);
    job["window_ns"] = json!(null);
    let run = begin(&job);
    loop {
        let seen = run.snapshot();
        assert_eq!(seen.phase.name, "prepare");
        let length = seen.phase.length_ns.unwrap_or(0);
        if length > seen.elapsed_ns && seen.live.bytes_s > Some(0.0) {
            break;
        }
        std::thread::yield_now();
    }
    run.cancel();
    assert_eq!(finish(&run).summary.status, Status::Cancelled);
}

#[test]
fn a_fill_outlives_errors_that_pass() {
    let server = Server::start();
    server.judge(storlab_testing::first_two_fail());
    let outcome = fill(&job(&server));
    assert_eq!(operations(&outcome, "put"), 40);
    assert_eq!(server.held().objects.len(), 40);
    assert!(detail(&outcome, "retries") > 0);
}

#[test]
fn a_fill_that_is_refused_fails_with_the_key() {
    let server = Server::start();
    server.judge(|seen| match seen.method == http::Method::PUT {
        true => Fault::Refuse(403, "AccessDenied"),
        false => Fault::None,
    });
    let mut job = job(&server);
    job["task"] = json!("fill");
    let outcome = run(&job);
    assert_eq!(outcome.summary.status, Status::Failed);
    let failure = outcome.summary.failure.unwrap();
    assert!(failure.message.contains("put of p/pool-1/00"), "{}", failure.message);
    assert!(failure.message.contains("AccessDenied (403)") && failure.fix.contains("credentials"));
}

#[test]
fn a_clean_deletes_all_below_its_prefix_and_nothing_else() {
    for concurrency in [1, 3] {
        let server = Server::start();
        for index in 0..2_345 {
            put(&server, &format!("p/run-1/{:04x}/{index:08x}", index % 3));
        }
        for other in ["p/run-10/1", "p/storlab.json", "p/run-", "other"] {
            put(&server, other);
        }
        let upload = |key: &str| (key.to_owned(), Default::default());
        server.held().uploads.insert("mine".into(), upload("p/run-1/0000/1"));
        server.held().uploads.insert("others".into(), upload("p/run-2/0000/1"));
        server.judge(storlab_testing::first_two_fail());
        let mut job = clean(&server);
        job["concurrency"] = json!(concurrency);
        let outcome = good(&job);
        assert_eq!(detail(&outcome, "deleted_keys"), 2_345);
        let held = server.held();
        let left: Vec<_> = held.objects.keys().map(String::as_str).collect();
        assert_eq!(left, ["other", "p/run-", "p/run-10/1", "p/storlab.json"]);
        assert_eq!(held.uploads.keys().collect::<Vec<_>>(), ["others"]);
    }
}

#[test]
fn a_clean_of_a_store_that_ignores_prefixes_deletes_what_is_its_own() {
    let server = Server::start();
    server.held().prefix_ignored = true;
    for key in ["other", "p/run-1/0000/00000000", "p/run-10/1"] {
        put(&server, key);
    }
    assert_eq!(detail(&good(&clean(&server)), "deleted_keys"), 1);
    assert_eq!(server.held().objects.keys().collect::<Vec<_>>(), ["other", "p/run-10/1"]);
}

#[test]
fn a_clean_of_a_store_without_multi_delete_goes_one_by_one() {
    let server = Server::start();
    for index in 0..20 {
        put(&server, &format!("p/run-1/0000/{index:08x}"));
    }
    server.judge(|seen| match seen.query.contains_key("delete") {
        true => Fault::Refuse(501, "NotImplemented"),
        false => Fault::None,
    });
    good(&clean(&server));
    assert!(server.held().objects.is_empty());
}

#[test]
fn a_clean_that_leaves_something_behind_fails() {
    let server = Server::start();
    put(&server, "p/run-1/0000/00000000");
    put(&server, "p/run-1/0000/00000001");
    server.held().protected.push("p/run-1/0000/00000001".to_owned());
    let outcome = run(&clean(&server));
    assert_eq!(outcome.summary.status, Status::Failed);
    let message = outcome.summary.failure.unwrap().message;
    assert!(
        message.contains("p/run-1/0000/00000001") && message.contains("AccessDenied"),
        "{message}"
    );
    assert_eq!(server.held().objects.len(), 1);
}

#[test]
fn cleaning_an_empty_prefix_is_no_error() {
    let server = Server::start();
    let outcome = good(&clean(&server));
    assert_eq!(operations(&outcome, "multi_delete"), 0);
}

#[test]
fn a_listing_of_a_million_objects_is_paged_through() {
    let server = Server::start();
    let mut job = job(&server);
    job["pool"] = json!({"prefix": "p/pool-1/", "objects": 1_000_000, "shards": 100,
                         "sizes": sizes(1), "seed": 1});
    // All objects except the last one exist.
    server.held().invented = Some(("p/pool-1/".to_owned(), 999_999, 100));
    let outcome = fill(&job);
    assert_eq!(operations(&outcome, "list"), 1_000);
    assert_eq!(operations(&outcome, "put"), 1);
    assert!(server.held().objects.contains_key("p/pool-1/0063/000f423f"));
}

#[test]
fn uploads_are_found_where_a_prefix_is_taken_for_a_whole_key() {
    let server = Server::start();
    let keys = ["p/run-1/0000/1", "p/run-2/0000/1", "p/run-1/0000/2", "other", "p/run-1/0001/0"];
    for (id, key) in keys.iter().enumerate() {
        server.held().uploads.insert(format!("{id}"), ((*key).to_owned(), Default::default()));
    }
    server.held().whole_keys = true;
    server.held().uploads_page = 2;
    good(&clean(&server));
    let held = server.held();
    let left: Vec<_> = held.uploads.values().map(|(key, _)| key.as_str()).collect();
    assert_eq!(left, ["p/run-2/0000/1", "other"]);
}

#[test]
fn who_may_list_only_his_own_uploads_cleans_those() {
    let server = Server::start();
    put(&server, "p/run-1/0000/1");
    server.judge(|seen| {
        match seen.query.contains_key("uploads") && seen.query["prefix"].is_empty() {
            true => Fault::Refuse(403, "AccessDenied"),
            false => Fault::None,
        }
    });
    good(&clean(&server));
    assert!(server.held().objects.is_empty());
}

#[test]
fn deletes_one_by_one_do_not_start_over() {
    let server = Server::start();
    for index in 0..20 {
        put(&server, &format!("p/run-1/0000/{index:08x}"));
    }
    let flaky = storlab_testing::first_two_fail();
    server.judge(move |seen| match seen.query.contains_key("delete") {
        true => Fault::Refuse(501, "NotImplemented"),
        false if seen.method == http::Method::DELETE => flaky(seen),
        false => Fault::None,
    });
    let outcome = good(&clean(&server));
    assert!(server.held().objects.is_empty());
    assert_eq!(detail(&outcome, "deleted_keys"), 20);
    let asked = |seen: &&Seen| seen.method == http::Method::DELETE;
    assert_eq!(server.held().log.iter().filter(asked).count(), 3 * 20);
}
