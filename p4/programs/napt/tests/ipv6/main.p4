// SPDX-License-Identifier: Apache-2.0
// Address translation whose store is asked over IPv6.

#define REDPLANE_IPV6
#include "../../main.p4"
