//! Namespaces that other processes of the same user may enter.
//!
//! A process that makes a network keeps a list of its namespaces in a file in memory, which has no name in any folder. Others find it
//! among that process's descriptors, so nothing is left when the process ends, even if killed.
//!
//! Root sees the descriptors of all processes, and another user's list would lead root into that user's namespaces. Names prove nothing,
//! and neither do the user ids of a process: a set-uid program keeps descriptors of its caller. The list itself is the proof: the kernel
//! knows who made a file in memory, and a seal, which files on disk cannot have, says that it is as its owner wrote it.

use crate::error::{Error, Result};
use crate::netns::Namespace;
use crate::sys;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;

/// How /proc shows a descriptor of such a list.
const SHOWN: &str = "/memfd:pointsman-net";

/// The list of this process. It exists as long as the value, like the namespaces in it.
#[derive(Debug)]
pub struct Announcement {
    _list: File,
    _namespaces: Vec<Namespace>,
}

/// Lets other processes of this user enter these namespaces by name. `title` says which network it is. Neither names nor the title
/// may contain line breaks.
///
/// # Errors
/// The kernel makes no file.
pub fn announce(title: &str, named: &[(String, Namespace)]) -> Result<Announcement> {
    let mut text = format!("{title}\n");
    for (name, namespace) in named {
        text += &format!("{} {name}\n", namespace.as_fd().as_raw_fd());
    }
    let list = sys::sealed_file(c"pointsman-net", text.as_bytes())
        .map_err(|e| Error::os("cannot announce the network", e))?;
    Ok(Announcement { _list: list, _namespaces: named.iter().map(|(_, n)| n.clone()).collect() })
}

/// A network of another process of this user.
#[derive(Clone, Debug)]
pub struct Announced {
    /// The process.
    pub process: u32,
    /// Its title.
    pub title: String,
    /// The process's folder in /proc. It never shows another process, which may get the same number after the end of this one.
    place: Arc<File>,
    /// Names of namespaces, with the process's descriptors.
    named: Vec<(String, i32)>,
}

/// The networks of all processes of this user, by process.
pub fn announced() -> Vec<Announced> {
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut processes: Vec<u32> = numbers.filter_map(|e| e.file_name().to_str()?.parse().ok()).collect();
    processes.sort_unstable();
    let (user, _) = sys::effective_ids();
    processes.into_iter().filter_map(|process| of_process(process, user)).collect()
}

fn of_process(process: u32, user: u32) -> Option<Announced> {
    let place = Arc::new(File::open(format!("/proc/{process}")).ok()?);
    let descriptors = fs::read_dir(within(&place, "fd")).ok()?.flatten().map(|e| e.path());
    let is_list = |path: &Path| fs::read_link(path).is_ok_and(|to| to.to_string_lossy().starts_with(SHOWN));
    let list = descriptors.filter(|path| is_list(path)).find_map(|path| own_list(&path, user))?;
    let (title, named) = parse(&io::read_to_string(list).ok()?)?;
    Some(Announced { process, title, place, named })
}

/// A file in a process's folder.
fn within(place: &File, name: &str) -> String {
    format!("/proc/self/fd/{}/{name}", place.as_raw_fd())
}

/// Opens a list if this user has made it. The file may be anything: nothing is read before that is known.
fn own_list(path: &Path, user: u32) -> Option<File> {
    let harmless = libc::O_NONBLOCK | libc::O_NOCTTY;
    let list = OpenOptions::new().read(true).custom_flags(harmless).open(path).ok()?;
    let own = list.metadata().ok()?.uid() == user && sys::is_sealed(&list);
    own.then_some(list)
}

/// Reads a list: its title, and the namespaces with their descriptors.
fn parse(text: &str) -> Option<(String, Vec<(String, i32)>)> {
    let mut lines = text.lines();
    let title = lines.next()?.to_string();
    let entry = |line: &str| {
        let (descriptor, name) = line.split_once(' ')?;
        Some((name.to_string(), descriptor.parse().ok()?))
    };
    Some((title, lines.map(entry).collect::<Option<_>>()?))
}

impl Announced {
    /// The names of its namespaces.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.named.iter().map(|(name, _)| name.as_str())
    }

    /// Moves this process, which must have a single thread, into a namespace of the network, for good.
    ///
    /// # Errors
    /// An unknown name, a process that has ended, or a namespace that the kernel does not open.
    pub fn enter(&self, name: &str) -> Result<()> {
        let process = self.process;
        let (_, descriptor) = self.named.iter().find(|(n, _)| n == name).ok_or_else(|| {
            let all: Vec<&str> = self.names().collect();
            Error::new(format!("the network has no `{name}`"))
                .with_remedy(format!("it has {}", all.join(", ")))
        })?;
        let opened = |file: &str| {
            File::open(within(&self.place, file)).map_err(|e| {
                Error::os(format!("cannot open {file} of process {process}"), e)
                    .with_remedy("its network may have ended: start it again")
            })
        };
        let namespace = Namespace::open(name, opened(&format!("fd/{descriptor}"))?);
        // A user that may not make namespaces is root in a user namespace of the network's process only.
        let own = fs::read_link("/proc/self/ns/user").ok();
        if own != fs::read_link(within(&self.place, "ns/user")).ok() {
            let user = opened("ns/user")?;
            sys::set_user_namespace(user.as_fd())
                .map_err(|e| Error::os(format!("cannot enter the user namespace of process {process}"), e))?;
        }
        namespace.join()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn lists() {
        let (title, named) = parse("rings/net.json\n3 h1\n12 s1\n").expect("a list");
        assert_eq!(title, "rings/net.json");
        assert_eq!(named, [("h1".to_string(), 3), ("s1".to_string(), 12)]);
        for wrong in ["", "title\nh1\n", "title\nx h1\n"] {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
    }

    /// The descriptors of this process are found like those of others, but not lists that another user made or may have changed.
    #[test]
    fn a_process_is_found_by_its_descriptors() {
        let here = Namespace::here().expect("/proc");
        let (process, (user, _)) = (std::process::id(), sys::effective_ids());
        let mut unsealed: File = sys::memory_file(c"pointsman-net").expect("a file").into();
        unsealed.write_all(b"forged\n0 place\n").expect("memory");
        assert!(of_process(process, user).is_none(), "anyone may have written it");
        let announced = announce("a title", &[("place".to_string(), here)]).expect("a file");
        assert!(of_process(process, user + 1).is_none(), "the list of another user");
        let found = of_process(process, user).expect("it is there");
        assert_eq!((found.title.as_str(), found.names().collect::<Vec<_>>()), ("a title", vec!["place"]));
        assert!(found.enter("other").is_err_and(|e| e.to_string().contains("it has place")));
        drop(announced);
        assert!(of_process(process, user).is_none());
    }

    /// This process has the number of the one that ended, and the same descriptor.
    #[test]
    fn another_process_of_the_same_number_is_not_entered() {
        let here = Namespace::here().expect("/proc");
        let mut ended = std::process::Command::new("true").spawn().expect("a program");
        let place = Arc::new(File::open(format!("/proc/{}", ended.id())).expect("not waited for"));
        ended.wait().expect("a child");
        let named = vec![("place".to_string(), here.as_fd().as_raw_fd())];
        let network = Announced { process: std::process::id(), title: String::new(), place, named };
        let error = network.enter("place").expect_err("it has ended").to_string();
        assert!(error.contains("its network may have ended"), "{error}");
    }
}
