// Fixed keys: a value that all switches of a store share (docs/redplane.md): the data plane's part, for v1model.
//
// A switch that needs the value of a key proposes one, and uses the one that the store answers with: that of the switch which asked first. No switch owns a key, so
// nothing is kept here: no slots, no leases, no writes to send again. A program defines the sizes of a key (up to 10 words of 32 bits) and of its value (up to 5) before it
// includes this file:
//
//     #define REDPLANE_KEY_WORDS 10
//     #define REDPLANE_VALUE_WORDS 1
//     #include <pointsman/redplane/fixed.p4>
//
// It declares the headers `redplane_outer_t` and `redplane_t`, which it emits before all others, and `redplane_fixed_t` in its metadata. Its parser begins with
// RedPlaneFixedParser. Its ingress is
//
//     RedPlaneFixedArrive.apply(...)         // answers of the store
//     if (step == REDPLANE_OTHER) ...        // a message to another address: the program forwards it
//     if (step == REDPLANE_PROGRAM) {
//         ...                                // answered: this packet came back, or none if its request had none
//         RedPlaneFixedAsk.apply(...)        // a request, which takes the packet with it; the ingress ends here
//     }
//
// its egress is RedPlaneFixedDepart; REDPLANE_COMPUTE is the last line of the control that computes checksums. With `#define REDPLANE_IPV6` messages are sent
// over IPv6 in the place of IPv4.

#ifndef POINTSMAN_REDPLANE_FIXED_P4
#define POINTSMAN_REDPLANE_FIXED_P4

#include <pointsman/redplane/message.p4>

#if REDPLANE_OBJECTS > 1
#error "fixed keys are one object: REDPLANE_OBJECTS must be 1"
#endif

const bit<8> REDPLANE_FIXED = 128;

const bit<8> REDPLANE_FULL = 2;
const bit<8> REDPLANE_UNKNOWN = 5;

// Indices of `redplane_fixed_counts`.
const bit<32> REDPLANE_FIXED_ASKED = 0;
const bit<32> REDPLANE_FIXED_ANSWERED = 1;
const bit<32> REDPLANE_FIXED_REFUSED = 2; // the store has no such key, or no room, or is set up otherwise
const bit<32> REDPLANE_FIXED_FORGED = 3;  // with a wrong digest, for another switch, incarnation or object, or from another port than the store's
const bit<32> REDPLANE_FIXED_LATE = 4;    // too late
const bit<32> REDPLANE_FIXED_LONG = 5;    // packets that are too long with the headers of a message: asked for without them, and lost

struct redplane_fixed_t {
    bit<8>             step;     // REDPLANE_*
    // What the store said, if `answered`.
    bool               answered;
    bool               known;    // the value is that of the key
    bool               full;     // the store has no room: the value is the proposed one
    bool               created;  // the value is the proposed one
    bool               lost;     // the packet was too long to go with its request
    redplane_key_t     key;
    redplane_value_t   value;
    bit<32>            proposed; // the first word that was proposed
    bit<32>            grant;
    bit<32>            lease;    // milliseconds
    bit<32>            number;   // the program's
    // The port that the packet came in by, before it went to the store.
    bit<9>             in_port;
    // Bytes of the packet without a message's headers.
    bit<32>            bytes;
    // Of the configuration.
    bit<16>            switch_id;
    bit<32>            incarnation;
    bit<64>            secret;
    redplane_address_t address;
    redplane_address_t store;
    bit<48>            mac_src;
    bit<48>            mac_dst;
    bit<9>             store_port;
    bit<48>            late;
}

