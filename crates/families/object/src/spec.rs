//! Job description (JSON) of one run against an object store.

use std::collections::BTreeMap;

use serde::Deserialize;
use storlab_base::{Error, Pattern, Result};
use storlab_run::order::{Arrival, Order, require, require_short};
use storlab_s3::StoreSpec;

use super::kind::ObjectKind;
use super::names::{Names, PoolSpec};
use super::sizes::{Sizes, SizesSpec};

/// Purpose of a run: load, preparation or clean-up.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    /// Generate load and measure it.
    #[default]
    Run,
    /// Write the missing objects of the pool.
    Fill,
    /// Delete everything below the write prefix.
    Clean,
}

/// Percentages of requests by kind.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
#[allow(missing_docs)]
pub struct ObjectMix {
    pub get: f64,
    pub put: f64,
    pub head: f64,
    pub list: f64,
    pub delete: f64,
    pub multi_delete: f64,
}

impl ObjectMix {
    /// Return the percentages in the order of [`ObjectKind::ALL`].
    pub fn shares(self) -> [f64; 6] {
        [self.get, self.put, self.head, self.list, self.delete, self.multi_delete]
    }
}

/// How the body of a PUT is signed and sent.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum PayloadMode {
    /// `UNSIGNED-PAYLOAD`: the signature does not cover the body.
    #[default]
    Unsigned,
    /// The signature covers the SHA-256 of the whole body.
    Signed,
    /// The body is sent in chunks, each with its own signature.
    Streaming,
    /// The body is followed by its CRC32, in a trailer.
    TrailerCrc,
}

/// Policy that selects the endpoint of a request.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Routing {
    /// Round robin: endpoints take turns.
    #[default]
    RoundRobin,
    /// The endpoint with the fewest requests of this process in flight.
    LeastBusy,
}

/// Job description of one run against an object store.
#[derive(Clone, Debug, Deserialize)]
#[allow(missing_docs)]
pub struct ObjectJob {
    #[serde(default)]
    pub ramp_ns: u64,
    pub interval_ns: u64,
    pub drain_timeout_ns: u64,
    pub seed: u64,
    #[serde(default)]
    pub task: Task,
    pub store: StoreSpec,
    #[serde(default)]
    pub pool: Option<PoolSpec>,
    pub write_prefix: String,
    #[serde(default)]
    pub sizes: Option<SizesSpec>,
    #[serde(default)]
    pub mix: ObjectMix,
    #[serde(default = "single")]
    pub concurrency: usize,
    #[serde(default)]
    pub lanes: Option<BTreeMap<String, usize>>,
    #[serde(default)]
    pub threads: Option<usize>,
    pub keys: Pattern,
    #[serde(default)]
    pub join_pool: bool,
    #[serde(default)]
    pub part_size: Option<u64>,
    #[serde(default = "single")]
    pub part_concurrency: usize,
    #[serde(default)]
    pub range_size: Option<u64>,
    #[serde(default = "thousand")]
    pub list_max_keys: u32,
    #[serde(default = "hundred")]
    pub delete_batch: usize,
    pub arrival: Arrival,
    #[serde(default)]
    pub payload: PayloadMode,
    #[serde(default)]
    pub routing: Routing,
    pub request_timeout_ns: u64,
    #[serde(default)]
    pub retries: u32,
    #[serde(default)]
    pub backoff_ns: u64,
    #[serde(default)]
    pub verify: bool,
    #[serde(default)]
    pub window_ns: Option<u64>,
}

pub(crate) fn single<T: From<u8>>() -> T {
    T::from(1)
}

fn hundred() -> usize {
    100
}

fn thousand() -> u32 {
    1000
}

/// Maximum number of requests in flight.
pub(crate) const CONCURRENCY_MAX: usize = 65_535;
/// Maximum number of parts of a multipart upload; a limit of S3.
const PARTS_MAX: u64 = 10_000;
/// Keys have 8 hexadecimal digits for the object's number and 4 for its shard (key prefix).
const OBJECTS_MAX: u64 = 1 << 32;
const SHARDS_MAX: u64 = 1 << 16;

impl Order for ObjectJob {
    fn check(&self) -> Result<()> {
        self.check_numbers()?;
        self.check_pool()?;
        self.check_task()?;
        self.check_lanes()?;
        self.check_sizes()
    }
}

