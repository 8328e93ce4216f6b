//! Support for the tests: simulators, test files and orders.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::{Value, json};
use storlab_run::outcome::{Outcome, Status, Summary};
use storlab_run::{Run, Secrets};

const CHILD: &str = "STORLAB_TEST_CHILD";
pub const BLOCK: u64 = 4096;
pub const FILE: u64 = 1 << 20;
/// Path, API and queue depth of every way into the GPU.
pub const PATHS: [(&str, &str, usize); 5] = [
    ("direct", "sync", 1),
    ("direct", "batch", 8),
    ("direct", "async", 8),
    ("bounce", "sync", 1),
    ("bounce-overlapped", "sync", 8),
];

/// Return the directory of the simulators, which are built once.
fn simulators() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        let into = Path::new(env!("CARGO_TARGET_TMPDIR")).join("gpu-simulators");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/simulators/gpu.sh");
        let built = Command::new("sh").arg(script).arg(&into).output().unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        into
    };
    std::env::var_os(CHILD).map_or_else(|| BUILT.get_or_init(build).clone(), PathBuf::from)
}

/// Run a test's body in a child process with these settings of the simulators.
pub fn in_child(name: &str, cuda: &str, cufile: &str, body: impl FnOnce()) {
    if std::env::var_os(CHILD).is_some() {
        body();
        return;
    }
    let name = name.split_once("::").map_or(name, |(_, rest)| rest);
    let child = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture"])
        .env(CHILD, simulators())
        .env("STORLAB_SIM_CUDA", cuda)
        .env("STORLAB_SIM_CUFILE", cufile)
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&child.stdout);
    assert!(
        child.status.success() && printed.contains("1 passed"),
        "{}: {printed}{}",
        child.status,
        String::from_utf8_lossy(&child.stderr)
    );
}

/// Define a test that runs in a child process with the simulators.
macro_rules! simulated {
    ($(#[$doc:meta])* fn $name:ident($cuda:literal, $cufile:literal) $body:block) => {
        $(#[$doc])*
        #[test]
        fn $name() {
            let name = concat!(module_path!(), "::", stringify!($name));
            $crate::support::in_child(name, $cuda, $cufile, || $body);
        }
    };
}
pub(crate) use simulated;

/// Files of 1 MiB with distinct content at each offset, and a job that reads them.
pub struct Rig {
    directory: tempfile::TempDir,
    pub order: Value,
}

pub fn bytes_of(file: usize) -> Vec<u8> {
    let word = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (file as u64) << 56;
    (0..FILE / 8).flat_map(|n| word(n).to_le_bytes()).collect()
}

impl Rig {
    pub fn new(files: usize) -> Self {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let members: Vec<Value> = (0..files)
            .map(|number| {
                let path = directory.path().join(format!("f{number}"));
                fs::write(&path, bytes_of(number)).unwrap();
                json!({"path": path, "name": format!("f{number}"), "kind": "file", "size": FILE})
            })
            .collect();
        let place = |name: &str| [simulators().join(name).display().to_string()];
        let order = json!({
            "version": 1, "do": "load", "members": members, "path": "direct", "api": "sync",
            "mix": {"read": 100.0, "write": 0.0}, "offsets": {"kind": "uniform"},
            "block_sizes": [{"bytes": BLOCK, "weight": 1.0}],
            "workers": files, "workers_per_file": 1, "queue_depth": 1,
            "gpus": [0], "register": true, "arrival": {"kind": "closed", "rate_iops": null},
            "cpus": null, "verify_bytes": 1 << 16,
            "libraries": {"cufile": place("libcufile.so.0"), "cuda": place("libcuda.so.1")},
            "direct": true, "ramp_ns": 0, "window_ns": null, "window_bytes": 2 * FILE,
            "interval_ns": 1_000_000_000, "drain_timeout_ns": 20_000_000_000u64, "seed": 5,
        });
        Rig { directory, order }
    }

    pub fn with(mut self, change: impl FnOnce(&mut Value)) -> Self {
        change(&mut self.order);
        self
    }

    pub fn file(&self, number: usize) -> Vec<u8> {
        fs::read(self.directory.path().join(format!("f{number}"))).unwrap()
    }

    pub fn put(&self, number: usize, content: &[u8]) {
        fs::write(self.directory.path().join(format!("f{number}")), content).unwrap();
    }

    pub fn start(&self) -> Run {
        storlab_gpudirect::start(&self.order.to_string(), &Secrets::new(), false).unwrap()
    }

    pub fn run(&self) -> Outcome {
        finish(&self.start())
    }

    /// Run, and assert that the run finishes.
    pub fn good(&self) -> Summary {
        let summary = self.run().summary;
        assert_eq!(summary.status, Status::Finished, "{:?}", summary.failure);
        summary
    }

    /// Run, and assert that the run fails. Return the message of the failure and the summary.
    pub fn bad(&self) -> (String, Summary) {
        let summary = self.run().summary;
        assert_eq!(summary.status, Status::Failed);
        let failure = summary.failure.clone().unwrap();
        (failure.message, summary)
    }
}

/// Make runs of this order record which files passed the first pass.
pub fn remembering(order: &mut Value) {
    let file = Path::new(order["members"][0]["path"].as_str().unwrap());
    order["checked"] = json!(file.with_file_name("checked"));
}

pub fn finish(run: &Run) -> Outcome {
    assert!(run.wait(Some(Duration::from_mins(1))), "the run goes on for ever");
    run.outcome().unwrap()
}

/// Return a value in the details by its path, for example `route.posix_bytes`.
pub fn told<'s>(summary: &'s Summary, path: &str) -> &'s Value {
    let (first, rest) =
        path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let mut value = summary.details.get(first).unwrap_or(&Value::Null);
    for step in rest.iter().flat_map(|rest| rest.split('.')) {
        value = match step.parse::<usize>() {
            Ok(index) => &value[index],
            Err(_) => &value[step],
        };
    }
    value
}

pub fn number(summary: &Summary, path: &str) -> u64 {
    told(summary, path).as_u64().unwrap_or_else(|| panic!("{path}: {:?}", summary.details))
}
