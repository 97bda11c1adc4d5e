// SPDX-License-Identifier: Apache-2.0
// Connections in the memory of servers, with `-D BALANCER_TEA` (docs/tea.md).
//
// A connection begins at a place of the table (connections.p4), which its first packet writes. When it is established the controller moves it to servers'
// memory, and the place is free. A packet whose connection has no place is looked up there. A connection that ends gets a place again, which remembers the end
// until the controller has deleted its entry.
//
// An entry in servers' memory changes only while the connection's place is *held*: such a place is not given to another connection, whatever its age.
// The controller holds it, changes the entry, and gives it up when the change is acknowledged. While there is an entry, the place and the entry have the
// same device. So a packet finds the same device wherever it looks, and one that finds none is of a connection that does not exist.
//
// The controller's messages (settled_t) are about one connection; each is answered by a digest, done at once with all packets before and after it, and
// does nothing more when it comes twice. Their order must be kept; their answers may be lost. An answer has its message's number, so that the controller knows
// whether a message that it sent again is still on its way: that one may find the connection in another state.

#ifndef BALANCER_SETTLED_P4
#define BALANCER_SETTLED_P4

#include "connections.p4"
#include "headers.p4"

// Cells for the times at which settled connections were seen, two bytes each: 2 to this power, up to 32.
#ifndef SETTLED_SEEN_BITS
#define SETTLED_SEEN_BITS 20
#endif

// Messages of the controller.
const bit<8> SETTLED_HOLD = 1;   // hold its place, if it has one
const bit<8> SETTLED_FETCH = 2;  // the same; if it has none and was not seen for `ticks`, give it one, with `word`: it is over unless it continues
const bit<8> SETTLED_GIVE = 3;   // servers' memory has `word`: the place is free
const bit<8> SETTLED_FORGET = 4; // servers' memory has nothing: the place is an ordinary one

// Reports to the controller, answers, and indices of `settled_counts`.
const bit<8> SETTLED_IS_READY = 1;  // report: it is established, and has a place
const bit<8> SETTLED_ENDED = 2;     // report: it ended, and servers' memory has it
const bit<8> SETTLED_HELD = 3;      // answer: its place is held
const bit<8> SETTLED_HELD_OVER = 4; // the same, and it ended
const bit<8> SETTLED_GONE = 5;      // there is no such connection here, or none that can settle
const bit<8> SETTLED_ACTIVE = 6;    // it was seen so many ticks ago, or later
const bit<8> SETTLED_FULL = 7;      // there is no place for it
const bit<8> SETTLED_FREED = 8;     // its place is free
const bit<8> SETTLED_RELEASED = 9;  // its place is not held any more
const bit<8> SETTLED_NO_PLACE = 10; // no digest: it ends, and there is no place to remember it

struct settled_digest_t {
    bit<8>      kind;
    bit<8>      number; // of the message that it answers; a report has 0
    tea_key_t   key;
    tea_value_t word;
    bit<16>     ticks;
}

#define SETTLED_KEY(flow) (flow.client ++ flow.client_port ++ flow.service)
// What servers' memory has of a connection, or would have.
#define SETTLED_WORD(conn) KEPT(conn.flags & (CONN_COUNTS | CONN_DIRECT), conn.options & ~(OPTION_HELD | OPTION_SETTLED), conn.device)
// A tick is 1.05 s: microseconds / 2^20, which come around every 19 hours.
#define SETTLED_TICK(now) now[35:20]
// Whether it ended, unless it continues. Datagrams have no FINs.
#define SETTLED_OVER(conn) ((conn.flags & CONN_RESET) != 0 || (conn.flags & CONN_FINS) == CONN_FINS)
// Whether it is established, and has no state that packets change. One that counts requests keeps its place.
#define SETTLED_READY(conn) (conn.idle != HALF_OPEN && conn.idle != CONN_EXPIRED && (conn.flags & (CONN_RESET | CONN_COUNTS_REQUESTS)) == 0 \
    && (conn.flags & CONN_FINS) == ((conn.options & OPTION_DATAGRAMS) != 0 ? CONN_CONFIRMED : 8w0))
// The flags of a settled connection.
#define SETTLED_FLAGS(flags, options) (CONN_LIVE | flags | ((flags & CONN_COUNTS_CONNECTIONS) != 0 ? CONN_IN_FLIGHT : 8w0) \
    | ((options & OPTION_DATAGRAMS) != 0 ? CONN_CONFIRMED : 8w0))

// What a message of the controller does to a connection that was looked for. `age`: ticks since it was seen in servers' memory.
control Settle(in settled_t message, in bit<16> age, inout connection_t conn, inout bool keeps, inout bool is_new, inout bool one_less,
               inout device_t left, out bit<8> result) {
    apply {
        bool is_held = conn.found && (conn.options & OPTION_HELD) != 0;
        bool is_settled = conn.found && (conn.options & OPTION_SETTLED) != 0;
        bool is_over = conn.found && SETTLED_OVER(conn);
        result = SETTLED_GONE;
        if (message.kind == SETTLED_HOLD || message.kind == SETTLED_FETCH) {
            if (conn.found) {
                if (is_held || is_settled || SETTLED_READY(conn)) {
                    result = is_over ? SETTLED_HELD_OVER : SETTLED_HELD;
                    conn.options = conn.options | OPTION_HELD;
                    keeps = !is_held;
                    is_new = keeps;
                }
            } else if (message.kind == SETTLED_FETCH) {
                if (age <= message.ticks) {
                    result = SETTLED_ACTIVE;
                } else if (!conn.room) {
                    result = SETTLED_FULL;
                } else {
                    result = SETTLED_HELD_OVER;
                    one_less = (conn.flags & CONN_IN_FLIGHT) != 0;
                    left = conn.device;
                    conn.device = KEPT_DEVICE(message.word);
                    conn.options = KEPT_OPTIONS(message.word) | OPTION_SETTLED | OPTION_HELD;
                    conn.flags = SETTLED_FLAGS(KEPT_FLAGS(message.word), conn.options) | CONN_RESET;
                    conn.idle = NOT_HALF_OPEN;
                    keeps = true;
                    is_new = true;
                }
            }
        } else if (!is_held) {
            // What an earlier message did.
            result = conn.found ? SETTLED_RELEASED : SETTLED_FREED;
        } else if (message.kind == SETTLED_FORGET) {
            result = SETTLED_RELEASED;
            conn.options = conn.options & ~(OPTION_SETTLED | OPTION_HELD);
            keeps = true;
            is_new = true;
        } else if (is_over || message.word != SETTLED_WORD(conn)) {
            result = is_over ? SETTLED_HELD_OVER : SETTLED_HELD;
        } else if (!SETTLED_READY(conn)) {
            // It began again, and is not established.
            result = SETTLED_RELEASED;
            conn.options = (conn.options | OPTION_SETTLED) & ~OPTION_HELD;
            keeps = true;
            is_new = true;
        } else {
            result = SETTLED_FREED;
            conn.flags = 0;
            keeps = true;
        }
    }
}

#endif
