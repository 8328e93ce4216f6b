//! Tests that each fault ends the run with a message that names the fault.

use std::time::Duration;

use serde_json::{Value, json};
use storlab_run::outcome::Status;

use crate::support::{FILE, PATHS, Rig, finish, number, remembering, simulated, told};

simulated! {
    fn a_fallback_to_posix_shows_in_the_route("", "posix=25") {
        let summary = Rig::new(2).good();
        assert_eq!(number(&summary, "route.posix_bytes"), FILE / 2);
        assert_eq!(number(&summary, "route.p2p_bytes"), 3 * FILE / 2);
    }
}

simulated! {
    fn the_compatible_mode_shows_in_the_route("", "compat=1,stats=1.18") {
        for (api, depth) in [("sync", 1), ("batch", 8), ("async", 8)] {
            let rig = Rig::new(2)
                .with(|j| (j["api"], j["queue_depth"]) = (json!(api), json!(depth)));
            let summary = rig.good();
            assert_eq!(number(&summary, "route.posix_bytes"), 2 * FILE, "{api}");
            assert_eq!(told(&summary, "route.by"), "cufile");
        }
    }
}

simulated! {
    fn writes_arrive_in_the_compatible_mode("", "compat=1") {
        for (api, depth) in [("sync", 1), ("batch", 8), ("async", 8)] {
            for register in [true, false] {
                let rig = Rig::new(2).with(|j| {
                    (j["api"], j["queue_depth"]) = (json!(api), json!(depth));
                    j["register"] = json!(register);
                    j["mix"] = json!({"read": 50.0, "write": 50.0});
                });
                let summary = rig.good();
                assert!(number(&summary, "read_back.bytes") >= 1 << 16, "{api} {register}");
                assert_eq!(number(&summary, "read_back.wrong"), 0, "{api} {register}");
            }
        }
    }
}

simulated! {
    fn a_library_that_counts_nothing_proves_nothing("", "stats=none") {
        let summary = Rig::new(2).good();
        assert_eq!(told(&summary, "route.by"), "none");
        let notes = &summary.notes;
        assert!(notes.iter().any(|note| note.contains("does not count")), "{notes:?}");
    }
}

simulated! {
    fn a_library_without_statistics_moves_data_all_the_same("", "") {
        let rig = Rig::new(2).with(|j| {
            let path = j["libraries"]["cufile"][0].as_str().unwrap();
            let old = path.replace("libcufile.so.0", "libcufile-1.14.so.0");
            j["libraries"]["cufile"] = json!(["/absent/libcufile.so.0", old]);
        });
        let summary = rig.good();
        assert_eq!(told(&summary, "libraries.cufile.version"), "1.14");
        assert_eq!(told(&summary, "route.by"), "none");
    }
}

simulated! {
    fn wrong_data_is_found_before_the_load("", "wrong=20K") {
        for (api, depth) in [("sync", 1), ("batch", 4), ("async", 4)] {
            let rig = Rig::new(1)
                .with(|j| (j["api"], j["queue_depth"]) = (json!(api), json!(depth)));
            let (message, summary) = rig.bad();
            assert!(message.starts_with("verify of f0 at offset 20480 failed"), "{message}");
            assert_eq!(number(&summary, "first_pass.wrong"), 4096);
            assert_eq!(number(&summary, "first_pass.bytes"), 1 << 16);
        }
    }
}

simulated! {
    fn data_that_never_came_is_missed_though_the_file_is_all_zeros("", "lost=20K") {
        for (api, depth) in [("sync", 1), ("batch", 4), ("async", 4)] {
            let rig = Rig::new(1)
                .with(|j| (j["api"], j["queue_depth"]) = (json!(api), json!(depth)));
            rig.put(0, &vec![0; FILE as usize]);
            let (message, summary) = rig.bad();
            assert!(message.starts_with("verify of f0 at offset 20480 failed"), "{message}");
            assert_eq!(number(&summary, "first_pass.wrong"), 4096, "{api}");
        }
    }
}

simulated! {
    fn a_file_that_was_found_wrong_is_looked_at_again("", "wrong=20K") {
        let rig = Rig::new(1).with(remembering);
        for _ in 0..2 {
            assert!(rig.bad().0.starts_with("verify of f0"));
        }
    }
}

