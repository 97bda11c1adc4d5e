// SPDX-License-Identifier: Apache-2.0
// The balancer for servers of up to sixteen devices.

#define SERVER_DEVICES 16
#include "../../main.p4"
