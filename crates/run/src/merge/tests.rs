//! Tests of merging, with made-up clients of a cluster.

use proptest::prelude::*;

use super::*;

const S: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;
type MadeRow = MergeRow<&'static str, Vec<u8>>;

/// Made-up measurements of one client, on its own clock.
#[derive(Clone, Debug)]
struct Client {
    name: String,
    offset_ns: i64,
    window: (u64, u64),
    rows: Vec<MadeRow>,
}

fn encoded(values: &[u64]) -> Vec<u8> {
    let mut histogram = Histogram::new();
    for &value in values {
        histogram.record(value);
    }
    histogram.to_v2()
}

/// Build a client whose window begins at `start_ns` on the controller's clock and whose interval
/// `i` has reads with `latencies[i]`.
fn client(name: &str, offset_ns: i64, start_ns: u64, latencies: &[Vec<u64>]) -> Client {
    let start_ns = start_ns.checked_add_signed(offset_ns).unwrap();
    let row = |(number, values): (usize, &Vec<u64>)| MergeRow {
        interval: number as u32,
        start_ns: start_ns + number as u64 * S,
        end_ns: start_ns + (number as u64 + 1) * S,
        kind: "read",
        operations: values.len() as u64,
        bytes: 4096 * values.len() as u64,
        latency: encoded(values),
        intended: Some(encoded(values)),
        worker_cpu_ns: 7,
        ttfb: None,
        errors: u64::from(number == 1),
    };
    let rows: Vec<MadeRow> = latencies.iter().enumerate().map(row).collect();
    Client {
        name: name.into(),
        offset_ns,
        window: (start_ns, start_ns + latencies.len() as u64 * S),
        rows,
    }
}

fn merged<'c>(clients: impl IntoIterator<Item = &'c Client>) -> Merged {
    let mut merger = Merger::new(S).unwrap();
    for client in clients {
        merger.add(&[given(client)]).unwrap();
    }
    merger.finish()
}

fn given(client: &Client) -> MergeClient<'_, &'static str, Vec<u8>> {
    MergeClient {
        name: &client.name,
        offset_ns: client.offset_ns,
        window_ns: client.window,
        rows: client.rows.clone(),
    }
}

fn three(count: usize) -> Vec<Vec<u64>> {
    (0..count).map(|number| vec![1000, 2000, 3000 + number as u64]).collect()
}

#[test]
fn one_client_alone_is_itself() {
    let mut alone = client("a", 5 * S as i64, 100 * S, &three(4));
    // The window is not a multiple of its intervals.
    alone.window.1 -= S / 3;
    alone.rows[3].end_ns -= S / 3;
    let merged = merged([&alone]);
    assert_eq!((merged.window_start_ns, merged.window_end_ns), (100 * S, 104 * S - S / 3));
    assert!((merged.kept_share - 1.0).abs() < 1e-12);
    assert_eq!((merged.clients, merged.left_out), (1, 0));
    let shifted: Vec<_> = alone
        .rows
        .iter()
        .map(|row| MergeRow {
            interval: row.interval,
            start_ns: row.start_ns - 5 * S,
            end_ns: row.end_ns - 5 * S,
            kind: row.kind.to_owned(),
            operations: row.operations,
            bytes: row.bytes,
            latency: row.latency.clone(),
            intended: row.intended.clone(),
            worker_cpu_ns: row.worker_cpu_ns,
            ttfb: row.ttfb.clone(),
            errors: row.errors,
        })
        .collect();
    assert_eq!(merged.rows, shifted);
    let totals = &merged.totals["read"];
    assert_eq!((totals.operations, totals.bytes, totals.errors["any kind"]), (12, 12 * 4096, 1));
    assert_eq!(totals.latency.as_ref().unwrap().count, 12);
    assert_eq!(totals.intended.as_ref().unwrap().p50_ns, totals.latency.as_ref().unwrap().p50_ns);
}

