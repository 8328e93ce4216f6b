//! Tests with several groups of requests at the same time.

use super::*;

fn order(groups: &[(&str, &Value)]) -> Value {
    let groups: Vec<_> =
        groups.iter().map(|(name, job)| json!({"name": name, "job": job})).collect();
    json!({"version": 1, "interval_ns": 50_000_000, "groups": groups})
}

/// Return an order of PUTs only, one in flight.
fn writer(server: &Server) -> Value {
    let mut job = job(server);
    job["mix"] = json!({"put": 100});
    job["concurrency"] = json!(1);
    job["threads"] = json!(1);
    job
}

#[test]
fn groups_run_at_the_same_time_and_are_counted_apart() {
    let server = Server::start();
    let readers = job(&server);
    fill(&readers);
    let mut writers = writer(&server);
    writers["sizes"] = sizes(1000);
    writers["arrival"] = json!({"kind": "constant", "rate_iops": 50.0});
    let outcome = good(&order(&[("readers", &readers), ("writers", &writers)]));
    let summary = &outcome.summary;
    let (gets, puts) = (&summary.groups["readers"]["get"], &summary.groups["writers"]["put"]);
    assert_eq!((summary.groups["readers"].len(), summary.groups["writers"].len()), (1, 1));
    assert!(gets.operations > 0 && gets.ttfb.is_some() && gets.intended.is_none());
    // 50 PUTs per second are due in 800 ms, however many the readers' closed loop sends.
    assert!((1..=40).contains(&puts.operations) && puts.intended.is_some(), "{puts:?}");
    assert_eq!(puts.bytes, puts.operations * 1000);
    for (kind, own) in [("get", gets), ("put", puts)] {
        let whole = &summary.totals[kind];
        assert_eq!((whole.operations, whole.bytes), (own.operations, own.bytes));
    }
    let by_worker = summary.by_worker.as_ref().unwrap();
    assert_eq!((by_worker.operations.len(), by_worker.operations[2]), (3, puts.operations));
    let rows = |group| outcome.rows.iter().filter(move |row| row.group.as_deref() == group);
    let sum = |group| rows(group).map(|row| row.operations).sum::<u64>();
    assert_eq!(sum(Some("writers")), puts.operations);
    assert_eq!(sum(None), sum(Some("readers")) + puts.operations);
    assert_eq!(detail(&outcome, "threads"), 3);
}

#[test]
fn no_group_reads_or_deletes_what_another_wrote() {
    let server = Server::start();
    let mut readers = writer(&server);
    readers["pool"]["objects"] = json!(0);
    readers["mix"] = json!({"get": 50, "put": 50});
    readers["join_pool"] = json!(true);
    let mut deleters = writer(&server);
    deleters["pool"] = json!(null);
    deleters["mix"] = json!({"put": 50, "delete": 50});
    deleters["sizes"] = sizes(3000);
    deleters["seed"] = json!(2);
    let outcome = good(&order(&[("readers", &readers), ("deleters", &deleters)]));
    // Reads are verified, so that an object of another size or key would be an error.
    assert_eq!(all_errors(&outcome), 0, "{:?}", outcome.summary.details["error_examples"]);
    let groups = &outcome.summary.groups;
    assert!(groups["readers"]["get"].operations > 0, "{groups:?}");
    assert!(groups["deleters"]["delete"].operations > 0, "{groups:?}");
    let puts = ["readers", "deleters"].map(|name| groups[name]["put"].operations);
    assert_eq!(operations(&outcome, "put"), puts.iter().sum::<u64>());
    let held = server.held();
    let left = |bytes: usize| held.objects.values().filter(|object| object.len() == bytes).count();
    // Requests that end after the window are in no total, hence "at least".
    assert!(left(20_000) as u64 >= puts[0], "{} of {}", left(20_000), puts[0]);
}
