//! Tests of verify mode on real files, with every kind of corruption that it must detect.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use storlab_run::order::{Member, MemberKind};
use tempfile::TempDir;

use super::{BadKind, Verifier, VerifyReport};
use crate::spec::VerifySpec;

pub(super) const BLOCK: u64 = 4096;
pub(super) const REGION: u64 = 64 * BLOCK;
const OFFSET: u64 = 8 * BLOCK;

/// Two files, each of which has a region under verification.
pub(super) struct Rig {
    pub(super) dir: TempDir,
}

impl Rig {
    pub(super) fn new() -> Self {
        let rig = Rig { dir: tempfile::tempdir().expect("a directory") };
        for member in rig.members() {
            File::create(&member.path).unwrap().set_len(OFFSET + REGION + 100).unwrap();
        }
        rig
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(super) fn members(&self) -> Vec<Member> {
        members(self.dir.path())
    }

    pub(super) fn open(&self) -> Verifier {
        open(self.dir.path())
    }

    fn file(&self, member: usize) -> File {
        let path = &self.members()[member].path;
        OpenOptions::new().read(true).write(true).open(path).unwrap()
    }

    /// Write a stamped range through the verifier, and acknowledge it.
    fn write(&self, verifier: &Verifier, member: usize, offset: u64, len: u64) {
        write(verifier, &self.file(member), member, offset, len);
    }

    fn bytes(&self, member: usize, offset: u64, len: u64) -> Vec<u8> {
        let mut bytes = vec![0; len as usize];
        self.file(member).read_exact_at(&mut bytes, offset).unwrap();
        bytes
    }

    fn put(&self, member: usize, offset: u64, bytes: &[u8]) {
        self.file(member).write_all_at(bytes, offset).unwrap();
    }

    /// Assert that reads, passes, a reopened state and another process all find the same. Return
    /// the report.
    fn found_everywhere(&self, verifier: Verifier) -> VerifyReport {
        let mut by_reads = VerifyReport::default();
        for (member, _) in self.members().iter().enumerate() {
            let bytes = self.bytes(member, OFFSET, REGION);
            verifier.check_read(member, OFFSET, &bytes, &mut by_reads);
        }
        let by_pass = verifier.pass(true).unwrap();
        assert_eq!(plain(&by_reads), plain(&by_pass));
        assert_eq!(plain(&by_pass), plain(&verifier.pass(false).unwrap()));
        drop(verifier);
        assert_eq!(plain(&by_pass), self.in_another_process());
        assert_eq!(plain(&by_pass), plain(&self.open().pass(true).unwrap()));
        by_pass
    }

    fn in_another_process(&self) -> serde_json::Value {
        let output = child("child_pass", self.dir.path()).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let json = text.lines().find_map(|line| line.split_once("REPORT ")).expect(&text).1;
        serde_json::from_str(json).unwrap()
    }
}

fn members(dir: &Path) -> Vec<Member> {
    ["a", "b"].map(|name| member(&dir.join(name), name)).to_vec()
}

fn member(path: &Path, name: &str) -> Member {
    Member {
        path: path.to_owned(),
        name: name.to_owned(),
        kind: MemberKind::File,
        size: REGION,
        offset: OFFSET,
    }
}

pub(super) fn spec(dir: &Path, block: u64) -> VerifySpec {
    VerifySpec { state: dir.join("state"), block, check_reads: true }
}

fn open(dir: &Path) -> Verifier {
    Verifier::open(&spec(dir, BLOCK), &members(dir), 1).expect("a state")
}

fn write(verifier: &Verifier, file: &File, member: usize, offset: u64, len: u64) {
    let mut bytes = vec![0xd5; len as usize];
    assert!(verifier.try_claim(member, offset, len));
    verifier.before_write(member, offset, &mut bytes);
    file.write_all_at(&bytes, offset).unwrap();
    verifier.after_write(member, offset, len);
    verifier.release(member, offset, len);
}

/// Convert a report to the JSON that Python receives.
fn plain(report: &VerifyReport) -> serde_json::Value {
    serde_json::to_value(report).unwrap()
}

/// Return a command that runs one of the `child_*` functions of this test program on `dir`.
fn child(name: &str, dir: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", &format!("verify::tests::{name}"), "--ignored", "--nocapture"])
        .env("STORLAB_TEST_DIR", dir);
    command
}

fn child_dir() -> PathBuf {
    std::env::var_os("STORLAB_TEST_DIR").expect("run by another test").into()
}

fn one_bad(report: &VerifyReport, kind: BadKind, offset: u64, expected: &str, actual: &str) {
    assert_eq!(report.bad_blocks.iter().collect::<Vec<_>>(), [(&kind, &1)]);
    let example = &report.examples[0];
    assert_eq!((example.kind, example.path.as_str(), example.offset), (kind, "a", offset));
    assert_eq!((example.expected.as_str(), example.found.as_str()), (expected, actual));
}

#[test]
fn what_was_written_is_found() {
    let rig = Rig::new();
    let verifier = rig.open();
    rig.write(&verifier, 0, OFFSET, 4 * BLOCK);
    rig.write(&verifier, 0, OFFSET + 2 * BLOCK, 6 * BLOCK);
    rig.write(&verifier, 1, OFFSET + REGION - BLOCK, BLOCK);
    let report = rig.found_everywhere(verifier);
    assert!(report.ok() && report.torn_in_flight == 0, "{report:?}");
    assert_eq!(report.checked_blocks, 9);
}

#[test]
fn lost_writes() {
    for (content, actual) in
        [(vec![0; BLOCK as usize], "zeros"), (vec![7; BLOCK as usize], "data without a header")]
    {
        let rig = Rig::new();
        let verifier = rig.open();
        rig.write(&verifier, 0, OFFSET, 8 * BLOCK);
        rig.put(0, OFFSET + 3 * BLOCK, &content);
        let report = rig.found_everywhere(verifier);
        assert_eq!(report.checked_blocks, 8);
        one_bad(&report, BadKind::Lost, 45056, "generation 1 at offset 45056", actual);
    }
}

#[test]
fn data_of_another_state_is_a_lost_write() {
    let (rig, other) = (Rig::new(), Rig::new());
    let (verifier, other_verifier) = (rig.open(), other.open());
    rig.write(&verifier, 0, OFFSET, BLOCK);
    other.write(&other_verifier, 0, OFFSET, BLOCK);
    rig.put(0, OFFSET, &other.bytes(0, OFFSET, BLOCK));
    let report = rig.found_everywhere(verifier);
    let expected = "generation 1 at offset 32768";
    one_bad(&report, BadKind::Lost, OFFSET, expected, "data of another verify state");
}

#[test]
fn a_file_cut_short_lost_its_end() {
    let rig = Rig::new();
    let verifier = rig.open();
    rig.write(&verifier, 0, OFFSET, 2 * BLOCK);
    rig.file(0).set_len(OFFSET + BLOCK + 700).unwrap();
    for direct in [false, true] {
        let report = verifier.pass(direct).unwrap();
        let expected = "generation 1 at offset 36864";
        one_bad(&report, BadKind::Lost, OFFSET + BLOCK, expected, "the end of the file");
    }
}

#[test]
fn torn_writes() {
    let rig = Rig::new();
    let verifier = rig.open();
    rig.write(&verifier, 0, OFFSET, BLOCK);
    let old = rig.bytes(0, OFFSET, BLOCK);
    rig.write(&verifier, 0, OFFSET, BLOCK);
    let new = rig.bytes(0, OFFSET, BLOCK);
    // Both have the same payload, yet one old sector must be detected.
    let last = BLOCK as usize - 512;
    rig.put(0, OFFSET, &[&new[..last], &old[last..]].concat());
    let report = rig.found_everywhere(verifier);
    let actual = "generation 2 of offset 32768, with a wrong checksum";
    one_bad(&report, BadKind::Torn, OFFSET, "generation 2 at offset 32768", actual);
}

#[test]
fn a_damaged_header_is_torn() {
    let rig = Rig::new();
    let verifier = rig.open();
    rig.write(&verifier, 0, OFFSET, BLOCK);
    let mut bytes = rig.bytes(0, OFFSET, BLOCK);
    bytes[28] ^= 8;
    rig.put(0, OFFSET, &bytes);
    let report = rig.found_everywhere(verifier);
    one_bad(&report, BadKind::Torn, OFFSET, "generation 1 at offset 32768", "a damaged header");
}

#[test]
fn stale_blocks() {
    let rig = Rig::new();
    let verifier = rig.open();
    rig.write(&verifier, 0, OFFSET, 4 * BLOCK);
    rig.write(&verifier, 0, OFFSET, 4 * BLOCK);
    let old = rig.bytes(0, OFFSET + BLOCK, BLOCK);
    rig.write(&verifier, 0, OFFSET, 4 * BLOCK);
    rig.put(0, OFFSET + BLOCK, &old);
    let report = rig.found_everywhere(verifier);
    let expected = "generation 3 at offset 36864";
    let actual = "generation 2 of offset 36864";
    one_bad(&report, BadKind::Stale, OFFSET + BLOCK, expected, actual);
}

#[test]
fn misplaced_blocks() {
    for (source, name) in [(0, ""), (1, "b, ")] {
        let rig = Rig::new();
        let verifier = rig.open();
        rig.write(&verifier, 0, OFFSET, 8 * BLOCK);
        rig.write(&verifier, 1, OFFSET, 8 * BLOCK);
        rig.put(0, OFFSET + 5 * BLOCK, &rig.bytes(source, OFFSET + 2 * BLOCK, BLOCK));
        let report = rig.found_everywhere(verifier);
        let actual = if name.is_empty() {
            "generation 1 of offset 40960".to_owned()
        } else {
            format!("generation 1 of {name}offset 40960")
        };
        let expected = "generation 1 at offset 53248";
        one_bad(&report, BadKind::Misplaced, OFFSET + 5 * BLOCK, expected, &actual);
    }
}

#[test]
fn an_unreadable_block_does_not_end_the_pass() {
    // The first page of a process is never mapped, so the kernel returns EIO there, as for a bad
    // sector.
    let rig = Rig::new();
    let mut members = rig.members();
    members[0] = Member {
        path: "/proc/self/mem".into(),
        name: "memory".into(),
        kind: MemberKind::File,
        size: 2 * BLOCK,
        offset: 0,
    };
    let verifier = Verifier::open(&spec(rig.dir.path(), BLOCK), &members, 1).unwrap();
    let mut bytes = vec![0; 2 * BLOCK as usize];
    verifier.before_write(0, 0, &mut bytes);
    verifier.after_write(0, 0, 2 * BLOCK);
    rig.write(&verifier, 1, OFFSET, BLOCK);
    let report = verifier.pass(true).unwrap();
    assert_eq!((report.checked_blocks, report.count(BadKind::Unreadable)), (3, 2));
    assert_eq!(report.examples[1].offset, BLOCK);
    assert!(report.examples[1].found.contains("os error 5"), "{report:?}");
    assert!(report.notes.iter().any(|note| note.contains("O_DIRECT")), "{report:?}");
}

#[test]
fn a_write_in_flight_may_be_there_or_not_or_in_part() {
    let rig = Rig::new();
    let verifier = rig.open();
    rig.write(&verifier, 0, OFFSET, BLOCK);
    let old = rig.bytes(0, OFFSET, BLOCK);
    let mut new: Vec<u8> = old.iter().map(|byte| !byte).collect();
    verifier.before_write(0, OFFSET, &mut new);
    drop(verifier);
    let mix = [&new[..512], &old[512..]].concat();
    for (content, torn) in [(&old, 0), (&new, 0), (&mix, 1)] {
        rig.put(0, OFFSET, content);
        let report = rig.open().pass(true).unwrap();
        assert!(report.ok(), "{report:?}");
        assert_eq!((report.checked_blocks, report.torn_in_flight), (1, torn));
    }
    // Anything older than the acknowledged generation, and anything else, is bad.
    rig.put(0, OFFSET, &[0; BLOCK as usize]);
    let report = rig.open().pass(true).unwrap();
    one_bad(&report, BadKind::Lost, OFFSET, "generation 1 to 2 at offset 32768", "zeros");
}

#[test]
fn other_block_sizes_and_large_regions() {
    for block in [512, 12 * 1024, 3 << 20] {
        let dir = tempfile::tempdir().unwrap();
        let count = 4000 / (block / 512).min(500);
        let mut member = member(&dir.path().join("a"), "a");
        (member.size, member.offset) = (block * count + 100, 1536);
        let file = File::create_new(&member.path).unwrap();
        let members = [member];
        let verifier = Verifier::open(&spec(dir.path(), block), &members, 1).unwrap();
        // The file ends with the last block, not at a multiple of 4,096.
        write(&verifier, &file, 0, 1536, block);
        write(&verifier, &file, 0, 1536 + block * 2, block * (count - 2));
        for direct in [false, true] {
            let report = verifier.pass(direct).unwrap();
            assert!(report.ok(), "{block}: {report:?}");
            assert_eq!(report.checked_blocks, count - 1, "{block}");
        }
        file.write_all_at(&[9; 8], 1536 + block * (count - 1)).unwrap();
        let report = verifier.pass(true).unwrap();
        assert_eq!(report.count(BadKind::Lost), 1);
        assert_eq!(report.examples[0].offset, 1536 + block * (count - 1));
    }
}

#[test]
fn blocks_written_in_part_are_no_longer_held_to_anything() {
    let rig = Rig::new();
    let verifier = rig.open();
    rig.write(&verifier, 0, OFFSET, 4 * BLOCK);
    rig.write(&verifier, 0, OFFSET + BLOCK / 2, 2 * BLOCK);
    assert!(verifier.pass(true).unwrap().ok());
    rig.write(&verifier, 0, OFFSET, 4 * BLOCK);
    assert!(verifier.pass(true).unwrap().ok());
    rig.put(0, OFFSET, &[0; 512]);
    assert_eq!(verifier.pass(true).unwrap().count(BadKind::Lost), 1);
}

#[test]
fn examples_stop_at_a_thousand_and_reports_merge() {
    let dir = tempfile::tempdir().unwrap();
    let mut member = member(&dir.path().join("a"), "a");
    (member.size, member.offset) = (800 * 512, 0);
    let file = File::create_new(&member.path).unwrap();
    let verifier = Verifier::open(&spec(dir.path(), 512), &[member], 1).unwrap();
    write(&verifier, &file, 0, 0, 800 * 512);
    file.write_all_at(&vec![0; 800 * 512], 0).unwrap();
    let mut report = verifier.pass(true).unwrap();
    report.merge(verifier.pass(true).unwrap());
    assert_eq!((report.checked_blocks, report.count(BadKind::Lost)), (1600, 1600));
    assert_eq!(report.examples.len(), 1000);
    let keys: Vec<String> = plain(&report).as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys, ["bad_blocks", "checked_blocks", "examples"]);
    assert_eq!(plain(&report)["bad_blocks"], serde_json::json!({"lost": 1600}));
}

