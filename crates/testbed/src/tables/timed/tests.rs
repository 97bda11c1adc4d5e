use super::*;

fn bed(shape: Shape) -> Timed {
    Timed::new(shape, Rnic::default()).expect("a bed")
}

const SHAPE: Shape = Shape::USUAL;

#[test]
fn a_look_up_takes_longer_than_a_bare_read() {
    let mut bed = bed(SHAPE);
    let start = bed.now();
    for n in 0..100 {
        bed.look_up(start + n * 10 * US, n as u32, 64);
    }
    bed.run_until(start + 2000 * US);
    assert_eq!((bed.wrong(), bed.passed().len()), (0, 100));
    let bare = crate::rnic::bare_read_ns(&Rnic::default(), 64);
    for passed in bed.passed() {
        let took = passed.found.expect("an entry") - passed.came;
        assert!((bare + 50..bare + 300).contains(&took), "{took} and {bare}");
    }
    assert_eq!(bed.most_reads(), 2);
}

#[test]
fn the_order_of_the_memory_is_another_one_of_all_flows() {
    let bed = bed(SHAPE);
    let mut all = bed.in_order().to_vec();
    let places: Vec<u32> =
        all.iter().map(|flow| home(&SHAPE.function.key(bed.keys[*flow as usize]))).collect();
    assert!(places.is_sorted(), "{places:?}");
    all.sort_unstable();
    assert_eq!(all, (0..SHAPE.entries).collect::<Vec<u32>>());
}

/// The first cell of a key's window (docs/tea.md), of the cells for 1,000 entries.
fn home(key: &[u8]) -> u32 {
    pointsman_wire::crc::crc32_after(0, key) % 1666
}

#[test]
fn the_switch_answers_for_what_it_caches() {
    for function in Function::ALL {
        let mut bed = bed(Shape { function, cache: 64, ..SHAPE });
        bed.fill_cache(64).expect("room");
        let start = bed.now();
        for flow in 0..128 {
            bed.look_up(start + u64::from(flow) * 10 * US, flow, 60);
        }
        bed.run_until(start + 2000 * US);
        assert_eq!(bed.wrong(), 0, "{function:?}");
        let took = |p: &Passed| p.found.expect("an entry") - p.came;
        let (local, remote): (Vec<u64>, Vec<u64>) =
            (bed.passed()[..64].iter().map(took).collect(), bed.passed()[64..].iter().map(took).collect());
        // A pass through the switch, and a look-up. Colliding entries are in the switch.
        assert!(local.iter().all(|t| *t == 400), "{function:?} {local:?}");
        assert!(remote.iter().filter(|t| **t > 1500).count() > 56, "{function:?} {remote:?}");
    }
}

#[test]
fn look_ups_avoid_a_full_link_and_one_that_is_cut() {
    for load in [None, Some((0.6, 0.9))] {
        let mut bed = bed(Shape { servers: 2, load, waits: true, ..SHAPE });
        let start = bed.now();
        for n in 0..2000 {
            bed.look_up(start + n * US / 4, (n % 1000) as u32, 64);
        }
        // 5 of 4 Gbit each.
        for n in 0..1000 {
            bed.ordinary(start + 100 * US + n * 240, 1500);
        }
        bed.cable(start + 450 * US, 1, false);
        bed.run_until(start + 1000 * US);
        assert_eq!(bed.wrong(), 0);
        let lost = |from: u64, to: u64| {
            let at = |p: &&Passed| (start + from * US..start + to * US).contains(&p.came);
            bed.passed().iter().filter(at).filter(|p| p.found.is_none()).count()
        };
        let (full, cut) = (lost(100, 440), lost(440, 500));
        println!("{load:?}: {full} lost while the link is full, {cut} while it is cut");
        assert_eq!(full > 50, load.is_none(), "{full}");
        // Without meters the first server is out, and not yet found again, when the second one is lost.
        assert!((load.is_none() || cut < 30) && lost(0, 100) == 0, "{cut}");
    }
}

/// Look-ups of flows in turn, one in so many nanoseconds, and how many of them are lost.
fn look_ups(bed: &mut Timed, count: u64, gap_ns: u64, bytes: usize) -> usize {
    let (first, start) = (bed.passed().len(), bed.now());
    (0..count).for_each(|n| bed.look_up(start + n * gap_ns, (n % 1000) as u32, bytes));
    bed.run_until(start + count * gap_ns + 1000 * US);
    bed.passed()[first..].iter().filter(|p| p.found.is_none()).count()
}

const LAYOUTS: [Scratchpads; 2] = [Scratchpads::Ring, Scratchpads::Inline];

#[test]
fn a_look_up_has_its_bytes_on_the_wire() {
    // Ethernet, IPv4, UDP, base header, two check sequences, preamble and gap.
    const FRAME: u64 = 14 + 20 + 8 + 12 + 4 + 24;
    let (remote, status, cells) = (16, 4, 8 * 32);
    for (scratchpads, scratch, requests) in [(LAYOUTS[0], 8, 3), (LAYOUTS[1], 12, 2)] {
        let mut bed = bed(Shape { scratchpads, ..SHAPE });
        assert_eq!(look_ups(&mut bed, 1000, 10 * US, 60), 0);
        let asked = bed.count(1).expect("a counter");
        assert!(asked > 900, "{asked}");
        let to = requests * (FRAME + remote) + scratch + 60;
        let from = (requests - 1) * (FRAME + status) + scratch + 60 + cells;
        assert_eq!(bed.wire_bytes(), [to * asked, from * asked], "{scratchpads:?}");
        assert_eq!(bed.answered().iter().sum::<u64>(), (requests - 1) * asked);
        assert_eq!(bed.wrong(), 0);
    }
}

#[test]
fn losses_cost_packets_and_no_queue_pair() {
    for scratchpads in LAYOUTS {
        let mut bed = bed(Shape { scratchpads, waits: true, ..SHAPE });
        bed.lose(10_000);
        let lost = look_ups(&mut bed, 20_000, US, 60) as u64;
        let frames = bed.lost_frames();
        println!("{scratchpads:?}: {lost} packets for {frames} frames");
        // One in 100 of three to five frames for each packet.
        assert!((500..1100).contains(&frames) && lost > frames / 2, "{lost} for {frames}");
        bed.lose(0);
        look_ups(&mut bed, 100, 10 * US, 60);
        let before = bed.answered();
        assert_eq!(look_ups(&mut bed, 1000, 10 * US, 60), 0);
        assert!(bed.answered().iter().zip(before).all(|(after, before)| *after > before + 100));
        assert_eq!((bed.lost_frames(), bed.wrong()), (frames, 0));
    }
}
