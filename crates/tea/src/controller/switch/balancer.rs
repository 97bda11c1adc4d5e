//! What the switch holds for the balancer's services, which have the same devices.

use super::{Switch, bits, number};
use crate::bed::{FOUND, SENDER, UNKNOWN};
use crate::checker::connections::{ALL, DEVICES, FIRST_DEVICE, device, place, services, vip};
use crate::checker::{HOP, Host, ROUTED, TARGET};
use pointsman_control::proto::p4rt;
use pointsman_fabric::{Does, UnknownName, Value};
use pointsman_wire::frame::TCP;

/// The server that all devices are of.
const SERVER: u128 = 1;
/// Devices take turns (`POLICY_ROUND_ROBIN`).
const POLICY: u128 = 1;
/// How long connections may stay unseen, in milliseconds: longer than a run.
pub const IDLE_MS: u64 = 3_600_000;

fn exact(name: &'static str, value: impl Into<u128>) -> (&'static str, Value) {
    (name, Value::Exact(value.into()))
}

/// The port of a device.
fn port(slot: u8) -> u16 {
    match place(slot).1 {
        Host::Sender => SENDER.1,
        Host::Found => FOUND.1,
        Host::Unknown => UNKNOWN.1,
    }
}

impl Switch {
    /// An entry of the balancer's ingress.
    fn in_ingress(
        &self,
        table: &str,
        key: &[(&str, Value)],
        action: &str,
        parameters: &[(&str, u128)],
    ) -> Result<p4rt::Entity, UnknownName> {
        let action = self.book.action(&format!("BalancerIngress.{action}"), parameters)?;
        self.book.entry(&format!("BalancerIngress.{table}"), key, Does::Action(action))
    }

    /// The services, their devices, and the ways to both.
    ///
    /// # Errors
    /// The program lacks a table or action.
    pub(super) fn services(&self) -> Result<Vec<p4rt::Entity>, UnknownName> {
        let mac = self.book.action("BalancerIngress.set_switch", &[("mac", number(&HOP.0.0))])?;
        let mut all = vec![self.book.default_action("BalancerIngress.switch_config", mac)?];
        for (service, is_ipv6) in services() {
            let of = |name: &str| format!("{name}_{}", if is_ipv6 { "v6" } else { "v4" });
            let (vip, service) = (bits(vip(is_ipv6)), u128::from(service));
            let hop = [("port", SENDER.1.into()), ("mac", number(&ROUTED.0))];
            all.push(self.in_ingress(&of("routes"), &[("prefix", Value::Prefix(0, 0))], "next_hop", &hop)?);
            all.push(self.in_ingress(&of("local"), &[exact("address", vip)], "is_local", &[])?);
            for slot in 0..DEVICES {
                let (address, mac) = (bits(device(slot, is_ipv6)), number(&place(slot).0.0));
                let number = u128::from(FIRST_DEVICE) + u128::from(slot);
                let way = [("address", address), ("port", port(slot).into()), ("mac", mac)];
                all.push(self.in_ingress(
                    &of("devices"),
                    &[exact("device", number)],
                    &of("set_device"),
                    &way,
                )?);
                let key = [
                    exact("ingress_port", port(slot)),
                    exact("address", address),
                    exact("protocol", TCP),
                    exact("port", TARGET.1),
                ];
                let backend = [("service", service), ("device", number), ("vip", vip)];
                all.push(self.in_ingress(&of("backends"), &key, &of("set_backend"), &backend)?);
            }
            for epoch in [0u8, 1] {
                let key = [exact("service", service), exact("epoch", epoch), exact("slot", 0u8)];
                let server = [("server", SERVER)];
                all.push(self.in_ingress(
                    "select_server.server_slots",
                    &key,
                    "select_server.use_server",
                    &server,
                )?);
            }
        }
        all.extend(self.generation(ALL, 1)?);
        all.extend(self.pool(ALL, 0)?);
        Ok(all)
    }

    /// The devices, as bits, that take new connections: the entries of a generation (`epoch`), then those by which the services use it.
    ///
    /// # Errors
    /// The program lacks a table or action.
    pub(in super::super) fn pool(&self, devices: u16, epoch: u8) -> Result<Vec<p4rt::Entity>, UnknownName> {
        let mut all = self.generation(devices, epoch)?;
        for (service, is_ipv6) in services() {
            let table = if is_ipv6 { "services_v6" } else { "services_v4" };
            let key = [exact("vip", bits(vip(is_ipv6))), exact("protocol", TCP), exact("port", TARGET.1)];
            let settings = [
                ("service", service.into()),
                ("policy", POLICY),
                ("epoch", epoch.into()),
                ("slots_mask", 0),
                ("idle_ms", IDLE_MS.into()),
            ];
            all.push(self.in_ingress(table, &key, "set_service", &settings)?);
        }
        Ok(all)
    }

    /// A generation's devices.
    fn generation(&self, devices: u16, epoch: u8) -> Result<Vec<p4rt::Entity>, UnknownName> {
        let members: Vec<u8> = (0..DEVICES).filter(|slot| devices >> slot & 1 == 1).collect();
        let mut all = Vec::new();
        for (service, _) in services() {
            let of = [exact("service", service), exact("epoch", epoch), exact("server", SERVER)];
            let pool = [
                ("devices", devices.into()),
                ("ring", service.into()),
                ("ring_length", DEVICES.into()),
                ("timeout_ms", 0),
            ];
            all.push(self.in_ingress("select_server.pools", &of, "select_server.set_pool", &pool)?);
            for (position, slot) in (0..DEVICES).zip(members.iter().cycle()) {
                let key = [&of[..], &[exact("position", position)]].concat();
                let device = [("device", u128::from(*slot))];
                all.push(self.in_ingress(
                    "select_device.rings",
                    &key,
                    "select_device.use_device",
                    &device,
                )?);
            }
        }
        Ok(all)
    }
}
