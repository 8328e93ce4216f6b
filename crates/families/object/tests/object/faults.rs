//! Tests with a misbehaving store: every error is counted by kind, and in no other metric.

use http::Method;
use storlab_testing::{Fault, Seen};

use super::*;

/// Fill a pool, and from then on apply a fault to every third request.
fn every_third(fault: Fault) -> (Server, Value) {
    let server = Server::start();
    let job = job(&server);
    fill(&job);
    server.judge(move |seen| if seen.number % 3 == 0 { fault } else { Fault::None });
    (server, job)
}

/// Assert that exactly one kind of error was counted, and that successes are unaffected.
fn counted(outcome: &Outcome, kind: &str) {
    let totals = &outcome.summary.totals["get"];
    let all = errors(outcome, "get");
    assert!(all.len() == 1 && all[0].0 == kind && all[0].1 > 0, "{all:?}");
    assert!(totals.operations > 0);
    assert_eq!(totals.bytes, totals.operations * 20_000);
    assert_eq!(totals.latency.as_ref().unwrap().count, totals.operations);
    let rows: u64 = outcome.rows.iter().map(|row| row.errors).sum();
    assert_eq!(rows, all[0].1);
}

#[test]
fn a_busy_store_is_counted() {
    let (_server, job) = every_third(Fault::Refuse(503, "SlowDown"));
    counted(&good(&job), "SlowDown (503)");
}

#[test]
fn resets_are_counted_and_the_connection_is_made_anew() {
    let (server, job) = every_third(Fault::Drop);
    server.held().abrupt = true;
    let outcome = good(&job);
    counted(&outcome, "connection reset");
    assert!(detail(&outcome, "connections") > 4);
}

#[test]
fn a_body_that_ends_early_is_named_with_its_key() {
    let (_server, job) = every_third(Fault::Truncate);
    let outcome = good(&job);
    counted(&outcome, "short body");
    assert!(note(&outcome, "get of p/pool-1/00"));
    assert!(!note(&outcome, "differed from"), "{:?}", outcome.summary.notes);
    // One note with the count, and up to 20 examples.
    assert!(outcome.summary.notes.len() <= 21, "{:?}", outcome.summary.notes);
}

#[test]
fn one_wrong_bit_is_named_with_its_key_and_place() {
    let (_server, job) = every_third(Fault::Corrupt);
    let outcome = good(&job);
    counted(&outcome, "wrong body");
    assert!(note(&outcome, "get of p/pool-1/00"));
    assert!(note(&outcome, "first at byte 10000 of the object"), "{:?}", outcome.summary.notes);
}

#[test]
fn without_verify_the_length_is_still_checked() {
    let (_server, mut job) = every_third(Fault::Corrupt);
    job["verify"] = json!(false);
    assert_eq!(all_errors(&good(&job)), 0);
    // A store whose objects differ in size from the pool's.
    job["pool"]["sizes"] = sizes(19_999);
    let outcome = run(&job);
    assert_eq!(outcome.summary.status, Status::Failed);
    assert_eq!(errors(&outcome, "get")[0].0, "wrong body");
    job["pool"]["sizes"] = sizes(20_001);
    // The response is complete, so the connection is not to blame.
    assert_eq!(errors(&run(&job), "get")[0].0, "wrong body");
}

#[test]
fn silence_is_a_time_out() {
    let (_server, mut job) = every_third(Fault::Stall);
    job["request_timeout_ns"] = json!(50_000_000);
    counted(&good(&job), "time-out");
}

#[test]
fn time_outs_of_an_open_loop_are_in_its_intended_latency() {
    let (_server, mut job) = every_third(Fault::Stall);
    job["request_timeout_ns"] = json!(50_000_000);
    job["arrival"] = json!({"kind": "constant", "rate_iops": 300.0});
    let outcome = good(&job);
    assert_eq!(errors(&outcome, "get")[0].0, "time-out");
    let gets = &outcome.summary.totals["get"];
    assert_eq!(gets.latency.as_ref().unwrap().count, gets.operations + gets.late_operations);
    let intended = gets.intended.as_ref().unwrap();
    assert!(intended.count > gets.operations + gets.late_operations, "{gets:?}");
    assert!(intended.p99_ns > 49_900_000, "{gets:?}");
}

#[test]
fn a_trickle_is_a_time_out_too() {
    let (_server, mut job) = every_third(Fault::Drip);
    job["request_timeout_ns"] = json!(50_000_000);
    counted(&good(&job), "time-out");
}

#[test]
fn retries_are_counted_as_what_failed_and_end_as_what_succeeds() {
    let (_server, mut job) = every_third(Fault::Refuse(500, "InternalError"));
    job["retries"] = json!(20);
    job["backoff_ns"] = json!(1000);
    let outcome = good(&job);
    counted(&outcome, "InternalError (500)");
    // Requests that fail when the window ends are not retried: up to one per slot.
    let (failed, retries) = (errors(&outcome, "get")[0].1, detail(&outcome, "retries"));
    assert!(retries > 4 && retries + 4 >= failed, "{retries} retries of {failed} errors");
}

