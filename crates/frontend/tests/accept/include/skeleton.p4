// The blocks around control I of the test programs: they define headers_t, metadata_t and I.

parser SkeletonParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}

control SkeletonVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control SkeletonEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    apply {}
}

control SkeletonCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control SkeletonDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(SkeletonParser(), SkeletonVerify(), I(), SkeletonEgress(), SkeletonCompute(), SkeletonDeparser()) main;
