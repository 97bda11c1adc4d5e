// SPDX-License-Identifier: Apache-2.0
// The balancer whose settled connections are in the memory of servers.

#define BALANCER_TEA
#include "../../main.p4"
