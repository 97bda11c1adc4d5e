//! What the kernel says of RDMA devices: addresses of their ports, and counters.

use std::fs;
use std::net::{IpAddr, Ipv6Addr};
use std::path::{Path, PathBuf};

/// An address (GID) of a port, for RoCEv2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gid {
    /// The device's port.
    pub port: u8,
    /// Its place in the port's list.
    pub index: u8,
    /// The network interface that has this IP address.
    pub interface: String,
    pub address: IpAddr,
}

/// Names in a folder that are numbers, in ascending order.
fn numbers(folder: &Path) -> Vec<u8> {
    let names = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut numbers: Vec<u8> = names.filter_map(|n| n.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// A line of a file. Places of the list that are empty cannot be read.
fn line(path: PathBuf) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_string())
}

/// The addresses of a device for RoCEv2. `folder`: that of all devices, `/sys/class/infiniband`.
pub(super) fn gids(folder: &Path, device: &str) -> Vec<Gid> {
    let ports = folder.join(device).join("ports");
    let of_port = |port: u8| {
        let place = ports.join(port.to_string());
        numbers(&place.join("gids")).into_iter().filter_map(move |index| {
            let read = |what: &str| line(place.join(what).join(index.to_string()));
            if read("gid_attrs/types")? != "RoCE v2" {
                return None;
            }
            let address: Ipv6Addr = read("gids")?.parse().ok()?;
            let interface = read("gid_attrs/ndevs")?;
            Some(Gid { port, index, interface, address: address.to_canonical() })
        })
    };
    numbers(&ports).into_iter().flat_map(of_port).collect()
}

/// The device's own counters: port, name, value.
pub(super) fn counters(folder: &Path, device: &str) -> Vec<(u8, String, u64)> {
    let ports = folder.join(device).join("ports");
    let mut found = Vec::new();
    for port in numbers(&ports) {
        for kind in ["counters", "hw_counters"] {
            let files = fs::read_dir(ports.join(port.to_string()).join(kind)).into_iter().flatten().flatten();
            found.extend(files.filter_map(|file| {
                let value = line(file.path())?.parse().ok()?;
                Some((port, file.file_name().to_str()?.to_string(), value))
            }));
        }
    }
    found.sort();
    // Some names are in both folders.
    found.dedup_by(|a, b| (a.0, &a.1) == (b.0, &b.1));
    found
}