simulated! {
    fn an_io_that_fails_ends_the_run("", "eio=512K") {
        for (api, depth) in [("sync", 1), ("batch", 4), ("async", 4)] {
            let rig = Rig::new(1).with(|j| {
                (j["api"], j["queue_depth"]) = (json!(api), json!(depth));
                j["offsets"] = json!({"kind": "sequential"});
            });
            let (message, summary) = rig.bad();
            assert!(message.contains("read of f0 at offset 524288 failed"), "{api}: {message}");
            let failure = summary.failure.unwrap();
            if api == "sync" {
                assert_eq!(failure.errno_name, Some("EIO"));
            } else {
                // Asynchronous failures carry no errno.
                assert!(message.contains("or cuFile refused the request"), "{api}: {message}");
                assert!(failure.fix.contains("cufile.log"), "{api}: {failure:?}");
            }
            assert!(summary.totals["read"].operations >= 120);
        }
    }
}

simulated! {
    fn a_write_that_a_stream_refuses_ends_the_run("", "error=WriteAsync:5022") {
        let (message, _) = Rig::new(1)
            .with(|j| {
                (j["api"], j["queue_depth"]) = (json!("async"), json!(4));
                j["mix"] = json!({"read": 0.0, "write": 100.0});
            })
            .bad();
        let parts = ["write of f0 at offset", "CU_FILE_INVALID_VALUE (5022)"];
        assert!(parts.iter().all(|part| message.contains(part)), "{message}");
    }
}

simulated! {
    fn an_io_that_ends_early_ends_the_run("", "short=514K") {
        let rig = Rig::new(1).with(|j| j["offsets"] = json!({"kind": "sequential"}));
        let (message, _) = rig.bad();
        assert!(message.contains("at offset 524288 moved 2048 of 4096 bytes"), "{message}");
    }
}

/// Assert that a run with this order fails with a message that contains all `parts`, and with a
/// fix.
fn says(path: &str, change: impl FnOnce(&mut Value), parts: &[&str]) {
    let rig = Rig::new(1).with(|j| j["path"] = json!(path)).with(change);
    let (message, summary) = rig.bad();
    for part in parts {
        assert!(message.contains(part), "{part}: {message}");
    }
    let advice = summary.failure.unwrap().fix;
    assert!(!advice.is_empty(), "{message}");
}

fn nothing(_: &mut Value) {}

simulated! {
    fn a_file_system_without_a_path_is_told_so("", "error=HandleRegister:5008") {
        says("direct", nothing, &["cuFileHandleRegister of f0", "CU_FILE_IO_NOT_SUPPORTED (5008)"]);
    }
}

simulated! {
    fn a_driver_that_is_not_there_is_told_so("", "compat=1,allow_compat=0") {
        says("direct", nothing, &["cuFileDriverOpen", "CU_FILE_DRIVER_NOT_INITIALIZED (5001)"]);
    }
}

simulated! {
    fn errors_of_cuda_under_cufile_are_named("", "error=BufRegister:2") {
        says("direct", nothing, &["cuFileBufRegister", "(5011)", "CUDA_ERROR_OUT_OF_MEMORY (2)"]);
    }
}

simulated! {
    fn an_error_of_an_io_is_named("", "error=Read:5022") {
        let all = |j: &mut Value| j["verify_bytes"] = json!(0);
        says("direct", all, &["read of f0 at offset", "CU_FILE_INVALID_VALUE (5022)"]);
    }
}

simulated! {
    fn a_batch_that_is_refused_is_named("", "error=BatchIOSubmit:5035") {
        let batch = |j: &mut Value| (j["api"], j["queue_depth"]) = (json!("batch"), json!(4));
        says("direct", batch, &["CU_FILE_BATCH_SUBMIT_FAILED (5035)"]);
    }
}

simulated! {
    fn a_batch_that_is_too_long_is_named("", "max_batch=16") {
        let batch = |j: &mut Value| (j["api"], j["queue_depth"]) = (json!("batch"), json!(32));
        says("direct", batch, &["cuFileBatchIOSetUp for 32 entries"]);
    }
}

simulated! {
    fn a_machine_without_a_gpu_is_told_so("no_device=1", "") {
        says("bounce", nothing, &["cuInit failed", "CUDA_ERROR_NO_DEVICE (100)"]);
    }
}

