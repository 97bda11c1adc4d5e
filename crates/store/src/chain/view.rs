//! Views: which nodes a chain has, in which order.

use std::error::Error;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The longest name of a node, in bytes.
const MAX_NAME: usize = 32;
/// Nodes of a chain at most.
const MAX_NODES: usize = 16;

/// A node in one of its runs: a node that was restarted has lost its memory, and is another member. As text `NAME/RUN`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Member {
    name: Arc<str>,
    run: u64,
}

impl Member {
    /// A run of a node.
    ///
    /// # Errors
    /// The name is empty, too long, or has other characters than letters, digits, `-`, `_` and `.`.
    pub fn new(name: &str, run: u64) -> Result<Self, ViewError> {
        let fits = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
        if name.is_empty() || name.len() > MAX_NAME || !name.bytes().all(fits) {
            return Err(ViewError::Name(name.to_string()));
        }
        Ok(Member { name: name.into(), run })
    }

    /// The node's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of the run: later runs have later numbers.
    pub fn run(&self) -> u64 {
        self.run
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.name, self.run)
    }
}

impl FromStr for Member {
    type Err = ViewError;

    fn from_str(text: &str) -> Result<Self, ViewError> {
        let wrong = || ViewError::Text(text.to_string());
        let (name, run) = text.split_once('/').ok_or_else(wrong)?;
        Member::new(name, run.parse().map_err(|_| wrong())?)
    }
}

/// A view of a chain. As text `3: a/17 b/17 + c/42`: its number, the chain from head to tail, and the node that joins it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct View {
    /// Views are numbered from 1 on.
    pub number: u64,
    /// Nodes that have the data, from the head to the tail.
    pub chain: Vec<Member>,
    /// The node that copies the data from the tail.
    pub joining: Option<Member>,
}

/// A view that a node does not take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ViewError {
    /// Not the text of a view or member.
    Text(String),
    /// A name that no node can have.
    Name(String),
    /// No node.
    Empty,
    /// Too many nodes.
    Many,
    /// A name that occurs twice.
    Twice(String),
    /// A node without an address.
    Unknown(String),
    /// Its number, and that of the present view, which is not an earlier one.
    Back(u64, u64),
    /// A node of the chain that does not have the data.
    NoData(Member),
    /// A node that is in another order than before.
    Order(Member),
}

impl fmt::Display for ViewError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ViewError::Text(text) => {
                write!(f, "`{text}` is not a view: write it as `3: a/17 b/17 + c/42`")
            }
            ViewError::Name(name) => write!(
                f,
                "`{name}` cannot be the name of a node: use 1 to {MAX_NAME} letters, digits, `-`, `_` or `.`"
            ),
            ViewError::Empty => f.write_str("a view has at least one node, and a number from 1 on"),
            ViewError::Many => write!(f, "a view has at most {MAX_NODES} nodes"),
            ViewError::Twice(name) => write!(f, "two nodes of the name `{name}`: give each its own"),
            ViewError::Unknown(name) => {
                write!(f, "unknown node `{name}`: give its address with --peer {name}=ADDRESS:PORT")
            }
            ViewError::Back(next, now) => write!(
                f,
                "view {next} goes back: the present view is {now}, and the numbers of views only grow"
            ),
            ViewError::NoData(node) => write!(
                f,
                "{node} is in the chain, but does not have the data: let it join first (`+ {node}`)"
            ),
            ViewError::Order(node) => {
                write!(f, "{node} is in another place than before: nodes of a chain keep their order")
            }
        }
    }
}

impl Error for ViewError {}

impl View {
    /// The first view of a chain, without data.
    pub fn first(nodes: Vec<Member>) -> View {
        View { number: 1, chain: nodes, joining: None }
    }

    /// All nodes.
    pub fn nodes(&self) -> impl Iterator<Item = &Member> {
        self.chain.iter().chain(&self.joining)
    }

    /// Whether this can be a view.
    ///
    /// # Errors
    /// The first reason why not.
    pub fn check(&self) -> Result<(), ViewError> {
        if self.chain.is_empty() || self.number == 0 {
            return Err(ViewError::Empty);
        }
        if self.nodes().count() > MAX_NODES {
            return Err(ViewError::Many);
        }
        let twice = |(n, node): (usize, &Member)| {
            self.nodes().skip(n + 1).any(|other| other.name == node.name).then(|| node.name.to_string())
        };
        self.nodes().enumerate().find_map(twice).map_or(Ok(()), |name| Err(ViewError::Twice(name)))
    }

