// SPDX-License-Identifier: Apache-2.0
// The v1model architecture: parser, checksum verification, ingress, traffic manager, egress, checksum update, deparser.

// @repeatable (docs/tea.md): a function that may be executed again when the packet comes back. It changes nothing but the packet, or only writes to the log.

// Programs test whether this name is defined.
#ifndef _V1_MODEL_P4_
#define _V1_MODEL_P4_

#include <core.p4>

#ifndef V1MODEL_VERSION
#define V1MODEL_VERSION 20180101
#endif

match_kind {
    range,    // between two values, both included
    optional, // equal, or anything
    selector  // not matched: input of an action selector's hash
}

const bit<32> __v1model_version = V1MODEL_VERSION;

// Port numbers. From version 20200408 on they are a type of their own name, so that controllers can translate them.
#if V1MODEL_VERSION >= 20200408
typedef bit<9> PortId_t;
#endif

@metadata @name("standard_metadata")
struct standard_metadata_t {
#if V1MODEL_VERSION >= 20200408
    PortId_t ingress_port;
    PortId_t egress_spec;
    PortId_t egress_port;
#else
    bit<9>  ingress_port;
    bit<9>  egress_spec;   // set by ingress: where the packet shall go; 511 drops it
    bit<9>  egress_port;   // in egress: where it goes
#endif
    bit<32> instance_type; // how this copy came to be: 0 normal, 1 ingress clone, 2 egress clone, 3 coalesced,
                           // 4 recirculated, 5 multicast replica, 6 resubmitted
    bit<32> packet_length; // bytes
    @alias("queueing_metadata.enq_timestamp")
    bit<32> enq_timestamp; // microseconds since start, when it was queued
    @alias("queueing_metadata.enq_qdepth")
    bit<19> enq_qdepth;    // packets in the queue then
    @alias("queueing_metadata.deq_timedelta")
    bit<32> deq_timedelta; // microseconds spent in the queue
    @alias("queueing_metadata.deq_qdepth")
    bit<19> deq_qdepth;    // packets in the queue when it left
    @alias("intrinsic_metadata.ingress_global_timestamp")
    bit<48> ingress_global_timestamp; // microseconds since start
    @alias("intrinsic_metadata.egress_global_timestamp")
    bit<48> egress_global_timestamp;
    @alias("intrinsic_metadata.mcast_grp")
    bit<16> mcast_grp;     // set by ingress: multicast group, 0 for none
    @alias("intrinsic_metadata.egress_rid")
    bit<16> egress_rid;    // in egress: instance of the multicast replica
    bit<1>  checksum_error; // 1 after a failed verify_checksum
    error   parser_error;
    @alias("intrinsic_metadata.priority")
    bit<3>  priority;      // set by ingress: queue, where ports have several
}

enum CounterType { packets, bytes, packets_and_bytes }

enum MeterType { packets, bytes }

extern counter
#if V1MODEL_VERSION >= 20200408
    <I>
#endif
{
    counter(bit<32> size, CounterType type);
#if V1MODEL_VERSION >= 20200408
    void count(in I index);
#else
    void count(in bit<32> index);
#endif
}

extern direct_counter {
    direct_counter(CounterType type);
    void count();
}

#define V1MODEL_METER_COLOR_GREEN 0
#define V1MODEL_METER_COLOR_YELLOW 1
#define V1MODEL_METER_COLOR_RED 2

extern meter
#if V1MODEL_VERSION >= 20200408
    <I>
#endif
{
    meter(bit<32> size, MeterType type);
#if V1MODEL_VERSION >= 20200408
    void execute_meter<T>(in I index, out T result);
#else
    void execute_meter<T>(in bit<32> index, out T result);
#endif
}

extern direct_meter<T> {
    direct_meter(MeterType type);
    void read(out T result);
}

extern register<T
#if V1MODEL_VERSION >= 20200408
    , I
#endif
> {
    register(bit<32> size); // of elements of fixed width: scalars, structs and headers of them
#if V1MODEL_VERSION >= 20200408
    @noSideEffects
    void read(out T result, in I index);
    void write(in I index, in T value);
#else
    @noSideEffects
    void read(out T result, in bit<32> index);
    void write(in bit<32> index, in T value);
#endif
}

