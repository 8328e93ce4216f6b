//! Tests of the counters by endpoint and server address.

use http::Method;
use storlab_testing::Fault;

use super::*;

/// Sum a number over the rows of an endpoint and kind.
fn sum(outcome: &Outcome, endpoint: &str, kind: &str, number: &str) -> u64 {
    let rows = outcome.summary.details["endpoints"].as_array().unwrap();
    let own = rows.iter().filter(|row| row["endpoint"] == endpoint && row["kind"] == kind);
    own.map(|row| row[number].as_u64().unwrap()).sum()
}

#[test]
fn requests_errors_and_time_outs_count_where_they_went() {
    let server = Server::on(3);
    let (ports, names) = (server.ports.clone(), server.endpoints());
    let mut job = job(&server);
    fill(&job);
    // Long enough that requests to the first server do not fail on a stalled machine.
    job["request_timeout_ns"] = json!(1_000_000_000);
    job["window_ns"] = json!(2_000_000_000u64);
    let slow = ports[2];
    server.judge(move |seen| match seen.port {
        port if port == ports[1] => Fault::Refuse(503, "SlowDown"),
        port if port == ports[2] && seen.number % 4 == 0 => Fault::Stall,
        _ => Fault::None,
    });
    let outcome = serving(&job, 20, &["get"]);
    let totals = &outcome.summary.totals["get"];
    let each = |number| names.iter().map(|name| sum(&outcome, name, "get", number)).collect();
    let (requests, errors): (Vec<u64>, Vec<u64>) = (each("requests"), each("errors"));
    // A request that ends with the window may be counted in only one of the two.
    assert!(requests.iter().sum::<u64>().abs_diff(totals.operations) <= 4, "{requests:?}");
    let all: u64 = totals.errors.values().sum();
    assert!(errors.iter().sum::<u64>().abs_diff(all) <= 4, "{errors:?} of {all}");
    assert!(requests[0] > 0 && requests[1] == 0 && requests[2] > 0, "{requests:?}");
    assert!(errors[0] == 0 && errors[1] > 0 && errors[2] > 0, "{errors:?}");
    assert!(errors[2].abs_diff(totals.errors["time-out"]) <= 4, "{errors:?}");
    assert_eq!(sum(&outcome, &names[0], "get", "bytes"), 20_000 * requests[0]);
    let rows = outcome.summary.details["endpoints"].as_array().unwrap();
    let third = rows.iter().find(|row| row["endpoint"] == names[2].as_str()).unwrap();
    assert_eq!(third["address"], format!("127.0.0.1:{slow}"));
    let p99_ns = third["p99_ns"].as_u64().unwrap();
    assert!(p99_ns > 0 && p99_ns < 1_000_000_000, "time-outs are in no latency: {third}");
}

#[test]
fn an_endpoint_that_refuses_connections_has_no_address() {
    let server = Server::start();
    let mut job = job(&server);
    fill(&job);
    let refusing = "http://127.0.0.1:1";
    job["store"]["endpoints"].as_array_mut().unwrap().push(json!(refusing));
    let outcome = serving(&job, 1, &["get"]);
    assert!(sum(&outcome, refusing, "get", "errors") > 0);
    assert_eq!(sum(&outcome, &server.endpoints()[0], "get", "errors"), 0);
    let rows = outcome.summary.details["endpoints"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["address"].is_null() == (row["endpoint"] == refusing)));
}

#[test]
fn parts_that_end_with_their_upload_are_no_errors_of_their_endpoint() {
    let server = Server::on(3);
    let (ports, names) = (server.ports.clone(), server.endpoints());
    let mut job = job(&server);
    fill(&job);
    job["mix"] = json!({"get": 50, "put": 50});
    job["sizes"] = sizes(70_000);
    job["part_size"] = json!(20_000);
    job["part_concurrency"] = json!(3);
    // Parts stall at two endpoints until the third has refused one of its parts.
    server.judge(move |seen| match seen.query.contains_key("partNumber") {
        true if seen.port == ports[0] => Fault::Refuse(503, "SlowDown"),
        true if seen.method == Method::PUT => Fault::Stall,
        _ => Fault::None,
    });
    let outcome = serving(&job, 1, &["get"]);
    assert!(
        errors(&outcome, "put").iter().any(|(kind, count)| kind == "SlowDown (503)" && *count > 0)
    );
    for name in &names[1..] {
        assert_eq!(sum(&outcome, name, "part", "errors"), 0, "{name}");
        assert_eq!(sum(&outcome, name, "upload", "errors"), 0, "{name}");
    }
    let refused = ["part", "upload"].map(|kind| sum(&outcome, &names[0], kind, "errors"));
    assert!(refused.iter().sum::<u64>() > 0, "{refused:?}");
}

#[test]
fn preparing_counts_no_requests() {
    let server = Server::start();
    let outcome = fill(&job(&server));
    assert_eq!(outcome.summary.details["endpoints"], json!([]));
}
