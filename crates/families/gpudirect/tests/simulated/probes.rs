//! Tests of probe runs.

use serde_json::{Value, json};
use storlab_run::outcome::Status;

use crate::support::{Rig, number, simulated, told};

fn probe(rig: Rig) -> Rig {
    rig.with(|j| (j["do"], j["open_timeout_ns"]) = (json!("probe"), json!(100_000_000)))
}

simulated! {
    fn a_probe_tells_gpus_libraries_and_ways("gpus=3,memory=2G,used=1G", "") {
        let summary = probe(Rig::new(0)).good();
        assert_eq!(told(&summary, "gpus").as_array().unwrap().len(), 3);
        assert_eq!(number(&summary, "gpus.2.number"), 2);
        assert_eq!(number(&summary, "gpus.2.memory_bytes"), 2 << 30);
        assert_eq!(number(&summary, "gpus.2.free_bytes"), 1 << 30);
        assert_eq!(told(&summary, "libraries.cufile.p2pdma"), true);
        assert_eq!(number(&summary, "libraries.cufile.max_batch"), 128);
        assert_eq!(told(&summary, "p2p.nvme"), &json!(["p2pdma"]));
        assert!(told(&summary, "p2p.storage").as_array().unwrap().contains(&json!("nvme")));
    }
}

simulated! {
    fn a_probe_of_a_hanging_driver_ends("", "hang=open") {
        let summary = probe(Rig::new(0)).good();
        let what = told(&summary, "libraries.cufile.error.what").as_str().unwrap();
        assert!(what.contains("does not return"), "{what}");
        assert_eq!(number(&summary, "gpus.0.number"), 0);
    }
}

simulated! {
    fn a_probe_without_a_gpu_says_what_is_missing("no_device=1", "compat=1,allow_compat=0") {
        let summary = probe(Rig::new(0)).good();
        let what = |library: &str| {
            let path = format!("libraries.{library}.error.what");
            told(&summary, &path).as_str().unwrap().to_owned()
        };
        assert!(what("cuda").contains("CUDA_ERROR_NO_DEVICE (100)"));
        assert!(what("cufile").contains("cuFileDriverOpen"));
        assert_eq!(summary.status, Status::Finished);
    }
}

simulated! {
    fn without_a_gpu_nobody_waits_for_cufile("no_device=1", "hang=open") {
        let summary = probe(Rig::new(0)).good();
        let what = told(&summary, "libraries.cufile.error.what").as_str().unwrap();
        assert!(what.contains("was not called"), "{what}");
        assert!(!what.contains("does not return"), "{what}");
    }
}

simulated! {
    fn a_gpu_that_cannot_be_opened_hides_no_other("gpus=3,held=1", "") {
        let summary = probe(Rig::new(0)).good();
        let gpus = told(&summary, "gpus").as_array().unwrap();
        let numbers: Vec<&Value> = gpus.iter().map(|gpu| &gpu["number"]).collect();
        assert_eq!(numbers, [0, 2]);
        let what = told(&summary, "libraries.cuda.error.what").as_str().unwrap();
        assert!(what.contains("GPU 1") && what.contains("DEVICE_UNAVAILABLE (46)"), "{what}");
        assert_eq!(told(&summary, "libraries.cufile.p2pdma"), true);
    }
}

#[test]
fn a_probe_of_a_bare_machine_ends_well() {
    let rig = probe(Rig::new(0)).with(|j| j["libraries"] = json!({}));
    let summary = rig.good();
    for library in ["cuda", "cufile"] {
        let fix = told(&summary, &format!("libraries.{library}.error.fix"));
        assert!(!fix.as_str().unwrap().is_empty());
    }
    assert_eq!(told(&summary, "gpus"), &json!([]));
}
