// RoCEv2 between switch and servers: the headers of all libraries, with TEA's macros. Part of <pointsman/tea.p4>.

#ifndef POINTSMAN_TEA_ROCE_P4
#define POINTSMAN_TEA_ROCE_P4

#ifdef TEA_IPV6
#define ROCE_IPV6
#endif
#include <pointsman/roce/headers.p4>

typedef roce_address_t tea_address_t;

// In the control that computes checksums.
#define TEA_COMPUTE(h) ROCE_COMPUTE(h)

#endif
