//! Namespaces that other processes of the same user may enter.
//!
//! A process that makes a network keeps a list of its namespaces in a file in memory, which has no name in any folder. Others find it
//! among that process's descriptors, so nothing is left when the process ends, even if killed.

use crate::error::{Error, Result};
use crate::netns::Namespace;
use crate::sys;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;

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
    let failed = |e| Error::os("cannot announce the network", e);
    let mut list: File = sys::memory_file(c"pointsman-net").map_err(failed)?.into();
    let mut text = format!("{title}\n");
    for (name, namespace) in named {
        text += &format!("{} {name}\n", namespace.as_fd().as_raw_fd());
    }
    list.write_all(text.as_bytes()).map_err(failed)?;
    Ok(Announcement { _list: list, _namespaces: named.iter().map(|(_, n)| n.clone()).collect() })
}

/// A network of another process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Announced {
    /// The process.
    pub process: u32,
    /// Its title.
    pub title: String,
    /// Names of namespaces, with the process's descriptors.
    named: Vec<(String, i32)>,
}

/// The networks of all processes whose descriptors this user may see, by process.
pub fn announced() -> Vec<Announced> {
    let numbers = fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut processes: Vec<u32> = numbers.filter_map(|e| e.file_name().to_str()?.parse().ok()).collect();
    processes.sort_unstable();
    processes.into_iter().filter_map(of_process).collect()
}

fn of_process(process: u32) -> Option<Announced> {
    let descriptors = fs::read_dir(format!("/proc/{process}/fd")).ok()?.flatten().map(|e| e.path());
    let is_list =
        |path: &PathBuf| fs::read_link(path).is_ok_and(|to| to.to_string_lossy().starts_with(SHOWN));
    let text = fs::read_to_string(descriptors.into_iter().find(is_list)?).ok()?;
    parse(process, &text)
}

/// Reads a list.
fn parse(process: u32, text: &str) -> Option<Announced> {
    let mut lines = text.lines();
    let title = lines.next()?.to_string();
    let entry = |line: &str| {
        let (descriptor, name) = line.split_once(' ')?;
        Some((name.to_string(), descriptor.parse().ok()?))
    };
    Some(Announced { process, title, named: lines.map(entry).collect::<Option<_>>()? })
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
        let opened = |path: String| {
            File::open(&path).map_err(|e| {
                Error::os(format!("cannot open {path}"), e)
                    .with_remedy("run this as the user who runs the network")
            })
        };
        let namespace = Namespace::open(name, opened(format!("/proc/{process}/fd/{descriptor}"))?);
        // A user that may not make namespaces is root in a user namespace of the network's process only.
        let same = |who: &str| fs::read_link(format!("/proc/{who}/ns/user")).ok();
        if same("self") != same(&process.to_string()) {
            let user = opened(format!("/proc/{process}/ns/user"))?;
            sys::set_user_namespace(user.as_fd())
                .map_err(|e| Error::os(format!("cannot enter the user namespace of process {process}"), e))?;
        }
        namespace.join()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        let read = parse(7, "rings/net.json\n3 h1\n12 s1\n").expect("a list");
        assert_eq!((read.title.as_str(), read.process), ("rings/net.json", 7));
        assert_eq!(read.named, [("h1".to_string(), 3), ("s1".to_string(), 12)]);
        for wrong in ["", "title\nh1\n", "title\nx h1\n"] {
            assert_eq!(parse(7, wrong), None, "{wrong:?}");
        }
    }

    /// The descriptors of this process are found like those of others.
    #[test]
    fn a_process_is_found_by_its_descriptors() {
        let here = Namespace::here().expect("/proc");
        let announced = announce("a title", &[("place".to_string(), here)]).expect("a file");
        let process = std::process::id();
        let found = of_process(process).expect("it is there");
        assert_eq!((found.title.as_str(), found.names().collect::<Vec<_>>()), ("a title", vec!["place"]));
        assert!(found.enter("other").is_err_and(|e| e.to_string().contains("it has place")));
        drop(announced);
        assert_eq!(of_process(process), None);
    }
}
