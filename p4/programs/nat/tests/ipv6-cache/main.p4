// SPDX-License-Identifier: Apache-2.0
// A NAT for IPv4 and IPv6 with a cache of sixteen entries.

#define NAT_IPV6
#define TEA_CACHE 16
#include "../../main.p4"
