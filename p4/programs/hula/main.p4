// SPDX-License-Identifier: Apache-2.0
// HULA, for switches of all tiers: probes of each top-of-rack switch (ToR) travel hop by hop through the network and carry the utilisation of
// the busiest line on the best way back to it. Each switch keeps the best next hop to each ToR; flowlets take it.

#include <core.p4>
#include <v1model.p4>
#include <pointsman/fabric/headers.p4>

// The first experimental type of IEEE 802.
const bit<16> ETHERTYPE_PROBE = 0x88b5;
// The packet generator's packets come in as from this port.
const port_t GENERATOR_PORT = 0;
// A line that is always busy, and the largest utilisation in a probe.
const bit<16> FULL = 256;

// Followed by zeros, up to the shortest length of a frame.
header probe_t {
    bit<24> tor;
    // Of the busiest line on the way to the ToR, in 256ths.
    bit<16> utilisation;
}

struct headers_t {
    ethernet_t ethernet;
    probe_t    probe;
    ipv4_t     ipv4;
    ipv6_t     ipv6;
    ports_t    ports;
}

struct metadata_t {
    fabric_t  fabric;
    flowlet_t flowlet;
    load_t    load;
    // The destination's ToR, or the probe's; 0 is none.
    bit<24>   tor;
    port_t    hop;
    // What is known of that ToR.
    bit<64>   best;
    bit<32>   age;
    bit<32>   max_age;
    // Where the probe is repeated; 0 is nowhere.
    bit<16>   group;
}

#include <pointsman/fabric/checksum.p4>
#include <pointsman/fabric/mark.p4>

parser HulaParser(packet_in packet,
                  out headers_t hdr,
                  inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype) {
            ETHERTYPE_IPV4: parse_ipv4;
            ETHERTYPE_IPV6: parse_ipv6;
            ETHERTYPE_PROBE: parse_probe;
            default: accept;
        }
    }

    state parse_probe {
        packet.extract(hdr.probe);
        transition accept;
    }

    #include <pointsman/fabric/parse_ip.p4>
}

control HulaIngress(inout headers_t hdr,
                    inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    #include <pointsman/fabric/routes.p4>
    #include <pointsman/fabric/flowlets.p4>
    #include <pointsman/fabric/load.p4>
    #include <pointsman/fabric/tors.p4>

    // By ToR: when the last probe came that counted, utilisation, and the port to the next hop.
    // Times have 32 bits: of a ToR without probes, the last best hop counts again for `max_age` of each 2^32 ticks.
    register<bit<64>>(4096) best_hops;
    // Probes that were dropped: from a port that has none, of an unknown ToR, with an impossible utilisation.
    counter(3, CounterType.packets) bad_probes;

    action set_age(bit<32> max_age) {
        meta.max_age = max_age;
    }

    // How long a best hop counts without another probe.
    table probe_config {
        actions = { set_age; }
        default_action = set_age(0);
        size = 1;
    }

    action accept_probe(bit<16> group) {
        meta.group = group;
    }

    // By the port on which a probe comes in: the multicast group of the ports on which it continues.
    table probe_ports {
        key = { standard_metadata.ingress_port: exact @name("port"); }
        actions = { accept_probe; @defaultonly NoAction; }
        default_action = NoAction();
        size = 512;
    }

    // The ToRs whose probes count: not the switch itself, unless its generator made the probe.
    table probe_tors {
        key = { hdr.probe.tor: exact @name("tor"); }
        actions = { NoAction; }
        default_action = NoAction();
        size = 4096;
    }

    @noWarn("index_out_of_range")
    action find_best(bit<24> tor) {
        best_hops.read(meta.best, (bit<32>)tor);
        meta.load.now = standard_metadata.ingress_global_timestamp[31:0];
        meta.age = meta.load.now - meta.best[63:32];
    }

    // A probe that came in through a port: the way back through it is as busy as its busiest line.
    // `probe_tors` knows its ToR.
    @noWarn("index_out_of_range")
    action take_probe() {
        bit<16> through = meta.load.utilisation > hdr.probe.utilisation ? meta.load.utilisation : hdr.probe.utilisation;
        find_best(hdr.probe.tor);
        bool better = through < meta.best[31:16] || meta.best[8:0] == standard_metadata.ingress_port || meta.age > meta.max_age;
        meta.best = better
            ? meta.load.now ++ through ++ 7w0 ++ standard_metadata.ingress_port
            : meta.best;
        best_hops.write((bit<32>)hdr.probe.tor, meta.best);
        hdr.probe.utilisation = meta.best[31:16];
    }

    apply {
        if (standard_metadata.parser_error != error.NoError || standard_metadata.checksum_error == 1) {
            drop();
            exit;
        }
        switch_config.apply();
        probe_config.apply();
        load_config.apply();
        // Without a route, the packet is dropped.
        drop();
        if (hdr.probe.isValid()) {
            if (!probe_ports.apply().hit) {
                bad_probes.count(0);
            } else if (standard_metadata.ingress_port != GENERATOR_PORT && !probe_tors.apply().hit) {
                bad_probes.count(1);
            } else if (hdr.probe.utilisation > FULL) {
                bad_probes.count(2);
            } else {
                if (standard_metadata.ingress_port != GENERATOR_PORT) {
                    read_load(standard_metadata.ingress_port);
                    take_probe();
                }
                standard_metadata.mcast_grp = meta.group;
            }
            exit;
        }
        if (hdr.ipv4.isValid() && hdr.ipv4.ttl > 1) {
            start_v4();
            tors_v4.apply();
        } else if (hdr.ipv6.isValid() && hdr.ipv6.hop_limit > 1) {
            start_v6();
            tors_v6.apply();
        } else {
            exit;
        }
        if (meta.tor != 0) {
            flowlet_config.apply();
            find_flowlet();
            if (!meta.flowlet.taken) {
                if (!meta.flowlet.live) {
                    find_best(meta.tor);
                    // Port 0 is in no table: routes decide.
                    meta.flowlet.choice = meta.age > meta.max_age ? 16w0 : meta.best[15:0];
                }
                keep_flowlet();
                meta.hop = meta.flowlet.choice[8:0];
                hops.apply();
            }
        }
        if (!meta.fabric.forwarded) {
            if (hdr.ipv4.isValid()) {
                routes_v4.apply();
            } else {
                routes_v6.apply();
            }
        }
        if (lines.apply().hit) {
            add_load(standard_metadata.egress_spec);
        }
    }
}

control HulaEgress(inout headers_t hdr,
                   inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    FabricEgress() marks;

    // Probes that leave.
    counter(1, CounterType.packets_and_bytes) probes;

    apply {
        if (hdr.probe.isValid()) {
            probes.count(0);
        }
        marks.apply(hdr, meta, standard_metadata);
    }
}

control HulaDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.probe);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ipv6);
        packet.emit(hdr.ports);
    }
}

V1Switch(HulaParser(), FabricVerify(), HulaIngress(), HulaEgress(), FabricCompute(), HulaDeparser()) main;