#[test]
fn some_ms_of_skew_cost_no_interval() {
    let starts = [100 * S, 100 * S + 3 * MS, 100 * S - 12 * MS - 500_000, 100 * S + 12 * MS];
    let clients: Vec<Client> = (0..4)
        .map(|n| client(&n.to_string(), n as i64 * 77 * S as i64, starts[n], &three(5)))
        .collect();
    let merged = merged(&clients);
    assert_eq!(merged.window_start_ns, 100 * S + 12 * MS);
    assert_eq!(merged.window_end_ns, 105 * S - 12 * MS - 500_000);
    assert_eq!((merged.left_out, merged.rows.len()), (0, 5));
    assert!(merged.rows.iter().all(|row| row.operations == 12 && row.worker_cpu_ns == 28));
    assert!(merged.kept_share > 0.99 && merged.kept_share < 0.996);
}

#[test]
fn what_lies_beyond_the_common_window_is_left_out_and_counted() {
    let early = client("early", 0, 100 * S, &three(10));
    let late = client("late", 0, 103 * S + 400 * MS, &three(10));
    let merged = merged([&early, &late]);
    assert_eq!(merged.window_start_ns, 103 * S + 400 * MS);
    // The grid has whole intervals only: the last 600 ms are not covered by both clients.
    assert_eq!(merged.window_end_ns, 109 * S + 400 * MS);
    assert_eq!(merged.rows.len(), 6);
    assert!(merged.rows.iter().all(|row| row.operations == 6));
    assert_eq!(merged.left_out, 4 + 4);
    assert!((merged.kept_share - 0.6).abs() < 1e-9);
}

#[test]
fn windows_without_a_common_time_give_nothing() {
    let merged = merged([&client("a", 0, 100 * S, &three(2)), &client("b", 0, 200 * S, &three(2))]);
    assert!(merged.rows.is_empty() && merged.totals.is_empty());
    assert_eq!((merged.window_start_ns, merged.window_end_ns), (200 * S, 200 * S));
    assert_eq!((merged.left_out, merged.kept_share), (4, 0.0));
    assert_eq!(Merger::new(S).unwrap().finish().clients, 0);
}

#[test]
fn fixed_work_ends_with_the_first_that_is_done() {
    let long = client("long", 0, 100 * S, &three(5));
    let mut short = client("short", 0, 100 * S, &three(3));
    short.window.1 -= S / 2;
    short.rows[2].end_ns -= S / 2;
    let merged = merged([&long, &short]);
    assert_eq!((merged.window_end_ns, merged.rows.len()), (102 * S, 2));
    assert_eq!(merged.left_out, 3 + 1);
}

#[test]
fn what_cannot_be_is_refused() {
    let good = client("a", 0, 100 * S, &three(2));
    let mut merger = Merger::new(S).unwrap();
    let mut add = |name: &str, offset_ns, window_ns, rows: Vec<MadeRow>| {
        merger.add(&[MergeClient { name, offset_ns, window_ns, rows }]).map_err(|e| e.to_string())
    };
    add("a", 0, good.window, good.rows.clone()).unwrap();
    assert!(add("a", 0, good.window, good.rows.clone()).unwrap_err().contains("added before"));
    assert!(add("b", 0, (2 * S, S), Vec::new()).unwrap_err().contains("before it begins"));
    assert!(add("b", i64::MIN, good.window, Vec::new()).unwrap_err().contains("offset_ns"));
    assert!(add("b", 200 * S as i64, good.window, Vec::new()).unwrap_err().contains("offset_ns"));
    assert!(add("b", 0, (0, u64::MAX), Vec::new()).unwrap_err().contains("not a time"));
    let mut damaged = good.rows.clone();
    damaged[0].latency.truncate(20);
    assert!(add("b", 0, good.window, damaged).unwrap_err().contains("HdrHistogram"));
    assert!(Merger::new(3).is_err() && Merger::new(u64::MAX).is_err());
}