impl ObjectJob {
    fn check_numbers(&self) -> Result<()> {
        let is = |number: u64| move || format!("{number} is out of bounds");
        let all = 1..=CONCURRENCY_MAX;
        let fix = "use 1 to 65,535";
        require(all.contains(&self.concurrency), "concurrency", is(self.concurrency as u64), fix)?;
        let threads = self.threads.unwrap_or(1);
        require(all.contains(&threads), "threads", is(threads as u64), fix)?;
        let parts = self.part_concurrency;
        require(
            (1..=1000).contains(&parts),
            "part_concurrency",
            is(parts as u64),
            "use 1 to 1,000",
        )?;
        require(self.request_timeout_ns > 0, "request_timeout_ns", is(0), "use at least 1")?;
        require(self.part_size != Some(0), "part_size", is(0), "use at least 1, or omit it")?;
        require(self.range_size != Some(0), "range_size", is(0), "use at least 1, or omit it")?;
        let keys = self.list_max_keys;
        require((1..=1000).contains(&keys), "list_max_keys", is(keys.into()), "use 1 to 1,000")?;
        let batch = self.delete_batch;
        require((1..=1000).contains(&batch), "delete_batch", is(batch as u64), "use 1 to 1,000")?;
        require_short(&[
            ("ramp_ns", self.ramp_ns),
            ("window_ns", self.window_ns.unwrap_or(0)),
            ("drain_timeout_ns", self.drain_timeout_ns),
            ("request_timeout_ns", self.request_timeout_ns),
            ("backoff_ns", self.backoff_ns),
        ])?;
        self.arrival.check()
    }

    fn check_pool(&self) -> Result<()> {
        let drawn = !matches!(self.keys, Pattern::Sequential | Pattern::Permutation);
        let what = || "sequential keys are not supported for objects".into();
        require(drawn, "keys", what, "use uniform, zipf or hot_cold")?;
        let slash = "end it with a slash";
        let quoted = |prefix: &String| format!("{prefix:?} has no slash at its end");
        let prefix = &self.write_prefix;
        require(prefix.ends_with('/'), "write_prefix", || quoted(prefix), slash)?;
        let Some(pool) = &self.pool else { return Ok(()) };
        require(pool.prefix.ends_with('/'), "pool.prefix", || quoted(&pool.prefix), slash)?;
        let (objects, shards) = (pool.objects, pool.shards);
        let is = |number: u64| move || format!("{number} is out of bounds");
        require(objects <= OBJECTS_MAX, "pool.objects", is(objects), "use up to 2^32")?;
        require((1..=SHARDS_MAX).contains(&shards), "pool.shards", is(shards), "use 1 to 65,536")
    }

    fn check_task(&self) -> Result<()> {
        if self.task != Task::Run {
            let what = || "task fill writes the objects of a pool, but there is none".into();
            return require(
                self.task == Task::Clean || self.pool.is_some(),
                "pool",
                what,
                "describe the pool",
            );
        }
        let window = self.window_ns.unwrap_or(0);
        let what = || "a run needs a measure window".into();
        require(window > 0, "window_ns", what, "use more than 0")?;
        let shares = self.mix.shares();
        if self.lanes.is_none() {
            let total: f64 = shares.iter().sum();
            let (good, what) = ((total - 100.0).abs() < 1e-6, || format!("adds up to {total} %"));
            require(good, "mix", what, "change the percentages to add up to 100 %")?;
            let negative = shares.iter().any(|&share| share < 0.0);
            require(!negative, "mix", || "a percentage is negative".into(), "use 0 to 100")?;
        }
        let kinds = self.kinds();
        let puts = kinds.contains(&ObjectKind::Put);
        let what = || "PUTs need object sizes, but there are none".into();
        require(!puts || self.sizes.is_some(), "sizes", what, "describe the sizes")?;
        let full = self.pool.as_ref().is_some_and(|pool| pool.objects > 0);
        for kind in kinds {
            let fed = match kind {
                ObjectKind::Get | ObjectKind::Head => full || (puts && self.join_pool),
                ObjectKind::Delete | ObjectKind::MultiDelete => full || puts,
                ObjectKind::Put | ObjectKind::List => true,
            };
            let what = || format!("{} needs objects, but there are none", kind.name());
            let fix = "use a pool with objects, or add PUTs and (to read them) join_pool";
            require(fed, "pool.objects", what, fix)?;
        }
        Ok(())
    }

