//! Sources of members that are asked, over HTTP or DNS.

use super::lists::unread;
use super::{Command, resolve};
use crate::http::client::{Ask, ask};
use pointsman_balance::config::{MemberSource, Origin};
use pointsman_balance::members::ListError;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinHandle;

/// Longest time for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// All of them.
pub(super) struct Polls {
    commands: UnboundedSender<Command>,
    running: Vec<(MemberSource, JoinHandle<()>)>,
}

impl Polls {
    /// None so far. They send lists through `commands`.
    pub fn new(commands: UnboundedSender<Command>) -> Polls {
        Polls { commands, running: Vec::new() }
    }

    /// Asks exactly these sources. Must be called within a runtime.
    pub fn follow(&mut self, sources: &[MemberSource]) {
        let is_asked = |s: &&MemberSource| matches!(s.origin, Origin::Prometheus { .. } | Origin::Dns { .. });
        let wanted: Vec<&MemberSource> = sources.iter().filter(is_asked).collect();
        let (keep, end): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.running).into_iter().partition(|(s, _)| wanted.contains(&s));
        self.running = keep;
        end.iter().for_each(|(_, task)| task.abort());
        for source in wanted {
            if self.running.iter().all(|(s, _)| s != source) {
                let task = tokio::spawn(run(source.clone(), self.commands.clone()));
                self.running.push((source.clone(), task));
            }
        }
    }
}

impl Drop for Polls {
    fn drop(&mut self) {
        self.running.iter().for_each(|(_, task)| task.abort());
    }
}

async fn run(source: MemberSource, commands: UnboundedSender<Command>) {
    loop {
        let (text, pause) = match &source.origin {
            Origin::Prometheus { url, interval_s } => {
                (over_http(url).await, Duration::from_secs((*interval_s).into()))
            }
            Origin::Dns { .. } => resolve::list(&source).await,
            Origin::Api { .. } | Origin::File(_) => return,
        };
        if commands.send(Command::Members { source: source.name.clone(), text }).is_err() {
            return;
        }
        tokio::time::sleep(pause).await;
    }
}

async fn over_http(url: &str) -> Result<String, ListError> {
    match ask(Ask { method: "GET", url, ..Ask::default() }, PATIENCE).await {
        Err(e) => Err(unread(e)),
        Ok((200, body)) => {
            String::from_utf8(body).map_err(|_| unread(format_args!("{url}: the answer is not text")))
        }
        Ok((status, _)) => Err(unread(format_args!("{url}: status {status}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pointsman_balance::Rack;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::sync::mpsc::unbounded_channel;

    /// Answers requests one after the other: a list, then an error, then junk, and so on.
    async fn serve(listener: TcpListener) {
        for i in 0.. {
            let Ok((mut stream, _)) = listener.accept().await else { return };
            let (status, body): (&str, &[u8]) = match i % 3 {
                0 => ("200 OK", b"[]"),
                1 => ("500 Oops", b"no"),
                _ => ("200 OK", b"\xff\xfe"),
            };
            let mut request = [0; 1024];
            let _ = stream.read(&mut request).await;
            let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n", body.len());
            let _ = stream.write_all(&[head.as_bytes(), body].concat()).await;
        }
    }

    #[test]
    fn lists_are_asked_for_and_failures_are_said() {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        tokio.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
            let url = format!("http://{}/targets", listener.local_addr().expect("an address"));
            tokio::spawn(serve(listener));
            let more = format!("prometheus = \"{url}\"\ninterval_s = 1");
            let text = include_str!("../../../balance/tests/data/members.toml");
            let rack = Rack::parse("rack.toml", &text.replace("file = \"members.json\"", &more));
            let rack = rack.unwrap_or_else(|e| panic!("{e}"));
            let (commands, mut rx) = unbounded_channel();
            let mut polls = Polls::new(commands);
            polls.follow(&rack.sources);
            polls.follow(&rack.sources);
            assert_eq!(polls.running.len(), 1);
            let mut next = async || match rx.recv().await {
                Some(Command::Members { source, text }) if source == "list" => text,
                _ => panic!("another command"),
            };
            assert_eq!(next().await, Ok("[]".to_string()));
            let e = next().await.expect_err("an error").to_string();
            assert!(e.ends_with("/targets: status 500"), "{e}");
            let e = next().await.expect_err("an error").to_string();
            assert!(e.ends_with("/targets: the answer is not text"), "{e}");
            polls.follow(&[]);
            assert!(polls.running.is_empty());
        });
    }
}
