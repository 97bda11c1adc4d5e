// SPDX-License-Identifier: Apache-2.0
// A VPN gateway whose servers are asked over IPv6.

#define TEA_IPV6
#include "../../main.p4"
