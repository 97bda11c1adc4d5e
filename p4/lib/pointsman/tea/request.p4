// The requests of a look-up: their numbers and scratchpad in ingress, their frames in egress. Part of <pointsman/tea.p4>.

#ifndef POINTSMAN_TEA_REQUEST_P4
#define POINTSMAN_TEA_REQUEST_P4

// Takes numbers and a scratchpad for a look-up, or lets the packet wait.
control TeaRequest(inout tea_meta_t m, inout standard_metadata_t sm) {
#ifdef TEA_TABLES
    TeaMore() more;

#endif
    apply {
        bit<32> next;
        bit<32> done;
        bit<48> progress;
        tea_next.read(next, m.pair);
        tea_done.read(done, m.pair);
        tea_progress.read(progress, m.pair);
        bit<24> psn = next[23:0];
        bit<24> in_flight = psn - done[23:0];
        // Packets that have waited have an earlier time.
        bit<48> silent = m.begun - progress;
        m.ask = 0;
        if (in_flight != 0 && silent > m.timeout && silent[47:47] == 0) {
            // A request, an answer, or the report of a gap is lost. The numbers begin again behind the last answer; the server's acknowledgment
            // to a number that it already has shows which one it expects.
            tea_counts.count(TEA_COUNT_TIMEOUT);
            psn = done[23:0];
            in_flight = 0;
            m.ask = 1;
        }
        if (in_flight > TEA_FULL) {
            if (m.waits < TEA_WAITS && m.wait_port != 0) {
                tea_counts.count(TEA_COUNT_WAITED);
                m.waits = m.waits + 1;
                m.step = TEA_WAIT;
                sm.egress_spec = m.wait_port;
            } else {
                tea_counts.count(TEA_COUNT_CREDIT);
                m.step = TEA_DROP;
            }
        } else {
#ifdef TEA_TABLES
            // The slot of a READ alone is where that of a look-up would be whose second number is the READ's.
            if (m.is_alone == 1) {
                psn = psn - 1;
            }
#endif
            bit<32> slot = (m.pair << 6) + (bit<32>)psn[5:0];
            bit<32> tag;
            tea_tags.read(tag, m.pair);
            tag = tag + 1;
            tea_tags.write(m.pair, tag);
            tea_lookups.write(slot, TEA_ASKED ++ psn);
            tea_begun.write(slot, m.begun);
            tea_tag.write(slot, tag);
            tea_keys.write(slot, m.key);
            tea_homes.write(slot, m.home);
            tea_next.write(m.pair, (bit<32>)(psn + TEA_TAKEN(m)));
            if (in_flight == 0) {
                tea_progress.write(m.pair, m.begun);
            }
            m.psn = psn;
            m.tag = tag[30:0];
            m.bytes = sm.packet_length;
            sm.mcast_grp = m.group;
#ifdef TEA_TABLES
            more.apply(m, sm, slot);
#endif
            tea_counts.count(TEA_COUNT_SENT);
        }
    }
}

// Egress: makes the requests of a look-up, or a probe; packets that came back, or have waited, return to the parser.
control TeaDepart(inout tea_headers_t h, inout tea_meta_t m, inout standard_metadata_t sm) {
    apply {
#ifdef TEA_TABLES
        if (m.step == TEA_SEND && sm.egress_rid == TEA_STAYS) {
            // The packet of a READ alone is to leave by itself.
            m.step = TEA_WAIT;
        }
#endif
        if (m.step == TEA_SEND || m.step == TEA_PROBE) {
            bit<2> fill = 0 - m.bytes[1:0];
            bit<32> data = TEA_SCRATCH_BYTES + (bit<32>)fill + m.bytes;
            h.remote.setValid();
#ifdef TEA_INLINE
            bit<64> row = m.cells + (bit<64>)TEA_PLACE((m.home - m.start)) * TEA_ROW_BYTES;
            h.remote.address = row + TEA_WINDOW * TEA_CELL_BYTES;
#else
            // Not by sequence number: a number is used again while a READ of its earlier use may be under way.
            h.remote.address = m.ring + (bit<64>)m.tag[5:0] * TEA_SLOT;
#endif
            h.remote.key = m.region;
            h.remote.bytes = data;
            h.roce.setValid();
            h.roce.opcode = TEA_READ;
            h.roce.ask = 0;
            bit<32> length = ROCE_BYTES + 16 + 4;
            if (m.step == TEA_PROBE) {
#ifdef TEA_INLINE
                h.remote.address = m.cells;
#endif
                h.remote.bytes = 0;
                h.roce.opcode = TEA_WRITE;
                h.roce.psn = m.psn;
                h.roce.ask = 0x80;
                truncate(length);
            } else if (sm.egress_rid == 1) {
                h.roce.opcode = TEA_WRITE;
                h.roce.psn = m.psn;
                h.roce.ask = m.ask ++ 7w0;
                h.scratch.setValid();
                h.scratch.is_scratch = 1;
                h.scratch.tag = m.tag;
                h.scratch.unused = 0;
                h.scratch.port = m.in_port;
                h.scratch.bytes = m.bytes[15:0];
                if (fill[0:0] == 1) {
                    h.fill1.setValid();
                    h.fill1.zero = 0;
                }
                if (fill[1:1] == 1) {
                    h.fill2.setValid();
                    h.fill2.zero = 0;
                }
#ifdef TEA_INLINE
                hash(h.scratch.sum, HashAlgorithm.crc32, 32w0, { TEA_KEPT(h) }, 64w0x100000000);
#endif
                length = length + data;
#ifdef TEA_INLINE
            } else {
                h.packet.setInvalid();
                h.roce.psn = m.psn + 1;
                h.remote.address = row;
                h.remote.bytes = TEA_WINDOW * TEA_CELL_BYTES + data;
#ifdef TEA_TABLES
                if (m.is_alone == 1) {
                    h.remote.bytes = TEA_WINDOW * TEA_CELL_BYTES;
                }
#endif
            }
#else
            } else if (sm.egress_rid == 2) {
                h.packet.setInvalid();
                h.roce.psn = m.psn + 1;
                h.remote.address = m.cells + (bit<64>)(m.home - m.start) * TEA_CELL_BYTES;
                h.remote.bytes = TEA_WINDOW * TEA_CELL_BYTES;
            } else {
                h.packet.setInvalid();
                h.roce.psn = m.psn + 2;
            }
#endif
            ROCE_SET(h.roce, length[15:0], m.mac, m.peer_mac, m.address, m.peer_address, 0xc000 | m.pair[15:0], m.peer);
            ROCE_SET_CHECK(h, TEA_SENT);
        } else if (m.step == TEA_BACK || m.step == TEA_WAIT) {
            if (m.step == TEA_BACK) {
                truncate(m.bytes);
            }
            m.step = TEA_PROGRAM;
            m.begun = sm.egress_global_timestamp;
            recirculate_preserving_field_list(TEA_LIST);
        }
    }
}

#endif