    fn check_lanes(&self) -> Result<()> {
        let Some(lanes) = self.lanes.as_ref().filter(|_| self.task == Task::Run) else {
            return Ok(());
        };
        for name in lanes.keys() {
            let what = || format!("{name} is not a request kind");
            let fix = "use get, put, head, list, delete or multi_delete";
            require(ObjectKind::from_name(name).is_some(), "lanes", what, fix)?;
        }
        let total: usize = lanes.values().sum();
        let what = || format!("{total} requests in flight are out of bounds");
        require((1..=CONCURRENCY_MAX).contains(&total), "lanes", what, "use 1 to 65,535")?;
        let closed = !self.arrival.open_loop();
        let what = || "an open loop cannot be combined with lanes".into();
        require(closed, "arrival", what, "use a mix instead of lanes, or a closed loop")
    }

    fn check_sizes(&self) -> Result<()> {
        let mut largest = 0;
        if let Some(pool) = self.pool.as_ref() {
            let names = Names::new(pool)?;
            largest = if self.task == Task::Fill { names.largest() } else { 0 };
        }
        if let Some(spec) = &self.sizes {
            largest = largest.max(Sizes::new(spec, self.seed, "sizes")?.largest());
        }
        match self.part_size {
            Some(part) if largest.div_ceil(part) > PARTS_MAX => {
                let what = format!(
                    "{part} bytes would divide an object of {largest} bytes into more than the 10,000 parts that S3 allows"
                );
                Err(Error::spec("part_size", what, "use larger parts"))
            }
            _ => Ok(()),
        }
    }

    /// Return the kinds of requests that this job sends.
    pub fn kinds(&self) -> Vec<ObjectKind> {
        match (self.task, &self.lanes) {
            (Task::Fill, _) => vec![ObjectKind::Put, ObjectKind::List],
            (Task::Clean, _) => {
                vec![ObjectKind::List, ObjectKind::Delete, ObjectKind::MultiDelete]
            }
            (Task::Run, Some(lanes)) => {
                let has = |kind: &ObjectKind| lanes.get(kind.name()).is_some_and(|&n| n > 0);
                ObjectKind::ALL.into_iter().filter(has).collect()
            }
            (Task::Run, None) => {
                let shares = ObjectKind::ALL.into_iter().zip(self.mix.shares());
                shares.filter_map(|(kind, share)| (share > 0.0).then_some(kind)).collect()
            }
        }
    }

    /// Return one entry per request slot: the only kind of request that it sends, or `None` if it
    /// sends all kinds of the mix.
    pub fn slots(&self) -> Vec<Option<ObjectKind>> {
        match (self.task, &self.lanes) {
            (Task::Run, Some(lanes)) => {
                let count = |kind: ObjectKind| lanes.get(kind.name()).copied().unwrap_or(0);
                let lane = |kind| std::iter::repeat_n(Some(kind), count(kind));
                ObjectKind::ALL.into_iter().flat_map(lane).collect()
            }
            _ => vec![None; self.concurrency],
        }
    }

    /// Return whether this job deletes objects during its load.
    pub fn deletes(&self) -> bool {
        let kinds = self.kinds();
        [ObjectKind::Delete, ObjectKind::MultiDelete].iter().any(|kind| kinds.contains(kind))
    }

