// The arrays whose snapshots RedPlane replicates, in two copies, and what a switch knows of them. Part of <pointsman/redplane/snapshot.p4>, which programs
// include.

#ifndef POINTSMAN_REDPLANE_ARRAYS_P4
#define POINTSMAN_REDPLANE_ARRAYS_P4

#include <pointsman/generator.p4>
#include <pointsman/redplane/message.p4>

#if REDPLANE_OBJECTS > 1
#error "snapshots are one object: REDPLANE_OBJECTS must be 1"
#endif

#ifndef REDPLANE_GENERATOR
#define REDPLANE_GENERATOR 68
#endif
#if REDPLANE_SHARDS > 1
#error "snapshots go to one store: REDPLANE_SHARDS must be 1"
#endif
#define REDPLANE_CELLS (32w1 << REDPLANE_CELL_BITS)

// What the packet is: no matter of the library, one that the program counts, one of the generator, an answer of the store.
const bit<8> REDPLANE_NO_WORK = 0;
const bit<8> REDPLANE_COUNT = 1;
const bit<8> REDPLANE_GENERATED = 2;
const bit<8> REDPLANE_ANSWER = 3;

// What it does to a cell of each array.
const bit<8> REDPLANE_NOTHING = 0;
const bit<8> REDPLANE_ADD = 1;  // adds the value, and gives the sum
const bit<8> REDPLANE_SHOW = 2; // gives the value at the time of the snapshot
const bit<8> REDPLANE_FILL = 3; // replaces the value

// Stages of a structure.
const bit<8> REDPLANE_AWAY = 0;    // the store has not granted it
const bit<8> REDPLANE_FILLING = 1; // its cells come from the store
const bit<8> REDPLANE_LIVE = 2;

// Indices of `redplane_counts`.
const bit<32> REDPLANE_COUNT_BAD = 0;       // forged, or for another switch, incarnation or object
const bit<32> REDPLANE_COUNT_LATE = 1;      // answers that came too late or twice
const bit<32> REDPLANE_COUNT_REFUSED = 2;   // refused by the store
const bit<32> REDPLANE_COUNT_COLLISION = 3; // packets of another key than that of the place
const bit<32> REDPLANE_COUNT_AWAY = 4;      // packets that were not counted, because the structure was not here
const bit<32> REDPLANE_COUNT_OLD = 5;       // packets while the last acknowledged snapshot was older than the bound
const bit<32> REDPLANE_COUNT_COMPLETE = 6;  // snapshots acknowledged

// A cell in each array.
struct redplane_cells_t {
    bit<32> c0;
    bit<32> c1;
    bit<32> c2;
    bit<32> c3;
    bit<32> c4;
}

struct redplane_snapshot_t {
    bit<8>             step;
    // Set by the program to REDPLANE_COUNT, with the next four: the structure's key, its place among those of the switch, a cell in
    // each array, and what to add to it. A key has one place as long as the switch runs.
    bit<8>             work;
    redplane_key_t     key;
    bit<32>            place;
    redplane_cells_t   cells;
    redplane_cells_t   values;
    // The structure is here, under a lease.
    bool               held;
    // It is not, or its last acknowledged snapshot is older than the bound.
    bool               old;
    bit<8>             op;
    bit<32>            cell;
    bit<1>             active;
    bit<48>            now;
    // Of the configuration.
    bit<16>            switch_id;
    bit<32>            incarnation;
    bit<64>            secret;
    redplane_address_t address;
    redplane_address_t store;
    bit<48>            mac_src;
    bit<48>            mac_dst;
    bit<9>             store_port;
    bit<48>            ticks;
    bit<48>            period;
    bit<48>            bound;
    bit<1>             strict;
}

// A structure.
struct redplane_place_t {
    redplane_key_t key;
    bit<16>        generation;
    bit<1>         wanted; // a packet came while it was not here
    bit<32>        grant;  // 0: none
    bit<48>        until;  // the end of the lease
    bit<8>         stage;
    bit<32>        base;   // the number of the snapshot that the store gives back; 0: none, cells begin with 0
    bit<32>        left;   // cells that are not filled
    bit<32>        number; // of the last snapshot
    bit<1>         complete; // the store has all of it
    bit<1>         active; // the copy that packets change; the other one is the last snapshot
    bit<48>        taken;  // when it was taken
    bit<48>        good;   // when the last complete one was
}

