// SPDX-License-Identifier: Apache-2.0
// The VPN gateway without TEA, which sends two errors at once, and one a second.

#define PLAIN
#define VPN_ERRORS 2
#define VPN_ERROR_TICKS 1000000
#include "../../main.p4"
