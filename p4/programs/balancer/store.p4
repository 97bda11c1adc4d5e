// SPDX-License-Identifier: Apache-2.0
// Connections that outlive the switch, with `-D BALANCER_STORE` (docs/redplane.md, "Fixed keys").
//
// What a place of the table keeps of a connection, apart from its state, never changes while the connection lives: its device, options, and what it counts
// as. A store keeps that word under the connection's key, for all switches. A packet with which a connection would begin here goes to the store first, with the
// device that was chosen, and the connection begins when the packet comes back, with the store's device. So all switches agree on it, however it was chosen.
//
// The store forgets a connection by itself, in time:
//   a handshake, or datagrams without an answer     twice HALF_OPEN (less 2 %)
//   an established connection                       twice its idle time; extended at least once in a quarter of the idle time that has packets
//   after both FINs or a RST                        twice HALF_OPEN
// A connection is established here when the store knows that it is, so that the table never promises more than the store.
// These requests are copies of packets, and delay none.

#ifndef BALANCER_STORE_P4
#define BALANCER_STORE_P4

#include "connections.p4"
#include "headers.p4"

// What the store keeps of a connection is KEPT(...), its key this. Switches may have different numbers of services, so that the key has the VIP instead.
#define STORE_KEY(vip, flow, port, version, proto) (vip ++ flow.client ++ flow.client_port ++ port ++ 16w0 ++ version ++ proto)

// How long the store keeps a connection with this idle time, in milliseconds, and the reverse.
#define KEPT_FOR(idle) ((bit<32>)(idle) << 7)
#define IDLE_OF(lease) lease[24:7]

// The number of a request: this switch's number of the service, and why the device was chosen, or what the connection's idle time is to be (a multiple of four;
// 0: as it is).
#define NUMBER_OF_CHOICE(service, reason) (service ++ 12w0 ++ (reason))
#define NUMBER_OF_TIME(service, idle) (service ++ ((idle) == HALF_OPEN ? 16w0 : (idle)[17:2]))
#define NUMBER_SERVICE(number) number[31:16]
#define NUMBER_REASON(number) number[3:0]
#define NUMBER_IDLE(number) (number[15:0] ++ 2w0)

const bit<8> STORE_ASK = REDPLANE_PACKET | REDPLANE_INPUT;

// Is the store to keep the connection of this packet for longer, or not much longer? `before` are its flags before this packet.
control StoreExtends(in headers_t hdr, inout metadata_t meta, in bool to_service, in bit<8> before, in time_us_t now, in connection_t conn) {
    apply {
        bool datagrams = (conn.options & OPTION_DATAGRAMS) != 0;
        bool was_over = !datagrams && ((before & CONN_RESET) != 0 || (before & CONN_FINS) == CONN_FINS);
        bool is_over = !datagrams && ((conn.flags & CONN_RESET) != 0 || (conn.flags & CONN_FINS) == CONN_FINS);
        bool completed = datagrams ? (conn.flags & CONN_FINS) == CONN_CONFIRMED : (hdr.udp.isValid() || !meta.opens);
        // The highest bit that differs says how long a period ended since the connection was seen: one of an eighth to a quarter of the idle time.
        bool new_period = (conn.seen ^ now[41:10]) >= (seen_t)conn.idle << 3;
        idle_t idle = conn.idle;
        if (conn.idle == CONN_EXPIRED) {
            // It is being reset. What the store has of it ends by itself.
        } else if (is_over) {
            meta.extends = !was_over;
            meta.extend_flags = REDPLANE_EXISTING | REDPLANE_ENDING;
            idle = HALF_OPEN;
        } else if (to_service && completed && conn.idle != meta.idle && (conn.idle == HALF_OPEN || !meta.opens)) {
            // It is established, or its service has another idle time now.
            meta.extends = true;
            idle = meta.idle;
        } else {
            meta.extends = was_over || new_period;
        }
        meta.extend_service = meta.flow.service;
        meta.extend_value = KEPT(conn.flags & (CONN_COUNTS | CONN_DIRECT), conn.options, conn.device);
        meta.extend_idle = idle;
    }
}

#endif