register<redplane_key_t>(REDPLANE_PLACES) redplane_keys;
register<bit<16>>(REDPLANE_PLACES) redplane_generations;
register<bit<1>>(REDPLANE_PLACES) redplane_wanted;
register<bit<32>>(REDPLANE_PLACES) redplane_grants;
@real_time
register<bit<48>>(REDPLANE_PLACES) redplane_until;
register<bit<8>>(REDPLANE_PLACES) redplane_stages;
register<bit<32>>(REDPLANE_PLACES) redplane_bases;
register<bit<32>>(REDPLANE_PLACES) redplane_left;
register<bit<32>>(REDPLANE_PLACES) redplane_numbers;
register<bit<1>>(REDPLANE_PLACES) redplane_complete;
register<bit<1>>(REDPLANE_PLACES) redplane_active;
register<bit<48>>(REDPLANE_PLACES) redplane_taken;
register<bit<48>>(REDPLANE_PLACES) redplane_good;
// Of each cell: the grant under which it was filled, and the number of the last snapshot of which the store has it.
register<bit<64>>(REDPLANE_PLACES << REDPLANE_CELL_BITS) redplane_done;

counter(7, CounterType.packets) redplane_counts;

// The generator's header, or a message of RedPlane. `more` says whether the program's own headers follow.
parser RedPlaneSnapshotParser(packet_in packet,
                              out generated_t generated,
                              out redplane_outer_t outer,
                              out redplane_t message,
                              out bool more,
                              in bit<9> port) {
    RedPlaneParser() inner;

    state start {
        transition select(port) {
            REDPLANE_GENERATOR: generated_packet;
            default: received;
        }
    }

    state generated_packet {
        packet.extract(generated);
        more = false;
        transition accept;
    }

    state received {
        inner.apply(packet, outer, message, more);
        transition accept;
    }
}

// One array, in two copies: packets change the active one, the other one is the last snapshot. A cell is copied when it is touched first after a snapshot. Until
// the snapshot is complete each of its cells is shown at least once, so that before the next one both copies are of this snapshot or later.
control RedPlaneSnapshotArray(in redplane_snapshot_t m, in bit<32> cell, inout bit<32> value) {
    register<bit<64>>(REDPLANE_PLACES << REDPLANE_CELL_BITS) copies;
    // The copy that was changed last.
    register<bit<1>>(REDPLANE_PLACES << REDPLANE_CELL_BITS) latest;

    apply {
        bit<32> index = (m.place << REDPLANE_CELL_BITS) + cell;
        bit<64> both;
        bit<1> last;
        copies.read(both, index);
        latest.read(last, index);
        bit<32> frozen = m.active == 0 ? both[63:32] : both[31:0];
        bit<32> present = m.active == 0 ? both[31:0] : both[63:32];
        if (last != m.active) {
            present = frozen;
        }
        if (m.op == REDPLANE_ADD) {
            present = present |+| value;
            value = present;
        } else if (m.op == REDPLANE_SHOW) {
            value = frozen;
        } else {
            present = value;
            frozen = value;
        }
        copies.write(index, m.active == 0 ? frozen ++ present : present ++ frozen);
        latest.write(index, m.active);
    }
}

// The arrays. Each is accessed once.
control RedPlaneSnapshotArrays(inout redplane_snapshot_t m) {
    RedPlaneSnapshotArray() array0;
#if REDPLANE_VALUE_WORDS > 1
    RedPlaneSnapshotArray() array1;
#endif
#if REDPLANE_VALUE_WORDS > 2
    RedPlaneSnapshotArray() array2;
#endif
#if REDPLANE_VALUE_WORDS > 3
    RedPlaneSnapshotArray() array3;
#endif
#if REDPLANE_VALUE_WORDS > 4
    RedPlaneSnapshotArray() array4;
#endif

    apply {
        if (m.op != REDPLANE_NOTHING) {
            array0.apply(m, m.cells.c0, m.values.c0);
#if REDPLANE_VALUE_WORDS > 1
            array1.apply(m, m.cells.c1, m.values.c1);
#endif
#if REDPLANE_VALUE_WORDS > 2
            array2.apply(m, m.cells.c2, m.values.c2);
#endif
#if REDPLANE_VALUE_WORDS > 3
            array3.apply(m, m.cells.c3, m.values.c3);
#endif
#if REDPLANE_VALUE_WORDS > 4
            array4.apply(m, m.cells.c4, m.values.c4);
#endif
        }
    }
}

#endif
