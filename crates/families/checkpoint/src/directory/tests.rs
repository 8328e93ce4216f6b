//! Tests of work outside the measured time of a restore, and of ranks that fail.

use storlab_base::{Identity, Stamped as _};
use storlab_run::order::Order as _;

use super::*;

#[test]
fn the_content_of_another_seed_is_made_before_a_restore_begins() {
    let home = tempfile::tempdir_in(".").unwrap();
    let files = serde_json::json!([{"name": "a.bin", "rank": 0, "bytes": 65_536}]);
    let order = crate::tests::order(home.path(), |job| job["files"] = files.clone());
    let job = CheckpointJob::from_json(&order.to_string()).unwrap();
    let shelf = CheckpointDirectory::new(&job, home.path());
    let mut directory = Directory::new(&job, shelf, &Arc::new(Control::new(false)));
    let manifest = Manifest { seed: job.seed + 1, ..directory.describe(1) };
    std::fs::create_dir(directory.shelf.whole(1)).unwrap();
    let mut data = vec![0; 65_536];
    let whose = Identity { number: 1, file: 0, header: 0 };
    Content::new(manifest.seed, slots(&job), 65_536).of(whose).fill(0, &mut data);
    std::fs::write(directory.shelf.whole(1).join("a.bin"), &data).unwrap();
    assert_eq!(directory.evict_page_cache(&manifest).unwrap(), 0);
    let expected = directory.expected.expect("what it is compared with");
    expected.check(whose, "a.bin", 0, &data).unwrap();
}

#[test]
fn what_failed_is_told_though_another_rank_is_stuck() {
    let home = tempfile::tempdir_in(".").unwrap();
    let order = crate::tests::order(home.path(), |job| job["drain_timeout_ns"] = 1.into());
    let job = CheckpointJob::from_json(&order.to_string()).unwrap();
    let shelf = CheckpointDirectory::new(&job, home.path());
    let mut directory = Directory::new(&job, shelf, &Arc::new(Control::new(false)));
    let (answer, answers) = channel();
    directory.answers = Some(answers);
    // Two ranks that accept their orders, of which only one answers.
    let (orders, _taken): (Vec<_>, Vec<_>) = (0..2).map(|_| channel()).unzip();
    directory.orders = orders;
    let full = std::io::Error::from_raw_os_error(libc::ENOSPC);
    answer.send(Err(Error::io("write", "a.bin", 0, full))).unwrap();
    let order = Order::Write { number: 1, directory: home.path().into() };
    let error = directory.order_all(&order, &mut || ()).unwrap_err();
    assert!(error.hangs(), "{error}");
    assert!(error.to_string().starts_with("write of a.bin at offset 0 failed"), "{error}");
}
