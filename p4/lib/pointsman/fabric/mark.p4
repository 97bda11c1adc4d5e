// ECN: an egress control that marks packets which waited too long in their queue.
//
// The depth of a queue that is sent at a constant rate is a time: a packet that waited for T ticks had T times the rate before
// it. So the controller turns a depth in KiB into ticks for each port, and queues of packets of any size are marked alike.

#ifndef POINTSMAN_FABRIC_MARK_P4
#define POINTSMAN_FABRIC_MARK_P4

control FabricEgress(inout headers_t hdr,
                     inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    apply {
        if (meta.fabric.mark_after != 0 && standard_metadata.deq_timedelta >= meta.fabric.mark_after) {
            if (hdr.ipv4.isValid() && hdr.ipv4.ecn != ECN_NOT_ECT) {
                hdr.ipv4.ecn = ECN_CE;
            } else if (hdr.ipv6.isValid() && hdr.ipv6.ecn != ECN_NOT_ECT) {
                hdr.ipv6.ecn = ECN_CE;
            }
        }
    }
}

#endif
