// SPDX-License-Identifier: Apache-2.0
// Sketches whose snapshots go to the store over IPv6.

#define REDPLANE_IPV6
#include "../../main.p4"
