// SPDX-License-Identifier: Apache-2.0
// A NAT for IPv4 and IPv6 whose entries are in servers.

#define NAT_IPV6
#include "../../main.p4"
