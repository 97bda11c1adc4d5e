// SPDX-License-Identifier: Apache-2.0
// Reports and probes: which are accepted, and what they say.
//
// A report comes in a datagram or in a frame of its own. It is accepted if it comes from where its device lives (port and address),
// carries the digest that the device's key makes of it, and is newer than all that were accepted before. An entry of `report_keys`
// may say instead that a device's reports need no digest; without an entry nothing is accepted.

#ifndef BALANCER_REPORTS_P4
#define BALANCER_REPORTS_P4

#include "headers.p4"
#include "load.p4"
#include "siphash.p4"

// What is known of a device's reports.
const bit<2> TRUST_NONE = 0;
const bit<2> TRUST_KEY = 1;    // they carry a digest
const bit<2> TRUST_SOURCE = 2; // from the right place is enough

// Which server a report speaks of: thirteen bits of the field. The one above says, if servers have sixteen devices, that the report's mask,
// bitmap and words are about the second half of them; the flag FRAME_REPORT_HIGH says it of a frame.
#if SERVER_DEVICES == 8
#define REPORT_SERVER hdr.report.server
#else
#define REPORT_SERVER hdr.report.server[15:14] ++ 1w0 ++ hdr.report.server[12:0]
#endif

control Reports(inout headers_t hdr,
                inout metadata_t meta,
                inout standard_metadata_t standard_metadata,
                out note_t note) {
    // Newest report, by device whose agent sent it. With a digest: number of the key, sender's microseconds; without:
    // the sender's milliseconds. Behind those of all devices, the numbers of the newest wide probes: these carry no digest, so they
    // must not say which reports are new.
    register<bit<64>>(2 * DEVICE_NUMBERS) report_sequence;

    // Why the last report from the place of a device's agent was refused (a drop reason), or 0: it was accepted. By device, for
    // the controller, which can then tell refused reports from silence.
    register<bit<8>>(DEVICE_NUMBERS) report_refused;

    HalfSipHash() half_sip_hash;

    device_t sender = 0;
    devices_t may_report = 0;
    bit<8> key_number = 0; // 0 for none
    bit<2> trust = TRUST_NONE;
    bit<64> secret = 0;    // the key
    ipv6_t source = 0;
    bit<16> probe_cpu = 3; // weights of what a probe says
    bit<16> probe_memory = 1;
    bit<16> probe_link = 6;
    bit<8> probe_shift = 3;

    // The agent at this place reports for these devices of the server.
    action accept_reports(devices_t devices, device_t agent) {
        may_report = devices;
        sender = agent;
    }

    table report_sources_v4 {
        key = {
            standard_metadata.ingress_port: exact @name("ingress_port");
            hdr.ipv4.src: exact @name("source");
            REPORT_SERVER: exact @name("server");
        }
        actions = { accept_reports; @defaultonly NoAction; }
        const default_action = NoAction;
        size = DEVICE_NUMBERS;
    }

    table report_sources_v6 {
        key = {
            standard_metadata.ingress_port: exact @name("ingress_port");
            hdr.ipv6.src: exact @name("source");
            REPORT_SERVER: exact @name("server");
        }
        actions = { accept_reports; @defaultonly NoAction; }
        const default_action = NoAction;
        size = DEVICE_NUMBERS;
    }

    table report_sources_mac {
        key = {
            standard_metadata.ingress_port: exact @name("ingress_port");
            hdr.ethernet.src: exact @name("source");
            SERVER_OF(hdr.frame_report.device): exact @name("server");
        }
        actions = { accept_reports; @defaultonly NoAction; }
        const default_action = NoAction;
        size = DEVICE_NUMBERS;
    }

    action set_key(bit<64> value) {
        trust = TRUST_KEY;
        secret = value;
    }

    action trust_source() {
        trust = TRUST_SOURCE;
    }

    // Of an agent, which may have several keys so that a new one can take the place of an old one; number 0 stands for
    // reports without a digest.
    table report_keys {
        key = {
            sender: exact @name("agent");
            key_number: exact @name("number");
        }
        actions = { set_key; trust_source; @defaultonly NoAction; }
        const default_action = NoAction;
        size = 2 * DEVICE_NUMBERS;
    }

    // The machine at this place sends probes about the device with this number.
    action accept_probe(device_t device) {
        sender = device;
        may_report = SET_OF(SLOT_OF(device));
    }

    table probe_sources {
        key = {
            standard_metadata.ingress_port: exact @name("ingress_port");
            source: exact @name("source");
            meta.probe_id: exact @name("id");
        }
        actions = { accept_probe; @defaultonly NoAction; }
        const default_action = NoAction;
        size = DEVICE_NUMBERS;
    }

    // The weight of a machine is (cpu * free processor + memory * free memory + link * free link) >> shift.
    action set_probe_weights(bit<16> cpu, bit<16> memory, bit<16> link, bit<8> shift) {
        probe_cpu = cpu;
        probe_memory = memory;
        probe_link = link;
        probe_shift = shift;
    }

    table probe_weights {
        actions = { set_probe_weights; }
        default_action = set_probe_weights(3, 1, 6, 3);
    }

    // One number for every device.
    action same_for_all(bit<32> word) {
        meta.words = word ++ word ++ word ++ word ++ word ++ word ++ word ++ word;
    }

    apply {
        note = { false, 0, 0, false, { 0, 0, 0 }, 0, 0 };
        bit<64> sequence = 0;
        bit<64> second = 1000; // of the sequence number of one without digest; 0 for one with
        bool checks = false;   // it is accepted if it is newer than all before
        bool known = false;    // it came from an agent's place
        if (meta.probe != PROBE_NONE) {
            if (hdr.ipv4.isValid()) {
                source = (bit<128>)hdr.ipv4.src;
            } else {
                source = hdr.ipv6.src;
            }
            probe_sources.apply();
            if (may_report == 0) {
                meta.drop_reason = DROP_REPORT_SOURCE;
            } else {
                probe_weights.apply();
                bit<16> unit = 10;
                if (meta.probe == PROBE_WIDE) {
                    unit = 1;
                    sequence = (bit<64>)meta.probe_sequence;
                    checks = true;
                }
                bit<16> cpu = (bit<16>)meta.probe_cpu;
                bit<16> memory = (bit<16>)meta.probe_memory;
                bit<16> link = (bit<16>)meta.probe_link;
                bit<16> weight = (cpu * probe_cpu + memory * probe_memory + link * probe_link) >> probe_shift;
                weight = weight > 255 ? 16w255 : weight;
                note.load.metrics = 1;
                note.load.probe = 1;
                note.load.weight = weight[7:0];
                // Reports speak of what is used, probes of what is free.
                cpu = 100 |-| cpu * unit;
                memory = 100 |-| memory * unit;
                link = 100 |-| link * unit;
                same_for_all(cpu[7:0] ++ memory[7:0] ++ link[7:0] ++ 8w0);
                meta.server = SERVER_OF(sender);
                note.devices = may_report;
                if (weight != 0) {
                    note.available = may_report;
                }
            }
        } else {
            bool well_formed = false;
            bit<128> head = 0;     // what is signed: these sixteen bytes, and as many words of meta.words
            bit<4> words = 0;
            bit<64> tag = 0;       // its digest
            if (hdr.frame_report.isValid()) {
                well_formed = hdr.frame_report.version == FRAME_REPORT_PLAIN
                    || hdr.frame_report.version == FRAME_REPORT_SIGNED && hdr.frame_report.key != 0;
                note.devices = SET_OF(WITH_HIGH(hdr.frame_report.device[2:0], hdr.frame_report.flags[3:3]));
                note.available = note.devices;
                if ((hdr.frame_report.flags & FRAME_REPORT_BUSY) != 0) {
                    note.available = 0;
                }
                note.load.metrics = 1;
                note.failed = (hdr.frame_report.flags & FRAME_REPORT_FAILED) != 0;
                meta.server = SERVER_OF(hdr.frame_report.device);
                bit<32> load = hdr.frame_report.compute ++ hdr.frame_report.memory ++ hdr.frame_report.network
                    ++ hdr.frame_report.queue;
                same_for_all(load);
                sequence = hdr.frame_report.key ++ hdr.frame_report.sequence;
                second = 1000000;
                if (hdr.frame_report.version == FRAME_REPORT_SIGNED) {
                    key_number = hdr.frame_report.key;
                }
                head = hdr.frame_report.version ++ hdr.frame_report.flags ++ hdr.frame_report.device ++ load ++ sequence;
                tag = hdr.frame_report.digest;
            } else if (hdr.report.isValid()) {
                well_formed = hdr.report.mask != 0 && (bit<16>)hdr.report.length << 2 == hdr.udp.len - 8
                    && hdr.udp.len <= meta.l4_len;
                note.devices = OF_HALF(hdr.report.server[13:13], hdr.report.mask);
                note.available = OF_HALF(hdr.report.server[13:13], hdr.report.available);
                note.failed = (hdr.report.metrics & METRICS_FAILED) != 0;
                note.latency = hdr.report.metrics[15:8];
                if ((hdr.report.metrics & (METRICS_LOAD | METRICS_LOADS)) != 0) {
                    note.load.metrics = 1;
                }
                meta.server = hdr.report.server[12:0];
                if (hdr.signed_report.isValid()) {
                    // A digest of everything: there is nothing behind the words that are known.
                    bit<8> length = 6;
                    if ((hdr.report.metrics & 3) == METRICS_LOAD) {
                        words = 1;
                        length = 7;
                    } else if ((hdr.report.metrics & 3) == METRICS_LOADS) {
                        words = 8;
                        length = 14;
                    }
                    well_formed = well_formed && hdr.report.length == length && (hdr.report.metrics & 3) != 3
                        && hdr.signed_report.key != 0;
                    key_number = hdr.signed_report.key;
                    sequence = hdr.signed_report.key ++ hdr.signed_report.sequence;
                    head = hdr.signed_report.head ++ sequence;
                    tag = hdr.signed_report.digest;
                } else {
                    well_formed = well_formed && hdr.plain_report.isValid();
                    sequence = (bit<64>)hdr.plain_report.sequence;
                }
            }

            if (!well_formed) {
                meta.drop_reason = DROP_REPORT_MALFORMED;
            } else {
                if (hdr.frame_report.isValid()) {
                    report_sources_mac.apply();
                } else if (hdr.ipv4.isValid()) {
                    report_sources_v4.apply();
                } else {
                    report_sources_v6.apply();
                }
                if ((note.devices & ~may_report) != 0) {
                    meta.drop_reason = DROP_REPORT_SOURCE;
                } else {
                    known = true;
                    note.agent = SET_OF(SLOT_OF(sender));
                    report_keys.apply();
                    if (trust == TRUST_KEY && key_number != 0) {
                        bit<64> expected = 0;
                        half_sip_hash.apply(secret, head, meta.words, words, expected);
                        if (expected != tag) {
                            meta.drop_reason = DROP_REPORT_DIGEST;
                        }
                        second = 0;
                        checks = true;
                    } else if (trust == TRUST_SOURCE && key_number == 0) {
                        checks = true;
                    } else if (key_number != 0) {
                        meta.drop_reason = DROP_REPORT_KEY;
                    } else {
                        meta.drop_reason = DROP_REPORT_UNSIGNED;
                    }
                }
            }
        }
        // A report that is not newer than the last accepted one is refused.
        if (checks && meta.drop_reason == DROP_NONE) {
            bit<64> newest;
            bit<32> place = meta.probe == PROBE_NONE ? (bit<32>)sender : DEVICE_NUMBERS | (bit<32>)sender;
            report_sequence.read(newest, place);
            bit<64> behind = (newest - sequence) & 0xffffffff;
            if (second == 0) {
                // Key and digest are right, so numbers only rise, and each is accepted once.
                if (sequence <= newest) {
                    meta.drop_reason = DROP_REPORT_REPLAYED;
                }
            } else if (behind != 0 && behind <= second) {
                // Anybody could have sent it, so that no number may lock the agent out: a little older was overtaken on the
                // way; any older, and the sender's clock was set back. The clock wraps.
                meta.drop_reason = DROP_REPORT_STALE;
            }
            if (meta.drop_reason == DROP_NONE) {
                report_sequence.write(place, sequence);
            }
        }
        note.believed = meta.drop_reason == DROP_NONE;
        if (known) {
            report_refused.write((bit<32>)sender, meta.drop_reason);
        }
    }
}

#endif
