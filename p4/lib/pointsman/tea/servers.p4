// Which servers serve: those that are out and how they are found again, full links. Part of <pointsman/tea.p4>.

#ifndef POINTSMAN_TEA_SERVERS_P4
#define POINTSMAN_TEA_SERVERS_P4

// Whether a queue pair at a port serves, and takes another look-up now.
control TeaServes(in bit<48> begun,
                  in bit<48> patience,
                  in bit<32> pair,
                  in bit<9> port,
                  out bool serves,
                  out bool has_credit) {
    apply {
        bit<8> dead;
        bit<8> is_out;
        bit<8> probed;
        bit<32> next;
        bit<32> done;
        bit<48> progress;
        tea_dead.read(dead, pair);
        tea_out.read(is_out, (bit<32>)port);
        tea_probed.read(probed, pair);
        tea_next.read(next, pair);
        tea_done.read(done, pair);
        tea_progress.read(progress, pair);
        bit<24> in_flight = next[23:0] - done[23:0];
        bit<48> silent = begun - progress;
        if (is_out == 0 && in_flight != 0 && silent > patience && silent[47:47] == 0) {
            tea_counts.count(TEA_COUNT_OUT);
            tea_out.write((bit<32>)port, 1);
            is_out = 1;
        }
        serves = dead == 0 && is_out == 0 && probed == 0;
        has_credit = in_flight <= TEA_FULL;
    }
}

// The colour of the link to a server for a look-up, which the meter counts. A short packet is green where a longer one is not, so what ordinary packets had a
// moment ago counts, too.
control TeaColour(in bit<9> port, in bit<48> now, in bit<48> patience, out bit<2> colour) {
    apply {
        bit<48> red;
        bit<48> yellow;
        tea_load.execute_meter((bit<32>)port, colour);
        tea_red.read(red, (bit<32>)port);
        tea_yellow.read(yellow, (bit<32>)port);
        if (red != 0 && now - red < patience) {
            colour = 2;
        } else if (yellow != 0 && now - yellow < patience && colour == 0) {
            colour = 1;
        }
    }
}

// Asks a server that is out whether it answers again: a WRITE of nothing, with a number that it may already have. Its acknowledgment names the one
// that it expects.
control TeaProbe(inout tea_meta_t m, inout standard_metadata_t sm) {
    apply {
        bit<8> is_out;
        bit<8> probed;
        bit<32> next;
        bit<32> done;
        bit<48> progress;
        tea_out.read(is_out, (bit<32>)m.peer_port);
        tea_probed.read(probed, m.pair);
        tea_next.read(next, m.pair);
        tea_done.read(done, m.pair);
        tea_progress.read(progress, m.pair);
        bit<48> silent = sm.ingress_global_timestamp - progress;
        if ((is_out == 1 || probed == 1) && (next == done || silent > m.timeout)) {
            tea_counts.count(TEA_COUNT_PROBE);
            tea_probed.write(m.pair, 1);
            m.psn = done[23:0];
            tea_next.write(m.pair, (bit<32>)(m.psn + 1));
            tea_progress.write(m.pair, sm.ingress_global_timestamp);
            m.step = TEA_PROBE;
            sm.egress_spec = m.peer_port;
        } else {
            m.step = TEA_DROP;
        }
    }
}

// A server's answer ends that it is out.
control TeaAlive(in bit<32> pair, in bit<9> port) {
    apply {
        tea_out.write((bit<32>)port, 0);
        tea_probed.write(pair, 0);
    }
}

// Counts a packet for the load of the port by which it leaves, if look-ups choose by it.
control TeaLoad(in standard_metadata_t sm) {
    apply {
        bit<1> is_metered;
        bit<2> colour;
        bit<32> port = (bit<32>)sm.egress_spec;
        tea_metered.read(is_metered, port);
        if (is_metered == 1) {
            tea_load.execute_meter(port, colour);
            if (colour != 0) {
                tea_yellow.write(port, sm.ingress_global_timestamp);
            }
            if (colour == 2) {
                tea_red.write(port, sm.ingress_global_timestamp);
            }
        }
    }
}

#endif