#[test]
fn what_will_not_pass_is_not_tried_again() {
    let server = Server::start();
    let mut job = job(&server);
    job["retries"] = json!(5);
    let outcome = run(&job);
    let failure = outcome.summary.failure.as_ref().unwrap();
    assert_eq!(outcome.summary.status, Status::Failed);
    assert_eq!(detail(&outcome, "retries"), 0);
    let message = &failure.message;
    assert!(
        message.contains("no request succeeded") && message.contains("NoSuchKey (404)"),
        "{message}"
    );
}

#[test]
fn nobody_there_fails_the_run_in_words() {
    let server = Server::start();
    let job = job(&server);
    drop(server);
    let outcome = run(&job);
    assert_eq!(outcome.summary.status, Status::Failed);
    let failure = outcome.summary.failure.as_ref().unwrap();
    assert!(failure.message.contains("connection refused"), "{}", failure.message);
    assert!(failure.fix.contains("endpoint"), "{}", failure.fix);
    assert_eq!(errors(&outcome, "get")[0].0, "connection refused");
}

#[test]
fn permission_denied_says_so() {
    let server = Server::start();
    server.judge(|_| Fault::Refuse(403, "AccessDenied"));
    let failure = run(&job(&server)).summary.failure.unwrap();
    assert!(failure.message.contains("AccessDenied (403)"), "{}", failure.message);
    assert!(failure.fix.contains("credentials"), "{}", failure.fix);
}

#[test]
fn a_silent_store_does_not_hold_a_cancel_up() {
    let server = Server::start();
    server.judge(|_| Fault::Stall);
    let mut job = job(&server);
    job["window_ns"] = json!(3_600_000_000_000u64);
    job["request_timeout_ns"] = json!(3_600_000_000_000u64);
    let run = begin(&job);
    while server.held().log.len() < 4 {
        std::thread::yield_now();
    }
    run.cancel();
    assert_eq!(finish(&run).summary.status, Status::Cancelled);
}

#[test]
fn requests_that_never_end_fail_the_run() {
    let (_server, mut job) = every_third(Fault::Stall);
    job["drain_timeout_ns"] = json!(50_000_000);
    job["request_timeout_ns"] = json!(3_600_000_000_000u64);
    let outcome = run(&job);
    assert_eq!(outcome.summary.status, Status::Failed);
    let message = outcome.summary.failure.unwrap().message;
    assert!(message.contains("did not complete within 50 ms"), "{message}");
}

#[test]
fn a_request_that_could_not_end_in_time_is_not_sent_again() {
    let server = Server::start();
    let mut job = job(&server);
    fill(&job);
    let filled = server.held().log.len();
    server.judge(move |seen| if seen.number > filled + 20 { Fault::Stall } else { Fault::None });
    job["retries"] = json!(100);
    for limit in ["request_timeout_ns", "drain_timeout_ns"] {
        job[limit] = json!(300_000_000);
    }
    // The store stops responding during the window, which must not fail the run.
    let outcome = good(&job);
    assert_eq!(errors(&outcome, "get")[0].0, "time-out");
}

#[test]
fn kinds_of_errors_that_have_no_end_are_counted_together() {
    const CODES: [&str; 10] = ["A", "B", "C", "D", "E", "F", "G", "H", "I", "J"];
    let server = Server::start();
    let mut job = job(&server);
    fill(&job);
    let filled = server.held().log.len();
    server.judge(move |seen| match seen.number - filled {
        number if number % 2 == 0 => Fault::None,
        number => Fault::Refuse(400 + (number / 20 % 100) as u16, CODES[number / 2 % 10]),
    });
    job["window_ns"] = json!(2_000_000_000);
    let outcome = good(&job);
    let counted = errors(&outcome, "get");
    assert!(counted.len() <= 65, "{counted:?}");
    assert!(counted.iter().any(|(kind, count)| kind == "other" && *count > 0), "{counted:?}");
}

#[test]
fn an_upload_that_fails_is_given_up() {
    let server = Server::start();
    let part = |seen: &Seen| seen.query.get("partNumber").is_some_and(|number| number == "2");
    server.judge(move |seen| match part(seen) && seen.number % 2 == 0 {
        true => Fault::Refuse(503, "SlowDown"),
        false => Fault::None,
    });
    let mut job = job(&server);
    job["mix"] = json!({"put": 100});
    job["part_size"] = json!(8_000);
    job["part_concurrency"] = json!(2);
    let outcome = good(&job);
    assert_eq!(errors(&outcome, "put")[0].0, "SlowDown (503)");
    let held = server.held();
    assert!(held.uploads.is_empty(), "{} are open", held.uploads.len());
    let aborted = |seen: &&Seen| seen.method == Method::DELETE;
    assert!(held.log.iter().filter(aborted).count() > 0);
}

