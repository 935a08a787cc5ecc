//! A disk that is full: a message, whole checkpoints, and the same result once there is room.
#![cfg(target_os = "linux")]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use support::workshop::{Workshop, wait_until};

/// A small disk in memory, which goes when the test ends.
struct Disk(PathBuf);

impl Disk {
    /// Mounts it; none where that is not permitted.
    fn mount(folder: PathBuf, kilobytes: usize) -> Option<Self> {
        fs::create_dir(&folder).unwrap();
        let size = format!("size={kilobytes}k");
        mount(&["-t", "tmpfs", "-o", &size, "tmpfs"], &folder).then_some(Disk(folder))
    }

    fn resize(&self, kilobytes: usize) {
        assert!(mount(&["-o", &format!("remount,size={kilobytes}k")], &self.0));
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

fn mount(args: &[&str], folder: &Path) -> bool {
    let output = Command::new("mount").args(args).arg(folder).output();
    output.is_ok_and(|output| output.status.success())
}

#[test]
fn a_full_disk_ends_with_1_and_leaves_a_run_that_goes_on() {
    let shop = Workshop::new();
    let Some(disk) = Disk::mount(shop.path("disk"), ENOUGH) else {
        eprintln!("SKIPPED: mounting a small disk is not permitted here");
        return;
    };
    /// Room for the whole run, and for a checkpoint or two of its 100 kB.
    const ENOUGH: usize = 16_384;
    const LITTLE: usize = 256;
    let args = "train tiny.toml --set checkpoints.every=10 --set data.validation=0";
    shop.santa(&format!("{args} --out whole")).done();
    let (whole, part) = (shop.run("whole"), shop.run("disk/part"));

    disk.resize(LITTLE);
    let resume = format!("{args} --out disk/part --resume");
    let said = shop.santa(&resume);
    let said = said.refuses(1, &["disk/part/", "No space left", "make room", "`--resume`"]);
    assert!(!part.has("summary.json"));
    let kept = part.checkpoints();
    for path in &kept {
        assert!(santa::Checkpoint::read(path).is_ok(), "{}: {}", path.display(), said.err);
    }
    assert!(!kept.is_empty(), "there was room for one");
    // Nothing half written is left, and trying again without room changes nothing.
    let names = |folder: &str| fs::read_dir(shop.path(folder)).unwrap().count();
    assert_eq!(names("disk/part/checkpoints"), kept.len());
    shop.santa(&resume).refuses(1, &["No space left"]);
    assert_eq!(part.checkpoints(), kept);

    disk.resize(ENOUGH);
    shop.santa(&resume).done();
    assert!(part.essence() == whole.essence());
}

#[test]
fn a_disk_that_fills_up_at_any_moment_does_no_harm() {
    let shop = Workshop::new();
    let Some(disk) = Disk::mount(shop.path("disk"), 16_384) else {
        eprintln!("SKIPPED: mounting a small disk is not permitted here");
        return;
    };
    let args = "train tiny.toml --set checkpoints.every=5 --set log_every=1";
    shop.santa(&format!("{args} --out whole")).done();
    let (whole, part) = (shop.run("whole"), shop.run("disk/part"));
    let resume = format!("{args} --out disk/part --resume");
    // A little more room each time: it is full in the middle of one file, then of another.
    for kilobytes in (4..600).step_by(44) {
        disk.resize(kilobytes);
        let said = shop.santa(&resume);
        if said.code == Some(0) {
            break;
        }
        said.refuses(1, &["disk/part", "No space left"]);
    }
    disk.resize(16_384);
    shop.santa(&resume).done();
    assert!(part.essence() == whole.essence());
}

#[test]
fn a_folder_that_cannot_be_made_ends_with_1() {
    let shop = Workshop::new();
    shop.write("file", "");
    shop.santa("train tiny.toml --out file/run").refuses(1, &["file/run"]);
    let mut child = shop.start("train tiny.toml --out /dev/full/run");
    assert!(!wait_until(&mut child, || false));
    assert_eq!(child.wait().unwrap().code(), Some(1));
}
