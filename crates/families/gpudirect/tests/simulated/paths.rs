//! Tests of every data path and every cuFile API, against the simulators.

use serde_json::{Value, json};
use storlab_run::outcome::Summary;

use crate::support::{FILE, PATHS, Rig, number, remembering, simulated, told};

fn reads(rig: &Rig) -> Summary {
    let summary = rig.good();
    let reads = &summary.totals["read"];
    assert_eq!((reads.bytes, reads.operations), (2 * FILE, 2 * FILE / 4096));
    assert_eq!(number(&summary, "route.bytes"), 2 * FILE);
    assert_eq!(
        (number(&summary, "first_pass.files"), number(&summary, "first_pass.wrong")),
        (2, 0)
    );
    summary
}

/// Run a load of which half are writes, and read the writes back without cuFile.
fn writes(rig: Rig) {
    let rig = rig.with(|j| j["mix"] = json!({"read": 50.0, "write": 50.0}));
    let summary = rig.good();
    assert_eq!(summary.totals["read"].bytes + summary.totals["write"].bytes, 2 * FILE);
    assert!(summary.totals["write"].operations > 100);
    assert_eq!((number(&summary, "read_back.files"), number(&summary, "read_back.wrong")), (2, 0));
    assert!(number(&summary, "read_back.bytes") >= 1 << 16);
}

fn all_direct(summary: &Summary, way: &str) {
    assert_eq!(told(summary, "route.by"), "cufile");
    assert_eq!(number(summary, &format!("route.{way}")), 2 * FILE, "{:?}", summary.details);
    assert_eq!(number(summary, "route.posix_bytes"), 0);
}

fn api(name: &str, depth: usize) -> impl FnOnce(&mut Value) {
    move |j| (j["api"], j["queue_depth"]) = (json!(name), json!(depth))
}

simulated! {
    fn sync_reads_go_directly_and_are_proved("gpus=2", "") {
        let rig = Rig::new(2).with(|j| j["gpus"] = json!([1, 0]));
        let summary = reads(&rig);
        all_direct(&summary, "p2p_bytes");
        let numbers = [number(&summary, "gpus.0.number"), number(&summary, "gpus.1.number")];
        assert_eq!(numbers, [1, 0]);
        assert_eq!(told(&summary, "gpus.0.compute"), "9.0");
        assert_eq!(told(&summary, "libraries.cuda.version"), "12.4");
        assert_eq!(told(&summary, "libraries.cufile.version"), "1.20");
        assert_eq!(told(&summary, "libraries.cufile.compat_allowed"), true);
        let ops = |gpu| number(&summary, &format!("route.gpus.{gpu}.p2p_ops"));
        assert_eq!((ops(0), ops(1)), (FILE / 4096, FILE / 4096));
        assert_eq!(number(&summary, "registration.buffers"), 2);
        assert_eq!(number(&summary, "registration.handles"), 2);
        assert_eq!(number(&summary, "registration.bytes"), 2 * 65536);
        assert_eq!(summary.engine.backend, Some("cufile"));
    }
}

simulated! {
    fn runs_of_one_process_come_one_after_the_other("", "route=nvfs,version=1150") {
        let rig = Rig::new(2).with(|j| j["register"] = json!(false));
        for _ in 0..3 {
            let summary = reads(&rig);
            all_direct(&summary, "nvfs_bytes");
            assert_eq!(number(&summary, "registration.buffers"), 0);
            assert_eq!(told(&summary, "libraries.cufile.nvfs_version"), "2.26");
        }
    }
}

simulated! {
    fn sync_writes_hold_the_content("", "") {
        writes(Rig::new(2));
    }
}

simulated! {
    fn batches_move_everything("", "") {
        all_direct(&reads(&Rig::new(2).with(api("batch", 32))), "p2p_bytes");
        writes(Rig::new(2).with(api("batch", 7)));
    }
}

