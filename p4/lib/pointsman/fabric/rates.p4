// Rate adaptation that hosts obey: controls for a program that judges the load of ports. `headers_t` needs `note_t note`, `tcp_t tcp`,
// `word_t[10] options` and `stamps_t stamps`; `metadata_t` needs `rate_t rate`, and `bit<8> verdict` among the fields that clones keep.
//
// A switch that finds a flow's class above its share of the port where it came in, and the port where it leaves overloaded, gives a
// *verdict*: a copy of the packet without data, with a note behind Ethernet and both ends exchanged. It travels to the leaf of the flow's sender, which alone
// knows the flow's acknowledgments, and acts on those.
//
//     FabricRates      at the end of ingress
//     FabricVerdicts   in egress, with the colour of the port: sets meta.verdict, and then a copy of the packet has to be made
//     verdict copies   fabric_verdict, then recirculate
//
// A leaf acts once for `spacing` bytes of a flow. It marks packets of these bytes with a note, and so does a switch that has given a verdict:
// no other switch gives one for them. The last leaf removes the note. Flows under one leaf are left alone.

#ifndef POINTSMAN_FABRIC_RATES_P4
#define POINTSMAN_FABRIC_RATES_P4

const bit<8> RATE_NONE = 0;
const bit<8> RATE_ECE = 1;
const bit<8> RATE_CLAMP = 2;
const bit<8> RATE_FACK = 3;

const bit<8> TCP_SYN = 0x02;
const bit<8> TCP_ACK = 0x10;
const bit<8> TCP_ECE = 0x40;
const bit<8> TCP_CWR = 0x80;
const bit<32> NOP_NOP_STAMPS = 0x0101080a;

// Of a flow's cell: key, state, scale, sequence number of the last action.
const bit<8> RATE_USED = 1;
const bit<8> RATE_ACTED = 2;
const bit<8> RATE_ACTIVE = 4;
const bit<8> RATE_ACKED = 8;
const bit<8> RATE_STAMPED = 16;

// Of `rate_counts`.
const bit<32> RATE_FOREIGN = 0;
const bit<32> RATE_VERDICTS = 1;
const bit<32> RATE_EARLY = 2;
const bit<32> RATE_UNKNOWN = 3;

