//! The programs that a build runs most: which are compilers and linkers, and which file they work on.

/// Programs that compile or link, and hold most of a build's memory. The kernel keeps 15 bytes of a name.
const COMPILERS: &str = "cc1 cc1plus cc1obj cc1objplus f951 gnat1 d21 go1 lto1 as ld ld.bfd ld.gold ld.lld lld mold ld.mold gold \
    clang clang++ clang-cpp flang flang-new rustc cicc ptxas icpx icx ifx nvc nvc++ nvfortran";
/// Linkers, which work on the file that they write.
const LINKERS: &str = "ld ld.bfd ld.gold gold ld.lld lld mold collect2";
/// Programs that start compilers and wait for them.
const DRIVERS: &str = "gcc g++ cc c++ gfortran gnatmake gdc gccgo clang clang++ flang rustc nvcc collect2 lto-wrapper xgcc nvc \
    nvc++ nvfortran icpx icx ifx";
/// Programs that end, or judge, a process below them that does not go on: with a time limit of their own, or because they see that it was
/// stopped. Also servers that compile for other machines.
const WATCHERS: &str = "timeout expect ctest lit llvm-lit pytest py.test runtest dejagnu prove gdb lldb strace ltrace rr valgrind \
    distccd iceccd bazel bazel-real bazelisk";
/// Interpreters, which run some of these programs.
const INTERPRETERS: [&str; 3] = ["python", "perl", "busybox"];
/// Ends of the names of files that compilers and interpreters take.
const SOURCES: &str =
    "c cc cpp cxx c++ C i ii m mm s S f f90 f95 f03 f08 F F90 for rs go cu hs ml swift java kt py js jar";
/// Options of compilers whose next argument is another file than the source.
const WITH_OTHER_FILE: &str =
    "-include -imacros -isystem -iquote -idirafter -I -D -U -o -MF -MT -MQ -dumpbase -dumpdir";
/// Most bytes of the name of a file.
const MAX_FILE_BYTES: usize = 256;

/// Whether this is the name of a compiler or a linker, with a version or the prefix of a target or not: `clang-17`,
/// `x86_64-linux-gnu-ld.bfd`.
pub fn is_compiler(name: &str) -> bool {
    names(name).any(|name| has(COMPILERS, name))
}

/// Whether this is the name of a program that starts compilers and waits for them.
pub(crate) fn is_driver(name: &str) -> bool {
    names(name).any(|name| has(DRIVERS, name))
}

/// Whether this is the name of a program that ends, or judges, a process below it that does not go on.
pub fn is_watcher(name: &str) -> bool {
    has(WATCHERS, name)
}

/// Whether a program may run as another one, so that its command line says what it is.
pub(crate) fn is_interpreter(name: &str) -> bool {
    INTERPRETERS.iter().any(|interpreter| name.starts_with(interpreter))
}

/// Whether an interpreter runs a program that watches those below it: `python3 bin/llvm-lit`, `python3 -m pytest`.
pub(crate) fn interprets_watcher(arguments: &[&str]) -> bool {
    arguments.iter().skip(1).take(3).any(|argument| {
        let name = argument.rsplit('/').next().unwrap_or_default();
        is_watcher(name.strip_suffix(".py").unwrap_or(name))
    })
}

/// Whether a list of words has this one.
fn has(words: &str, word: &str) -> bool {
    words.split(' ').any(|one| one == word)
}

/// A name, the name without its version, and without the prefix of a target.
fn names(name: &str) -> impl Iterator<Item = &str> {
    let is_version =
        |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let plain =
        name.rsplit_once('-').filter(|(_, version)| is_version(version)).map_or(name, |(name, _)| name);
    [name, plain].into_iter().chain(plain.rsplit_once('-').map(|(_target, name)| name))
}

/// The file that a program works on, by its command line: the source of a compiler or an interpreter, the crate of rustc, the output of a
/// linker. Only a name without folders, and only of a file of a known kind, because a command line may hold secrets.
pub(crate) fn work_file(program: &str, arguments: &[&str]) -> Option<String> {
    let next_of = |option: &str| {
        let at = arguments.iter().position(|argument| *argument == option)?;
        arguments.get(at + 1).copied()
    };
    let found = if names(program).any(|name| name == "rustc") {
        next_of("--crate-name")
    } else if names(program).any(|name| has(LINKERS, name)) {
        next_of("-o")
    } else {
        source(arguments)
    };
    let file = found?.rsplit('/').next()?;
    let is_name = !file.is_empty() && file.len() <= MAX_FILE_BYTES && !file.chars().any(char::is_control);
    is_name.then(|| file.to_owned())
}

fn source<'a>(arguments: &[&'a str]) -> Option<&'a str> {
    let mut before = "";
    arguments.iter().copied().skip(1).find(|argument| {
        let is_other = has(WITH_OTHER_FILE, std::mem::replace(&mut before, argument));
        let kind = argument.rsplit('/').next().and_then(|name| name.rsplit_once('.'));
        !is_other && !argument.starts_with('-') && kind.is_some_and(|(_, kind)| has(SOURCES, kind))
    })
}