simulated! {
    fn streams_move_everything("", "") {
        all_direct(&reads(&Rig::new(2).with(api("async", 8))), "p2p_bytes");
        all_direct(&reads(&Rig::new(2).with(api("async", 1))), "p2p_bytes");
        writes(Rig::new(2).with(api("async", 4)));
    }
}

simulated! {
    fn the_bounce_path_needs_no_cufile("gpus=2", "") {
        let bounce = |j: &mut Value| {
            j["path"] = json!("bounce");
            j["libraries"]["cufile"] = json!([]);
            j["gpus"] = json!([0, 1]);
        };
        let summary = reads(&Rig::new(2).with(bounce));
        assert_eq!(told(&summary, "route.by"), "none");
        assert_eq!(told(&summary, "libraries.cufile"), &Value::Null);
        assert_eq!(summary.engine.backend, Some("cuda"));
        writes(Rig::new(2).with(bounce));
    }
}

simulated! {
    fn the_overlapped_path_moves_everything("copy_gb_s=2", "") {
        for depth in [1, 2, 16] {
            let overlapped = |j: &mut Value| {
                j["path"] = json!("bounce-overlapped");
                j["queue_depth"] = json!(depth);
            };
            reads(&Rig::new(2).with(overlapped));
            writes(Rig::new(2).with(overlapped));
        }
    }
}

simulated! {
    fn a_copy_that_lands_late_spoils_no_data_of_the_first_pass("lazy=1", "") {
        for (path, api, depth) in PATHS {
            reads(&Rig::new(2).with(|j| {
                (j["path"], j["api"], j["queue_depth"]) = (json!(path), json!(api), json!(depth));
            }));
        }
    }
}

simulated! {
    fn all_that_writes_are_sent_from_lies_in_the_gpu_before_the_load("lazy=1", "") {
        const LONG: u64 = 16 << 20; // covers all of that memory
        let rig = Rig::new(1).with(|j| {
            j["mix"] = json!({"read": 0.0, "write": 100.0});
            (j["offsets"], j["block_sizes"][0]["bytes"]) =
                (json!({"kind": "sequential"}), json!(1 << 20));
            j["members"][0]["size"] = json!(LONG);
            (j["window_bytes"], j["verify_bytes"]) = (json!(LONG), json!(LONG));
        });
        rig.put(0, &vec![0; LONG as usize]);
        let summary = rig.good();
        assert_eq!(number(&summary, "read_back.bytes"), LONG);
        assert_eq!(number(&summary, "read_back.wrong"), 0);
    }
}

simulated! {
    fn every_path_keeps_an_open_loop("", "") {
        for (path, api, depth) in PATHS {
            let rig = Rig::new(2).with(|j| {
                (j["path"], j["api"], j["queue_depth"]) = (json!(path), json!(api), json!(depth));
                j["arrival"] = json!({"kind": "poisson", "rate_iops": 20_000.0});
            });
            let summary = reads(&rig);
            let intended = summary.totals["read"].intended.as_ref().unwrap();
            assert_eq!(intended.count, 2 * FILE / 4096, "{path} {api}");
        }
    }
}

simulated! {
    fn a_thousand_workers_run_together("", "") {
        let rig = Rig::new(4).with(|j| {
            (j["workers"], j["workers_per_file"]) = (json!(1024), json!(256));
            j["offsets"] = json!({"kind": "permutation"});
            j["window_bytes"] = json!(4 * FILE);
        });
        let summary = rig.good();
        assert_eq!(summary.totals["read"].bytes, 4 * FILE);
        assert_eq!(number(&summary, "registration.handles"), 1024);
        assert_eq!(number(&summary, "route.p2p_bytes"), 4 * FILE);
    }
}