    /// Return whether requests are sent in an open loop.
    pub fn open_loop(&self) -> bool {
        self.task == Task::Run && self.arrival.open_loop()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// Return a valid order for tests: GETs of a pool of 4 KiB objects.
    pub(crate) fn job_json() -> Value {
        let sizes = json!({"kind": "fixed", "sizes": [{"bytes": 4096, "weight": 1.0}],
                           "low": 0, "high": 0, "median": 0, "sigma": 0.0});
        json!({
            "version": 1, "ramp_ns": 0, "interval_ns": 20_000_000,
            "drain_timeout_ns": 5_000_000_000u64, "seed": 1, "task": "run",
            "store": {"endpoints": ["http://127.0.0.1:1"], "bucket": "b", "region": "us-east-1",
                      "addressing": "path", "ca_file": null, "verify_tls": true},
            "pool": {"prefix": "p/pool-1/", "objects": 10, "shards": 4, "sizes": sizes, "seed": 1},
            "write_prefix": "p/run-1/", "sizes": sizes,
            "mix": {"get": 100.0, "put": 0.0, "head": 0.0, "list": 0.0, "delete": 0.0,
                    "multi_delete": 0.0},
            "concurrency": 2, "lanes": null, "threads": null,
            "keys": {"kind": "uniform", "theta": 1.1, "hot_space_percent": 10.0,
                     "hot_access_percent": 90.0},
            "join_pool": false, "part_size": null, "part_concurrency": 1, "range_size": null,
            "list_max_keys": 1000, "delete_batch": 100,
            "arrival": {"kind": "closed", "rate_iops": null}, "payload": "unsigned",
            "routing": "round_robin", "request_timeout_ns": 5_000_000_000u64, "retries": 0,
            "backoff_ns": 0, "verify": false, "window_ns": 100_000_000
        })
    }

    pub(crate) fn job_with(change: impl Fn(&mut Value)) -> ObjectJob {
        let mut job = job_json();
        change(&mut job);
        ObjectJob::from_json(&job.to_string()).unwrap()
    }

    fn refused(names: &str, change: impl Fn(&mut Value)) {
        let mut job = job_json();
        change(&mut job);
        let message = ObjectJob::from_json(&job.to_string()).unwrap_err().to_string();
        assert!(message.starts_with(names), "{message}");
    }

    #[test]
    fn impossible_orders_name_the_field() {
        refused("version", |j| j["version"] = json!(2));
        refused("concurrency", |j| j["concurrency"] = json!(0));
        refused("threads", |j| j["threads"] = json!(0));
        refused("mix", |j| j["mix"]["get"] = json!(90));
        refused("mix", |j| j["mix"] = json!({"get": 150, "put": -50}));
        refused("window_ns", |j| j["window_ns"] = json!(null));
        refused("ramp_ns", |j| j["ramp_ns"] = json!(u64::MAX));
        refused("arrival.rate_iops", |j| j["arrival"]["kind"] = json!("poisson"));
        refused("pool.prefix", |j| j["pool"]["prefix"] = json!("p"));
        refused("write_prefix", |j| j["write_prefix"] = json!(""));
        refused("pool.shards", |j| j["pool"]["shards"] = json!(65_537));
        refused("pool.objects", |j| j["pool"]["objects"] = json!(0));
        refused("pool.sizes", |j| j["pool"]["sizes"]["sizes"] = json!([]));
        refused("list_max_keys", |j| j["list_max_keys"] = json!(1001));
        refused("delete_batch", |j| j["delete_batch"] = json!(0));
        refused("range_size", |j| j["range_size"] = json!(0));
        refused("part_size", |j| j["part_size"] = json!(0));
        refused("part_concurrency", |j| j["part_concurrency"] = json!(0));
        refused("job", |j| j["payload"] = json!("sealed"));
        refused("job", |j| j["keys"]["kind"] = json!("random"));
        refused("keys", |j| j["keys"]["kind"] = json!("sequential"));
        refused("pool", |j| {
            j["task"] = json!("fill");
            j["pool"] = json!(null);
        });
        refused("sizes", |j| {
            j["mix"] = json!({"get": 50, "put": 50});
            j["sizes"] = json!(null);
        });
        refused("part_size", |j| {
            j["sizes"]["sizes"][0]["bytes"] = json!(1u64 << 40);
            j["part_size"] = json!(5 << 20);
        });
    }

    #[test]
    fn lanes_are_known_kinds_and_closed() {
        refused("lanes", |j| j["lanes"] = json!({"post": 3}));
        refused("lanes", |j| j["lanes"] = json!({"get": 0}));
        refused("arrival", |j| {
            j["lanes"] = json!({"get": 1});
            j["arrival"] = json!({"kind": "constant", "rate_iops": 5.0});
        });
        let job = job_with(|j| j["lanes"] = json!({"put": 2, "get": 1, "list": 0}));
        let (get, put) = (Some(ObjectKind::Get), Some(ObjectKind::Put));
        assert_eq!(job.slots(), [get, put, put]);
        assert_eq!(job.kinds(), [ObjectKind::Get, ObjectKind::Put]);
    }

    #[test]
    fn gets_may_live_on_what_the_run_writes() {
        let fed = |join: bool| {
            let mut job = job_json();
            job["pool"] = json!(null);
            job["mix"] = json!({"get": 50, "put": 50});
            job["join_pool"] = json!(join);
            ObjectJob::from_json(&job.to_string())
        };
        assert!(fed(true).is_ok());
        assert!(fed(false).is_err());
    }
}