#[test]
fn a_pass_can_be_stopped() {
    let rig = Rig::new();
    let verifier = rig.open();
    rig.write(&verifier, 0, OFFSET, BLOCK);
    let report = verifier.pass_while(true, &|| false).unwrap();
    assert_eq!(report.checked_blocks, 0);
    assert!(report.notes[0].contains("stopped"));
}

#[test]
fn a_block_belongs_to_one_operation_at_a_time() {
    let rig = Rig::new();
    let verifier = rig.open();
    let users: Vec<AtomicU32> = (0..64).map(|_| AtomicU32::new(0)).collect();
    let claimed = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (verifier, users, claimed) = (&verifier, &users, &claimed);
            scope.spawn(move || {
                let mut random = storlab_base::stream(thread, "claims", 0);
                for _ in 0..20_000 {
                    let draw = rand_core::Rng::next_u64(&mut random);
                    let first = draw % 64;
                    let count = (draw >> 32) % (64 - first) + 1;
                    let (offset, len) = (OFFSET + first * BLOCK, count * BLOCK);
                    if !verifier.try_claim(1, offset, len) {
                        continue;
                    }
                    claimed.fetch_add(1, Ordering::Relaxed);
                    let claim = &users[first as usize..(first + count) as usize];
                    assert!(claim.iter().all(|user| user.fetch_add(1, Ordering::Relaxed) == 0));
                    for user in claim {
                        user.fetch_sub(1, Ordering::Relaxed);
                    }
                    verifier.release(1, offset, len);
                }
            });
        }
    });
    assert!(claimed.load(Ordering::Relaxed) > 1000);
    assert!(verifier.try_claim(0, OFFSET, REGION), "members are apart");
    assert!(verifier.try_claim(1, OFFSET, REGION), "everything was given back");
    assert!(!verifier.try_claim(1, OFFSET + REGION - BLOCK, BLOCK));
}

