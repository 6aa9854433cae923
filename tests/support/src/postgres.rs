//! A PostgreSQL of the tests' own: started from the programs of the system in a temporary folder, on a free port of the loopback.
//!
//! A process shares one; each test takes a database of its own there. The server ends with the process, also if that is killed.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a database that cannot do its work must fail the test"
)]

use std::{
    fs,
    io::{BufRead as _, BufReader},
    net::TcpListener,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown},
    path::{Path, PathBuf},
    process::{self, Command, Output, Stdio},
    sync::{
        Mutex, OnceLock, PoisonError,
        atomic::{AtomicU32, Ordering::Relaxed},
        mpsc,
    },
    thread::{self, JoinHandle},
};

/// Where Debian puts the programs of PostgreSQL.
const PROGRAMS: &str = "/usr/lib/postgresql";
/// User that the server runs as if the tests run as root, which PostgreSQL refuses.
const USER: &str = "postgres";
/// Start of the names of temporary folders; the process follows.
const FOLDER: &str = "plimsoll-postgres-";

/// A running PostgreSQL. It is stopped when this value is dropped, or when the process ends.
#[derive(Debug)]
pub struct PostgresServer {
    programs: PathBuf,
    folder: PathBuf,
    /// Port on 127.0.0.1.
    pub port: u16,
    settings: Vec<String>,
    running: Mutex<Option<RunningServer>>,
}

#[derive(Debug)]
struct RunningServer {
    pid: u32,
    /// Ends with the server.
    watcher: JoinHandle<()>,
}

/// Counts folders and databases of this process.
static NUMBER: AtomicU32 = AtomicU32::new(0);

impl PostgresServer {
    /// The server of this process; `None` if PostgreSQL is not installed.
    pub fn shared() -> Option<&'static Self> {
        static SHARED: OnceLock<Option<PostgresServer>> = OnceLock::new();
        SHARED.get_or_init(|| Self::start(|_folder| Vec::new())).as_ref()
    }

    /// The server of this process, with the name and the address of a new database; `None` if PostgreSQL is not installed.
    pub fn with_new_database() -> Option<(&'static Self, String, String)> {
        let server = Self::shared()?;
        let database = server.new_database();
        let url = server.url(&database);
        Some((server, database, url))
    }

    /// A server for one test. `prepare` may put files into the folder, which then belong to the server; it returns settings as `name=value`.
    pub fn start(prepare: impl FnOnce(&Path) -> Vec<String>) -> Option<Self> {
        let programs = installed_programs()?;
        remove_left_over();
        let mut server =
            Self { programs, folder: new_folder(), port: 0, settings: Vec::new(), running: Mutex::default() };
        server.settings = prepare(&server.folder);
        give_to_server(&server.folder);
        let (data, user) = (server.data(), ["-U", "plimsoll", "-A", "trust"]);
        let mut initdb = server.as_user("initdb");
        initdb.args(["-E", "UTF8", "--locale=C", "--no-sync", "-D"]).arg(data).args(user);
        run_to_end(&mut initdb);
        server.launch_on_a_free_port();
        Some(server)
    }

    /// A standby of this server with the same settings, which follows its log from now on.
    #[must_use]
    pub fn new_standby(&self) -> Self {
        let (programs, settings) = (self.programs.clone(), self.settings.clone());
        let mut standby =
            Self { programs, folder: new_folder(), port: 0, settings, running: Mutex::default() };
        give_to_server(&standby.folder);
        standby.copy(self);
        standby.launch_on_a_free_port();
        standby
    }

    /// Makes a stopped server a standby of another one, on the same port. What it had is gone.
    pub fn follow(&self, primary: &Self) {
        fs::remove_dir_all(self.data()).unwrap();
        self.copy(primary);
        self.start_again();
    }

    fn copy(&self, primary: &Self) {
        let mut copy = self.as_user("pg_basebackup");
        copy.args([
            "-R",
            "-X",
            "stream",
            "--checkpoint=fast",
            "--no-sync",
            "-d",
            &primary.url("postgres"),
            "-D",
        ]);
        run_to_end(copy.arg(self.data()));
    }
    fn launch_on_a_free_port(&mut self) {
        // the port is free now, and may be taken by another process before the server has it
        let started = (0..5).find_map(|_try| self.launch(free_port()));
        self.port =
            started.unwrap_or_else(|| panic!("PostgreSQL does not start in {}", self.folder.display()));
    }

    /// URL of a database, over TCP.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://plimsoll@127.0.0.1:{}/{database}", self.port)
    }

    /// Makes a database; returns its name.
    pub fn new_database(&self) -> String {
        let name = format!("test{}", NUMBER.fetch_add(1, Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name}"));
        name
    }

    /// Runs statements; returns the rows, with `|` between columns.
    pub fn sql(&self, database: &str, statements: &str) -> String {
        let Output { status, stdout, stderr } = self.psql(database, statements);
        assert!(status.success(), "{statements}: {}", String::from_utf8_lossy(&stderr));
        String::from_utf8_lossy(&stdout).trim_end().to_owned()
    }

    /// Runs statements, which may fail.
    pub fn psql(&self, database: &str, statements: &str) -> Output {
        let mut psql = self.client("psql");
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", statements, &self.url(database)]);
        psql.output().unwrap()
    }

    /// A client program of the same version.
    pub fn client(&self, program: &str) -> Command {
        Command::new(self.programs.join(program))
    }

    /// Ends the server as a crash does: it writes nothing more.
    pub fn crash(&self) {
        self.end("QUIT");
    }

    /// Shuts the server down without waiting for its clients, which are disconnected.
    pub fn stop_fast(&self) {
        self.end("INT");
    }

    fn end(&self, signal: &str) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(RunningServer { pid, watcher }) = running {
            send_signal(signal, pid);
            let _ended = watcher.join();
        }
    }

    /// Starts it again, on the same port. It recovers first.
    pub fn start_again(&self) {
        assert_eq!(self.launch(self.port), Some(self.port), "PostgreSQL does not start again");
    }

    /// Makes a stopped server a standby from its next start on.
    pub fn make_standby(&self) {
        fs::write(self.data().join("standby.signal"), "").unwrap();
    }

    /// Makes a standby the primary. Returns once it takes writes.
    pub fn promote(&self) {
        assert_eq!(self.sql("postgres", "SELECT pg_promote()"), "t", "the standby is promoted");
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// Starts the server; returns its port once it takes connections, `None` if it has ended.
    fn launch(&self, port: u16) -> Option<u16> {
        let mut postgres = self.as_user("postgres");
        postgres.args([
            "-p",
            &port.to_string(),
            "-c",
            "listen_addresses=127.0.0.1",
            "-c",
            "log_destination=stderr",
        ]);
        postgres.args(["-c", "unix_socket_directories=", "-c", "max_connections=300"]);
        for setting in &self.settings {
            postgres.args(["-c", setting]);
        }
        postgres
            .arg("-D")
            .arg(self.data())
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let (started, starting) = mpsc::channel();
        // the kernel ends the server when the thread that started it ends: this one lives until the server does
        let watcher = thread::spawn(move || watch(postgres, &started));
        let pid = starting.recv().ok()?;
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(RunningServer { pid, watcher });
        Some(port)
    }

    /// A program of PostgreSQL, as a user that it accepts, which ends with the thread that starts it.
    fn as_user(&self, program: &str) -> Command {
        let mut command = Command::new("setpriv");
        if is_root() {
            command.args([format!("--reuid={USER}"), format!("--regid={USER}"), "--clear-groups".to_owned()]);
        }
        command.args(["--pdeathsig", "QUIT"]).arg(self.programs.join(program)).current_dir("/");
        command
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        self.crash();
        let _kept = fs::remove_dir_all(&self.folder);
    }
}

