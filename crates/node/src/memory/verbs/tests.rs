use super::*;
use pointsman_roce::setup::Reply;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Devices `fake0` and `fake1`.
const LIBRARY: &str = include_str!("../../../tests/data/verbs.c");
/// Numbers of Linux's errors.
const EACCES: i32 = 13;
const EINVAL: i32 = 22;
const ENOMEM: i32 = 12;
const ENOSYS: i32 = 38;
const EHOSTUNREACH: i32 = 113;

/// A folder that is removed, with a library and a list of addresses: those of `fake0`.
struct Bed(PathBuf);

impl Drop for Bed {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Bed {
    fn new(name: &str) -> Self {
        let bed = Bed(std::env::temp_dir().join(format!("pointsman-verbs-{}-{name}", std::process::id())));
        fs::create_dir_all(&bed.0).expect("a folder");
        bed.write("verbs.c", LIBRARY);
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", &format!("-DFOLDER=\"{}\"", bed.0.display()), "-o"])
            .args([bed.0.join("libibverbs.so"), bed.0.join("verbs.c")])
            .status();
        assert!(built.expect("a C compiler").success());
        for (index, kind, interface, gid) in [
            (0, "IB/RoCE v1", "lo", "0000:0000:0000:0000:0000:ffff:7f00:0001"),
            (1, "RoCE v2", "other", "0000:0000:0000:0000:0000:ffff:0a00:0001"),
            (2, "RoCE v2", "lo", "0000:0000:0000:0000:0000:ffff:7f00:0001"),
        ] {
            bed.write(&format!("fake0/ports/1/gids/{index}"), &format!("{gid}\n"));
            bed.write(&format!("fake0/ports/1/gid_attrs/types/{index}"), &format!("{kind}\n"));
            bed.write(&format!("fake0/ports/1/gid_attrs/ndevs/{index}"), &format!("{interface}\n"));
        }
        // A place that is empty.
        bed.write("fake0/ports/1/gids/3", "0000:0000:0000:0000:0000:0000:0000:0000\n");
        bed.write("fake0/ports/1/hw_counters/rcvd_pkts", "7\n");
        bed.write("fake0/ports/1/hw_counters/lifespan", "not a number\n");
        bed
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    /// The calls that the library got.
    fn calls(&self) -> String {
        fs::read_to_string(self.0.join("calls")).unwrap_or_default()
    }

    fn open(&self, change: impl FnOnce(&mut World, &mut Settings)) -> Result<(Server, Vec<String>), String> {
        let library = vec!["/no/such/library.so".into(), self.0.join("libibverbs.so").into()];
        let mut world = World { library, devices: self.0.clone() };
        let interfaces = vec!["3@lo".parse().expect("an interface")];
        let mut settings =
            Settings { device: "fake0".into(), interfaces, bytes: 8192, secret: None, seed: 1 };
        change(&mut world, &mut settings);
        let mut said = Vec::new();
        let server = Server::open(world, settings, |text| said.push(text.to_string()));
        server.map(|server| (server, said)).map_err(|e| e.to_string())
    }

    /// Why it cannot be opened while this call fails.
    fn refused(&self, call: &str, number: i32) -> String {
        self.write("fail", &format!("{call} {number}"));
        let refused = self.open(|_, _| {}).err().expect("it fails");
        fs::remove_file(self.0.join("fail")).expect("a file");
        refused
    }
}

fn line(server: &mut Server, line: &str) -> Reply {
    Served::line(server, 1, line).0
}

fn pair(server: &mut Server) -> u32 {
    match line(server, "pair 0x90 77 127.0.0.1") {
        Reply::Pair(number) => number,
        other => panic!("{other}"),
    }
}

fn reason(reply: Reply) -> String {
    match reply {
        Reply::Refused(why) => why,
        other => panic!("{other}"),
    }
}

#[test]
fn queue_pairs_are_set_up() {
    let bed = Bed::new("set-up");
    let (mut server, said) = bed.open(|_, _| {}).expect("it opens");
    assert_eq!(said, [""; 0]);
    let memory = server.memory().clone();
    assert_eq!((memory.bytes, memory.key, memory.mtu), (8192, 0xbeef, 2048));
    let port = &memory.ports[0];
    assert_eq!((port.number, &port.addresses[..]), (3, &[IpAddr::from([127, 0, 0, 1])][..]));
    Served::connect(&mut server, 1);
    assert_eq!(line(&mut server, "memory"), Reply::Memory(memory));
    let (first, second) = (pair(&mut server), pair(&mut server));
    assert_eq!((first, second), (16, 17));
    assert_eq!(line(&mut server, "remove 16"), Reply::Removed);
    assert_eq!(reason(line(&mut server, "remove 16")), "unknown queue pair 16");
    // Another controller begins: the queue pairs of the first one end.
    Served::disconnect(&mut server, 1);
    Served::connect(&mut server, 2);
    assert_eq!(Served::line(&mut server, 2, "pair 2 0 127.0.0.1").0, Reply::Pair(18));
    let (figures, dead) = server.look();
    assert_eq!((figures.channel.pairs, figures.channel.setups, dead), (1, [5, 1], vec![]));
    let page = format!("{:?}", figures.page());
    assert!(page.contains("rcvd_pkts") && !page.contains("lifespan"), "{page}");
    drop(server);
    let of_pair = |number: u32, peer: u32, psn: u32| {
        format!(
            "pair {number}: kind 2, room 1 1, queues 1\n\
             init mask 0x39: port 1, partition 0, access 15\n\
             answers mask 0x129181: mtu 4, peer {peer:#x}, psn {psn}, reads 16, wait 12, to 00000000000000000000ffff7f000001, index 2, hops 64, global 1, port 1\n"
        )
    };
    let expected = [
        "open fake0\nfree list 1\nregion of 8192 bytes, 8192 zeros, access 15, aligned 1\n".to_string(),
        of_pair(16, 0x90, 77),
        of_pair(17, 0x90, 77),
        "end of 16\nend of 17\n".into(),
        of_pair(18, 2, 0),
        "end of 18\nclose, objects: 0\n".into(),
    ];
    assert_eq!(bed.calls(), expected.concat());
}

