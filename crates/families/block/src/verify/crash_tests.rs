//! Property tests of verify mode with random histories of writes, crashes and power cuts: no false
//! alarm, and no missed loss of acknowledged data.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use storlab_run::order::{Member, MemberKind};

use super::{BadKind, Verifier, VerifyReport};
use crate::spec::VerifySpec;

const BLOCK: usize = 4096;
const BLOCKS: usize = 12;
const SECTOR: usize = 512;

/// Step of a history. `Crash` is a write of which only the first `sectors` sectors arrive.
#[derive(Clone, Debug)]
enum Step {
    Write { first: usize, count: usize },
    Crash { first: usize, count: usize, sectors: usize },
    Reopen,
    Flush,
    PowerCut,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let range = || (0..BLOCKS).prop_flat_map(|first| (Just(first), 1..=(BLOCKS - first).min(4)));
    let step = prop_oneof![
        6 => range().prop_map(|(first, count)| Step::Write { first, count }),
        3 => (range(), 0..=4 * BLOCK / SECTOR).prop_map(|((first, count), sectors)| {
            Step::Crash { first, count, sectors }
        }),
        1 => Just(Step::Reopen),
        1 => Just(Step::Flush),
        1 => Just(Step::PowerCut),
    ];
    prop::collection::vec(step, 1..40)
}

/// Simulated machine: a device in memory, and a state file that a power cut resets to its last
/// flush.
struct World {
    dir: tempfile::TempDir,
    device: Vec<u8>,
    verifier: Option<Verifier>,
    flushed: Vec<u8>,
    serial: u8,
}

fn open(dir: &Path) -> Verifier {
    let member = Member {
        path: dir.join("device"),
        name: "device".to_owned(),
        kind: MemberKind::File,
        size: (BLOCKS * BLOCK) as u64,
        offset: 0,
    };
    let spec = VerifySpec { state: dir.join("state"), block: BLOCK as u64, check_reads: true };
    Verifier::open(&spec, &[member], 1).expect("a state")
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let verifier = open(dir.path());
        let flushed = fs::read(dir.path().join("state")).unwrap();
        let device = vec![0; BLOCKS * BLOCK];
        World { dir, device, verifier: Some(verifier), flushed, serial: 0 }
    }

    fn verifier(&self) -> &Verifier {
        self.verifier.as_ref().expect("open between steps")
    }

    fn issue(&mut self, first: usize, count: usize) -> Vec<u8> {
        self.serial = self.serial.wrapping_add(1);
        let mut bytes = vec![self.serial; count * BLOCK];
        self.verifier().before_write(0, (first * BLOCK) as u64, &mut bytes);
        bytes
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Write { first, count } => {
                let bytes = self.issue(first, count);
                self.device[first * BLOCK..][..bytes.len()].copy_from_slice(&bytes);
                let (offset, len) = ((first * BLOCK) as u64, bytes.len() as u64);
                self.verifier().after_write(0, offset, len);
            }
            Step::Crash { first, count, sectors } => {
                let bytes = self.issue(first, count);
                let arrived = (sectors * SECTOR).min(bytes.len());
                self.device[first * BLOCK..][..arrived].copy_from_slice(&bytes[..arrived]);
                self.reopen();
            }
            Step::Reopen => self.reopen(),
            Step::Flush => {
                self.verifier().flush().unwrap();
                self.flushed = fs::read(self.dir.path().join("state")).unwrap();
            }
            Step::PowerCut => {
                self.verifier = None;
                let mut state = self.flushed.clone();
                state[24..32].fill(0x5a); // a different boot id
                state[32..36].fill(0); // not closed cleanly
                fs::write(self.dir.path().join("state"), state).unwrap();
                self.verifier = Some(open(self.dir.path()));
            }
        }
    }

    fn reopen(&mut self) {
        self.verifier = None;
        self.verifier = Some(open(self.dir.path()));
    }

    fn check(&self) -> VerifyReport {
        let mut report = VerifyReport::default();
        self.verifier().check_read(0, 0, &self.device, &mut report);
        report
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_history_gives_a_false_alarm(steps in steps()) {
        let mut world = World::new();
        for step in &steps {
            world.take(step);
            let report = world.check();
            prop_assert!(report.ok(), "{step:?}: {report:?}");
        }
    }

    #[test]
    fn no_loss_of_what_was_acknowledged_is_missed(
        steps in steps(), block in 0..BLOCKS, other in 0..BLOCKS, kind in 0..4
    ) {
        let mut world = World::new();
        let old = world.issue(block, 1);
        for step in &steps {
            world.take(step);
        }
        world.take(&Step::Write { first: 0, count: BLOCKS });
        prop_assert!(world.check().ok());
        prop_assume!(other != block);
        let away = world.device[other * BLOCK..][..BLOCK].to_vec();
        let at = &mut world.device[block * BLOCK..][..BLOCK];
        let expected = match kind {
            0 => {
                at.fill(0);
                BadKind::Lost
            }
            1 => {
                at[BLOCK - SECTOR..].copy_from_slice(&old[BLOCK - SECTOR..]);
                BadKind::Torn
            }
            2 => {
                at.copy_from_slice(&old);
                BadKind::Stale
            }
            _ => {
                at.copy_from_slice(&away);
                BadKind::Misplaced
            }
        };
        let report = world.check();
        prop_assert_eq!(report.bad_blocks.into_iter().collect::<Vec<_>>(), vec![(expected, 1)]);
        prop_assert_eq!(report.examples[0].offset, (block * BLOCK) as u64);
    }
}
