//! The watched files of a rack: detects complete changes, and decides whether to apply them.

use super::files::FileError;
use super::{Command, files, ms_of};
use crate::rack_file::{self, RackError};
use pointsman_balance::Rack;
use pointsman_balance::api::File;
use pointsman_balance::config::reload;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use std::{fmt, io};

/// After so many equal looks a file that cannot be read counts as lost: an editor that replaces a file may remove it first.
pub(crate) const PATIENCE: u32 = 10;

/// A file at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Look {
    modified: Option<SystemTime>,
    /// Its bytes, or why they cannot be read.
    content: Result<Vec<u8>, (io::ErrorKind, String)>,
}

impl Look {
    fn at(path: &Path) -> Look {
        let modified = std::fs::metadata(path).and_then(|m| m.modified()).ok();
        Look { modified, content: std::fs::read(path).map_err(|e| (e.kind(), e.to_string())) }
    }

    fn text(&self) -> io::Result<&str> {
        let bytes = self.content.as_ref().map_err(|(kind, why)| io::Error::new(*kind, why.clone()))?;
        let no_text = |e| io::Error::new(io::ErrorKind::InvalidData, format!("it is not UTF-8: {e}"));
        std::str::from_utf8(bytes).map_err(no_text)
    }
}

/// One file. A change is complete when two looks in a row show the same content.
pub(crate) struct Watched {
    path: PathBuf,
    taken: Option<Look>,
    last: Option<Look>,
    /// How many looks in a row have shown the same.
    equal: u32,
}

/// Result of polling a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Same,
    /// The file may still be being written.
    Changing,
    /// Something new, completely written, or the file is lost.
    New,
}

impl Seen {
    pub fn is_new(self) -> bool {
        self == Seen::New
    }

    pub fn is_changing(self) -> bool {
        self == Seen::Changing
    }
}

impl Watched {
    /// A file whose text at this moment was read.
    pub fn new(path: PathBuf) -> Self {
        let taken = Some(Look::at(&path));
        Watched { path, last: taken.clone(), taken, equal: 1 }
    }

    /// A file that was not read yet: what it contains is new, and also that it is lost.
    pub fn unread(path: PathBuf) -> Self {
        Watched { path, taken: None, last: None, equal: 0 }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// When its last text was written, in milliseconds since 1970; 0 without one.
    pub fn of_ms(&self) -> u64 {
        self.last.as_ref().and_then(|l| l.modified).map_or(0, ms_of)
    }

    /// Its text at the last look.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn text(&self) -> Result<&str, FileError> {
        let text = self.last.as_ref().map_or(Ok(""), Look::text);
        text.map_err(|e| FileError::Unreadable(self.path.clone(), e))
    }

    pub fn look(&mut self) -> Seen {
        let now = Some(Look::at(&self.path));
        self.equal = if now == self.last { self.equal + 1 } else { 1 };
        self.last = now;
        let is_lost = self.last.as_ref().is_some_and(|l| l.content.is_err());
        match self.equal {
            _ if self.last == self.taken => Seen::Same,
            equal if is_lost && (equal >= PATIENCE || self.taken.is_none()) => Seen::New,
            _ if is_lost => Seen::Same,
            1 => Seen::Changing,
            _ => Seen::New,
        }
    }

    pub fn take(&mut self) {
        self.taken.clone_from(&self.last);
    }
}

/// Why a new description is not applied.
#[derive(Debug)]
enum Unapplied {
    /// It cannot be read.
    File(FileError),
    /// It is wrong, or its keys are.
    Rack(RackError),
    /// It may be half of one, for these reasons.
    Doubtful(PathBuf, Vec<String>),
}

impl fmt::Display for Unapplied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unapplied::File(e) => e.fmt(f),
            Unapplied::Rack(e) => e.fmt(f),
            Unapplied::Doubtful(path, doubts) => write!(
                f,
                "{}: not applied, possibly half-written: {}; to apply it anyway: kill -HUP {}",
                path.display(),
                doubts.join("; "),
                std::process::id()
            ),
        }
    }
}

impl Error for Unapplied {}

/// The rack's description, the keys that it names, and the API's tokens.
pub(super) struct Follower {
    rack: Watched,
    keys: Option<Watched>,
    tokens: Option<Watched>,
    started_with: Rack,
    /// The last description given to the controller, with its text.
    in_force: (Rack, String),
    /// Text that was refused for doubts. Asked for again, it is taken.
    refused: Option<String>,
    /// Whether to read the files even if unchanged.
    asked: bool,
}