fn latencies() -> impl Strategy<Value = Vec<Vec<u64>>> {
    prop::collection::vec(prop::collection::vec(1u64..10_000_000_000, 0..8), 3..6)
}

/// Generate clients that start within 1.2 s of each other, with different clocks.
fn cluster() -> impl Strategy<Value = Vec<Client>> {
    let drawn = (-1_000_000_000_000i64..1_000_000_000_000, 0u64..1200 * MS, latencies());
    prop::collection::vec(drawn, 1..6).prop_map(|all| {
        let make = |(number, (offset_ns, skew_ns, values)): (usize, (i64, u64, Vec<Vec<u64>>))| {
            client(&number.to_string(), offset_ns, 2000 * S + skew_ns, &values)
        };
        all.into_iter().enumerate().map(make).collect()
    })
}

proptest! {
    #[test]
    fn the_whole_is_the_sum_of_its_parts(values in prop::collection::vec(latencies(), 1..6)) {
        let length = values.iter().map(Vec::len).min().unwrap();
        let clients: Vec<Client> = values
            .iter()
            .enumerate()
            .map(|(n, v)| client(&n.to_string(), n as i64 * 13, 100 * S, &v[..length]))
            .collect();
        let merged = merged(&clients);
        prop_assert_eq!((merged.left_out, merged.rows.len()), (0, length));
        let mut all = Histogram::new();
        for row in &merged.rows {
            let mut sum = Histogram::new();
            for client in &clients {
                let part = &client.rows[row.interval as usize];
                sum.add(&Histogram::from_v2(&part.latency).unwrap());
            }
            prop_assert_eq!(&row.latency, &sum.to_v2());
            prop_assert_eq!(row.operations, sum.count());
            all.add(&sum);
        }
        let totals = &merged.totals["read"];
        prop_assert_eq!(totals.operations, all.count());
        if let Some(latency) = &totals.latency {
            prop_assert_eq!((latency.count, latency.p99_ns), (all.count(), all.percentile(99.0)));
        }
    }

    #[test]
    fn the_order_of_clients_does_not_matter(clients in cluster(), turn in 0usize..6) {
        let mut turned = clients.clone();
        turned.rotate_left(turn % clients.len());
        turned.reverse();
        let (first, second) = (merged(&clients), merged(&turned));
        let text = |m: &Merged| serde_json::to_string(m).unwrap();
        prop_assert_eq!(text(&first), text(&second));
        prop_assert_eq!(first.rows, second.rows);
    }

    #[test]
    fn clocks_that_differ_make_no_difference(
        clients in cluster(),
        shift in 0i64..1_000_000_000_000,
    ) {
        let moved: Vec<Client> = clients
            .iter()
            .map(|client| {
                let mut moved = client.clone();
                moved.offset_ns += shift;
                moved.window = (moved.window.0 + shift as u64, moved.window.1 + shift as u64);
                for row in &mut moved.rows {
                    row.start_ns += shift as u64;
                    row.end_ns += shift as u64;
                }
                moved
            })
            .collect();
        let (first, second) = (merged(&clients), merged(&moved));
        prop_assert_eq!(first.window_start_ns, second.window_start_ns);
        prop_assert_eq!(first.window_end_ns, second.window_end_ns);
        prop_assert_eq!(first.rows, second.rows);
    }

    #[test]
    fn nothing_is_lost_without_being_counted(clients in cluster()) {
        let merged = merged(&clients);
        let all: u64 = clients.iter().map(|client| client.rows.len() as u64).sum();
        let kept: u64 = merged.rows.iter().map(|row| row.worker_cpu_ns / 7).sum();
        prop_assert_eq!(kept + merged.left_out, all);
        // Every kept interval includes all clients.
        prop_assert!(merged.rows.iter().all(|row| row.worker_cpu_ns == 7 * clients.len() as u64));
        prop_assert!(merged.window_start_ns <= merged.window_end_ns);
    }
}