/// Starts the server, sends its process id once it takes connections, and waits for its end.
fn watch(mut postgres: Command, started: &mpsc::Sender<u32>) {
    let mut child = postgres.spawn().unwrap();
    let pid = child.id();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    for _line in lines.map_while(Result::ok).filter(|line| line.contains("ready to accept")) {
        let _waits = started.send(pid);
    }
    let _ended = child.wait();
}

/// The programs of the newest PostgreSQL; `None` if it is not installed and not required.
fn installed_programs() -> Option<PathBuf> {
    let programs = programs();
    if programs.is_none() {
        #[expect(clippy::disallowed_methods, reason = "says whether a test may be skipped")]
        let is_required = std::env::var("PLIMSOLL_POSTGRES_REQUIRED").is_ok();
        assert!(!is_required, "PostgreSQL is required: apt-get install postgresql");
        eprintln!("skipped what needs PostgreSQL: apt-get install postgresql");
    }
    programs
}

/// A new folder, which is named after this process.
fn new_folder() -> PathBuf {
    let name = format!("{FOLDER}{}-{}", process::id(), NUMBER.fetch_add(1, Relaxed));
    let folder = std::env::temp_dir().join(name);
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    folder
}
fn run_to_end(program: &mut Command) {
    let ended = program.output().unwrap();
    assert!(ended.status.success(), "{program:?}: {}", String::from_utf8_lossy(&ended.stderr));
}

fn send_signal(signal: &str, pid: u32) {
    let _signalled = Command::new("kill").args([format!("-{signal}"), pid.to_string()]).status();
}

/// The programs of the newest PostgreSQL.
fn programs() -> Option<PathBuf> {
    let versions = fs::read_dir(PROGRAMS).ok()?.filter_map(|version| {
        let path = version.ok()?.path();
        let number: u32 = path.file_name()?.to_str()?.parse().ok()?;
        path.join("bin/postgres").is_file().then(|| (number, path.join("bin")))
    });
    versions.max().map(|(_, programs)| programs)
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// Makes the folder and its files the server's.
fn give_to_server(folder: &Path) {
    if !is_root() {
        return;
    }
    let id = |kind| {
        let output = Command::new("id").args([kind, USER]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().parse().ok()
    };
    let (user, group) = (id("-u"), id("-g"));
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    files.chain([folder.to_owned()]).for_each(|path| chown(path, user, group).unwrap());
}

/// A port of 127.0.0.1 that is free, another one at each call.
pub fn free_port() -> u16 {
    // below the range from which the system gives out ports: a server that is stopped and started again keeps its own
    let first = process::id().wrapping_mul(31);
    let ports = (0..20_000).map(|_try| 12_000 + first.wrapping_add(NUMBER.fetch_add(1, Relaxed)) % 20_000);
    let mut ports = ports.filter_map(|port| u16::try_from(port).ok());
    ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).unwrap()
}

/// Removes folders of processes that have ended: the server of a whole process is never dropped.
fn remove_left_over() {
    let Ok(files) = fs::read_dir(std::env::temp_dir()) else { return };
    for path in files.filter_map(|file| Some(file.ok()?.path())) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let process = name.strip_prefix(FOLDER).and_then(|rest| rest.split('-').next());
        if process.is_some_and(|process| !Path::new("/proc").join(process).is_dir()) {
            let _removed = fs::remove_dir_all(&path);
        }
    }
}
