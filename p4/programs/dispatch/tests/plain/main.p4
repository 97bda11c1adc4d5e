// SPDX-License-Identifier: Apache-2.0
// A load balancer whose connections are lost with the switch.

#define PLAIN
#include "../../main.p4"
