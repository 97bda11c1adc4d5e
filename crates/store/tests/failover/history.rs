//! Whether what the packets of a flow showed can come from one switch that never fails.

/// A packet of a flow.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// It adds one to the flow's count; otherwise it only reads it.
    pub writes: bool,
    /// When it entered a switch.
    pub start: u64,
    /// When it left, and the count that it shows. `None`: it was lost, before or after its effect.
    pub result: Option<(u64, u32)>,
}

impl Operation {
    /// Its place in the order of effects: the write that makes a count is before the reads that see it.
    fn place(&self) -> Option<(u32, bool)> {
        self.result.map(|(_, count)| (count, !self.writes))
    }
}

/// Checks that a flow's history is linearizable. For a counter this is exact: the results give the order, up to that of equal reads.
///
/// # Errors
/// The first contradiction, in words.
pub fn check(operations: &[Operation]) -> Result<(), String> {
    let mut counts: Vec<u32> = Vec::new();
    for (i, a) in operations.iter().enumerate() {
        let (Some((end, count)), Some(place)) = (a.result, a.place()) else { continue };
        if a.writes {
            counts.push(count);
        }
        for b in operations {
            if b.start > end && b.place().is_some_and(|p| p < place) {
                return Err(format!("{b:?} began after {a:?} (number {i}) had left"));
            }
        }
    }
    counts.sort_unstable();
    if let Some(pair) = counts.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(format!("two writes made the count {}", pair[0]));
    }
    missing(operations, &counts)
}

/// Counts that no answered write made must come from lost ones, which may have begun after smaller counts were seen, not after larger ones.
fn missing(operations: &[Operation], made: &[u32]) -> Result<(), String> {
    let seen = operations.iter().filter_map(|o| o.result.map(|(_, count)| count)).max().unwrap_or(0);
    let before = |start: u64| {
        let ended = operations.iter().filter_map(|o| o.result).filter(|(end, _)| *end < start);
        ended.map(|(_, count)| count).max().unwrap_or(0)
    };
    let lost = operations.iter().filter(|o| o.writes && o.result.is_none());
    let mut bounds: Vec<u32> = lost.map(|o| before(o.start)).collect();
    bounds.sort_unstable();
    let gaps = (1..=seen).filter(|n| made.binary_search(n).is_err());
    for (n, gap) in gaps.enumerate() {
        if bounds.get(n).is_none_or(|bound| *bound >= gap) {
            return Err(format!("no lost write can have made the count {gap}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(writes: bool, start: u64, result: Option<(u64, u32)>) -> Operation {
        Operation { writes, start, result }
    }

    #[test]
    fn histories() {
        let (w, r) = (true, false);
        let good: [&[Operation]; 4] = [
            &[],
            &[op(w, 0, Some((9, 2))), op(w, 0, Some((9, 1))), op(r, 0, Some((9, 1)))],
            &[op(w, 0, None), op(w, 1, Some((2, 2))), op(r, 3, Some((4, 2)))],
            &[op(w, 0, None), op(r, 1, Some((2, 0))), op(r, 3, Some((4, 1)))],
        ];
        for history in good {
            assert_eq!(check(history), Ok(()), "{history:?}");
        }
        let bad: [&[Operation]; 5] = [
            &[op(w, 0, Some((1, 1))), op(r, 2, Some((3, 0)))],
            &[op(w, 0, Some((1, 1))), op(w, 0, Some((1, 1)))],
            &[op(w, 0, Some((1, 2))), op(w, 2, Some((3, 1)))],
            &[op(w, 0, Some((1, 2)))],
            &[op(r, 0, Some((1, 1))), op(w, 2, None)],
        ];
        for history in bad {
            assert!(check(history).is_err(), "{history:?}");
        }
    }
}
