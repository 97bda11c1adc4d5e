//! What a node of a chain counts.

/// Counts since the start of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChainStats {
    /// The last update that it applied.
    pub applied: u64,
    /// The last update that was applied by the whole chain.
    pub acked: u64,
    /// Updates that it keeps for others.
    pub log: u64,
    /// Requests of switches that reached a node that is not the head, dropped.
    pub elsewhere: u64,
    /// Requests that found too many updates under way, dropped.
    pub overflowed: u64,
    /// Answers that had no room in their update, dropped.
    pub left_out: u64,
    /// Messages of nodes in an older view, dropped.
    pub older: u64,
    /// Messages of nodes in a newer view, dropped.
    pub newer: u64,
    /// Messages of nodes that this one does not follow, dropped.
    pub misplaced: u64,
    /// Datagrams that are not messages of nodes, dropped.
    pub malformed: u64,
    /// Messages of nodes with a wrong digest, dropped.
    pub forged: u64,
    /// Parts of the data, sent to nodes that join.
    pub copies: u64,
    /// Updates that arrived before an earlier one, kept until it is there.
    pub held: u64,
    /// Updates sent again because the node behind missed them.
    pub repeated: u64,
}

impl ChainStats {
    /// Counts of dropped messages, with their names.
    pub fn dropped(&self) -> [(&'static str, u64); 8] {
        [
            ("elsewhere", self.elsewhere),
            ("overflowed", self.overflowed),
            ("left_out", self.left_out),
            ("older", self.older),
            ("newer", self.newer),
            ("misplaced", self.misplaced),
            ("malformed", self.malformed),
            ("forged", self.forged),
        ]
    }
}
