// SPDX-License-Identifier: Apache-2.0
// Counts that are lost with the switch, with one slot.

#define PLAIN
#define REDPLANE_SLOTS 1
#include "../../main.p4"