// Used as a table's implementation.
extern action_profile {
    action_profile(bit<32> size);
}

enum HashAlgorithm {
    crc32,
    crc32_custom,
    crc16,
    crc16_custom,
    random,
    identity,
    csum16,
    xor16
}

extern action_selector {
    action_selector(HashAlgorithm algorithm, bit<32> size, bit<32> outputWidth);
}

@deprecated("use verify_checksum and update_checksum")
extern Checksum16 {
    Checksum16();
    @pure
    bit<16> get<D>(in D data);
}

// A pseudo-random number between lo and hi, both included.
extern void random<T>(out T result, in T lo, in T hi);

// A message to the control plane.
extern void digest<T>(in bit<32> receiver, in T data);

@deprecated("use mark_to_drop(standard_metadata)")
@pure
extern void mark_to_drop();
// The packet will be dropped at the end of ingress or egress, unless something changes egress_spec back.
@pure
extern void mark_to_drop(inout standard_metadata_t standard_metadata);

// result = base + hash(data) mod max; with max 0 just base.
@pure
extern void hash<O, T, D, M>(out O result, in HashAlgorithm algo, in T base, in D data, in M max);

// In verify blocks: if the condition holds and the checksum differs, sets checksum_error.
@repeatable
extern void verify_checksum<T, O>(in bool condition, in T data, in O checksum, HashAlgorithm algo);
// In compute blocks: if the condition holds, sets the checksum.
@pure
extern void update_checksum<T, O>(in bool condition, in T data, inout O checksum, HashAlgorithm algo);
// The same with everything behind the parsed headers appended to the data.
@repeatable
extern void verify_checksum_with_payload<T, O>(in bool condition, in T data, in O checksum, HashAlgorithm algo);
@noSideEffects
extern void update_checksum_with_payload<T, O>(in bool condition, in T data, inout O checksum, HashAlgorithm algo);

enum CloneType { I2E, E2E }

// At the end of ingress: back to the parser with the packet as it came. Fields marked @field_list(index) survive.
@repeatable
extern void resubmit_preserving_field_list(bit<8> index);
// At the end of egress: back to the parser with the packet as it was deparsed.
@repeatable
extern void recirculate_preserving_field_list(bit<8> index);
@repeatable
@deprecated("use resubmit_preserving_field_list")
extern void resubmit<T>(in T data);
@repeatable
@deprecated("use recirculate_preserving_field_list")
extern void recirculate<T>(in T data);
// A copy for the ports of a clone session.
extern void clone(in CloneType type, in bit<32> session);
extern void clone_preserving_field_list(in CloneType type, in bit<32> session, bit<8> index);
@deprecated("use clone_preserving_field_list")
extern void clone3<T>(in CloneType type, in bit<32> session, in T data);

// Cuts the packet to at most that many bytes when it leaves.
@repeatable
extern void truncate(in bit<32> length);

// Stops with a message if false.
@repeatable
extern void assert(in bool check);
@repeatable
extern void assume(in bool check);

// A message for the log, with {} for each element of data.
@repeatable
extern void log_msg(string msg);
@repeatable
extern void log_msg<T>(string msg, in T data);

parser Parser<H, M>(packet_in b,
                    out H parsedHdr,
                    inout M meta,
                    inout standard_metadata_t standard_metadata);
control VerifyChecksum<H, M>(inout H hdr, inout M meta);
@pipeline
control Ingress<H, M>(inout H hdr, inout M meta, inout standard_metadata_t standard_metadata);
@pipeline
control Egress<H, M>(inout H hdr, inout M meta, inout standard_metadata_t standard_metadata);
control ComputeChecksum<H, M>(inout H hdr, inout M meta);
@deparser
control Deparser<H>(packet_out b, in H hdr);

package V1Switch<H, M>(Parser<H, M> p,
                       VerifyChecksum<H, M> vr,
                       Ingress<H, M> ig,
                       Egress<H, M> eg,
                       ComputeChecksum<H, M> ck,
                       Deparser<H> dep);

#endif