simulated! {
    fn blocks_that_are_no_whole_pages_go_all_ways("", "") {
        for (path, api, depth) in
            [("direct", "sync", 1), ("direct", "batch", 4), ("bounce-overlapped", "sync", 4)]
        {
            let rig = Rig::new(1).with(|j| {
                (j["path"], j["api"], j["queue_depth"]) = (json!(path), json!(api), json!(depth));
                j["block_sizes"][0]["bytes"] = json!(1536);
                j["mix"] = json!({"read": 50.0, "write": 50.0});
                j["window_bytes"] = json!(1536 * 300);
            });
            let summary = rig.good();
            let moved = summary.totals["read"].bytes + summary.totals["write"].bytes;
            assert_eq!(moved, 1536 * 300);
            assert_eq!(number(&summary, "read_back.wrong"), 0);
        }
    }
}

simulated! {
    fn lengths_are_mixed_on_all_ways("", "") {
        for (path, api, depth) in PATHS.into_iter().chain([("host", "sync", 1)]) {
            let rig = Rig::new(1).with(|j| {
                (j["path"], j["api"], j["queue_depth"]) = (json!(path), json!(api), json!(depth));
                j["block_sizes"] =
                    json!([{"bytes": 4096, "weight": 3.0}, {"bytes": 16384, "weight": 1.0}]);
                j["mix"] = json!({"read": 50.0, "write": 50.0});
            });
            let summary = rig.good();
            let all = [&summary.totals["read"], &summary.totals["write"]];
            let (bytes, operations) =
                all.iter().fold((0, 0), |sum, t| (sum.0 + t.bytes, sum.1 + t.operations));
            assert!((2 * FILE..2 * FILE + depth as u64 * 16384).contains(&bytes), "{bytes}");
            assert_eq!((bytes - 4096 * operations) % 12288, 0, "{path} {api}");
            let mean = bytes / operations;
            assert!((6000..8500).contains(&mean), "{path} {api}: {mean}"); // 7,168 by the weights
            assert_eq!(number(&summary, "first_pass.bytes"), 1 << 16);
            assert_eq!(number(&summary, "first_pass.wrong"), 0);
            assert!(number(&summary, "read_back.bytes") >= 1 << 14);
            assert_eq!(number(&summary, "read_back.wrong"), 0);
        }
    }
}

simulated! {
    fn a_file_has_its_first_pass_once_unless_it_changes("", "") {
        let rig = Rig::new(2).with(remembering);
        let passed = |rig: &Rig| {
            let summary = rig.good();
            (number(&summary, "first_pass.files"), number(&summary, "first_pass.earlier"))
        };
        assert_eq!(passed(&rig), (2, 0));
        assert_eq!(passed(&rig), (0, 2));
        rig.put(1, &rig.file(1)); // same bytes, but a new modification time
        assert_eq!(passed(&rig), (1, 1));
        let rig = rig.with(api("async", 4)); // another path into the GPU
        assert_eq!(passed(&rig), (2, 0));
        let rig = rig.with(|j| j["mix"] = json!({"read": 50.0, "write": 50.0}));
        assert_eq!(passed(&rig), (2, 0));
        assert_eq!(passed(&rig), (2, 0)); // the run before wrote
        let rig = rig.with(|j| j["mix"] = json!({"read": 100.0, "write": 0.0}));
        assert_eq!(passed(&rig), (2, 0));
        assert_eq!(passed(&rig), (0, 2));
    }
}

simulated! {
    fn operations_that_take_longer_than_a_look_are_waited_for("", "latency_us=150000") {
        for name in ["batch", "async"] {
            let rig = Rig::new(1).with(api(name, 2)).with(|j| {
                (j["verify_bytes"], j["window_bytes"]) = (json!(0), json!(4 * 4096));
            });
            assert_eq!(rig.good().totals["read"].operations, 4, "{name}");
        }
    }
}

simulated! {
    /// A spinning core would count as CPU use of the client.
    fn waiting_for_the_only_transfer_of_a_stream_spins_on_no_core("no_spin=1", "latency_us=100") {
        for depth in [1, 4] {
            let rig = Rig::new(1)
                .with(|j| (j["api"], j["queue_depth"]) = (json!("async"), json!(depth)));
            rig.good();
        }
    }
}