simulated! {
    fn a_gpu_that_is_not_there_is_named("gpus=2", "") {
        says("direct", |j| j["gpus"] = json!([2]), &["GPU 2", "CUDA_ERROR_INVALID_DEVICE (101)"]);
    }
}

simulated! {
    fn memory_that_is_used_up_is_named("oom=1", "") {
        for path in ["direct", "bounce", "bounce-overlapped"] {
            says(path, nothing, &["in GPU memory", "CUDA_ERROR_OUT_OF_MEMORY (2)"]);
        }
    }
}

simulated! {
    fn memory_that_will_not_do_is_told_before_it_is_taken("memory=64M,used=63M", "") {
        let many = |j: &mut Value| (j["workers"], j["workers_per_file"]) = (json!(32), json!(32));
        says("direct", many, &["buffers need 2 MB on GPU 0, of which 1 MB are free"]);
    }
}

simulated! {
    fn libraries_that_are_not_there_are_named("", "") {
        let cuda = |j: &mut Value| j["libraries"]["cuda"] = json!(["libabsent-cuda.so.1"]);
        says("bounce", cuda, &["the CUDA driver cannot be loaded", "libabsent-cuda.so.1"]);
        let cufile = |j: &mut Value| j["libraries"]["cufile"] = json!(["/absent/libcufile.so.0"]);
        says("direct", cufile, &["cuFile cannot be loaded", "/absent/libcufile.so.0"]);
        let wrong = |j: &mut Value| j["libraries"]["cufile"] = j["libraries"]["cuda"].clone();
        says("direct", wrong, &["cuFileDriverOpen"]);
    }
}

simulated! {
    fn a_gpu_that_is_lost_ends_the_run_and_not_the_next_one("lost_after=300", "") {
        for (path, depth) in [("bounce", 1), ("bounce-overlapped", 4)] {
            let rig = Rig::new(2).with(|j| {
                (j["path"], j["queue_depth"]) = (json!(path), json!(depth));
                j["verify_bytes"] = json!(0);
            });
            let (message, _) = rig.bad();
            assert!(message.contains("CUDA_ERROR_LAUNCH_FAILED (719)"), "{message}");
            if path == "bounce" {
                // The simulator loses the GPU again after 300 calls; this run makes fewer.
                rig.with(|j| j["window_bytes"] = json!(64 << 10)).good();
            }
        }
    }
}

simulated! {
    fn streams_on_a_lost_gpu_end("lost_after=4000", "") {
        let rig = Rig::new(2).with(|j| {
            (j["api"], j["queue_depth"]) = (json!("async"), json!(8));
            (j["verify_bytes"], j["window_bytes"]) = (json!(0), json!(1u64 << 40));
        });
        let (message, _) = rig.bad();
        assert!(message.contains("CUDA_ERROR_LAUNCH_FAILED (719)"), "{message}");
        rig.with(|j| (j["api"], j["queue_depth"], j["window_bytes"]) =
            (json!("sync"), json!(1), json!(FILE))).good();
    }
}

simulated! {
    /// The GPU is lost while operations are in flight: cuFile may still write to their parameters.
    fn an_operation_on_a_lost_gpu_keeps_its_parameters("lost_after=200", "latency_us=200000") {
        let rig = Rig::new(1).with(|j| {
            (j["api"], j["queue_depth"], j["verify_bytes"]) = (json!("async"), json!(4), json!(0));
        });
        let (message, _) = rig.bad();
        assert!(message.contains("CUDA_ERROR_LAUNCH_FAILED (719)"), "{message}");
    }
}

simulated! {
    fn a_gpu_that_does_not_come_back_is_told_so_again("lost_after=100,gone=1", "") {
        let rig = Rig::new(1).with(|j| (j["path"], j["window_bytes"]) =
            (json!("bounce"), json!(1u64 << 40)));
        for _ in 0..2 {
            let (message, summary) = rig.bad();
            assert!(message.contains("CUDA_ERROR_LAUNCH_FAILED (719)"), "{message}");
            assert!(summary.failure.unwrap().fix.contains("Xid"));
        }
        rig.with(|j| (j["path"], j["window_bytes"]) = (json!("host"), json!(FILE))).good();
    }
}

