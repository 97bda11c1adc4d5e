//! Network namespaces without names, and the right to make them.
//!
//! A [`Namespace`] is held by a file descriptor of this process and by nothing else: no name under `/run/netns`, no
//! file, no helper process. When the last descriptor is closed and the last thread in it has ended, the kernel removes
//! the namespace with its interfaces, so no cleanup is needed after Ctrl-C, a crash, or SIGKILL.
//!
//! In Linux a network namespace belongs to a thread. Code runs "in" a namespace on a thread that moved
//! there; sockets stay in the namespace of the thread that opened them. Threads
//! start in the namespace of the thread that starts them, so an asynchronous runtime built inside
//! [`Namespace::spawn`] has all its workers there.

use crate::error::{Error, Result};
use crate::sys;
use std::fs::{self, File};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

/// An anonymous network namespace. Clones share it.
#[derive(Clone, Debug)]
pub struct Namespace {
    name: String,
    fd: Arc<OwnedFd>,
    /// The process's own namespace: no switch is needed.
    here: bool,
}

impl Namespace {
    /// The namespace that the process is in: for loopback, and for networks that are there. Needs no privileges.
    ///
    /// # Errors
    /// There is no /proc.
    pub fn here() -> Result<Self> {
        let path = "/proc/self/ns/net";
        let file = File::open(path).map_err(|e| Error::os(format!("cannot open {path}"), e))?;
        Ok(Self { name: "here".into(), fd: Arc::new(file.into()), here: true })
    }

    /// Makes a new, empty namespace with its loopback interface down. `name` is for messages only.
    ///
    /// Fails if the process may not make namespaces; see [`ensure_privileges`].
    pub fn new(name: impl Into<String>) -> Result<Self> {
        let name = name.into();
        let made = on_thread(&name, || -> Result<OwnedFd> {
            sys::unshare(libc::CLONE_NEWNET)
                .map_err(|e| Error::os("cannot make a network namespace", e).with_remedy(PRIVILEGE_REMEDY))?;
            // The thread is about to end; the open file keeps its namespace alive.
            let file = File::open("/proc/thread-self/ns/net")
                .map_err(|e| Error::os("cannot open /proc/thread-self/ns/net", e))?;
            Ok(file.into())
        })?;
        Ok(Self { name, fd: Arc::new(made?), here: false })
    }

    /// A namespace that is open already.
    pub(crate) fn open(name: &str, file: File) -> Self {
        Self { name: name.into(), fd: Arc::new(file.into()), here: false }
    }

    /// The name given to [`Namespace::new`].
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `f` on a thread inside the namespace and waits for its result. A panic of `f` is propagated.
    pub fn enter<T: Send>(&self, f: impl FnOnce() -> T + Send) -> Result<T> {
        on_thread(&self.name, || self.join().map(|()| f()))?
    }

    /// Starts a thread called `thread_name` inside the namespace.
    pub fn spawn<T: Send + 'static>(
        &self,
        thread_name: &str,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> Result<JoinHandle<T>> {
        let f: Box<dyn FnOnce() -> T + Send> = Box::new(f);
        // A thread starts in its parent's namespace: so the parent enters it first, and its failure is ours.
        self.enter(|| thread::Builder::new().name(thread_name.to_owned()).spawn(f))?
            .map_err(|e| Error::os(format!("cannot start the thread {thread_name}"), e))
    }

    /// Kills all processes in the namespace, those of others included.
    pub fn kill_all(&self) {
        use std::os::unix::fs::MetadataExt;
        let Some(own) = self.fd.try_clone().ok().and_then(|fd| File::from(fd).metadata().ok()) else {
            return;
        };
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let process = entry.file_name().to_str().and_then(|name| name.parse().ok());
            let place = fs::metadata(entry.path().join("ns/net"));
            if let (Some(process), Ok(place)) = (process, place)
                && (place.dev(), place.ino()) == (own.dev(), own.ino())
                && process != std::process::id()
            {
                // It may have ended meanwhile.
                let _ = sys::signal(process, libc::SIGKILL);
            }
        }
    }

    /// Moves the calling thread into the namespace.
    ///
    /// # Errors
    /// The kernel does not let it.
    pub fn join(&self) -> Result<()> {
        if self.here {
            return Ok(());
        }
        sys::set_network_namespace(self.fd.as_fd())
            .map_err(|e| Error::os(format!("cannot enter the network namespace {}", self.name), e))
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Runs `f` on a separate thread, because its changes of namespace cannot be undone.
fn on_thread<T: Send>(name: &str, f: impl FnOnce() -> T + Send) -> Result<T> {
    let (mut f, mut result) = (Some(f), None);
    wait_for_thread(name, &mut || result = f.take().map(|f| f()))?;
    Ok(result.unwrap_or_else(|| unreachable!("the thread has ended without a panic")))
}

/// The part that is the same for all callers. There are more than a hundred of them, and each copy would take 2 KB.
fn wait_for_thread(name: &str, f: &mut (dyn FnMut() + Send)) -> Result<()> {
    thread::scope(|scope| {
        let handle = thread::Builder::new()
            .name(format!("enter {name}"))
            .spawn_scoped(scope, f)
            .map_err(|e| Error::os("cannot start a thread", e))?;
        handle.join().map_err(|panic| std::panic::resume_unwind(panic))
    })
}

const PRIVILEGE_REMEDY: &str = "run as root (sudo), or allow unprivileged user namespaces \
     (sysctl kernel.unprivileged_userns_clone=1, or on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0; \
     in a container: --privileged)";

/// The remedy for a namespace that could not be made.
fn remedy(error: &std::io::Error) -> &'static str {
    match error.raw_os_error() {
        // unshare(2): the limits of user namespaces are reported like this.
        Some(libc::ENOSPC) => "raise the sysctls user.max_user_namespaces and user.max_net_namespaces",
        _ => PRIVILEGE_REMEDY,
    }
}