#[test]
fn dead_queue_pairs_are_reported_once_and_replaced() {
    let bed = Bed::new("dead");
    let (mut server, _) = bed.open(|_, _| {}).expect("it opens");
    Served::connect(&mut server, 1);
    let first = pair(&mut server);
    assert_eq!(server.look().1, [0; 0]);
    bed.write("dead", &first.to_string());
    assert_eq!(server.look().1, [first]);
    let (figures, dead) = server.look();
    assert_eq!(dead, [0; 0]);
    assert!(matches!(figures.work, Work::Device { dead: 1, .. }), "{figures:?}");
    assert_eq!(line(&mut server, &format!("remove {first}")), Reply::Removed);
    assert!(pair(&mut server) != first);
    assert!(matches!(server.look().0.work, Work::Device { dead: 0, .. }));
}

#[test]
fn what_the_device_lacks() {
    let bed = Bed::new("lacks");
    bed.write("device", "1000000 16 0");
    bed.write("port", "1 3");
    let (server, said) = bed.open(|_, _| {}).expect("it opens");
    assert_eq!(server.memory().mtu, 1024);
    assert!(said[0].contains("port 1 of fake0 is down"), "{said:?}");
    assert!(said[1].contains("no atomic operations"), "{said:?}");
    assert!(bed.calls().contains("access 7,"), "{}", bed.calls());
    bed.write("device", "8191 16 1");
    let refused = |bed: &Bed| bed.open(|_, _| {}).err().expect("it fails");
    assert!(refused(&bed).contains("largest region has 8191"), "{}", refused(&bed));
    bed.write("device", "8192 15 1");
    assert!(refused(&bed).contains("answers for 15 READs"), "{}", refused(&bed));
    bed.write("port", "4 0");
    assert!(refused(&bed).contains("path MTU, 256 bytes"), "{}", refused(&bed));
}

#[test]
fn mistakes_have_a_remedy() {
    let bed = Bed::new("mistakes");
    let refused = |change: fn(&mut World, &mut Settings)| bed.open(change).err().expect("it fails");
    let library = refused(|world, _| world.library.truncate(1));
    assert!(library.contains("/no/such/library.so") && library.contains("ibverbs-providers"), "{library}");
    let device = refused(|_, settings| settings.device = "mlx5_0".into());
    assert_eq!(device, "--verbs: unknown device mlx5_0: this machine has fake0, fake1");
    let gid = refused(|_, settings| settings.interfaces[0].name = "eth7".into());
    assert!(
        gid.contains("fake0 has no address (GID) for RoCEv2 at eth7") && gid.contains(": lo, other."),
        "{gid}"
    );
    let none = refused(|_, settings| settings.device = "fake1".into());
    assert!(none.contains("has one: none. Name"), "{none}");
    assert!(bed.refused("list", ENOSYS).contains("load ib_uverbs"));
    assert!(bed.refused("open", EACCES).contains("/dev/infiniband/uverbs*"));
    // What the limit is depends on the machine.
    let locked = bed.refused("region", ENOMEM);
    assert!(locked.contains("ulimit -l") || locked.contains("does not lock 8192 bytes"), "{locked}");
    assert!(bed.refused("queue", EINVAL).contains("ibv_create_cq: Invalid argument"));
    // Nothing stays open.
    assert!(bed.calls().ends_with("close, objects: 0\n"), "{}", bed.calls());
    let text = VerbsError::Locked(9000, Some(64)).to_string();
    assert!(text.contains("may lock 64: raise the limit"), "{text}");
}

#[test]
fn queue_pairs_that_cannot_be() {
    let bed = Bed::new("refused");
    let (mut server, _) = bed.open(|_, _| {}).expect("it opens");
    Served::connect(&mut server, 1);
    let mut refused = |call: &str, number: i32, to: &str| {
        bed.write("fail", &format!("{call} {number}"));
        reason(line(&mut server, &format!("pair 0x90 77 {to}")))
    };
    let full = refused("pair", ENOMEM, "127.0.0.1");
    assert!(full.contains("has 0 queue pairs and no room") && full.contains("limit is 3"), "{full}");
    let way = refused("answers", EHOSTUNREACH, "127.0.0.1");
    assert!(way.contains("no Ethernet address for 127.0.0.1") && way.contains("ip neighbour"), "{way}");
    assert!(refused("init", EINVAL, "127.0.0.1").contains("to INIT: Invalid argument"));
    let other = refused("none", 1, "::1");
    assert!(other.contains("have the address ::1, which is not one of fake0 at lo"), "{other}");
    // Those that were refused are not left over.
    assert_eq!(server.look().0.channel.pairs, 0);
    drop(server);
    assert!(bed.calls().ends_with("close, objects: 0\n"), "{}", bed.calls());
}
