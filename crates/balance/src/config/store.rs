//! `[switch.store]`: the store that keeps the device of each connection, for all switches (docs/redplane.md, "Fixed keys").

use super::read::port;
use super::reader::{Problems, Table};
use super::{Rack, Switch};
use crate::trust::ReportKey;
use crate::types::{Mac, address_bits};
use std::collections::BTreeSet;
use std::fmt;
use std::net::IpAddr;

/// How switches reach a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreLink {
    /// Its address, of IPv4 or IPv6.
    pub address: IpAddr,
    /// The port of each switch behind which it is.
    pub port: u16,
    /// MAC address of the next hop there.
    pub mac: Mac,
    /// The address of each switch towards it, in the order of `switch.p4runtime`, of the same version of IP.
    pub switches: Vec<IpAddr>,
    /// Path of the file with its secret, as written.
    pub secret_file: String,
    /// The secret, from that file: see [`Rack::take_store_secret`].
    pub secret: Option<ReportKey>,
}

impl StoreLink {
    /// The MAC address from which a switch with this address sends to the store.
    pub fn mac_of(address: IpAddr) -> Mac {
        let [a, b, c, d] = (address_bits(address) as u32).to_be_bytes();
        Mac([2, 0, a, b, c, d])
    }
}

/// A text is not the secret of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotASecret;

impl fmt::Display for NotASecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("write 16 hexadecimal digits, as in the file of `pointsman store --secret`")
    }
}

impl std::error::Error for NotASecret {}

impl Rack {
    /// Takes the secret out of the text of the file that `switch.store.secret` names.
    ///
    /// # Errors
    /// The text is not a secret.
    pub fn take_store_secret(&mut self, text: &str) -> Result<(), NotASecret> {
        let Some(store) = &mut self.switch.store else { return Ok(()) };
        store.secret = Some(ReportKey::parse(text.trim()).ok_or(NotASecret)?);
        Ok(())
    }
}

/// Reads the table, in a rack with so many switches.
pub(super) fn store(mut t: Table<'_, '_>, switches: usize, problems: &mut Problems<'_>) -> Option<StoreLink> {
    let before = problems.count();
    let wanted = "write the store's address: 10.9.1.1 or fd09::1";
    let address = t.text::<IpAddr>("address", wanted, problems);
    if address.is_none() && problems.count() == before {
        t.missing("address", wanted, problems);
    }
    let port = port(&mut t, problems);
    let mac_before = problems.count();
    let mac = t.text::<Mac>("mac", "", problems);
    if mac.is_none() && problems.count() == mac_before {
        t.missing("mac", "write the MAC address of the store, or of the router to it", problems);
    }
    if let Some(zero) = mac.as_ref().filter(|m| m.value.to_u64() == 0) {
        problems.add(
            &zero.place,
            t.field("mac"),
            "this is not the MAC address of a station, nor of a group of stores",
        );
    }
    let all = addresses(&mut t, switches, address.as_ref().map(|a| a.value), problems);
    let secret_before = problems.count();
    let secret = t.text::<String>(
        "secret",
        "write the path of the file that `pointsman store --secret` has",
        problems,
    );
    if secret.is_none() && problems.count() == secret_before {
        t.missing("secret", "write the path of the file that `pointsman store --secret` has", problems);
    }
    t.finish(problems);
    if problems.count() != before {
        return None;
    }
    let secret_file = secret?.value;
    Some(StoreLink {
        address: address?.value,
        port: port?,
        mac: mac?.value,
        switches: all,
        secret_file,
        secret: None,
    })
}

/// The addresses of the switches.
fn addresses(
    t: &mut Table<'_, '_>,
    switches: usize,
    store: Option<IpAddr>,
    problems: &mut Problems<'_>,
) -> Vec<IpAddr> {
    let wanted = "write the address of each switch towards the store, in the order of `p4runtime`";
    let place = t.place_of("switches");
    let own = t.list::<IpAddr>("switches", wanted, problems).unwrap_or_default();
    let all: Vec<IpAddr> = own.into_iter().map(|a| a.value).collect();
    let distinct: BTreeSet<&IpAddr> = all.iter().collect();
    let macs: BTreeSet<Mac> = all.iter().map(|a| StoreLink::mac_of(*a)).collect();
    let message = if all.len() != switches || distinct.len() != all.len() {
        format!("{} different addresses for {switches} switches: {wanted}", distinct.len())
    } else if store.is_some_and(|store| all.iter().any(|own| own.is_ipv6() != store.is_ipv6())) {
        "addresses of IPv4 and IPv6: the store and all switches need addresses of the same version".into()
    } else if macs.len() != all.len() {
        "two switches would send from the same MAC address: their addresses must differ in the last four bytes".into()
    } else {
        return all;
    };
    problems.add(&place, t.field("switches"), message);
    all
}

impl Switch {
    /// The store, and the address of the switch with this number towards it.
    pub(crate) fn store_of(&self, switch: usize) -> Option<(&StoreLink, IpAddr)> {
        let store = self.store.as_ref()?;
        Some((store, *store.switches.get(switch)?))
    }
}
