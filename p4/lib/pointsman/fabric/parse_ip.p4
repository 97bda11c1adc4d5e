// Part of a parser: states that read IPv4, IPv6 and ports. Include it between the braces of a parser with the parameters `packet`,
// `hdr` and `meta`. With FABRIC_TCP=parse_tcp and parse_tcp.p4 more of TCP is read.

#ifndef FABRIC_TCP
#define FABRIC_TCP parse_ports
#endif

state parse_ipv4 {
    packet.extract(hdr.ipv4);
    verify(hdr.ipv4.version == 4 && hdr.ipv4.ihl == 5, error.ParserInvalidArgument);
    // Fragments after the first have no ports; the first one goes the same way as they do.
    transition select(hdr.ipv4.fragment, hdr.ipv4.flags[0:0], hdr.ipv4.proto) {
        (0, 0, PROTO_TCP): FABRIC_TCP;
        (0, 0, PROTO_UDP): parse_ports;
        default: accept;
    }
}

state parse_ipv6 {
    packet.extract(hdr.ipv6);
    verify(hdr.ipv6.version == 6, error.ParserInvalidArgument);
    transition select(hdr.ipv6.next_header) {
        PROTO_TCP: FABRIC_TCP;
        PROTO_UDP: parse_ports;
        default: accept;
    }
}

state parse_ports {
    packet.extract(hdr.ports);
    meta.fabric.ports = hdr.ports.src ++ hdr.ports.dst;
    transition accept;
}