// Extracts an answer with a key and a value of the program's sizes. `more` says whether the program's own headers follow. Everything else is left to the program,
// also other datagrams to the same port.
parser RedPlaneFixedParser(packet_in packet, out redplane_outer_t outer, out redplane_t message, out bool more) {
    state start {
        more = true;
        transition select(packet.lookahead<bit<112>>()[15:0]) {
            REDPLANE_ETHERTYPE: proto;
            default: accept;
        }
    }

    state proto {
        REDPLANE_TO_PROTO front = packet.lookahead<REDPLANE_TO_PROTO>();
        transition select(REDPLANE_FORM(front), front[7:0]) {
            (REDPLANE_PLAIN_FORM, 17): udp;
            default: accept;
        }
    }

    state udp {
        bit<(8 * REDPLANE_OUTER_BYTES)> front = packet.lookahead<bit<(8 * REDPLANE_OUTER_BYTES)>>();
        transition select(front[63:48], front[47:32], front[31:16]) {
            (REDPLANE_PORT, REDPLANE_PORT, REDPLANE_BYTES - REDPLANE_IP_BYTES .. 65535): kind;
            default: accept;
        }
    }

    state kind {
        bit<(8 * REDPLANE_OUTER_BYTES + 384)> front = packet.lookahead<bit<(8 * REDPLANE_OUTER_BYTES + 384)>>();
        transition select(front[383:368], front[31:0]) {
            ((bit<16>)(REDPLANE_VERSION ++ (REDPLANE_NEW | 0x80)), (bit<32>)(4 * REDPLANE_KEY_WORDS * 65536 + 4 * REDPLANE_VALUE_WORDS)): ours;
            default: accept;
        }
    }

    state ours {
        packet.extract(outer);
        packet.extract(message);
        more = message.flags[0:0] == 1;
        transition accept;
    }
}

counter(6, CounterType.packets) redplane_fixed_counts;

// First in ingress: takes the store's answers.
control RedPlaneFixedArrive(inout redplane_outer_t outer,
                            inout redplane_t message,
                            inout redplane_fixed_t m,
                            inout standard_metadata_t sm) {
    RedPlaneDigest() digest_of;

    // The switch's number and incarnation; the secret that it shares with the store; both addresses; the way to the store; the age, in ticks of
    // timestamps, from which on an answer is too late.
    action configure(bit<16> switch_id,
                     bit<32> incarnation,
                     bit<64> secret,
                     redplane_address_t address,
                     redplane_address_t store,
                     bit<48> mac_src,
                     bit<48> mac_dst,
                     bit<9> port,
                     bit<48> late) {
        m.switch_id = switch_id;
        m.incarnation = incarnation;
        m.secret = secret;
        m.address = address;
        m.store = store;
        m.mac_src = mac_src;
        m.mac_dst = mac_dst;
        m.store_port = port;
        m.late = late;
    }

    table redplane_config {
        actions = { configure; }
        default_action = configure(0, 0, 0, 0, 0, 0, 0, 511, 0);
        size = 1;
    }

    apply {
        redplane_config.apply();
        m.step = REDPLANE_PROGRAM;
        m.answered = false;
        m.known = false;
        m.in_port = sm.ingress_port;
        m.bytes = sm.packet_length;
        if (message.isValid() && outer.dst != m.address) {
            m.step = REDPLANE_OTHER;
        } else if (message.isValid()) {
            bit<64> expected;
            digest_of.apply(m.secret, message, expected);
            bit<48> age = sm.ingress_global_timestamp - message.stamp[47:0];
            m.bytes = sm.packet_length - REDPLANE_BYTES;
            if (expected != message.digest || (message.flags & REDPLANE_FIXED) == 0 || message.switch_id != m.switch_id
                || message.incarnation != m.incarnation || message.object != REDPLANE_OBJECT || sm.ingress_port != m.store_port
                REDPLANE_OR_UNSUMMED(outer)) {
                redplane_fixed_counts.count(REDPLANE_FIXED_FORGED);
                m.step = REDPLANE_DROP;
            } else if (age > m.late) {
                redplane_fixed_counts.count(REDPLANE_FIXED_LATE);
                m.step = REDPLANE_DROP;
            } else {
                m.full = message.status == REDPLANE_FULL;
                m.known = message.status == REDPLANE_OK || m.full;
                m.answered = m.known || message.status == REDPLANE_UNKNOWN;
                m.created = (message.flags & REDPLANE_CREATED) != 0;
                m.lost = message.flags[1:0] == 2;
                m.key = message.key;
                m.value = message.value;
                m.proposed = message.generation;
                m.grant = message.grant;
                m.lease = message.lease;
                m.number = message.request;
                m.in_port = message.port[8:0];
                if (message.status == REDPLANE_OK) {
                    redplane_fixed_counts.count(REDPLANE_FIXED_ANSWERED);
                } else {
                    redplane_fixed_counts.count(REDPLANE_FIXED_REFUSED);
                    m.step = m.answered ? REDPLANE_PROGRAM : REDPLANE_DROP;
                }
            }
            outer.setInvalid();
            message.setInvalid();
        }
        if (m.step == REDPLANE_DROP) {
            mark_to_drop(sm);
        }
    }
}

