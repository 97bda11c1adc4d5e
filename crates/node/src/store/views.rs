//! Where the nodes of a chain agree on views.

use super::asker::AskerError;
use pointsman_etcd::Failure;
use pointsman_ports::Waker;
use pointsman_store::{View, ViewError};
use std::error::Error;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;
use std::{fmt, fs, io};

/// One present view, which is replaced by compare-and-swap only. All nodes of a chain have the same.
pub trait Views: Send {
    /// The present view; `None`: there was none yet.
    ///
    /// # Errors
    /// It cannot be read now.
    fn read(&mut self) -> Result<Option<View>, ViewsError>;

    /// Makes `next` the present view, if the present one has the number `after`, or there is none and `after` is `None`. Returns whether it had.
    ///
    /// # Errors
    /// It cannot be written now, or `next` cannot follow: nothing changed, or it is not known whether something did.
    fn propose(&mut self, after: Option<u64>, next: &View) -> Result<bool, ViewsError>;

    /// How often the present view is read.
    fn every(&self) -> Duration {
        Duration::from_millis(20)
    }
}

/// Why views cannot be agreed on.
#[derive(Debug)]
pub enum ViewsError {
    /// The file, or the one of its lock, cannot be read or written.
    File(PathBuf, io::Error),
    /// The file has something else.
    Foreign(PathBuf, ViewError),
    /// The proposal cannot follow the present view.
    Proposal(ViewError),
    /// Etcd gives no answer, or refuses.
    Etcd(Failure),
    /// The key in etcd has something else.
    ForeignKey(String, ViewError),
    /// Etcd cannot be asked.
    Asker(AskerError),
}

impl fmt::Display for ViewsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ViewsError::File(path, e) => {
                write!(f, "--views {}: {e}; give a file in a folder that exists", path.display())
            }
            ViewsError::Foreign(path, e) => write!(f, "--views {}: {e}", path.display()),
            ViewsError::Proposal(e) => e.fmt(f),
            ViewsError::Etcd(e) => write!(f, "etcd does not answer: {e}; the chain keeps its view"),
            ViewsError::ForeignKey(key, e) => write!(f, "key {key} in etcd: {e}"),
            ViewsError::Asker(e) => e.fmt(f),
        }
    }
}

impl Error for ViewsError {}

/// Views in a file of this machine, replaced under a lock.
pub struct FileViews {
    path: PathBuf,
}

impl FileViews {
    /// Views in this file, which need not exist.
    pub fn new(path: &Path) -> Self {
        FileViews { path: path.to_path_buf() }
    }

    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(suffix);
        name.into()
    }
}

impl Views for FileViews {
    fn read(&mut self) -> Result<Option<View>, ViewsError> {
        match fs::read_to_string(&self.path) {
            Ok(text) => {
                let view = text.parse();
                view.map(Some).map_err(|e| ViewsError::Foreign(self.path.clone(), e))
            }
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(ViewsError::File(self.path.clone(), e)),
        }
    }

    fn propose(&mut self, after: Option<u64>, next: &View) -> Result<bool, ViewsError> {
        let (lock, new) = (self.beside(".lock"), self.beside(".new"));
        let failed = |path: &Path| {
            let path = path.to_path_buf();
            move |e| ViewsError::File(path, e)
        };
        let file = File::create(&lock).map_err(failed(&lock))?;
        file.lock().map_err(failed(&lock))?;
        let present = self.read()?;
        if present.as_ref().map(|view| view.number) != after {
            return Ok(false);
        }
        present.map_or_else(|| next.check(), |view| view.allows(next)).map_err(ViewsError::Proposal)?;
        let write = || {
            let mut file = File::create(&new)?;
            file.write_all(format!("{next}\n").as_bytes())?;
            fs::rename(&new, &self.path)
        };
        write().map_err(failed(&self.path))?;
        Ok(true)
    }
}

/// What the thread of the views says.
pub enum Heard {
    /// This is the present view.
    View(View),
    /// The view that was proposed is there.
    Agreed(View),
    /// A line for the operator.
    Trouble(String),
}

/// A thread that reads views and proposes them, so that the store never waits for them.
pub struct Watch {
    /// A view, and the number of the one that it should follow.
    propose: Sender<(Option<u64>, View)>,
    heard: Receiver<Heard>,
}

impl Watch {
    /// Starts it. It wakes the store with every line, and ends with it.
    pub fn start(views: impl Views + 'static, waker: Waker) -> Self {
        let ((propose, proposals), (tell, heard)) = (mpsc::channel(), mpsc::channel());
        thread::spawn(move || watch(views, &proposals, &tell, &waker));
        Watch { propose, heard }
    }

    /// Proposes a view.
    pub fn propose(&self, after: Option<u64>, next: View) {
        // The thread ends only with the store.
        let _ = self.propose.send((after, next));
    }

    /// What was heard since.
    pub fn heard(&self) -> impl Iterator<Item = Heard> {
        self.heard.try_iter()
    }
}

fn watch(
    mut views: impl Views,
    proposals: &Receiver<(Option<u64>, View)>,
    tell: &Sender<Heard>,
    waker: &Waker,
) {
    let every = views.every();
    let mut last = None;
    let mut trouble = String::new();
    loop {
        let mut said = Vec::new();
        let proposed = match proposals.recv_timeout(every) {
            Ok((after, next)) => views.propose(after, &next).map(|done| done.then_some(Heard::Agreed(next))),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let read = proposed.and_then(|agreed| {
            said.extend(agreed);
            views.read()
        });
        match read {
            Ok(view) => {
                trouble.clear();
                if view != last {
                    said.extend(view.clone().map(Heard::View));
                    last = view;
                }
            }
            Err(e) if e.to_string() != trouble => {
                trouble = e.to_string();
                said.push(Heard::Trouble(trouble.clone()));
            }
            Err(_) => {}
        }
        for heard in said {
            if tell.send(heard).is_err() || waker.wake().is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_is_replaced_once() {
        let dir = std::env::temp_dir().join(format!("pointsman-views-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a folder");
        let path = dir.join("views");
        let view = |text: &str| text.parse::<View>().expect("a view");
        let mut views = FileViews::new(&path);
        assert_eq!(views.read().expect("it can be read"), None);
        let nodes: Vec<_> = (0..4)
            .map(|n| {
                let (mut views, next) = (FileViews::new(&path), view(&format!("1: n{n}/1")));
                thread::spawn(move || views.propose(None, &next).expect("it can be written"))
            })
            .collect();
        let won = nodes.into_iter().map(|n| n.join().expect("no panic")).filter(|w| *w).count();
        assert_eq!(won, 1);
        let first = views.read().expect("it can be read").expect("a view");
        let next = first.with_joining(&"x/7".parse().expect("a member")).expect("a view");
        assert!(!views.propose(Some(9), &next).expect("it can be written"));
        assert!(views.propose(Some(1), &next).expect("it can be written"));
        assert_eq!(views.read().expect("it can be read"), Some(next));
        let error = views.propose(Some(2), &view("3: y/1")).expect_err("y has no data");
        assert!(error.to_string().contains("y/1 is in the chain"), "{error}");
        fs::write(&path, "junk").expect("it can be written");
        let error = views.read().expect_err("not a view").to_string();
        assert!(error.contains("`junk` is not a view"), "{error}");
        fs::remove_dir_all(&dir).expect("it can be removed");
    }
}
