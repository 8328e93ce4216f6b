//! Groups of jobs: several loads at the same time on one target, each with its own kind of access,
//! depth, rate, size and region.

use storlab_base::Result;
use storlab_run::groups::{GroupOrder, LoadShape};
use storlab_run::order::{bearable_buffers, require};

use crate::spec::BlockJob;

impl GroupOrder for BlockJob {
    fn shape(&self, _groups: usize) -> LoadShape {
        LoadShape { workers: self.jobs, open_loop: self.open_loop(), kinds: self.kinds() }
    }

    fn check_as_group(&self, first: &Self) -> Result<()> {
        let what = || "is missing: groups run for a fixed time".into();
        require(self.window_ns.is_some(), "window_ns", what, "set window_ns")?;
        let what = || "groups cannot verify data".into();
        require(self.verify.is_none(), "verify", what, "remove verify")?;
        let what = || "differs from the first group's".into();
        let fix = "give all groups equal times, backend and direct";
        let alike = self.times() == first.times();
        require(alike, "ramp_ns, window_ns, interval_ns, backend", what, fix)
    }

    fn check_together(groups: &[&Self]) -> Result<()> {
        let jobs: usize = groups.iter().map(|job| job.jobs).sum();
        let what = || format!("all groups together have {jobs}");
        require(u16::try_from(jobs).is_ok(), "jobs", what, "use at most 65,535")?;
        let needed = groups.iter().map(|job| job.buffer_bytes()).sum();
        let fix = "lower queue_depth, jobs or block_size of a group";
        bearable_buffers(needed, "jobs x queue_depth x block_size of all groups", fix)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::{Value, json};
    use storlab_run::groups::{Group, place_of_worker};

    use super::*;
    use crate::spec::tests::job_json;

    /// Return an order with two groups: `readers`, two closed-loop jobs of 4 KiB reads, and
    /// `writer`, one job of 16 KiB writes, 200 per second.
    pub(crate) fn grouped_json(change: impl Fn(&mut Value)) -> Value {
        let mut readers = job_json("jbod", 1, 2, None);
        readers["members"][0]["kind"] = json!("null");
        let mut writer = job_json("jbod", 1, 1, None);
        writer["members"][0]["kind"] = json!("null");
        writer["mix"] = json!({"read": 0.0, "write": 100.0, "trim": 0.0});
        writer["block_sizes"] = json!([{"bytes": 16384, "weight": 1.0}]);
        writer["arrival"] = json!({"kind": "constant", "rate_iops": 200.0});
        writer["seed"] = json!(2);
        let groups =
            json!([{"name": "readers", "job": readers}, {"name": "writer", "job": writer}]);
        let mut order = json!({"version": 1, "interval_ns": 20_000_000, "groups": groups});
        change(&mut order);
        order
    }

    #[test]
    fn workers_and_counters_of_groups_follow_each_other() {
        let groups = Group::<BlockJob>::parse(&grouped_json(|_| {}).to_string()).unwrap();
        let kinds: Vec<_> = groups.iter().flat_map(|group| &group.kinds).collect();
        let places: Vec<_> = kinds.iter().map(|kind| (kind.name, kind.place, kind.group)).collect();
        assert_eq!(places, [("read", 0, 0), ("write", 2, 1)]);
        let workers: Vec<_> = (0..3).map(|index| place_of_worker(&groups, index)).collect();
        assert_eq!(workers, [(0, 0), (0, 1), (1, 0)]);
        let job = job_json("jbod", 1, 1, None).to_string();
        let alone = Group::<BlockJob>::parse(&job).unwrap();
        assert!(alone.len() == 1 && alone[0].counted().is_none());
    }

    #[test]
    fn impossible_groups_are_named() {
        let refused = |change: fn(&mut Value), names: &str| {
            let error = Group::<BlockJob>::parse(&grouped_json(change).to_string())
                .err()
                .unwrap()
                .to_string();
            assert!(error.contains(names), "{error}");
        };
        refused(|j| j["groups"] = json!([]), "groups");
        refused(|j| j["groups"][1]["name"] = json!("readers"), "groups.readers.name");
        refused(|j| j["groups"][1]["job"]["queue_depth"] = json!(0), "groups.writer.queue_depth");
        refused(|j| j["groups"][1]["job"]["ramp_ns"] = json!(5), "groups.writer.ramp_ns");
        let by_bytes = |j: &mut Value| {
            j["groups"][0]["job"]["window_ns"] = json!(null);
            j["groups"][0]["job"]["window_bytes"] = json!(4096);
        };
        refused(by_bytes, "groups.readers.window_ns");
    }
}
