//! Groups of jobs: several loads at the same time on one target, each with its own kind of access,
//! depth, rate, size and region.

use std::sync::Arc;

use serde::Deserialize;
use storlab_base::{Error, OpKind, Result};
use storlab_io::File;
use storlab_run::order::{Order, bearable_buffers, require};
use storlab_run::sampling::{Kind, LoadGroup};

use crate::layout::Layout;
use crate::spec::BlockJob;

/// Order of a run with several groups of jobs.
#[derive(Debug, Deserialize)]
struct GroupedJob {
    groups: Vec<NamedJob>,
}

/// Load of one group of jobs; all groups have equal times, backend and kind of access to files.
#[derive(Debug, Deserialize)]
struct NamedJob {
    name: String,
    job: BlockJob,
}

impl Order for GroupedJob {
    fn check(&self) -> Result<()> {
        let named = self.groups.iter().all(|group| !group.name.is_empty());
        require(
            named && !self.groups.is_empty(),
            "groups",
            || "a group has no name".into(),
            "give one or more groups, each with a name",
        )?;
        for (number, NamedJob { name, job }) in self.groups.iter().enumerate() {
            let within = |field: &str| format!("groups.{name}.{field}");
            let twin = self.groups[..number].iter().any(|other| other.name == *name);
            let what = || "two groups have this name".into();
            require(!twin, &within("name"), what, "give each group its own name")?;
            job.check().map_err(|error| match error {
                Error::Spec { field, what, fix } => {
                    Error::Spec { field: within(&field), what, fix }
                }
                other => other,
            })?;
            let timed = job.window_ns.is_some() && job.verify.is_none();
            let what = || "groups have neither a window by bytes nor verify mode".into();
            require(timed, &within("window_ns"), what, "set window_ns, and no verify")?;
            let alike = job.times() == self.groups[0].job.times();
            let what = || "differs from the first group's".into();
            let fix = "give all groups equal times, backend and direct";
            require(alike, &within("ramp_ns, window_ns, interval_ns, backend"), what, fix)?;
        }
        let jobs: usize = self.groups.iter().map(|group| group.job.jobs).sum();
        let what = || format!("all groups together have {jobs}");
        require(u16::try_from(jobs).is_ok(), "jobs", what, "use at most 65,535")?;
        let needed = self.groups.iter().map(|group| group.job.buffer_bytes()).sum();
        let fix = "lower queue_depth, jobs or block_size of a group";
        bearable_buffers(needed, "jobs x queue_depth x block_size of all groups", fix)
    }
}

/// Group of jobs of a run; a run without groups has a single one, without a name.
pub struct Group {
    /// Name of the group; empty in a run without groups.
    pub name: String,
    /// Description of the group's load.
    pub job: BlockJob,
    /// Index of the group's first worker among all workers of the run.
    pub first: usize,
    /// Place of the group's first kind of operation in a table of counters.
    pub first_place: usize,
    /// Layout of each job.
    pub layouts: Vec<Layout>,
    /// Open files or devices, in the order of [`BlockJob::members`]; empty for backend `null`.
    pub files: Arc<Vec<File>>,
}

impl Group {
    /// Parse the order of a run, with or without groups.
    ///
    /// # Errors
    /// [`Error::Spec`] if the order is invalid, or the layout of its files does not fit a job.
    pub fn parse(order: &str) -> Result<Vec<Group>> {
        #[derive(Deserialize)]
        struct Peek {
            groups: Option<serde::de::IgnoredAny>,
        }
        let grouped = serde_json::from_str(order).is_ok_and(|peek: Peek| peek.groups.is_some());
        if !grouped {
            return Ok(vec![Group::alone(BlockJob::from_json(order)?)?]);
        }
        let mut groups = Vec::new();
        let mut first = 0;
        for (number, NamedJob { name, job }) in
            GroupedJob::from_json(order)?.groups.into_iter().enumerate()
        {
            let jobs = job.jobs;
            let first_place = number * OpKind::ALL.len();
            groups.push(Group { name, first, first_place, ..Group::alone(job)? });
            first += jobs;
        }
        Ok(groups)
    }

    /// Create the only group of a run without groups.
    ///
    /// # Errors
    /// [`Error::Spec`] if the layout of its files does not fit a job.
    pub fn alone(job: BlockJob) -> Result<Group> {
        let layouts =
            (0..job.jobs).map(|index| Layout::for_job(&job, index)).collect::<Result<_>>();
        let (name, files) = (String::new(), Arc::default());
        Ok(Group { name, layouts: layouts?, job, first: 0, first_place: 0, files })
    }

    /// Return the kinds of operation of the group that has this index in the run.
    pub fn kinds(&self, index: usize) -> impl Iterator<Item = Kind> + use<> {
        let first_place = self.first_place;
        let kinds = self.job.kinds().into_iter();
        kinds.map(move |kind| Kind { place: first_place + kind.place, group: index, ..kind })
    }

    /// Return how the group is counted apart; `None` in a run without groups.
    pub fn counted(&self) -> Option<LoadGroup> {
        let (name, open_loop) = (self.name.as_str().into(), self.job.open_loop());
        (!self.name.is_empty()).then_some(LoadGroup { name, open_loop })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::spec::tests::job_json;
    use serde_json::{Value, json};

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
        let groups = Group::parse(&grouped_json(|_| {}).to_string()).unwrap();
        let firsts: Vec<_> = groups.iter().map(|group| (group.first, group.first_place)).collect();
        assert_eq!(firsts, [(0, 0), (2, 4)]);
        let kinds: Vec<_> = groups.iter().zip(0..).flat_map(|(g, index)| g.kinds(index)).collect();
        let places: Vec<_> = kinds.iter().map(|kind| (kind.name, kind.place, kind.group)).collect();
        assert_eq!(places, [("read", 0, 0), ("write", 5, 1)]);
        let alone = Group::parse(&job_json("jbod", 1, 1, None).to_string()).unwrap();
        assert!(alone.len() == 1 && alone[0].counted().is_none());
    }

    #[test]
    fn impossible_groups_are_named() {
        let refused = |change: fn(&mut Value), names: &str| {
            let error = Group::parse(&grouped_json(change).to_string()).err().unwrap().to_string();
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