/// By which right the process may make network namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Privileges {
    /// The process already has CAP_SYS_ADMIN and CAP_NET_ADMIN (root, or already root inside a
    /// user namespace made by another process, as under `unshare -Urn`).
    Root,
    /// The process has just become root of a new user namespace.
    UserNamespace,
}

/// Makes sure that this process may build a rack: does nothing as root, else becomes root in a user
/// namespace. Call it first thing in `main`, before any thread is started.
///
/// The error is one line with the remedy.
pub fn ensure_privileges() -> Result<Privileges> {
    let status = fs::read_to_string("/proc/thread-self/status")
        .map_err(|e| Error::os("cannot read /proc/thread-self/status", e))?;
    let privileges = if has_capabilities(&status) {
        Privileges::Root
    } else {
        become_root_in_user_namespace()?;
        Privileges::UserNamespace
    };
    // Capabilities are not everything: a security module or a limit may still refuse, and should do so now.
    Namespace::new("trial").map(|_| privileges)
}

/// Whether the effective capabilities in a `/proc/PID/status` contain those that a rack needs.
fn has_capabilities(status: &str) -> bool {
    const CAP_NET_ADMIN: u32 = 12;
    const CAP_NET_RAW: u32 = 13;
    const CAP_SYS_ADMIN: u32 = 21;
    let needed = [CAP_NET_ADMIN, CAP_NET_RAW, CAP_SYS_ADMIN].iter().fold(0u64, |m, c| m | 1 << c);
    field(status, "CapEff")
        .and_then(|v| u64::from_str_radix(v, 16).ok())
        .is_some_and(|c| c & needed == needed)
}

/// The value of a `Name:\tvalue` line.
fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim))
}

/// Moves the process into a new user namespace, in which it is root, and a network namespace that
/// belongs to it. Files and processes of the machine are seen as before, with the rights of the user.
///
/// Must be called before any thread is started: the kernel lets only single-threaded processes do this.
pub fn become_root_in_user_namespace() -> Result<()> {
    let (user, group) = sys::effective_ids();
    sys::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET).map_err(|e| {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let threads = field(&status, "Threads").unwrap_or("1");
        if threads != "1" {
            Error::os(format!("cannot make a user namespace in a process of {threads} threads"), e)
                .with_remedy("it must be done before any thread is started")
        } else {
            let remedy = remedy(&e);
            Error::os("this user may not make namespaces", e).with_remedy(remedy)
        }
    })?;
    // An unprivileged process may map one group only after giving up setgroups (user_namespaces(7)).
    // The file is absent before Linux 3.19, where that was not required.
    if let Err(e) = fs::write("/proc/self/setgroups", "deny")
        && e.kind() != std::io::ErrorKind::NotFound
    {
        return Err(Error::os("cannot write /proc/self/setgroups", e).with_remedy(PRIVILEGE_REMEDY));
    }
    for (file, id) in [("/proc/self/uid_map", user), ("/proc/self/gid_map", group)] {
        fs::write(file, format!("0 {id} 1\n"))
            .map_err(|e| Error::os(format!("cannot write {file}"), e).with_remedy(PRIVILEGE_REMEDY))?;
    }
    Ok(())
}

/// A folder in memory that only this process and its children see, and that ends with them: a small separate file
/// system over `folder`, which must exist. Call it after [`ensure_privileges`], before any thread is started.
pub fn private_folder(folder: &Path, bytes: u64) -> Result<()> {
    let failed = |e| Error::os("cannot make a mount table", e).with_remedy(PRIVILEGE_REMEDY);
    sys::private_mounts().map_err(failed)?;
    memory_folder(folder, bytes)
}

/// A file system in memory over `folder`, of at most this many bytes; after [`private_folder`], or the machine would see it.
pub fn memory_folder(folder: &Path, bytes: u64) -> Result<()> {
    let failed = |e| Error::os(format!("cannot mount a file system in memory over {}", folder.display()), e);
    sys::mount_memory(folder, bytes).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read_from_status() {
        let status = |caps: &str| format!("Name:\tx\nThreads:\t1\nCapEff:\t{caps}\nSeccomp:\t0\n");
        assert!(has_capabilities(&status("000001ffffffffff")));
        // Docker's default set: CAP_NET_RAW, but neither CAP_NET_ADMIN nor CAP_SYS_ADMIN.
        assert!(!has_capabilities(&status("00000000a80425fb")));
        assert!(!has_capabilities(&status("0000000000000000")));
        assert!(!has_capabilities("no such line"));
        assert_eq!(field(&status("0"), "Threads"), Some("1"));
    }
}
