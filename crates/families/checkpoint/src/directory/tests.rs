//! What lies outside of the time of a restore.

use storlab_base::{Identity, Stamped as _};
use storlab_run::order::Order as _;

use super::*;

#[test]
fn the_content_of_another_seed_is_made_before_a_restore_begins() {
    let home = tempfile::tempdir_in(".").unwrap();
    let files = serde_json::json!([{"name": "a.bin", "rank": 0, "bytes": 65_536}]);
    let order = crate::tests::order(home.path(), |job| job["files"] = files.clone());
    let job = CheckpointJob::from_json(&order.to_string()).unwrap();
    let shelf = Shelf::new(&job, home.path());
    let mut directory = Directory::new(&job, shelf, &Arc::new(Control::new(false)));
    let manifest = Manifest { seed: job.seed + 1, ..directory.describe(1) };
    std::fs::create_dir(directory.shelf.whole(1)).unwrap();
    let mut data = vec![0; 65_536];
    let whose = Identity { number: 1, file: 0, header: 0 };
    Content::new(manifest.seed, slots(&job), 65_536).of(whose).fill(0, &mut data);
    std::fs::write(directory.shelf.whole(1).join("a.bin"), &data).unwrap();
    assert_eq!(directory.chill(&manifest).unwrap(), 0);
    let expected = directory.expected.expect("what it is compared with");
    expected.check(whose, "a.bin", 0, &data).unwrap();
}

#[test]
fn what_a_rank_met_is_told_where_another_one_says_nothing_more() {
    let home = tempfile::tempdir_in(".").unwrap();
    let soon = |job: &mut serde_json::Value| job["drain_timeout_ns"] = 1.into();
    let order = crate::tests::order(home.path(), soon);
    let job = CheckpointJob::from_json(&order.to_string()).unwrap();
    let shelf = Shelf::new(&job, home.path());
    let mut directory = Directory::new(&job, shelf, &Arc::new(Control::new(false)));
    let (ranks, (answer, answers)) = ([channel(), channel()], channel());
    directory.orders = ranks.iter().map(|(order, _)| order.clone()).collect();
    directory.answers = Some(answers);
    let source = std::io::Error::from_raw_os_error(libc::EIO);
    answer.send(Err(Error::io("write", "a.bin", 4096, source))).unwrap();
    let order = Order::Write { number: 1, directory: PathBuf::new() };
    let ended = directory.order_all(&order, &mut || {});
    assert!(matches!(ended, Err(Error::Hung { outstanding: 1, .. })), "{ended:?}");
    let mut extras = Extras::default();
    directory.end(&mut extras);
    assert!(extras.notes[0].contains("write of a.bin at offset 4096"), "{:?}", extras.notes);
}
