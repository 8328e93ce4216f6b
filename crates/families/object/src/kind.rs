//! Kinds of requests.

use storlab_run::sampling::Kind;

/// Kind of an S3 request that a run sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum ObjectKind {
    Get,
    Put,
    Head,
    List,
    Delete,
    MultiDelete,
}

impl ObjectKind {
    /// All kinds, in the order of their discriminants.
    pub const ALL: [ObjectKind; 6] = [
        ObjectKind::Get,
        ObjectKind::Put,
        ObjectKind::Head,
        ObjectKind::List,
        ObjectKind::Delete,
        ObjectKind::MultiDelete,
    ];

    /// Return the name used in job descriptions, results and messages.
    pub const fn name(self) -> &'static str {
        match self {
            ObjectKind::Get => "get",
            ObjectKind::Put => "put",
            ObjectKind::Head => "head",
            ObjectKind::List => "list",
            ObjectKind::Delete => "delete",
            ObjectKind::MultiDelete => "multi_delete",
        }
    }

    /// Return the kind with this name.
    pub fn from_name(name: &str) -> Option<ObjectKind> {
        ObjectKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Return the entry of this kind in tables of counters.
    pub const fn entry(self) -> Kind {
        Kind::new(self as usize, self.name())
    }
}