simulated! {
    fn a_driver_that_hangs_is_given_up("", "hang=open") {
        let rig = Rig::new(2).with(|j| j["open_timeout_ns"] = json!(100_000_000));
        let (message, _) = rig.bad();
        assert!(message.contains("cuFileDriverOpen does not return"), "{message}");
        let (message, _) = rig.bad();
        assert!(message.contains("earlier run"), "{message}");
        // Paths that do not use the driver still work.
        rig.with(|j| j["path"] = json!("bounce")).good();
    }
}

simulated! {
    fn a_run_can_be_cancelled_while_the_driver_hangs("", "hang=open") {
        let run = Rig::new(1).start();
        run.cancel();
        assert_eq!(finish(&run).summary.status, Status::Cancelled);
    }
}

/// Timeout far below the duration of any test.
const SHORT_NS: u64 = 200_000_000;

simulated! {
    fn a_file_that_never_gets_registered_ends_the_run_and_not_the_next_one(
        "", "hang=HandleRegister"
    ) {
        let rig = Rig::new(2).with(|j| j["arm_timeout_ns"] = json!(SHORT_NS));
        let (message, summary) = rig.bad();
        assert!(message.contains("2 of the workers did not get ready"), "{message}");
        assert!(summary.failure.unwrap().fix.contains("registers"));
        assert_eq!(summary.details["route"]["by"], "none");
        Rig::new(2).with(|j| j["path"] = json!("bounce")).good();
    }
}

simulated! {
    fn one_worker_that_hangs_is_left_and_the_others_end("", "hang=BufRegister:1") {
        let rig = Rig::new(3).with(|j| j["arm_timeout_ns"] = json!(SHORT_NS));
        let (message, _) = rig.bad();
        assert!(message.contains("of the workers did not get ready"), "{message}");
        // The simulator hangs one call only; the library is still open.
        Rig::new(3).good();
    }
}

simulated! {
    /// A read from a device that hangs might never return.
    fn after_a_write_that_hangs_nothing_is_read_back("", "hang=Read:1") {
        let rig = Rig::new(1).with(|j| {
            j["mix"] = json!({"read": 0.0, "write": 100.0});
            (j["api"], j["queue_depth"]) = (json!("async"), json!(2));
            j["drain_timeout_ns"] = json!(SHORT_NS);
        });
        let (message, summary) = rig.bad();
        assert!(message.contains("did not complete within"), "{message}");
        assert!(summary.totals["write"].operations > 0);
        assert_eq!(told(&summary, "read_back"), &Value::Null);
    }
}

/// Cancel a run that hangs after 300 ms, and assert that it ends as cancelled.
fn cancelled_in_time(rig: &Rig, what: &str) {
    let run = rig.start();
    std::thread::sleep(Duration::from_millis(300));
    run.cancel();
    let summary = finish(&run).summary;
    let ended = (summary.status, summary.failure.is_none());
    assert_eq!(ended, (Status::Cancelled, true), "{what}: {:?}", summary.failure);
}

simulated! {
    fn a_run_can_be_cancelled_while_a_file_is_registered("", "hang=HandleRegister") {
        cancelled_in_time(&Rig::new(2), "register");
    }
}

simulated! {
    fn a_run_can_be_cancelled_while_its_first_pass_hangs("", "hang=Read") {
        for (api, depth) in [("sync", 1), ("async", 1), ("async", 4)] {
            let rig = Rig::new(1)
                .with(|j| (j["api"], j["queue_depth"]) = (json!(api), json!(depth)));
            cancelled_in_time(&rig, api);
        }
    }
}

simulated! {
    fn a_run_can_be_cancelled_on_every_path("", "latency_us=100") {
        for (path, api, depth) in PATHS {
            let rig = Rig::new(2).with(|j| {
                (j["path"], j["api"], j["queue_depth"]) = (json!(path), json!(api), json!(depth));
                j["window_bytes"] = json!(1u64 << 50);
            });
            let run = rig.start();
            while run.snapshot().phase.name != "measure" {
                std::thread::yield_now();
            }
            run.cancel();
            assert_eq!(finish(&run).summary.status, Status::Cancelled, "{path} {api}");
        }
    }
}
