//! A kernel made of text files in a temporary folder, for tests.

#![expect(clippy::unwrap_used, reason = "a test that cannot write its files must fail")]

use crate::kernel::Kernel;

const STAT_V2: &str = "anon 1000\nfile 8000\nkernel 700\nshmem 100\ninactive_anon 600\nactive_anon 500\n\
    unevictable 0\nslab_reclaimable 200\nsock 0\nworkingset_refault_file 30\npgmajfault 4\n";
const STAT_V1: &str = "rss 1\ntotal_cache 8000\ntotal_rss 1000\ntotal_shmem 100\ntotal_inactive_anon 600\n\
    total_active_anon 500\ntotal_unevictable 0\ntotal_workingset_refault_file 30\ntotal_pgmajfault 4\n";

/// A folder that looks like a kernel to everything that reads through a root path.
#[derive(Debug)]
pub struct FakeKernel {
    dir: tempfile::TempDir,
}

impl Default for FakeKernel {
    fn default() -> Self {
        Self::new()
    }
}

impl FakeKernel {
    /// A kernel without any file.
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// This process alone in the v2 group `path`, with these counters: memory 10,000, need 1,600, peak 12,000, CPU 5 ms, one OOM
    /// kill, nine failures.
    pub fn v2(path: &str) -> Self {
        let (fake, own) = (Self::new(), format!("{}\n", std::process::id()));
        fake.write("/proc/self/cgroup", &format!("0::{path}\n"));
        fake.write("/proc/self/mountinfo", "1 2 0:3 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        for (name, text) in [
            ("cgroup.procs", own.as_str()),
            ("cgroup.type", "domain\n"),
            ("memory.current", "10000\n"),
            ("memory.stat", STAT_V2),
            ("memory.peak", "12000\n"),
            ("memory.events", "low 0\nhigh 0\nmax 9\noom 1\noom_kill 1\noom_group_kill 0\n"),
            ("memory.max", "max\n"),
            (
                "memory.pressure",
                "some avg10=0.00 avg60=0.00 avg300=0.00 total=90\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=70\n",
            ),
            ("cpu.stat", "usage_usec 5000\nuser_usec 4000\nsystem_usec 1000\nthrottled_usec 600\n"),
            ("cpu.max", "max 100000\n"),
        ] {
            fake.write(&format!("/sys/fs/cgroup{path}/{name}"), text);
        }
        fake
    }

    /// The same with v1 controllers, in `memory` and `cpuacct`, beside an empty v2 hierarchy.
    pub fn hybrid(memory: &str, cpuacct: &str) -> Self {
        let (fake, own) = (Self::new(), format!("{}\n", std::process::id()));
        let memberships = format!("4:memory:{memory}\n2:cpuacct:{cpuacct}\n1:name=systemd:/\n0::/\n");
        fake.write("/proc/self/cgroup", &memberships);
        let mounts = "1 9 0:3 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
            2 9 0:4 / /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct\n\
            3 9 0:5 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        fake.write("/proc/self/mountinfo", mounts);
        fake.write("/sys/fs/cgroup/unified/cgroup.procs", "1\n");
        let cpuacct = cpuacct.trim_end_matches('/');
        fake.write(&format!("/sys/fs/cgroup/cpuacct{cpuacct}/cgroup.procs"), "1\n");
        fake.write(&format!("/sys/fs/cgroup/cpuacct{cpuacct}/tasks"), "1\n");
        fake.write(&format!("/sys/fs/cgroup/cpuacct{cpuacct}/cpuacct.usage"), "5000999\n");
        for (name, text) in [
            ("cgroup.procs", own.as_str()),
            ("tasks", "1\n"),
            ("memory.usage_in_bytes", "10000\n"),
            ("memory.stat", STAT_V1),
            ("memory.kmem.usage_in_bytes", "500\n"),
            ("memory.max_usage_in_bytes", "12000\n"),
            ("memory.failcnt", "9\n"),
            ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"),
            ("memory.limit_in_bytes", "9223372036854771712\n"),
        ] {
            fake.write(&format!("/sys/fs/cgroup/memory{memory}/{name}"), text);
        }
        fake
    }

    /// A process with these ids (its own, its parent's, its session's), CPU times (`utime`, `stime`, `cutime`, `cstime`), anonymous KiB, 8 KiB
    /// of shared memory, and 100 KiB of files.
    pub fn process(&self, [pid, parent, session]: [i32; 3], ticks: [u64; 4], anon_kib: u64) {
        let [user, system, child_user, child_system] = ticks;
        let (zeros, pages) = ("0 ".repeat(35), anon_kib / 4 + 10);
        let stat = format!(
            "{pid} (a b) c) S {parent} {pid} {session} 0 -1 4194304 0 0 0 0 {user} {system} {child_user} \
             {child_system} 20 0 1 0 100 1000 {pages} {zeros}\n"
        );
        self.write(&format!("/proc/{pid}/stat"), &stat);
        let sizes = format!("VmRSS:\t{} kB\nRssAnon:\t{anon_kib} kB\nRssShmem:\t8 kB\n", anon_kib + 108);
        self.write(&format!("/proc/{pid}/status"), &format!("Name:\ta b) c\n{sizes}"));
    }

    /// The folder as a kernel.
    pub fn kernel(&self) -> Kernel {
        Kernel::at(self.dir.path())
    }

    /// Writes a file and the folders above it.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.kernel().path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// Removes a file.
    pub fn remove(&self, path: &str) {
        std::fs::remove_file(self.kernel().path(path)).unwrap();
    }
}
