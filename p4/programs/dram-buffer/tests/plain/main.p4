// SPDX-License-Identifier: Apache-2.0
// A router without a buffer in servers.

#define PLAIN
#include "../../main.p4"