// Makes the packet a request, or sends one without it if `flags` do not have REDPLANE_PACKET. `grant` is 0, or that under which the value is to be replaced; `lease`
// says for how many milliseconds the key is to be kept. `number` comes back with the answer, and so does the first word of `value`.
// Without `@restarts`: the choice of a value happens before this, with all its effects. `answered` distinguishes the packet that came back.
control RedPlaneFixedAsk(inout redplane_outer_t outer,
                         inout redplane_t message,
                         inout redplane_fixed_t m,
                         inout standard_metadata_t sm,
                         in redplane_key_t key,
                         in redplane_value_t value,
                         in bit<8> flags,
                         in bit<32> grant,
                         in bit<32> lease,
                         in bit<32> number) {
    apply {
        redplane_fixed_counts.count(REDPLANE_FIXED_ASKED);
        outer.setValid();
        outer.mac_dst = m.mac_dst;
        outer.mac_src = m.mac_src;
        REDPLANE_SET_IP(outer);
        outer.src = m.address;
        outer.dst = m.store;
        outer.sport = REDPLANE_PORT;
        outer.dport = REDPLANE_PORT;
        outer.udp_checksum = 0;
        message.setValid();
        message.version = REDPLANE_VERSION;
        message.kind = REDPLANE_NEW;
        message.flags = flags | REDPLANE_FIXED;
        if (flags[0:0] == 1 && m.bytes > REDPLANE_MTU - REDPLANE_BYTES) {
            redplane_fixed_counts.count(REDPLANE_FIXED_LONG);
            message.flags = (flags | REDPLANE_FIXED) & ~REDPLANE_PACKET;
        }
        message.status = REDPLANE_OK;
        message.object = REDPLANE_OBJECT;
        message.shard = 0;
        message.switch_id = m.switch_id;
        message.port = (bit<16>)m.in_port;
        message.incarnation = m.incarnation;
        message.generation = value[32 * REDPLANE_VALUE_WORDS - 1:32 * REDPLANE_VALUE_WORDS - 32];
        message.grant = grant;
        message.sequence = 0;
        message.request = number;
        message.stamp = (bit<64>)sm.ingress_global_timestamp;
        message.lease = lease;
        message.key_bytes = 4 * REDPLANE_KEY_WORDS;
        message.value_bytes = 4 * REDPLANE_VALUE_WORDS;
        message.key = key;
        message.value = value;
        m.step = REDPLANE_SEND;
        sm.egress_spec = m.store_port;
    }
}

// Egress: signs requests. Headers behind a message without a packet are cut off.
control RedPlaneFixedDepart(inout redplane_outer_t outer, inout redplane_t message, in redplane_fixed_t m) {
    RedPlaneDigest() digest_of;

    apply {
        if (message.isValid()) {
            bit<32> length = m.bytes + REDPLANE_BYTES;
            if (message.flags[0:0] == 0) {
                length = REDPLANE_BYTES;
                truncate(length);
            }
            outer.len = length[15:0] - REDPLANE_UNCOUNTED;
            outer.udp_len = length[15:0] - REDPLANE_IP_BYTES;
            digest_of.apply(m.secret, message, message.digest);
        }
    }
}

#endif