control FabricRates(inout headers_t hdr,
                    inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    // By flow, at the leaf of its sender.
    register<bit<64>>(16384) rated;
    register<bit<32>>(16384) clamped_since;
    // Of the last acknowledgment: sequence number and what it acknowledges, timestamps, window.
    register<bit<64>>(16384) last_acks;
    register<bit<64>>(16384) last_stamps;
    register<bit<16>>(16384) last_windows;
    // By port and class: the share of the class.
    meter(1024, MeterType.bytes) class_rates;
    // Notes from hosts; verdicts that led to an action, came too early after the last one, were of no use.
    counter(4, CounterType.packets) rate_counts;
    // Acknowledgments changed or made.
    counter(1, CounterType.packets) rate_acks;

    action set_rate(bit<8> mode, bit<32> spacing, bit<32> clamp, bit<32> hold) {
        meta.rate.mode = mode;
        meta.rate.spacing = spacing;
        meta.rate.clamp = clamp == 0 ? 1 : clamp;
        meta.rate.hold = hold;
    }

    // The mode; bytes of a flow between two actions; the window of `clamp` in bytes, and for how many ticks it is in force.
    table rate_config {
        actions = { set_rate; }
        default_action = set_rate(RATE_NONE, 0, 0, 0);
        size = 1;
    }

    table from_hosts {
        key = { standard_metadata.ingress_port: exact @name("port"); }
        actions = { NoAction; }
        default_action = NoAction();
        size = 512;
    }

    table to_hosts {
        key = { standard_metadata.egress_spec: exact @name("port"); }
        actions = { NoAction; }
        default_action = NoAction();
        size = 512;
    }

    action find_flow() {
        rated.read(meta.rate.cell, (bit<32>)meta.rate.flow[13:0]);
        meta.rate.mine = meta.rate.cell[63:48] == meta.rate.flow[31:16] && meta.rate.cell[47:40] & RATE_USED != 0;
        meta.rate.near = meta.rate.mine && meta.rate.cell[47:40] & RATE_ACTED != 0
            && hdr.tcp.seq - meta.rate.cell[31:0] + meta.rate.spacing < meta.rate.spacing << 1;
    }

    action keep_flow(bit<8> state, bit<8> scale, bit<32> seq) {
        meta.rate.cell = meta.rate.flow[31:16] ++ state ++ scale ++ seq;
        rated.write((bit<32>)meta.rate.flow[13:0], meta.rate.cell);
    }

    action find_payload(bit<16> tcp_bytes) {
        bit<16> header_bytes = 10w0 ++ hdr.tcp.offset ++ 2w0;
        meta.rate.payload = tcp_bytes |-| header_bytes;
    }

    action find_reverse_v4() {
        hash(meta.rate.flow, HashAlgorithm.crc32, 32w0,
             { hdr.ipv4.dst, hdr.ipv4.src, hdr.ipv4.proto, hdr.ports.dst, hdr.ports.src, meta.fabric.seed }, 64w0x100000000);
    }

    action find_reverse_v6() {
        hash(meta.rate.flow, HashAlgorithm.crc32, 32w0,
             { hdr.ipv6.dst, hdr.ipv6.src, hdr.ipv6.next_header, hdr.ports.dst, hdr.ports.src, meta.fabric.seed },
             64w0x100000000);
    }

    // 16 bits of the TCP header change (RFC 1624).
    action adjust(bit<16> before, bit<16> after) {
        bit<32> sum = (bit<32>)(~hdr.tcp.checksum) + (bit<32>)(~before) + (bit<32>)after;
        sum = (sum & 0xffff) + (sum >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        hdr.tcp.checksum = ~sum[15:0];
        rate_acks.count(0);
    }

    action set_ece() {
        bit<16> before = hdr.tcp.offset ++ hdr.tcp.reserved ++ hdr.tcp.flags;
        hdr.tcp.flags = hdr.tcp.flags | TCP_ECE;
        adjust(before, before | (bit<16>)TCP_ECE);
    }

    action set_window(bit<16> window) {
        bit<16> before = hdr.tcp.window;
        hdr.tcp.window = window;
        adjust(before, window);
    }

    action add_note() {
        hdr.note.setValid();
        hdr.note = { NOTE_DONE, 0, hdr.ethernet.ethertype };
        hdr.ethernet.ethertype = ETHERTYPE_NOTE;
    }

    action remove_note() {
        hdr.ethernet.ethertype = hdr.note.ethertype;
        hdr.note.setInvalid();
    }

    action keep_ack() {
        last_acks.write((bit<32>)meta.rate.flow[13:0], (hdr.tcp.seq + (bit<32>)meta.rate.payload) ++ hdr.tcp.ack);
        last_stamps.write((bit<32>)meta.rate.flow[13:0], hdr.stamps.isValid() ? hdr.stamps.value ++ hdr.stamps.echo : 64w0);
        last_windows.write((bit<32>)meta.rate.flow[13:0], hdr.tcp.window);
    }

    // The verdict becomes the last acknowledgment with another window.
    action make_ack() {
        last_acks.read(meta.rate.last, (bit<32>)meta.rate.flow[13:0]);
        hdr.tcp.seq = meta.rate.last[63:32];
        hdr.tcp.ack = meta.rate.last[31:0];
        last_windows.read(meta.rate.window, (bit<32>)meta.rate.flow[13:0]);
        hdr.tcp.window = hdr.note.kind == NOTE_REDUCE
            ? (meta.rate.window > 1 ? meta.rate.window >> 1 : meta.rate.window)
            : meta.rate.window |+| (meta.rate.window >> 2);
        last_stamps.read(meta.rate.last, (bit<32>)meta.rate.flow[13:0]);
        hdr.tcp.offset = 5;
        hdr.tcp.reserved = 0;
        hdr.tcp.flags = TCP_ACK;
        hdr.tcp.urgent = 0;
        hdr.ipv4.ecn = ECN_NOT_ECT;
        hdr.ipv6.ecn = ECN_NOT_ECT;
        meta.rate.tcp_bytes = 20;
        meta.rate.made = true;
        rate_acks.count(0);
    }

    action add_stamps() {
        hdr.stamps.setValid();
        hdr.stamps = { NOP_NOP_STAMPS, meta.rate.last[63:32], meta.rate.last[31:0] };
        hdr.tcp.offset = 8;
        hdr.ipv4.len = 52;
        hdr.ipv6.len = 32;
        meta.rate.tcp_bytes = 32;
    }

    // A verdict has reached the leaf of the flow's sender.
    action refuse(bit<32> reason) {
        rate_counts.count(reason);
        mark_to_drop(standard_metadata);
    }

    action clamp_from_now() {
        clamped_since.write((bit<32>)meta.rate.flow[13:0], standard_metadata.ingress_global_timestamp[31:0]);
    }

    apply {
        rate_config.apply();
        if (meta.rate.mode == RATE_NONE) {
            if (hdr.note.isValid()) {
                refuse(RATE_FOREIGN);
            }
        } else {
            // Recirculated packets are this switch's own.
            meta.rate.from_host = from_hosts.apply().hit && standard_metadata.instance_type == 0;
            meta.rate.to_host = to_hosts.apply().hit;
            bit<32> colour;
            class_rates.execute_meter((bit<32>)(standard_metadata.ingress_port ++ meta.rate.class), colour);
            meta.rate.over = colour != 0;
            bool noted = hdr.note.isValid();
            bool starts = hdr.tcp.isValid() && hdr.tcp.flags & TCP_SYN != 0;
            // The sender offers accurate ECN (RFC 9768), in which ECE means something else.
            bool accurate = meta.rate.mode == RATE_ECE && hdr.tcp.reserved[0:0] == 1;
            if (hdr.tcp.isValid()) {
                find_payload(hdr.ipv4.isValid() ? hdr.ipv4.len - 20 : hdr.ipv6.len);
                if (meta.rate.from_host) {
                    if (hdr.ipv4.isValid()) {
                        find_reverse_v4();
                    } else {
                        find_reverse_v6();
                    }
                } else {
                    meta.rate.flow = meta.fabric.flow;
                }
                find_flow();
            }
            bit<8> state = meta.rate.cell[47:40];
            bit<8> scale = meta.rate.cell[39:32];
            bit<32> seq = meta.rate.cell[31:0];
            if (hdr.note.isValid() && meta.rate.from_host) {
                refuse(RATE_FOREIGN);
            } else if (hdr.note.isValid() && hdr.note.kind == NOTE_DONE) {
                if (meta.rate.to_host) {
                    remove_note();
                }
            } else if (hdr.note.isValid()) {
                if (meta.rate.to_host) {
                    bit<2> ecn = hdr.ipv4.isValid() ? hdr.ipv4.ecn : hdr.ipv6.ecn;
                    bool reduce = hdr.note.kind == NOTE_REDUCE;
                    bool of_use = reduce && meta.rate.mode == RATE_ECE && ecn != ECN_NOT_ECT
                        || reduce && meta.rate.mode == RATE_CLAMP
                        || (reduce || hdr.note.kind == NOTE_INCREASE) && meta.rate.mode == RATE_FACK && state & RATE_ACKED != 0;
                    if (!meta.rate.mine || !of_use) {
                        refuse(RATE_UNKNOWN);
                    } else if (meta.rate.near) {
                        refuse(RATE_EARLY);
                    } else {
                        keep_flow(state | RATE_ACTED | RATE_ACTIVE, scale, hdr.tcp.seq);
                        if (meta.rate.mode == RATE_FACK) {
                            rate_counts.count(RATE_VERDICTS);
                            make_ack();
                            if (state & RATE_STAMPED != 0) {
                                add_stamps();
                            }
                            remove_note();
                        } else {
                            clamp_from_now();
                            refuse(RATE_VERDICTS);
                        }
                    }
                }
            } else if (hdr.tcp.isValid() && meta.rate.from_host && !meta.rate.to_host) {
                // What the flow's sender says.
                if (starts && hdr.tcp.flags & TCP_ACK == 0) {
                    keep_flow(accurate ? 8w0 : RATE_USED, 0, 0);
                } else if (starts && meta.rate.mine && !meta.rate.scaling) {
                    keep_flow(meta.rate.known ? state : 0, 0, seq);
                } else if (meta.rate.mine && meta.rate.mode == RATE_ECE && state & RATE_ACTIVE != 0
                           && hdr.tcp.flags & TCP_CWR != 0) {
                    keep_flow(state & ~RATE_ACTIVE, scale, seq);
                }
                if (meta.rate.near && meta.rate.payload != 0) {
                    add_note();
                }
            } else if (hdr.tcp.isValid() && meta.rate.to_host && !meta.rate.from_host) {
                // What its receiver says.
                if (starts) {
                    if (meta.rate.known && !accurate && (meta.rate.mine || hdr.tcp.flags & TCP_ACK == 0)) {
                        keep_flow(RATE_USED, meta.rate.scale, 0);
                    } else if (meta.rate.mine) {
                        keep_flow(0, 0, 0);
                    }
                } else if (meta.rate.mine && hdr.tcp.flags & TCP_ACK != 0) {
                    if (meta.rate.mode == RATE_FACK) {
                        keep_ack();
                        bit<8> now = (state & ~RATE_STAMPED) | RATE_ACKED | (hdr.stamps.isValid() ? RATE_STAMPED : 0);
                        if (now != state) {
                            keep_flow(now, scale, seq);
                        }
                    } else if (state & RATE_ACTIVE != 0 && meta.rate.mode == RATE_ECE) {
                        if (hdr.tcp.flags & TCP_ECE == 0) {
                            set_ece();
                        }
                    } else if (state & RATE_ACTIVE != 0) {
                        bit<32> since;
                        clamped_since.read(since, (bit<32>)meta.rate.flow[13:0]);
                        bit<32> clamp = meta.rate.clamp >> scale;
                        // A window of 0 would stop the sender.
                        clamp = clamp == 0 ? 1 : clamp;
                        if (standard_metadata.ingress_global_timestamp[31:0] - since >= meta.rate.hold) {
                            keep_flow(state & ~RATE_ACTIVE, scale, seq);
                        } else if ((bit<32>)hdr.tcp.window > clamp) {
                            set_window(clamp[15:0]);
                        }
                    }
                }
            }
            meta.rate.candidate = meta.rate.payload != 0 && !starts && !noted && !hdr.note.isValid()
                && !(meta.rate.from_host && meta.rate.to_host);
        }
    }
}

// In egress: the colour of the port by a meter of two rates. Sets meta.verdict.
control FabricVerdicts(inout headers_t hdr, inout metadata_t meta, in bit<32> colour) {
    apply {
        if (meta.rate.candidate && meta.rate.over) {
            if (colour == 2) {
                meta.verdict = NOTE_REDUCE;
            } else if (colour == 0 && meta.rate.mode == RATE_FACK) {
                meta.verdict = NOTE_INCREASE;
            }
            if (meta.verdict != 0 && !meta.rate.to_host) {
                hdr.note.setValid();
                hdr.note = { NOTE_DONE, 0, hdr.ethernet.ethertype };
                hdr.ethernet.ethertype = ETHERTYPE_NOTE;
            }
        }
    }
}

// In egress: a copy of a packet that led to a verdict becomes it.
control FabricVerdictCopy(inout headers_t hdr, inout metadata_t meta) {
    action exchange_ports() {
        bit<16> port = hdr.ports.src;
        hdr.ports.src = hdr.ports.dst;
        hdr.ports.dst = port;
        hdr.tcp.offset = 5;
        hdr.tcp.flags = TCP_ACK;
        hdr.stamps.setInvalid();
        hdr.ethernet.ethertype = ETHERTYPE_NOTE;
        hdr.note.setValid();
    }

    apply {
        exchange_ports();
        if (hdr.ipv4.isValid()) {
            hdr.note = { meta.verdict, 0, ETHERTYPE_IPV4 };
            bit<32> address = hdr.ipv4.src;
            hdr.ipv4.src = hdr.ipv4.dst;
            hdr.ipv4.dst = address;
            hdr.ipv4.len = 40;
            hdr.ipv4.ttl = 64;
            truncate(58);
        } else {
            hdr.note = { meta.verdict, 0, ETHERTYPE_IPV6 };
            bit<128> address = hdr.ipv6.src;
            hdr.ipv6.src = hdr.ipv6.dst;
            hdr.ipv6.dst = address;
            hdr.ipv6.len = 20;
            hdr.ipv6.hop_limit = 64;
            truncate(78);
        }
    }
}

#define FABRIC_TCP_SUMMED \
    hdr.ports.src, hdr.ports.dst, hdr.tcp.seq, hdr.tcp.ack, hdr.tcp.offset, hdr.tcp.reserved, hdr.tcp.flags, hdr.tcp.window, \
    hdr.tcp.urgent
#define FABRIC_STAMPS_SUMMED \
    hdr.stamps.kind, hdr.stamps.value, hdr.stamps.echo
#define FABRIC_PSEUDO_V4 \
    hdr.ipv4.src, hdr.ipv4.dst, 8w0, hdr.ipv4.proto, meta.rate.tcp_bytes
#define FABRIC_PSEUDO_V6 \
    hdr.ipv6.src, hdr.ipv6.dst, 16w0, meta.rate.tcp_bytes, 24w0, hdr.ipv6.next_header

// The checksums of IPv4 and of acknowledgments that were made here.
control FabricRatesCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(), FABRIC_IPV4_SUMMED, hdr.ipv4.checksum, HashAlgorithm.csum16);
        update_checksum(meta.rate.made && hdr.ipv4.isValid() && !hdr.stamps.isValid(),
                        { FABRIC_PSEUDO_V4, FABRIC_TCP_SUMMED }, hdr.tcp.checksum, HashAlgorithm.csum16);
        update_checksum(meta.rate.made && hdr.ipv4.isValid() && hdr.stamps.isValid(),
                        { FABRIC_PSEUDO_V4, FABRIC_TCP_SUMMED, FABRIC_STAMPS_SUMMED }, hdr.tcp.checksum, HashAlgorithm.csum16);
        update_checksum(meta.rate.made && hdr.ipv6.isValid() && !hdr.stamps.isValid(),
                        { FABRIC_PSEUDO_V6, FABRIC_TCP_SUMMED }, hdr.tcp.checksum, HashAlgorithm.csum16);
        update_checksum(meta.rate.made && hdr.ipv6.isValid() && hdr.stamps.isValid(),
                        { FABRIC_PSEUDO_V6, FABRIC_TCP_SUMMED, FABRIC_STAMPS_SUMMED }, hdr.tcp.checksum, HashAlgorithm.csum16);
    }
}

#endif
