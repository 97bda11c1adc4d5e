//! The names of the tables and actions that the controller fills, as types.

/// An object of the program, its name, and the names of its key fields or parameters.
pub type Named<T> = (T, &'static str, &'static [&'static str]);

/// An enum of objects of the program, each with its name (without the ingress in front) and the names of its key fields or parameters.
macro_rules! names {
    ($(#[$doc:meta])* $kind:ident: $($name:ident = $path:literal [$($field:literal),* $(,)?],)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $kind { $($name),* }

        impl $kind {
            /// All of them, in the order of the enum.
            pub const ALL: &[Named<$kind>] =
                &[$(($kind::$name, concat!("BalancerIngress.", $path), &[$($field),*])),*];
        }
    };
}

names! {
    /// Tables with their key fields.
    Table:
    SwitchConfig = "switch_config" [],
    StoreConfig = "arrive.redplane_config" [],
    Bridge = "bridge" ["mac"],
    RoutesV4 = "routes_v4" ["prefix"],
    RoutesV6 = "routes_v6" ["prefix"],
    LocalV4 = "local_v4" ["address"],
    LocalV6 = "local_v6" ["address"],
    DevicesV4 = "devices_v4" ["device"],
    DevicesV6 = "devices_v6" ["device"],
    BackendsV4 = "backends_v4" ["ingress_port", "address", "protocol", "port"],
    BackendsV6 = "backends_v6" ["ingress_port", "address", "protocol", "port"],
    ReportSourcesV4 = "reports.report_sources_v4" ["ingress_port", "source", "server"],
    ReportSourcesV6 = "reports.report_sources_v6" ["ingress_port", "source", "server"],
    Dips = "select_device.dip_table" ["service", "epoch", "server", "available"],
    Rings = "select_device.rings" ["service", "epoch", "server", "position"],
    Pools = "select_server.pools" ["service", "epoch", "server"],
    ServerSlots = "select_server.server_slots" ["service", "epoch", "slot"],
    ServicesV4 = "services_v4" ["vip", "protocol", "port"],
    ServicesV6 = "services_v6" ["vip", "protocol", "port"],
    Policies = "service_policy.policies" ["service", "epoch"],
    DeviceFactors = "device_settings.device_factors" ["service", "epoch", "server"],
    DeviceThresholds = "device_settings.device_thresholds" ["service", "epoch", "server"],
    FirstSlots = "select_server.first.slots" ["service", "epoch", "slot"],
    SecondSlots = "select_server.second.slots" ["service", "epoch", "slot"],
    ChosenPools = "select_server.chosen_pools" ["service", "epoch", "server"],
    ProbeSources = "reports.probe_sources" ["ingress_port", "source", "id"],
    ReportSourcesMac = "reports.report_sources_mac" ["ingress_port", "source", "server"],
    ReportKeys = "reports.report_keys" ["agent", "number"],
    ServiceOptions = "service_options" ["service"],
    FailedDevices = "failed_devices" ["device"],
    Tunnels = "encapsulate.tunnels" ["service"],
    SourcesV4 = "sources_v4" ["address"],
    SourcesV6 = "sources_v6" ["address"],
    QuietServices = "quiet_services" ["service"],
}

names! {
    /// Actions with their parameters; `*` stands for the slot of each device.
    Call:
    SetSwitch = "set_switch" ["mac"],
    Configure = "arrive.configure" [
        "switch_id", "incarnation", "secret", "address", "store", "mac_src", "mac_dst", "port", "late",
    ],
    Forward = "forward" ["port"],
    NextHop = "next_hop" ["port", "mac"],
    IsLocal = "is_local" [],
    SetDeviceV4 = "set_device_v4" ["address", "port", "mac"],
    SetDeviceV6 = "set_device_v6" ["address", "port", "mac"],
    SetBackendV4 = "set_backend_v4" ["service", "device", "vip"],
    SetBackendV6 = "set_backend_v6" ["service", "device", "vip"],
    AcceptReports = "reports.accept_reports" ["devices", "agent"],
    UseDevice = "select_device.use_device" ["device"],
    SetPool = "select_server.set_pool" ["devices", "ring", "ring_length", "timeout_ms"],
    UseServer = "select_server.use_server" ["server"],
    SetService = "set_service" ["service", "policy", "epoch", "slots_mask", "idle_ms"],
    FirstUseWeighted = "select_server.first.use_weighted" ["number", "factor"],
    SecondUseWeighted = "select_server.second.use_weighted" ["number", "factor"],
    SetPolicy = "service_policy.set_policy" [
        "servers", "narrow", "pick", "choices", "counting", "metric_a", "weight_a", "metric_b", "weight_b", "step", "offset", "complement", "second_only",
    ],
    SetFactors = "device_settings.set_factors" ["d*"],
    SetThresholds = "device_settings.set_thresholds" ["high*", "low*"],
    AcceptProbe = "reports.accept_probe" ["device"],
    SetKey = "reports.set_key" ["value"],
    TrustSource = "reports.trust_source" [],
    SetOptions = "set_options" ["answers_directly", "more"],
    IsFailed = "is_failed" [],
    SetTunnel = "encapsulate.set_tunnel" ["v4", "v6"],
    OnlyFrom = "only_from" ["port"],
    NoClient = "no_client" [],
    IsQuiet = "is_quiet" [],
    Adopt = "adopt" [],
}
