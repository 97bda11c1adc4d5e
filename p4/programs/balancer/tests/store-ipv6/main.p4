// SPDX-License-Identifier: Apache-2.0
// The balancer whose store of connections is asked over IPv6.

#define BALANCER_STORE
#define REDPLANE_IPV6
#include "../../main.p4"