    /// Whether `next` can follow this view immediately.
    ///
    /// # Errors
    /// The first reason why not.
    pub fn allows(&self, next: &View) -> Result<(), ViewError> {
        next.check()?;
        if next.number <= self.number {
            return Err(ViewError::Back(next.number, self.number));
        }
        let mut from = 0;
        let present: Vec<&Member> = self.nodes().collect();
        for node in &next.chain {
            match present.iter().position(|p| *p == node) {
                None => return Err(ViewError::NoData(node.clone())),
                Some(at) if at < from => return Err(ViewError::Order(node.clone())),
                Some(at) => from = at + 1,
            }
        }
        Ok(())
    }

    /// The next view, without a node. `None`: nothing would be left.
    pub fn without(&self, node: &Member) -> Option<View> {
        let chain: Vec<Member> = self.chain.iter().filter(|m| *m != node).cloned().collect();
        let joining = self.joining.clone().filter(|m| m != node);
        (!chain.is_empty()).then_some(View { number: self.number + 1, chain, joining })
    }

    /// The next view, in which a node begins to copy. `None`: another one does, or there is a node of its name.
    pub fn with_joining(&self, node: &Member) -> Option<View> {
        let next = View { number: self.number + 1, joining: Some(node.clone()), ..self.clone() };
        (self.joining.is_none() && next.check().is_ok()).then_some(next)
    }

    /// The next view, in which the node that joins is the tail. `None`: none joins.
    pub fn joined(&self) -> Option<View> {
        let node = self.joining.clone()?;
        let chain = self.chain.iter().cloned().chain([node]).collect();
        Some(View { number: self.number + 1, chain, joining: None })
    }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.number)?;
        self.chain.iter().try_for_each(|node| write!(f, " {node}"))?;
        self.joining.iter().try_for_each(|node| write!(f, " + {node}"))
    }
}

impl FromStr for View {
    type Err = ViewError;

    fn from_str(text: &str) -> Result<Self, ViewError> {
        let wrong = || ViewError::Text(text.trim().to_string());
        let (number, nodes) = text.split_once(':').ok_or_else(wrong)?;
        let number = number.trim().parse().map_err(|_| wrong())?;
        let (chain, joining) = nodes.split_once('+').map_or((nodes, None), |(c, j)| (c, Some(j.trim())));
        let chain = chain.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        let joining = joining.map(str::parse).transpose()?;
        let view = View { number, chain, joining };
        view.check().map(|()| view)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(text: &str) -> View {
        text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
    }

    #[test]
    fn text_and_back() {
        for text in ["1: a/1", "7: a/1 b-2.x/99", "18446744073709551615: a/0 + b/3"] {
            assert_eq!(view(text).to_string(), text);
        }
        let bad = [
            "",
            "1",
            "x: a/1",
            "1: a",
            "1: a/x",
            "1: /1",
            "1: ä/1",
            "1: + a/1",
            "0: a/1",
            "1: a/1 + ",
            "-1: a/1",
        ];
        for text in bad {
            assert!(text.parse::<View>().is_err(), "{text}");
        }
        assert_eq!("1: a/1 b/1 a/2".parse::<View>(), Err(ViewError::Twice("a".into())));
        assert_eq!("1: a/1 + a/2".parse::<View>(), Err(ViewError::Twice("a".into())));
        let many: Vec<String> = (0..17).map(|n| format!("n{n}/1")).collect();
        assert_eq!(format!("1: {}", many.join(" ")).parse::<View>(), Err(ViewError::Many));
    }

    #[test]
    fn what_may_follow() {
        let now = view("5: a/1 b/1 c/1 + d/1");
        for fine in ["6: a/1 b/1 c/1 d/1", "6: b/1 d/1", "6: c/1", "9: a/1 c/1 + e/4", "6: a/1 b/1 c/1"] {
            assert_eq!(now.allows(&view(fine)), Ok(()), "{fine}");
        }
        let member = |text: &str| text.parse::<Member>().expect("a member");
        assert_eq!(now.allows(&view("5: a/1")), Err(ViewError::Back(5, 5)));
        assert_eq!(now.allows(&view("6: b/1 a/1")), Err(ViewError::Order(member("a/1"))));
        assert_eq!(now.allows(&view("6: a/1 e/1")), Err(ViewError::NoData(member("e/1"))));
        // Another run of a node is empty.
        assert_eq!(now.allows(&view("6: a/2")), Err(ViewError::NoData(member("a/2"))));
        assert_eq!(now.without(&member("b/1")), Some(view("6: a/1 c/1 + d/1")));
        assert_eq!(now.without(&member("d/1")), Some(view("6: a/1 b/1 c/1")));
        assert_eq!(view("1: a/1").without(&member("a/1")), None);
        assert_eq!(now.joined(), Some(view("6: a/1 b/1 c/1 d/1")));
        assert_eq!(now.with_joining(&member("e/1")), None);
        assert_eq!(view("1: a/1").with_joining(&member("a/2")), None);
        assert_eq!(view("1: a/1").with_joining(&member("b/2")), Some(view("2: a/1 + b/2")));
        assert_eq!(view("1: a/1").joined(), None);
    }
}