impl Follower {
    /// Follows the description at `path`, which contained `rack` when the controller started.
    pub fn new(path: &Path, rack: Rack) -> Self {
        let folder = path.parent().unwrap_or(Path::new(""));
        let tokens = rack.api.as_ref().map(|a| Watched::new(folder.join(&a.tokens)));
        let watched = Watched::new(path.to_path_buf());
        let text = watched.text().unwrap_or_default().to_string();
        Follower {
            keys: rack_file::key_file(path, &rack).map(Watched::new),
            rack: watched,
            tokens,
            started_with: rack.clone(),
            in_force: (rack, text),
            refused: None,
            asked: false,
        }
    }

    /// The description in force.
    pub fn rack(&self) -> &Rack {
        &self.in_force.0
    }

    /// The files with the API's state of them, and when each was written, in milliseconds since 1970.
    pub fn files(&self) -> Vec<(File, u64)> {
        let tokens = self.tokens.iter().map(|t| (File::Tokens, t.of_ms()));
        [(File::Rack, self.rack.of_ms())].into_iter().chain(tokens).collect()
    }

    /// Forces a reload, changed or not; a doubtful change is then accepted.
    pub fn ask(&mut self) {
        self.asked = true;
    }

    /// Polls all files; to be called periodically. Returns commands for the controller.
    pub fn look(&mut self) -> Vec<Command> {
        let mut news = Vec::new();
        let tokens = self.tokens.as_mut().map_or(Seen::Same, Watched::look);
        let files = [self.rack.look(), self.keys.as_mut().map_or(Seen::Same, Watched::look)];
        if tokens == Seen::Changing || files.contains(&Seen::Changing) {
            return news;
        }
        let asked = std::mem::take(&mut self.asked);
        if let Some(file) = self.tokens.as_mut().filter(|_| asked || tokens == Seen::New) {
            file.take();
            let (of_ms, mut notes) = (file.of_ms(), Vec::new());
            news.push(match files::tokens(&file.path, &mut notes) {
                Ok(tokens) => Command::Tokens { tokens, of_ms },
                Err(e) => Command::Refused { file: File::Tokens, of_ms, why: e.to_string() },
            });
            news.extend(notes.into_iter().map(Command::Say));
        }
        if asked || files.contains(&Seen::New) {
            self.rack.take();
            self.keys.iter_mut().for_each(Watched::take);
            let (of_ms, mut notes) = (self.rack.of_ms(), Vec::new());
            let read = self.description(asked, &mut notes);
            news.extend(notes.into_iter().map(Command::Say));
            news.push(match read {
                Ok(rack) => Command::File { rack: Box::new(rack), of_ms: Some(of_ms) },
                Err(e) => Command::Refused { file: File::Rack, of_ms, why: e.to_string() },
            });
        }
        news
    }

