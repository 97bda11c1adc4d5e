// SPDX-License-Identifier: Apache-2.0
// A router whose counters are in servers, with RoCEv2 over IPv6; it counts bytes.

#define ROCE_IPV6
#define COUNT_BYTES
#include "../../main.p4"
