//! Tests of which files a verify state refuses and leaves unchanged.

use std::fs;
use std::path::PathBuf;

use storlab_base::Error;
use storlab_run::order::{Member, MemberKind};

use super::Verifier;
use super::tests::{BLOCK, REGION, Rig, spec};
use crate::spec::VerifySpec;

#[track_caller]
fn refused(result: storlab_base::Result<Verifier>, field: &str, words: &str) {
    match result {
        Err(Error::Spec { field: named, what, .. }) => {
            assert_eq!(named, field);
            assert!(what.contains(words), "{what}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_state_serves_only_its_own_target() {
    let rig = Rig::new();
    drop(rig.open());
    let dir = rig.dir.path();
    let open = |members: &[Member], block| Verifier::open(&spec(dir, block), members, 1);
    let state = "verify.state";
    refused(
        open(&rig.members(), 8192),
        state,
        "blocks of 4096 bytes, but this run has blocks of 8192",
    );
    refused(open(&rig.members()[..1], BLOCK), state, "2 files or devices, but this run has 1");
    for change in [
        |m: &mut Member| m.size -= BLOCK,
        |m: &mut Member| m.offset += BLOCK,
        |m: &mut Member| m.name = "c".to_owned(),
    ] {
        let mut members = rig.members();
        change(&mut members[1]);
        refused(open(&members, BLOCK), state, "b (262144 bytes from offset 32768), but");
    }
    let first = rig.open();
    refused(open(&rig.members(), BLOCK), state, "in use by another run");
    drop(first);
    rig.open();
}

#[test]
fn what_cannot_be_a_state_is_left_alone() {
    let rig = Rig::new();
    let dir = rig.dir.path();
    let with_state = |state: PathBuf| {
        Verifier::open(&VerifySpec { state, block: BLOCK, check_reads: true }, &rig.members(), 1)
    };
    fs::write(rig.path("notes"), "mine").unwrap();
    refused(with_state(rig.path("notes")), "verify.state", "is not a verify state");
    assert_eq!(fs::read(rig.path("notes")).unwrap(), b"mine");
    refused(with_state(rig.path("a")), "verify.state", "the file under test, a");
    refused(with_state(dir.to_owned()), "verify.state", "not a regular file");
    refused(with_state("/dev/storlab-state".into()), "verify.state", "under /dev");
    assert!(matches!(with_state(rig.path("none/state")), Err(Error::Io { .. })));
    // A truncated or damaged state is refused.
    drop(rig.open());
    let whole = fs::read(rig.path("state")).unwrap();
    fs::write(rig.path("state"), &whole[..whole.len() - 8]).unwrap();
    refused(with_state(rig.path("state")), "verify.state", "bytes instead of");
    let mut damaged = whole;
    damaged[70] ^= 1;
    fs::write(rig.path("state"), &damaged).unwrap();
    refused(with_state(rig.path("state")), "verify.state", "damaged");
}

#[test]
fn impossible_orders_name_the_field() {
    let rig = Rig::new();
    for block in [0, 100, 5000, 2 << 30] {
        let result = Verifier::open(&spec(rig.dir.path(), block), &rig.members(), 1);
        refused(result, "verify.block", "bytes");
    }
    let result = Verifier::open(&spec(rig.dir.path(), 2 * REGION), &rig.members(), 1);
    refused(result, "verify.block", "is larger than a");
    let mut members = rig.members();
    members[0].kind = MemberKind::Null;
    refused(Verifier::open(&spec(rig.dir.path(), BLOCK), &members, 1), "verify", "null target");
    assert!(!rig.path("state").exists());
}
