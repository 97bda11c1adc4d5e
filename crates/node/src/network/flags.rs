//! The flags with which the switches of a network are started.

use crate::switch::queues::{BURST_NS, Depth, Queue, Rate, Setting};
use pointsman_fabric::Description;
use pointsman_stf::generator::Numbered;
use pointsman_topology::{End, Line, LinkId, SwitchId, Topology};

/// The queues of a switch's ports: rates and depths of their links, for so many queues of each port. Packets are held as long as `delay_ns`
/// says of a port's link and its other end, and what is held takes room in a queue.
pub fn queues(
    topology: &Topology,
    switch: SwitchId,
    queues: u8,
    delay_ns: impl Fn(&Line, End) -> u64,
) -> Vec<Setting> {
    let of = |(port, link, end): (u16, LinkId, End)| {
        let line = topology.links()[link.0 as usize].line;
        let delay_ns = delay_ns(&line, end);
        let on_the_way = u128::from(line.bits_per_s) * u128::from(delay_ns) / 8 / 1_000_000_000;
        let depth = line.queue_bytes / u64::from(queues.max(1));
        Setting::Queue(Queue {
            port: Some(port.into()),
            priority: None,
            rate: Rate::Bits(line.bits_per_s),
            depth: Some(Depth::Bytes(depth + u64::try_from(on_the_way).unwrap_or(u64::MAX >> 1))),
            delay_ns,
            burst_ns: BURST_NS,
        })
    };
    topology.ports(switch).map(of).collect()
}

/// The flags of `pointsman switch` for this switch, one a line, without its interfaces.
pub fn flags(of: &Description, switch: SwitchId) -> String {
    let scheme = of.choice.scheme;
    let mut out = format!("--p4runtime {}\n--timestamps ns\n", of.p4runtime[switch.0 as usize]);
    let number = (scheme.queues)(&of.choice);
    if number > 1 {
        out += &format!("--priority-queues {number}\n");
    }
    for queue in queues(&of.topology, switch, number, |_, _| 0) {
        out += &format!("--queue {queue}\n");
    }
    for (number, generator) in (scheme.generators)(&of.topology, switch, &of.choice) {
        out += &format!("--generator {}\n", Numbered { number, generator: Some(generator) });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_those_of_the_switch() {
        for scheme in pointsman_fabric::SCHEMES {
            let text = format!(
                "[network.leaf_spine]\nleaves = 1\nspines = 1\nhosts_per_leaf = 1\n[scheme]\nname = \"{}\"\n\
                 [switches]\nleaf1 = \"192.0.2.1:9559\"\nspine1 = \"192.0.2.2:9559\"\n",
                scheme.name
            );
            let described = Description::read("fabric.toml", &text).expect("good");
            let flags = flags(&described, SwitchId(0));
            let of = |flag: &str| flags.lines().filter_map(|l| l.strip_prefix(flag)).collect::<Vec<_>>();
            assert_eq!(of("--p4runtime "), ["192.0.2.1:9559"]);
            let queues = (scheme.queues)(&described.choice);
            let read: Vec<Setting> = of("--queue ").iter().map(|q| q.parse().expect("a setting")).collect();
            assert_eq!(read, super::queues(&described.topology, SwitchId(0), queues, |_, _| 0));
            let read: Vec<Numbered> = of("--generator ").iter().map(|g| g.parse().expect("one")).collect();
            let wanted = (scheme.generators)(&described.topology, SwitchId(0), &described.choice);
            assert_eq!(read.len(), wanted.len());
            for (read, (number, generator)) in read.into_iter().zip(wanted) {
                assert_eq!(read, Numbered { number, generator: Some(generator) });
            }
            assert_eq!(
                flags.lines().count(),
                4 + of("--generator ").len() + usize::from(queues > 1),
                "{flags}"
            );
        }
    }
}
