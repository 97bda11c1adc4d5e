// RedPlane's settings, messages with their parser and digest. Part of <pointsman/redplane.p4>, <pointsman/redplane/snapshot.p4> and
// <pointsman/redplane/fixed.p4>, which programs include.

#ifndef POINTSMAN_REDPLANE_MESSAGE_P4
#define POINTSMAN_REDPLANE_MESSAGE_P4

#include <pointsman/redplane/settings.p4>
#include <pointsman/redplane/ip.p4>

#ifndef REDPLANE_BUFFER
#define REDPLANE_BUFFER 4096
#endif
#ifndef REDPLANE_SESSION
#define REDPLANE_SESSION 100
#endif
#ifndef REDPLANE_OBJECT
#define REDPLANE_OBJECT 0
#endif
// Stores, each with some of the keys. That of shard N has the configured address plus N.
#ifndef REDPLANE_SHARDS
#define REDPLANE_SHARDS 1
#endif
// The part of a key that chooses its store. A program whose store makes several keys in one step gives a part that they share.
#ifndef REDPLANE_SHARD_OF
#define REDPLANE_SHARD_OF(key) key
#endif
// Bytes of the longest frame to the store, without its checksum.
#ifndef REDPLANE_MTU
#define REDPLANE_MTU 1514
#endif
// Clocks differ in rate by at most 1/2^REDPLANE_DRIFT_SHIFT, as the store assumes, too.
#ifndef REDPLANE_DRIFT_SHIFT
#define REDPLANE_DRIFT_SHIFT 7
#endif
// With REDPLANE_SESSION_LEASES one lease holds all keys of the switch; otherwise each key has its own.
#ifdef REDPLANE_SESSION_LEASES
#define REDPLANE_LEASES 1
#define REDPLANE_LEASE(m) 32w0
#else
#define REDPLANE_LEASES (REDPLANE_SLOTS * REDPLANE_OBJECTS)
#define REDPLANE_LEASE(m) m.index
#endif
// The kind of a message apart from the bit for a shared lease; a kind with this bit, if a message has it; and if the lease of the slot is shared.
#ifdef REDPLANE_SHARED_READS
#define REDPLANE_KIND(message) (message.kind & ~REDPLANE_SHARED)
#define REDPLANE_SAME_LEASE(message, of_kind) (of_kind | message.kind & REDPLANE_SHARED)
#define REDPLANE_LEASE_KIND(m, of_kind) (of_kind | (m.slot.shared == 1 ? REDPLANE_SHARED : 8w0))
#else
#define REDPLANE_KIND(message) message.kind
#define REDPLANE_SAME_LEASE(message, of_kind) of_kind
#define REDPLANE_LEASE_KIND(m, of_kind) of_kind
#endif
// The sequence number of a state that no packet has written.
#ifndef REDPLANE_FIRST
#define REDPLANE_FIRST 0
#endif

const bit<16> REDPLANE_PORT = 4791;
const bit<8> REDPLANE_VERSION = 1;

const bit<8> REDPLANE_NEW = 1;
const bit<8> REDPLANE_WRITE = 2;
const bit<8> REDPLANE_RENEW = 3;
const bit<8> REDPLANE_READ = 4;
const bit<8> REDPLANE_SNAPSHOT = 5;
const bit<8> REDPLANE_RELEASE = 6;
const bit<8> REDPLANE_RECALL = 7;

const bit<8> REDPLANE_PACKET = 1;
const bit<8> REDPLANE_INPUT = 2;
const bit<8> REDPLANE_CREATED = 4;
const bit<8> REDPLANE_EXISTING = 8;
const bit<8> REDPLANE_ALLOCATE = 16;
const bit<8> REDPLANE_ENDING = 32;
const bit<8> REDPLANE_SESSION_LEASE = 64;

// Bit of the kind: the lease is shared.
const bit<8> REDPLANE_SHARED = 0x40;

const bit<8> REDPLANE_OK = 0;
const bit<8> REDPLANE_STALE = 1;
const bit<8> REDPLANE_EXHAUSTED = 6;

header redplane_t {
    bit<8>           version;
    bit<8>           kind;
    bit<8>           flags;
    bit<8>           status;
    bit<16>          object;
    bit<16>          shard;
    bit<16>          switch_id;
    bit<16>          port;
    bit<32>          incarnation;
    bit<32>          generation;
    bit<32>          grant;
    bit<32>          sequence;
    bit<32>          request;
    bit<64>          stamp;
    bit<32>          lease;
    bit<16>          key_bytes;
    bit<16>          value_bytes;
    redplane_key_t   key;
    redplane_value_t value;
    bit<64>          digest;
}

