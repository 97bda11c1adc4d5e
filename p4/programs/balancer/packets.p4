// SPDX-License-Identifier: Apache-2.0
// What is done with a packet and its connection: actions of the ingress that no table calls, declared inside of it. When they are done is decided in main.p4.

action send_to_controller() {
    hdr.packet_in.setValid();
    hdr.packet_in.ingress_port = (bit<16>)standard_metadata.ingress_port;
    standard_metadata.egress_spec = CPU_PORT;
    sent = true;
}

action find_ends() {
    has_ends = true;
    if (hdr.ipv4.isValid()) {
        to.address = (bit<128>)hdr.ipv4.dst;
        from.address = (bit<128>)hdr.ipv4.src;
        proto = hdr.ipv4.proto;
        later = hdr.ipv4.fragment != 0;
        fragmented = later || hdr.ipv4.more_fragments == 1;
        datagram = (bit<32>)hdr.ipv4.id;
    } else {
        to.address = hdr.ipv6.dst;
        from.address = hdr.ipv6.src;
        proto = hdr.ipv6.proto;
        if (hdr.ipv6_fragment.isValid()) {
            proto = hdr.ipv6_fragment.next;
            later = hdr.ipv6_fragment.offset != 0;
            fragmented = later || hdr.ipv6_fragment.more == 1;
            datagram = hdr.ipv6_fragment.id;
        }
    }
    if (hdr.tcp.isValid()) {
        to.port = hdr.tcp.dport;
        from.port = hdr.tcp.sport;
        meta.fin = hdr.tcp.fin == 1;
        meta.rst = hdr.tcp.rst == 1;
        meta.opens = hdr.tcp.syn == 1 && hdr.tcp.ack_flag == 0 && hdr.tcp.fin == 0 && hdr.tcp.rst == 0;
    } else if (hdr.udp.isValid()) {
        to.port = hdr.udp.dport;
        from.port = hdr.udp.sport;
        meta.opens = true;
    } else if (hdr.quoted.isValid()) {
        to.port = hdr.quoted.sport;
        from.port = hdr.quoted.dport;
        if (hdr.quoted_ipv4.isValid()) {
            to.address = (bit<128>)hdr.quoted_ipv4.src;
            from.address = (bit<128>)hdr.quoted_ipv4.dst;
            proto = hdr.quoted_ipv4.proto;
        } else {
            to.address = hdr.quoted_ipv6.src;
            from.address = hdr.quoted_ipv6.dst;
            proto = hdr.quoted_ipv6.proto;
        }
    } else {
        has_ends = false;
    }
}

// One of the two hashes of meta.flow, CRC-32s over two orders of the fields (see connections.p4).
action hash_flow() {
    hash(meta.hash_a, HashAlgorithm.crc32, 32w0,
         { meta.flow.client, meta.flow.client_port, meta.flow.service }, 64w0x100000000);
}

#ifndef BALANCER_STORE
// The connection begins, at the place that was found.
action begin_connection(in device_t device, in idle_t idle, in bit<8> flags) {
    // Who had the place before did not end in a way that was seen.
    one_less = (conn.flags & CONN_IN_FLIGHT) != 0;
    left = conn.device;
    conn.idle = idle;
    conn.device = device;
    conn.flags = CONN_LIVE | flags;
    conn.options = hdr.tcp.isValid() || direct ? options : options | OPTION_DATAGRAMS;
    conn.found = true;
    keeps = true;
    is_new = true;
    service_connections.count((bit<32>)meta.flow.service);
    device_connections.count((bit<32>)device);
}

#else
// The connection begins, or continues here, at the place that was found, with what the store keeps of it.
action continue_connection() {
    bit<8> flags = KEPT_FLAGS(meta.store.value) & (CONN_COUNTS | CONN_DIRECT);
    one_less = (conn.flags & CONN_IN_FLIGHT) != 0;
    left = conn.device;
    one_more = (flags & CONN_COUNTS) != 0;
    meta.device = KEPT_DEVICE(meta.store.value);
    conn.idle = meta.opens && hdr.tcp.isValid() || meta.store.full ? HALF_OPEN : IDLE_OF(meta.store.lease);
    conn.device = meta.device;
    conn.flags = CONN_LIVE | flags | (one_more ? CONN_IN_FLIGHT : 8w0);
    conn.options = KEPT_OPTIONS(meta.store.value);
    conn.found = true;
    keeps = true;
    is_new = true;
    service_connections.count((bit<32>)meta.flow.service);
    device_connections.count((bit<32>)meta.device);
}
#endif

#ifdef BALANCER_STORE
// The connection's name in the store.
action name_connection() {
    ipv6_t vip = to_service ? to.address : (hdr.ipv4.isValid() ? (bit<128>)new4 : new6);
    bit<16> port = to_service ? to.port : from.port;
    bit<8> version = hdr.ipv4.isValid() ? 8w4 : 8w6;
    meta.extend_key = STORE_KEY(vip, meta.flow, port, version, proto);
}
#endif

#ifdef BALANCER_TEA
// The connection as servers' memory has it.
action take_settled() {
    bit<8> flags = KEPT_FLAGS(meta.tea.value);
    conn.found = true;
    conn.device = KEPT_DEVICE(meta.tea.value);
    conn.options = KEPT_OPTIONS(meta.tea.value) | OPTION_SETTLED;
    conn.flags = SETTLED_FLAGS(flags, conn.options);
    conn.idle = to_service ? meta.idle : NOT_HALF_OPEN;
    conn.seen = now[41:10];
}
#endif

// What FIN, RST and their absence say about the connection.
action note_flags() {
    bit<8> fin_flag = CONN_FIN_DEVICE;
    if (to_service) {
        // The FIN of a device that answers clients itself does not pass the switch.
        fin_flag = (conn.flags & CONN_DIRECT) != 0 ? CONN_FINS : CONN_FIN_CLIENT;
    }
    if ((conn.options & OPTION_DATAGRAMS) != 0) {
        if (!to_service) {
            conn.flags = (conn.flags & CONN_FINS) == 0 ? conn.flags | CONN_ANSWERED : conn.flags;
        } else if ((conn.flags & CONN_FINS) == CONN_ANSWERED) {
            conn.flags = (conn.flags & ~CONN_ANSWERED) | CONN_CONFIRMED;
        }
    } else if (meta.rst) {
        conn.flags = conn.flags | CONN_RESET;
    } else {
        // It continues, so a RST before was not from its end.
        conn.flags = conn.flags & ~CONN_RESET;
        if (meta.fin) {
            conn.flags = conn.flags | fin_flag;
        }
    }
}
