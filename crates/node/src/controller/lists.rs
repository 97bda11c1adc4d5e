//! Files with lists of members, which are read again when they change.

use super::Command;
use super::reload::{PATIENCE, Seen, Watched};
use pointsman_balance::config::{MemberSource, Origin};
use pointsman_balance::members::ListError;
use std::fmt;
use std::path::Path;

/// A source's list cannot be read.
pub(super) fn unread(why: impl fmt::Display) -> ListError {
    ListError::Unreadable(why.to_string())
}

/// One file.
struct List {
    source: String,
    file: Watched,
    /// Looks in a row of which each has shown something else: it is said when a file is never complete.
    changing: u32,
}

/// All of them.
#[derive(Default)]
pub(super) struct Lists(Vec<List>);

impl Lists {
    /// Looks at all files of these sources; to be called periodically. `asked`: reads them although they did not change.
    pub fn look(&mut self, sources: &[MemberSource], folder: &Path, asked: bool) -> Vec<Command> {
        let mut kept = std::mem::take(&mut self.0);
        for source in sources {
            let Origin::File(path) = &source.origin else { continue };
            let path = folder.join(path);
            let before = kept.iter().position(|l| l.source == source.name && l.file.path() == path);
            self.0.push(match before {
                Some(at) => kept.swap_remove(at),
                None => List { source: source.name.clone(), file: Watched::unread(path), changing: 0 },
            });
        }
        self.0.iter_mut().filter_map(|l| l.look(asked)).collect()
    }
}

impl List {
    fn look(&mut self, asked: bool) -> Option<Command> {
        let seen = self.file.look();
        let before = std::mem::take(&mut self.changing);
        let text = if seen == Seen::Changing {
            self.changing = before + 1;
            let path = self.file.path().display();
            (self.changing == PATIENCE).then(|| {
                Err(unread(format_args!("{path} changes all the time: write it at once and rename it")))
            })
        } else if seen == Seen::New || asked || before >= PATIENCE {
            self.file.take();
            Some(self.file.text().map(str::to_string).map_err(unread))
        } else {
            None
        };
        text.map(|text| Command::Members { source: self.source.clone(), text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_balance::Rack;
    use std::path::PathBuf;

    struct Folder(PathBuf);

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn texts(news: Vec<Command>) -> Vec<Result<String, ListError>> {
        let of = |c| match c {
            Command::Members { source, text } => {
                assert_eq!(source, "pool");
                text
            }
            _ => panic!("another command"),
        };
        news.into_iter().map(of).collect()
    }

    #[test]
    fn a_list_is_read_when_it_is_complete_and_missed_when_it_is_away() {
        let folder = Folder(std::env::temp_dir().join(format!("pointsman-lists-{}", std::process::id())));
        std::fs::create_dir_all(&folder.0).expect("a folder for files");
        let text = include_str!("../../../../examples/rack.toml").replace("# state = ", "state = ")
            + "\n[[members]]\nname = \"pool\"\nfile = \"members.json\"\nnetworks = [\"10.0.2.0/24\"]\nports = [6]\n";
        let rack = Rack::parse("rack.toml", &text).unwrap_or_else(|e| panic!("{e}"));
        let (mut lists, file) = (Lists::default(), folder.0.join("members.json"));
        let mut look = |asked| texts(lists.look(&rack.sources, &folder.0, asked));
        let first = look(false);
        assert!(
            matches!(&first[..], [Err(why)] if why.to_string().contains("members.json: No such file")),
            "{first:?}"
        );
        assert!(look(false).is_empty(), "said once");
        std::fs::write(&file, "[").expect("a file");
        assert!(look(false).is_empty(), "the first look");
        std::fs::write(&file, "[ ").expect("a file");
        assert!(look(false).is_empty(), "it changed again");
        std::fs::write(&file, "[]").expect("a file");
        assert!(look(false).is_empty());
        assert_eq!(look(false), [Ok("[]".into())]);
        assert!(look(false).is_empty(), "once");
        assert_eq!(look(true), [Ok("[]".into())], "asked for");
        std::fs::remove_file(&file).expect("it is there");
        let away: Vec<_> = (0..30).flat_map(|_| look(false)).collect();
        assert_eq!(away.len(), 1, "said once: {away:?}");
        std::fs::write(&file, "[]").expect("a file");
        let back: Vec<_> = (0..3).flat_map(|_| look(false)).collect();
        assert_eq!(back, [Ok("[]".into())], "the trouble is over");
    }
}