// Bytes of both headers.
#define REDPLANE_BYTES (REDPLANE_OUTER_BYTES + 56 + 4 * REDPLANE_KEY_WORDS + 4 * REDPLANE_VALUE_WORDS)

// Serial arithmetic (RFC 1982): whether `a` is later than `b`.
bool redplane_later(in bit<32> a, in bit<32> b) {
    bit<32> ahead = a - b;
    return ahead != 0 && ahead[31:31] == 0;
}

bit<32> redplane_swapped(in bit<32> word) {
    return word[7:0] ++ word[15:8] ++ word[23:16] ++ word[31:24];
}

// Extracts a message of RedPlane. `more` says whether the program's own headers follow.
parser RedPlaneParser(packet_in packet, out redplane_outer_t outer, out redplane_t message, out bool more) {
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
        transition select(packet.lookahead<bit<(8 * REDPLANE_IP_BYTES + 32)>>()[15:0]) {
            REDPLANE_PORT: ours;
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

control RedPlaneDigest(in bit<64> secret, in redplane_t m, out bit<64> tag) {
    #include <pointsman/half_sip.p4>

    apply {
        bit<32> k0 = redplane_swapped(secret[63:32]);
        bit<32> k1 = redplane_swapped(secret[31:0]);
        v0 = k0;
        v1 = k1 ^ 0xee;
        v2 = 0x6c796765 ^ k0;
        v3 = 0x74656462 ^ k1;
        sip_word(m.status ++ m.flags ++ m.kind ++ m.version);
        sip_word(redplane_swapped(m.object ++ m.shard));
        sip_word(redplane_swapped(m.switch_id ++ m.port));
        sip_word(redplane_swapped(m.incarnation));
        sip_word(redplane_swapped(m.generation));
        sip_word(redplane_swapped(m.grant));
        sip_word(redplane_swapped(m.sequence));
        sip_word(redplane_swapped(m.request));
        sip_word(redplane_swapped(m.stamp[63:32]));
        sip_word(redplane_swapped(m.stamp[31:0]));
        sip_word(redplane_swapped(m.lease));
        sip_word(redplane_swapped(m.key_bytes ++ m.value_bytes));
#if REDPLANE_KEY_WORDS > 9
        sip_word(redplane_swapped(m.key[319:288]));
#endif
#if REDPLANE_KEY_WORDS > 8
        sip_word(redplane_swapped(m.key[287:256]));
#endif
#if REDPLANE_KEY_WORDS > 7
        sip_word(redplane_swapped(m.key[255:224]));
#endif
#if REDPLANE_KEY_WORDS > 6
        sip_word(redplane_swapped(m.key[223:192]));
#endif
#if REDPLANE_KEY_WORDS > 5
        sip_word(redplane_swapped(m.key[191:160]));
#endif
#if REDPLANE_KEY_WORDS > 4
        sip_word(redplane_swapped(m.key[159:128]));
#endif
#if REDPLANE_KEY_WORDS > 3
        sip_word(redplane_swapped(m.key[127:96]));
#endif
#if REDPLANE_KEY_WORDS > 2
        sip_word(redplane_swapped(m.key[95:64]));
#endif
#if REDPLANE_KEY_WORDS > 1
        sip_word(redplane_swapped(m.key[63:32]));
#endif
        sip_word(redplane_swapped(m.key[31:0]));
#if REDPLANE_VALUE_WORDS > 4
        sip_word(redplane_swapped(m.value[159:128]));
#endif
#if REDPLANE_VALUE_WORDS > 3
        sip_word(redplane_swapped(m.value[127:96]));
#endif
#if REDPLANE_VALUE_WORDS > 2
        sip_word(redplane_swapped(m.value[95:64]));
#endif
#if REDPLANE_VALUE_WORDS > 1
        sip_word(redplane_swapped(m.value[63:32]));
#endif
        sip_word(redplane_swapped(m.value[31:0]));
        // The last word is the length of the message in the high byte.
        sip_word((bit<32>)(48 + 4 * REDPLANE_KEY_WORDS + 4 * REDPLANE_VALUE_WORDS) << 24);
        v2 = v2 ^ 0xee;
        sip_finish();
        bit<32> low = redplane_swapped(v1 ^ v3);
        v1 = v1 ^ 0xdd;
        sip_finish();
        tag = low ++ redplane_swapped(v1 ^ v3);
    }
}

#endif
