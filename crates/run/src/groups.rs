//! Groups of workers: several loads at the same time on one target, each with results of its own.

use serde::Deserialize;
use serde::de::IgnoredAny;
use storlab_base::{Error, Result};

use crate::order::{Order, require};
use crate::sampling::{Kind, LoadGroup};

/// Workers of a load, and the operations that they count.
pub struct LoadShape {
    /// Number of worker threads.
    pub workers: usize,
    /// Whether operations start by a schedule (open loop).
    pub open_loop: bool,
    /// Kinds of operation, as in a run without groups.
    pub kinds: Vec<Kind>,
}

/// Order of a load that may be that of a whole run or of one of its groups.
pub trait GroupOrder: Order {
    /// Return the workers and operations of this load in a run with `groups` groups, at least 1.
    fn shape(&self, groups: usize) -> LoadShape;

    /// Check settings that a group cannot have, and those in which it must equal `first`, the
    /// order of the run's first group.
    ///
    /// # Errors
    /// [`Error::Spec`] with the field of this order that is wrong.
    fn check_as_group(&self, first: &Self) -> Result<()>;

    /// Check limits that hold for the sum over all groups of a run.
    ///
    /// # Errors
    /// [`Error::Spec`] if a sum exceeds its limit, or the groups would disturb each other.
    fn check_together(groups: &[&Self]) -> Result<()>;
}

/// Order of a run with several groups.
#[derive(Deserialize)]
struct GroupedOrder<J> {
    groups: Vec<NamedOrder<J>>,
}

#[derive(Deserialize)]
struct NamedOrder<J> {
    name: String,
    job: J,
}

impl<J: GroupOrder> Order for GroupedOrder<J> {
    fn check(&self) -> Result<()> {
        let named = self.groups.iter().all(|group| !group.name.is_empty());
        require(
            named && !self.groups.is_empty(),
            "groups",
            || "a group has no name".into(),
            "give one or more groups, each with a name",
        )?;
        for (number, NamedOrder { name, job }) in self.groups.iter().enumerate() {
            let within = |field: &str| format!("groups.{name}.{field}");
            let twin = self.groups[..number].iter().any(|other| other.name == *name);
            let what = || "two groups have this name".into();
            require(!twin, &within("name"), what, "give each group its own name")?;
            let checked = job.check().and_then(|()| job.check_as_group(&self.groups[0].job));
            checked.map_err(|error| match error {
                Error::Spec { field, what, fix } => {
                    Error::Spec { field: within(&field), what, fix }
                }
                other => other,
            })?;
        }
        J::check_together(&self.groups.iter().map(|group| &group.job).collect::<Vec<_>>())
    }
}

/// Group of workers of a run; a run without groups has a single one, without a name.
pub struct Group<J> {
    /// Name of the group; empty in a run without groups.
    pub name: String,
    /// Order of the group's load.
    pub job: J,
    /// Index of the group's first worker among all workers of the run.
    pub first_worker: usize,
    /// Number of workers.
    pub workers: usize,
    /// Whether operations start by a schedule (open loop).
    pub open_loop: bool,
    /// Place of the counters of the family's first kind of operation in a table of counters.
    pub first_place: usize,
    /// Kinds of operation with their places among those of all groups.
    pub kinds: Vec<Kind>,
}

impl<J: GroupOrder> Group<J> {
    /// Parse the order of a run, with or without groups.
    ///
    /// # Errors
    /// [`Error::Spec`] if the order is invalid.
    pub fn parse(order: &str) -> Result<Vec<Group<J>>> {
        #[derive(Deserialize)]
        struct Peek {
            groups: Option<IgnoredAny>,
        }
        let grouped = serde_json::from_str(order).is_ok_and(|peek: Peek| peek.groups.is_some());
        if !grouped {
            return Ok(Group::alone(J::from_json(order)?));
        }
        let orders = GroupedOrder::<J>::from_json(order)?.groups;
        Ok(Group::numbered(orders.into_iter().map(|group| (group.name, group.job)).collect()))
    }

    /// Return the only group of a run without groups.
    pub fn alone(job: J) -> Vec<Group<J>> {
        Group::numbered(vec![(String::new(), job)])
    }

    /// Give each group workers and counters of its own, in the order of the groups.
    fn numbered(named: Vec<(String, J)>) -> Vec<Group<J>> {
        let count = named.len();
        let (mut first_worker, mut first_place) = (0, 0);
        let mut groups = Vec::with_capacity(count);
        for (number, (name, job)) in named.into_iter().enumerate() {
            let LoadShape { workers, open_loop, kinds } = job.shape(count);
            let own = |kind: Kind| Kind { place: first_place + kind.place, group: number, ..kind };
            let kinds: Vec<Kind> = kinds.into_iter().map(own).collect();
            let next_place = kinds.iter().map(|kind| kind.place + 1).max().unwrap_or(first_place);
            groups.push(Group { name, job, first_worker, workers, open_loop, first_place, kinds });
            first_worker += workers;
            first_place = next_place;
        }
        groups
    }

    /// Return how the group is counted apart; `None` in a run without groups.
    pub fn counted(&self) -> Option<LoadGroup> {
        let (name, open_loop) = (self.name.as_str().into(), self.open_loop);
        (!self.name.is_empty()).then_some(LoadGroup { name, open_loop })
    }
}

/// Return the number of the group of worker `index`, and the number of the worker in that group.
pub fn place_of_worker<J>(groups: &[Group<J>], index: usize) -> (usize, usize) {
    let after = groups.partition_point(|group| group.first_worker <= index);
    let number = after.saturating_sub(1);
    (number, index - groups[number].first_worker)
}
