// SPDX-License-Identifier: Apache-2.0
// A NAT for IPv4 and IPv6 whose entries are in the switch.

#define NAT_IPV6
#define PLAIN
#include "../../main.p4"
