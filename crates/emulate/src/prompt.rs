//! The commands of the prompt, as in Mininet: their text in, what is to be done out.

use std::fmt;

/// The namespace of the process itself, where the P4Runtime servers are: Mininet's name for the controller.
pub const CONTROLLER: &str = "c0";

/// Words that nodes cannot be called.
pub const RESERVED: &[&str] = &[
    CONTROLLER, "help", "?", "nodes", "links", "net", "dump", "pingall", "iperf", "link", "sh", "source",
    "exit", "quit", "exec",
];

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// An empty line, or a comment.
    Nothing,
    /// Describe the commands.
    Help,
    /// Names of nodes.
    Nodes,
    /// Links.
    Links,
    /// Everything about nodes.
    Dump,
    /// An echo request from every host to every other.
    PingAll,
    /// TCP from a host to another one, by iperf.
    Iperf(String, String),
    /// Cut or restore the links between two nodes.
    Link(String, String, bool),
    /// Run a line in a shell: in a node, or on the machine.
    Run(Option<String>, String),
    /// Run the commands of a file.
    Source(String),
    /// End.
    Exit,
}

/// What is wrong with a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// Neither a command nor a node.
    Unknown(String),
    /// A node without a command for it.
    NoCommand(String),
    /// The arguments are others.
    Usage(&'static str),
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mistake::Unknown(word) => {
                write!(
                    f,
                    "`{word}` is neither a command nor a node: `help` lists the commands, `nodes` the nodes"
                )
            }
            Mistake::NoCommand(node) => write!(f, "write a command after `{node}`, such as `{node} ip addr`"),
            Mistake::Usage(usage) => write!(f, "write `{usage}`"),
        }
    }
}

impl std::error::Error for Mistake {}

/// The text of `help`.
pub const HELP: &str = "\
NODE COMMAND     run a command in a host or switch; names of hosts among its words become their addresses
c0 COMMAND       run a command where the P4Runtime servers are, such as a controller
pingall          an echo request from every host to every other
iperf A B        TCP from host A to host B, by the program iperf
nodes            the names of all nodes
links            the links
net, dump        the nodes with their addresses, ports and P4Runtime servers
link A B up|down restore or cut the links between two nodes
sh COMMAND       run a command on this machine
source FILE      run the commands in a file
exit             end the network
";

/// Reads a line. `address` gives a host's address, `is_node` whether there is a node of this name.
///
/// # Errors
/// It is not a command.
pub fn parse(
    line: &str,
    is_node: impl Fn(&str) -> bool,
    address: impl Fn(&str) -> Option<String>,
) -> Result<Command, Mistake> {
    let line = line.trim();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim_start();
    Ok(match word {
        "" => Command::Nothing,
        w if w.starts_with('#') => Command::Nothing,
        "help" | "?" => Command::Help,
        "nodes" => Command::Nodes,
        "links" => Command::Links,
        "net" | "dump" => Command::Dump,
        "pingall" => Command::PingAll,
        "exit" | "quit" => Command::Exit,
        "iperf" => match rest.split_whitespace().collect::<Vec<_>>()[..] {
            [a, b] if address(a).is_some() && address(b).is_some() => Command::Iperf(a.into(), b.into()),
            _ => return Err(Mistake::Usage("iperf HOST HOST")),
        },
        "link" => match rest.split_whitespace().collect::<Vec<_>>()[..] {
            [a, b, state @ ("up" | "down")] => Command::Link(a.into(), b.into(), state == "up"),
            _ => return Err(Mistake::Usage("link NODE NODE up|down")),
        },
        "sh" if rest.is_empty() => return Err(Mistake::Usage("sh COMMAND")),
        "sh" => Command::Run(None, rest.into()),
        "source" if rest.is_empty() => return Err(Mistake::Usage("source FILE")),
        "source" => Command::Source(rest.into()),
        node if node == CONTROLLER || is_node(node) => {
            if rest.is_empty() {
                return Err(Mistake::NoCommand(node.into()));
            }
            let words = rest.split(' ').map(|w| address(w).unwrap_or_else(|| w.to_string()));
            Command::Run(Some(node.into()), words.collect::<Vec<_>>().join(" "))
        }
        other => return Err(Mistake::Unknown(other.into())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Command, Mistake> {
        parse(
            line,
            |n| ["h1", "h2", "s1"].contains(&n),
            |n| match n {
                "h1" => Some("10.0.0.1".to_string()),
                "h2" => Some("10.0.0.2".to_string()),
                _ => None,
            },
        )
    }

    #[test]
    fn commands() {
        let run = |node: &str, line: &str| Ok(Command::Run(Some(node.to_string()), line.to_string()));
        assert_eq!(read("  h1 ping -c 1  h2 "), run("h1", "ping -c 1  10.0.0.2"));
        assert_eq!(read("s1\techo 'h2 x'"), run("s1", "echo 'h2 x'"));
        assert_eq!(read("c0 python3 h1.py"), run("c0", "python3 h1.py"));
        assert_eq!(read("sh echo h1"), Ok(Command::Run(None, "echo h1".to_string())));
        assert_eq!(
            (read(""), read("# h1"), read("quit")),
            (Ok(Command::Nothing), Ok(Command::Nothing), Ok(Command::Exit))
        );
        assert_eq!(read("link s1 h1 down"), Ok(Command::Link("s1".into(), "h1".into(), false)));
        assert_eq!(read("iperf h1 h2"), Ok(Command::Iperf("h1".into(), "h2".into())));
        assert_eq!(read("source a b"), Ok(Command::Source("a b".into())));
        for word in RESERVED.iter().filter(|w| **w != "exec") {
            assert_ne!(read(word), Err(Mistake::Unknown(word.to_string())));
        }
    }

    #[test]
    fn mistakes() {
        assert_eq!(read("h3 ls"), Err(Mistake::Unknown("h3".into())));
        assert_eq!(read("h1"), Err(Mistake::NoCommand("h1".into())));
        for line in ["iperf h1", "iperf h1 s1", "link h1 s1", "link h1 s1 off", "link", "sh", "source"] {
            assert!(matches!(read(line), Err(Mistake::Usage(_))), "{line}");
        }
    }
}