    /// The current description, unless it is doubtful. `notes` are for the operator.
    fn description(&mut self, asked: bool, notes: &mut Vec<String>) -> Result<Rack, Unapplied> {
        let path = &self.rack.path;
        let text = self.rack.text().map_err(Unapplied::File)?.to_string();
        let mut note = |line: &str| notes.push(line.to_string());
        let rack = rack_file::complete(path, &text, &mut note).map_err(Unapplied::Rack)?;
        let doubts = reload::doubts((&self.in_force.0, &self.in_force.1), (&rack, &text));
        let confirmed = asked && self.refused.as_ref() == Some(&text);
        if !doubts.is_empty() && !confirmed {
            self.refused = Some(text);
            return Err(Unapplied::Doubtful(path.clone(), doubts));
        }
        self.refused = None;
        let keys = rack_file::key_file(path, &rack);
        if keys.as_ref() != self.keys.as_ref().map(|k| &k.path) {
            self.keys = keys.map(Watched::new);
        }
        if rack.api != self.started_with.api {
            notes.push("[api] changed: restart the controller to apply it".to_string());
        }
        self.in_force = (rack.clone(), text);
        Ok(rack)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RACK: &str = include_str!("../../../../examples/rack.toml");

    struct Folder(PathBuf);

    impl Folder {
        fn write(&self, text: &str) {
            std::fs::write(self.0.join("rack.toml"), text).expect("a folder for files");
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn follower(name: &str) -> (Folder, Follower) {
        let folder = std::env::temp_dir().join(format!("pointsman-watch-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for files");
        let (folder, text) = (Folder(folder), text());
        folder.write(&text);
        let path = folder.0.join("rack.toml");
        let rack = rack_file::read_complete(&path, &mut |_| {}).expect("valid");
        let follower = Follower::new(&path, rack);
        (folder, follower)
    }

    /// The example, with reports that need no keys.
    fn text() -> String {
        RACK.replace("report_keys = \"report-keys.txt\"", "reports = \"unauthenticated\"")
    }

    /// A look that changes nothing.
    fn is_quiet(f: &mut Follower) -> bool {
        f.look().iter().all(|c| matches!(c, Command::Say(_) | Command::Refused { .. }))
    }

    fn weights(news: &[Command]) -> Vec<u32> {
        let of = |c: &Command| match c {
            Command::File { rack, .. } => rack.services.first().map(|s| s.members[0].devices[0].weight),
            _ => None,
        };
        news.iter().filter_map(of).collect()
    }

    #[test]
    fn a_change_is_taken_when_it_is_complete() {
        let (folder, mut f) = follower("complete");
        assert!(is_quiet(&mut f));
        let new = text().replace("weight = 5", "weight = 4");
        // A slow writer: every poll sees different content.
        for end in [100, 2000, new.len() - 1] {
            folder.write(&new[..end]);
            assert!(is_quiet(&mut f), "{end}");
        }
        folder.write(&new);
        assert!(is_quiet(&mut f), "the first look");
        assert_eq!(weights(&f.look()), [4]);
        assert!(is_quiet(&mut f), "once");
        f.ask();
        assert_eq!(weights(&f.look()), [4], "asked for");
    }

    #[test]
    fn a_half_written_file_is_refused_until_it_is_asked_for() {
        let (folder, mut f) = follower("half");
        let whole = text();
        let part = whole.find("[[service]]").expect("services");
        folder.write(&whole[..part]);
        for _ in 0..5 {
            assert!(is_quiet(&mut f));
        }
        // Complete again: nothing happened.
        folder.write(&whole);
        f.look();
        assert_eq!(weights(&f.look()), [5]);
        // Forcing a change that has not been refused yet has no effect.
        folder.write(&whole[..part]);
        f.ask();
        assert!(is_quiet(&mut f) && is_quiet(&mut f) && is_quiet(&mut f));
        f.ask();
        let news = f.look();
        assert!(matches!(&news[..], [.., Command::File { rack, .. }] if rack.services.is_empty()));
        folder.write(&whole);
        f.look();
        assert_eq!(weights(&f.look()), [5], "more than before is taken at once");
    }

    /// Looks until something is said: after how many looks, and what was refused.
    fn refusal(f: &mut Follower) -> (usize, File, String) {
        let mut looks = (1..=100).map(|n| (n, f.look())).skip_while(|(_, news)| news.is_empty());
        let (n, news) = looks.next().expect("news");
        match &news[..] {
            [Command::Refused { file, why, .. }] => (n, *file, why.clone()),
            _ => panic!("other commands"),
        }
    }

    #[test]
    fn files_that_cannot_be_read_are_refused_until_they_can() {
        let lost = PATIENCE as usize;
        let (folder, mut f) = follower("lost");
        let [rack, aside, tokens] = ["rack.toml", "aside", "tokens.txt"].map(|name| folder.0.join(name));
        std::fs::write(&tokens, "operator 0123456789abcdef0123").expect("a file");
        assert!(f.look().is_empty());
        assert!(matches!(&f.look()[..], [Command::Tokens { .. }, ..]));

        std::fs::rename(&rack, &aside).expect("it is there");
        let (n, file, why) = refusal(&mut f);
        assert!(
            (n, file) == (lost, File::Rack)
                && why.ends_with("rack.toml: No such file or directory (os error 2)")
        );
        assert!((0..30).all(|_| f.look().is_empty()), "once");
        std::fs::rename(&aside, &rack).expect("it is there");
        f.look();
        assert_eq!(weights(&f.look()), [5], "as before, which ends the refusal");

        std::fs::write(&rack, [text().as_bytes(), b"# caf\xe9\n"].concat()).expect("a file");
        let (n, file, why) = refusal(&mut f);
        assert!((n, file) == (2, File::Rack) && why.contains("rack.toml: it is not UTF-8"), "{n} {why}");
        // A folder in place of a file without permissions: tests that run as root can read every file.
        std::fs::remove_file(&tokens).and_then(|()| std::fs::create_dir(&tokens)).expect("a folder");
        let (n, file, why) = refusal(&mut f);
        assert!((n, file) == (lost, File::Tokens) && why.contains("tokens.txt for api.tokens"), "{n} {why}");
    }

    #[test]
    fn a_file_that_is_away_for_a_moment_changes_nothing() {
        let (folder, mut f) = follower("away");
        std::fs::remove_file(folder.0.join("rack.toml")).expect("it is there");
        assert!(is_quiet(&mut f) && is_quiet(&mut f));
        folder.write(&text().replace("weight = 5", "weight = 3"));
        assert!(is_quiet(&mut f));
        assert_eq!(weights(&f.look()), [3]);
    }
}