#[test]
fn uploads_whose_ids_were_lost_are_given_up() {
    let server = Server::start();
    let begins = |seen: &Seen| seen.method == Method::POST && seen.query.contains_key("uploads");
    server.judge(move |seen| match begins(seen) {
        true if seen.number % 3 == 0 => Fault::Lose,
        _ => Fault::None,
    });
    let mut job = job(&server);
    job["mix"] = json!({"put": 100});
    job["part_size"] = json!(8_000);
    job["retries"] = json!(3);
    let outcome = good(&job);
    assert!(all_errors(&outcome) > 0, "{:?}", outcome.summary.totals);
    let held = server.held();
    assert!(held.uploads.is_empty(), "{} are open", held.uploads.len());
}

#[test]
fn a_batch_that_is_deleted_in_part_is_an_error_with_the_stores_word() {
    let server = Server::start();
    let mut job = job(&server);
    fill(&job);
    server.held().protected.push("p/pool-1/0003/00000027".to_owned());
    job["mix"] = json!({"multi_delete": 50, "put": 50});
    job["sizes"] = sizes(10);
    job["window_ns"] = json!(1_000_000_000);
    job["delete_batch"] = json!(10);
    let outcome = good(&job);
    let message = errors(&outcome, "multi_delete");
    assert_eq!(message[0].0, "AccessDenied (200)");
    assert_eq!(all_errors(&outcome), message[0].1);
    assert!(detail(&outcome, "deleted_keys") >= 9);
    assert!(server.held().objects.contains_key("p/pool-1/0003/00000027"));
}

#[test]
fn a_connection_that_is_closed_without_an_answer_is_counted() {
    let (_server, job) = every_third(Fault::Drop);
    counted(&good(&job), "connection closed");
}

#[test]
fn a_refused_connection_is_tried_at_a_bounded_rate_and_the_note_says_so() {
    let server = Server::start();
    let mut job = job(&server);
    job["window_ns"] = json!(300_000_000);
    drop(server);
    let outcome = run(&job);
    let refused = errors(&outcome, "get")[0].1;
    // Four slots in 0.3 s, with pauses of 1, 2, 4, ... ms. Without pauses there would be thousands.
    assert!(refused < 100, "{refused} attempts");
    assert!(note(&outcome, "storlab paused"), "{:?}", outcome.summary.notes);
}

#[test]
fn a_server_that_hangs_up_is_tried_at_a_bounded_rate_too() {
    let server = Server::start();
    server.judge(|_| Fault::Drop);
    let mut job = job(&server);
    job["window_ns"] = json!(300_000_000);
    let outcome = run(&job);
    let closed = errors(&outcome, "get")[0].1;
    assert!(closed < 100, "{closed} attempts");
}

#[test]
fn a_success_with_an_error_in_it_is_none() {
    for kind in ["put", "list", "delete", "multi_delete"] {
        let (server, mut job) = every_third(Fault::None);
        job["mix"] = json!({"put": 0, "get": 0});
        job["mix"][kind] = json!(100);
        job["verify"] = json!(false);
        if kind.contains("delete") {
            job["mix"] = json!({"put": 50});
            job["mix"][kind] = json!(50);
        }
        server.judge(move |seen| match seen.number % 3 == 0 {
            true => Fault::Refuse(200, "SlowDown"),
            false => Fault::None,
        });
        let outcome = run(&job);
        let message = errors(&outcome, kind);
        assert!(
            message.len() == 1 && message[0].0 == "SlowDown (200)" && message[0].1 > 0,
            "{message:?}"
        );
    }
}

#[test]
fn a_starved_open_loop_counts_what_was_due() {
    let server = Server::start();
    let mut job = job(&server);
    // Nothing is ever written, so there is never anything to delete.
    job["mix"] = json!({"delete": 99.999_999_9, "put": 0.000_000_1});
    job["pool"] = json!(null);
    job["arrival"] = json!({"kind": "constant", "rate_iops": 1000.0});
    job["window_ns"] = json!(300_000_000);
    job["drain_timeout_ns"] = json!(200_000_000);
    let outcome = run(&job);
    let totals = &outcome.summary.totals["delete"];
    let intended = totals.intended.as_ref().unwrap();
    assert_eq!(intended.count, 300, "{:?}", outcome.summary.notes);
    // Each request waited from its due time until the end of sending.
    assert!(intended.min_ns >= 190_000_000, "{}", intended.min_ns);
    assert!(note(&outcome, "300 requests were due in the window and never sent"));
}
