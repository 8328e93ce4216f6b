//! Groups of requests: several loads at the same time on one bucket, each with its own mix, object
//! size, concurrency and rate.

use storlab_base::Result;
use storlab_run::cpu::available_cores;
use storlab_run::groups::{GroupOrder, LoadShape};
use storlab_run::order::require;

use super::kind::ObjectKind;
use super::spec::{CONCURRENCY_MAX, ObjectJob, Task};

impl GroupOrder for ObjectJob {
    /// Groups have threads of their own, so that requests of one do not wait while the client
    /// works for another. Without a number of threads, they divide the usable cores.
    fn shape(&self, groups: usize) -> LoadShape {
        let threads = self.threads.unwrap_or_else(|| available_cores().div_ceil(groups));
        LoadShape {
            workers: threads.min(self.slots().len()),
            open_loop: self.open_loop(),
            kinds: self.kinds().into_iter().map(ObjectKind::entry).collect(),
        }
    }

    fn check_as_group(&self, first: &Self) -> Result<()> {
        let what = || "groups generate load only".into();
        require(self.task == Task::Run, "task", what, "use run")?;
        let common = |job: &ObjectJob| {
            let times = [job.ramp_ns, job.window_ns.unwrap_or(0), job.interval_ns];
            (times, job.drain_timeout_ns, job.routing)
        };
        let alike = common(self) == common(first) && self.store == first.store;
        let what = || "differs from the first group's".into();
        let fix = "give all groups equal times, store and routing";
        require(alike, "ramp_ns, window_ns, interval_ns, store, routing", what, fix)
    }

    fn check_together(groups: &[&Self]) -> Result<()> {
        let slots: usize = groups.iter().map(|job| job.slots().len()).sum();
        let what = || format!("{slots} requests in flight of all groups are out of bounds");
        require(slots <= CONCURRENCY_MAX, "concurrency", what, "use 1 to 65,535")?;
        let pools: Vec<_> = groups.iter().map(|job| Some(&job.pool.as_ref()?.prefix)).collect();
        for (job, pool) in groups.iter().zip(&pools) {
            let users = pools.iter().filter(|other| other.is_some() && *other == pool).count();
            let what = || format!("a group deletes objects of {pool:?}, which another group uses");
            let fix = "give the group a pool of its own";
            require(users < 2 || !job.deletes(), "pool.prefix", what, fix)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use storlab_run::groups::Group;

    use super::*;
    use crate::spec::tests::job_json;

    /// Return an order with two groups: `readers` with 2 GETs in flight by 1 thread, and `writers`
    /// with 3 PUTs in flight by 2 threads, 50 per second.
    fn grouped_json(change: impl Fn(&mut Value)) -> Value {
        let (mut readers, mut writers) = (job_json(), job_json());
        readers["threads"] = json!(1);
        writers["mix"] = json!({"put": 100.0});
        writers["concurrency"] = json!(3);
        writers["threads"] = json!(2);
        writers["arrival"] = json!({"kind": "constant", "rate_iops": 50.0});
        let groups =
            json!([{"name": "readers", "job": readers}, {"name": "writers", "job": writers}]);
        let mut order = json!({"version": 1, "interval_ns": 20_000_000, "groups": groups});
        change(&mut order);
        order
    }

    #[test]
    fn groups_have_threads_and_counters_of_their_own() {
        let groups = Group::<ObjectJob>::parse(&grouped_json(|_| {}).to_string()).unwrap();
        let workers: Vec<_> = groups.iter().map(|g| (g.first_worker, g.workers)).collect();
        assert_eq!(workers, [(0, 1), (1, 2)]);
        let kinds: Vec<_> = groups.iter().flat_map(|group| &group.kinds).collect();
        let places: Vec<_> = kinds.iter().map(|kind| (kind.name, kind.place, kind.group)).collect();
        assert_eq!(places, [("get", 0, 0), ("put", 2, 1)]);
        assert_eq!((groups[0].open_loop, groups[1].open_loop), (false, true));
    }

    #[test]
    fn impossible_groups_are_named() {
        let refused = |change: fn(&mut Value), names: &str| {
            let order = grouped_json(change).to_string();
            let error = Group::<ObjectJob>::parse(&order).err().unwrap().to_string();
            assert!(error.starts_with(names), "{error}");
        };
        refused(|j| j["groups"][1]["job"]["concurrency"] = json!(0), "groups.writers.concurrency");
        refused(|j| j["groups"][1]["job"]["task"] = json!("fill"), "groups.writers.task");
        refused(|j| j["groups"][1]["job"]["ramp_ns"] = json!(5), "groups.writers.ramp_ns");
        refused(
            |j| j["groups"][1]["job"]["store"]["bucket"] = json!("c"),
            "groups.writers.ramp_ns",
        );
        refused(|j| j["groups"][1]["job"]["concurrency"] = json!(65_534), "concurrency");
        refused(
            |j| j["groups"][1]["job"]["mix"] = json!({"put": 50.0, "delete": 50.0}),
            "pool.prefix",
        );
    }
}
