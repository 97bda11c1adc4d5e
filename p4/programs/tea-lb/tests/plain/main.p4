// SPDX-License-Identifier: Apache-2.0
// A load balancer whose entries are in the switch.

#define PLAIN
#include "../../main.p4"
