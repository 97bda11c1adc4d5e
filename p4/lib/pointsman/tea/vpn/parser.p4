// Of the VPN gateway: a packet, the tunnel that it may be in, and the one inside.

#ifndef POINTSMAN_TEA_VPN_PARSER_P4
#define POINTSMAN_TEA_VPN_PARSER_P4

parser FlowParser(packet_in packet,
                  out headers_t hdr,
                  inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    TeaParser() tea;
    bool more;

    state start {
        tea.apply(packet, hdr.tea, meta.tea, standard_metadata, more);
        transition select(more) {
            true: parse_ethernet;
            default: accept;
        }
    }

    state parse_ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ethertype, packet.lookahead<bit<4>>()) {
            (IPV4, 4): parse_ipv4;
            (IPV6, 6): parse_ipv6;
            default: accept;
        }
    }

    // Without options, and not a part of a packet: there may be a tunnel.
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.version_ihl, hdr.ipv4.fragment[13:0], hdr.ipv4.proto) {
            (0x45, 0, GRE): parse_gre;
            default: parse_rest4;
        }
    }

    state parse_ipv6 {
        packet.extract(hdr.ipv6);
        transition select(hdr.ipv6.proto) {
            GRE: parse_gre;
            default: parse_rest6;
        }
    }

    state parse_gre {
        transition select(packet.lookahead<bit<32>>()) {
            WITH_KEY ++ IPV4: parse_tunnel4;
            WITH_KEY ++ IPV6: parse_tunnel6;
            default: accept;
        }
    }

    state parse_tunnel4 {
        packet.extract(hdr.tunnel);
        transition select(packet.lookahead<bit<4>>()) {
            4: parse_inner4;
            default: accept;
        }
    }

    state parse_inner4 {
        packet.extract(hdr.inner4);
        transition accept;
    }

    state parse_tunnel6 {
        packet.extract(hdr.tunnel);
        transition select(packet.lookahead<bit<4>>()) {
            6: parse_inner6;
            default: accept;
        }
    }

    state parse_inner6 {
        packet.extract(hdr.inner6);
        transition accept;
    }

    // Only a long packet can be too long.
    state parse_rest4 {
        transition select(hdr.ipv4.version_ihl, hdr.ipv4.len[15:8]) {
            (0x45, 0): accept;
            (0x45, _): parse_lead;
            default: accept;
        }
    }

    state parse_rest6 {
        transition select(hdr.ipv6.len[15:8]) {
            0: accept;
            default: parse_lead;
        }
    }

    state parse_lead {
        packet.extract(hdr.lead);
        transition accept;
    }
}

#endif
