//! Files with lists of members, which are read again when they change.

use super::Command;
use super::reload::{Seen, Watched};
use pointsman_balance::config::{MemberSource, Origin};
use std::path::Path;

/// After so many looks without a result it is said why: a file may be away for a moment, or be written for a while.
const PATIENCE: u32 = 10;

/// One file.
struct List {
    source: String,
    file: Watched,
    /// Looks without the file, or at a file that was different each time.
    in_vain: u32,
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
                None => List { source: source.name.clone(), file: Watched::unread(path), in_vain: 0 },
            });
        }
        self.0.iter_mut().filter_map(|l| l.look(asked)).collect()
    }
}

impl List {
    fn look(&mut self, asked: bool) -> Option<Command> {
        let seen = self.file.look();
        let text = match (self.file.text(), seen) {
            (None, _) => {
                self.in_vain += 1;
                let first = self.in_vain == PATIENCE || (self.in_vain == 1 && !self.file.was_read());
                first.then(|| Err(unreadable(self.file.path())))
            }
            (Some(_), Seen::Changing) => {
                self.in_vain += 1;
                let path = self.file.path().display();
                (self.in_vain == PATIENCE)
                    .then(|| Err(format!("{path} changes all the time: write it at once and rename it")))
            }
            (Some(text), seen) => {
                let take = seen == Seen::New || asked || self.in_vain >= PATIENCE;
                self.in_vain = 0;
                take.then(|| Ok(text.to_string()))
            }
        };
        if let Some(Ok(_)) = &text {
            self.file.take();
        }
        text.map(|text| Command::Members { source: self.source.clone(), text })
    }
}

fn unreadable(path: &Path) -> String {
    let why = std::fs::read_to_string(path).err().map_or_else(String::new, |e| format!(": {e}"));
    format!("cannot read {}{why}", path.display())
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

    fn texts(news: Vec<Command>) -> Vec<Result<String, String>> {
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
        assert!(matches!(&first[..], [Err(why)] if why.contains("members.json: No such file")), "{first:?}");
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