#[test]
fn a_killed_writer_leaves_nothing_unexplained() {
    for _ in 0..3 {
        let rig = Rig::new();
        let mut writer =
            child("child_writer", rig.dir.path()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(writer.stdout.take().unwrap()).lines();
        let ready = lines.map_while(Result::ok).any(|line| line.contains("READY"));
        writer.kill().unwrap();
        writer.wait().unwrap();
        assert!(ready);
        let report = rig.open().pass(true).unwrap();
        assert!(report.ok() && report.checked_blocks > 64, "{report:?}");
    }
}

#[test]
#[ignore = "run by a_killed_writer_leaves_nothing_unexplained"]
fn child_writer() {
    let dir = child_dir();
    let verifier = open(&dir);
    let open_file = |m: Member| OpenOptions::new().write(true).open(m.path).unwrap();
    let files: Vec<File> = members(&dir).into_iter().map(open_file).collect();
    // The parent kills this process long before the end.
    for turn in 0..2_000_000u64 {
        let count = turn % 7 + 1;
        let offset = OFFSET + (turn * 11 % (64 - count)) * BLOCK;
        write(&verifier, &files[turn as usize % 2], turn as usize % 2, offset, count * BLOCK);
        if turn == 1000 {
            println!("\nREADY");
        }
    }
}

#[test]
#[ignore = "run by other tests"]
fn child_pass() {
    let report = open(&child_dir()).pass(true).unwrap();
    println!("\nREPORT {}", plain(&report));
}
