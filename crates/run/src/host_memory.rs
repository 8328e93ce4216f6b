//! Memory that this process may use: the machine's RAM, or less if its control groups have a limit.

use std::fmt;
use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// Memory that this process may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostMemory {
    /// RAM of the machine in bytes, or the lowest limit of the process's control groups if that is
    /// less.
    pub bytes: u64,
    /// Directory of the control group that sets the limit; `None` if the machine's RAM is the
    /// limit.
    pub group: Option<PathBuf>,
}

/// Return how many bytes of memory this process may use.
pub fn memory_bytes() -> u64 {
    host_memory().bytes
}

/// Return how much memory this process may use, and the control group that limits it.
pub fn host_memory() -> HostMemory {
    let system = rustix::system::sysinfo();
    let machine = system.totalram as u64 * u64::from(system.mem_unit);
    let text_of = |path: &str| read_to_string(path).unwrap_or_default();
    let limit = smallest_limit(&text_of("/proc/self/cgroup"), &text_of("/proc/self/mountinfo"));
    match limit {
        Some((bytes, group)) if bytes < machine => HostMemory { bytes, group: Some(group) },
        _ => HostMemory { bytes: machine, group: None },
    }
}

impl fmt::Display for HostMemory {
    /// Format as `419 MB that the control group /sys/fs/cgroup/job allows` or `16384 MB of this
    /// machine`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} MB ", self.bytes / 1_000_000)?;
        match &self.group {
            Some(group) => write!(f, "that the control group {} allows", group.display()),
            None => f.write_str("of this machine"),
        }
    }
}

/// Return the lowest memory limit of all control groups of the process (cgroups(7)), with the
/// directory of its group. `None` if no group has a limit.
fn smallest_limit(groups: &str, mounts: &str) -> Option<(u64, PathBuf)> {
    mounts.lines().filter_map(|mount| limit_below(mount, groups)).min()
}

/// Return the lowest memory limit in the hierarchy that one line of mountinfo mounts, between the
/// process's group and the mount point.
fn limit_below(mount: &str, groups: &str) -> Option<(u64, PathBuf)> {
    let (place, file_system) = mount.split_once(" - ")?;
    let mut place = place.split(' ').skip(3);
    let (root, point) = (place.next()?, place.next()?.replace("\\040", " "));
    let mut file_system = file_system.split(' ');
    let kind = file_system.next()?;
    let has = |controllers: &str| controllers.split(',').any(|name| name == "memory");
    let (controllers, file): (&dyn Fn(&str) -> bool, &str) = match kind {
        "cgroup2" => (&str::is_empty, "memory.max"),
        "cgroup" if has(file_system.nth(1)?) => (&has, "memory.limit_in_bytes"),
        _ => return None,
    };
    let group = groups.lines().find_map(|line| {
        let (named, path) = line.split_once(':')?.1.split_once(':')?;
        controllers(named).then_some(path)
    })?;
    // In a container, the mount may contain only a part of the hierarchy.
    let below = group.strip_prefix(root.trim_end_matches('/')).unwrap_or("");
    let below = if below.split('/').any(|part| part == "..") { "" } else { below };
    let point = PathBuf::from(point);
    let lowest = point.join(below.trim_start_matches('/'));
    let above = lowest.ancestors().take_while(|path| path.starts_with(&point));
    above.filter_map(|group| Some((limit_of(&group.join(file))?, group.to_owned()))).min()
}

fn limit_of(file: &Path) -> Option<u64> {
    read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::fs::{create_dir_all, write};

    use super::*;

    fn limits(root: &Path, file: &str, groups: &[(&str, &str)]) {
        for (group, limit) in groups {
            create_dir_all(root.join(group)).unwrap();
            write(root.join(group).join(file), format!("{limit}\n")).unwrap();
        }
    }

    #[test]
    fn the_smallest_limit_on_the_way_up_counts_in_version_2() {
        let dir = tempfile::tempdir().unwrap();
        let point = dir.path().display();
        let mount = format!("38 31 0:35 / {point} rw,relatime - cgroup2 cgroup2 rw\n");
        let groups = [("a", "4000"), ("a/b", "max"), ("a/b/c", "9000"), ("other", "1")];
        limits(dir.path(), "memory.max", &groups);
        let top = |limit, group: &str| Some((limit, dir.path().join(group)));
        assert_eq!(smallest_limit("0::/a/b/c\n", &mount), top(4000, "a"));
        assert_eq!(smallest_limit("0::/a/b\n", &mount), top(4000, "a"));
        assert_eq!(smallest_limit("0::/\n", &mount), None);
        // The group's path as seen from outside its cgroup namespace.
        limits(dir.path(), "memory.max", &[("", "5000")]);
        assert_eq!(smallest_limit("0::/../x\n", &mount), top(5000, ""));
    }

    #[test]
    fn version_1_has_a_hierarchy_for_memory() {
        let dir = tempfile::tempdir().unwrap();
        let (memory, cpu) = (dir.path().join("memory"), dir.path().join("cpu"));
        limits(&memory, "memory.limit_in_bytes", &[("", "9223372036854771712"), ("job", "7000")]);
        limits(&cpu, "memory.limit_in_bytes", &[("", "1")]);
        let (memory, cpu) = (memory.display(), cpu.display());
        let mount = |root: &str| {
            format!(
                "32 31 0:29 / {cpu} rw - cgroup cgroup rw,cpu\n\
                 35 31 0:32 {root} {memory} rw,relatime - cgroup cgroup rw,memory\n"
            )
        };
        let groups = "5:cpu:/\n4:hugetlb,memory:/job\n0::/\n";
        let top = |limit, group: &str| Some((limit, dir.path().join("memory").join(group)));
        assert_eq!(smallest_limit(groups, &mount("/")), top(7000, "job"));
        // A container sees only its own part of the hierarchy.
        limits(dir.path(), "memory/memory.limit_in_bytes", &[]);
        let groups = "4:memory:/docker/abc/job\n";
        assert_eq!(smallest_limit(groups, &mount("/docker/abc")), top(7000, "job"));
        let unlimited = top(9_223_372_036_854_771_712, "");
        assert_eq!(smallest_limit(groups, &mount("/elsewhere")), unlimited);
    }

    #[test]
    fn the_text_names_the_group_that_limits() {
        let bytes = 419_430_400;
        let limited = HostMemory { bytes, group: Some("/sys/fs/cgroup/job".into()) };
        assert!(limited.to_string().contains("419 MB"));
        assert!(limited.to_string().contains("/sys/fs/cgroup/job"));
        assert!(!limited.to_string().contains("machine"));
        assert!(HostMemory { bytes, group: None }.to_string().contains("machine"));
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(memory_bytes() > 1 << 20);
        assert_eq!(memory_bytes(), host_memory().bytes);
        assert_eq!(smallest_limit("", ""), None);
    }
}
