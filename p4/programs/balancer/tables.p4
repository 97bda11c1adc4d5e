// SPDX-License-Identifier: Apache-2.0
// What the controller fills: the tables of the ingress with their actions, declared inside of it. An action notes what its table says in the
// ingress's variables; what becomes of a packet is decided in main.p4.

// --- The switch itself ---

action set_switch(mac_t mac) {
    switch_mac = mac;
}

// MAC address of the switch, on all its ports.
table switch_config {
    actions = { set_switch; }
    default_action = set_switch(0x02504d000001);
}

action is_local() {
    local = true;
}

// VIPs and gateway addresses.
table local_v4 {
    key = { local4: exact @name("address"); }
    actions = { is_local; @defaultonly NoAction; }
    const default_action = NoAction;
    size = 8192;
}

table local_v6 {
    key = { local6: exact @name("address"); }
    actions = { is_local; @defaultonly NoAction; }
    const default_action = NoAction;
    size = 8192;
}

// --- Plain forwarding ---

action forward(bit<9> port) {
    standard_metadata.egress_spec = port;
    sent = true;
}

action flood(bit<16> group) {
    standard_metadata.mcast_grp = group;
    sent = true;
}

// By destination MAC, for packets that are not for the switch. Broadcast is an entry like any other.
table bridge {
    key = { hdr.ethernet.dst: exact @name("mac"); }
    actions = { forward; flood; @defaultonly NoAction; }
    const default_action = NoAction;
    size = 16384;
}

action next_hop(bit<9> port, mac_t mac) {
    standard_metadata.egress_spec = port;
    hdr.ethernet.dst = mac;
    hdr.ethernet.src = switch_mac;
    sent = true;
}

table routes_v4 {
    key = { hdr.ipv4.dst: lpm @name("prefix"); }
    actions = { next_hop; @defaultonly NoAction; }
    const default_action = NoAction;
    size = 65536;
}

table routes_v6 {
    key = { hdr.ipv6.dst: lpm @name("prefix"); }
    actions = { next_hop; @defaultonly NoAction; }
    const default_action = NoAction;
    size = 65536;
}

// --- Services and devices ---

// All that is per service and changes at run time is in one entry: one write changes it.
action set_service(service_t service, bit<8> policy, bit<1> epoch, bit<16> slots_mask, bit<24> idle_ms) {
    meta.flow.service = service;
    meta.policy = policy;
    meta.epoch = epoch;
    meta.slots_mask = slots_mask;
    meta.idle = idle_time(idle_ms);
    meta.idle = meta.idle == HALF_OPEN ? NOT_HALF_OPEN : meta.idle;
#ifdef BALANCER_STORE
    meta.idle = (meta.idle + 3) & ~18w3;
#endif
    to_service = true;
}

table services_v4 {
    key = {
        to.address[31:0]: exact @name("vip");
        proto: exact @name("protocol");
        to.port: exact @name("port");
    }
    actions = { set_service; @defaultonly NoAction; }
    const default_action = NoAction;
    size = 8192;
}

table services_v6 {
    key = {
        to.address: exact @name("vip");
        proto: exact @name("protocol");
        to.port: exact @name("port");
    }
    actions = { set_service; @defaultonly NoAction; }
    const default_action = NoAction;
    size = 8192;
}

direct_meter<bit<2>>(MeterType.packets) new_connections;

// What only new connections ask, of services that are not like the others: whether its devices answer clients
// directly, OPTION_*, and, by the meter, how many connections it may get.
action set_options(bit<1> answers_directly, bit<6> more) {
    new_connections.read(color);
    direct = answers_directly == 1;
    options = more;
}

table service_options {
    key = { meta.flow.service: exact @name("service"); }
    actions = { set_options; @defaultonly NoAction; }
    const default_action = NoAction;
    meters = new_connections;
    size = 65536;
}

action is_failed() {
    failed = true;
}

// Devices whose connections are to be reset, if their service wants that.
table failed_devices {
    key = { meta.device: exact @name("device"); }
    actions = { is_failed; @defaultonly NoAction; }
    const default_action = NoAction;
    size = DEVICE_NUMBERS;
}

// Where a device is: on the way in.
action set_device_v4(ipv4_t address, bit<9> port, mac_t mac) {
    new4 = address;
    next_hop(port, mac);
}

table devices_v4 {
    key = { meta.device: exact @name("device"); }
    actions = { set_device_v4; @defaultonly NoAction; }
    const default_action = NoAction;
    size = DEVICE_NUMBERS;
}

action set_device_v6(ipv6_t address, bit<9> port, mac_t mac) {
    new6 = address;
    next_hop(port, mac);
}

table devices_v6 {
    key = { meta.device: exact @name("device"); }
    actions = { set_device_v6; @defaultonly NoAction; }
    const default_action = NoAction;
    size = DEVICE_NUMBERS;
}

// Whose answer it is: on the way out.
action set_backend_v4(service_t service, device_t device, ipv4_t vip) {
    meta.flow.service = service;
    backend = device;
    new4 = vip;
    from_backend = true;
}

table backends_v4 {
    key = {
        meta.came_in: exact @name("ingress_port");
        from.address[31:0]: exact @name("address");
        proto: exact @name("protocol");
        from.port: exact @name("port");
    }
    actions = { set_backend_v4; @defaultonly NoAction; }
    const default_action = NoAction;
    size = 262144;
}

action set_backend_v6(service_t service, device_t device, ipv6_t vip) {
    meta.flow.service = service;
    backend = device;
    new6 = vip;
    from_backend = true;
}

table backends_v6 {
    key = {
        meta.came_in: exact @name("ingress_port");
        from.address: exact @name("address");
        proto: exact @name("protocol");
        from.port: exact @name("port");
    }
    actions = { set_backend_v6; @defaultonly NoAction; }
    const default_action = NoAction;
    size = 262144;
}

// Whose address the source is. None of ours is valid outside, and a device's only comes from the device's port.
action only_from(bit<9> port) {
    spoofed = meta.came_in != port;
}

// A VIP whose devices answer clients directly is a source, but no client.
action no_client() {
    spoofed = to_service;
}

table sources_v4 {
    key = { hdr.ipv4.src: exact @name("address"); }
    actions = { only_from; no_client; @defaultonly NoAction; }
    const default_action = NoAction;
    size = 262144;
}

table sources_v6 {
    key = { hdr.ipv6.src: exact @name("address"); }
    actions = { only_from; no_client; @defaultonly NoAction; }
    const default_action = NoAction;
    size = 262144;
}

action is_quiet() {
    unknown = false;
}

// The segment, unless it is of a handshake, begins the connection here; the device's own names the device.
action adopt() {
    adopts = hdr.tcp.syn == 0;
    unknown = unknown && !adopts;
    meta.opens = to_service && adopts;
}

// Services that send no RST where a segment's connection is not known.
table quiet_services {
    key = { meta.flow.service: exact @name("service"); }
    actions = { is_quiet; adopt; @defaultonly NoAction; }
    const default_action = NoAction;
    size = 65536;
}
