//! The kinds of request.

use storlab_run::sampling::Kind;

/// What a request does.
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

    /// The word used in orders, results and messages.
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

    /// By its word.
    pub fn from_name(name: &str) -> Option<ObjectKind> {
        ObjectKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Its place in tables.
    pub const fn entry(self) -> Kind {
        Kind::new(self as usize, self.name())
    }
}
