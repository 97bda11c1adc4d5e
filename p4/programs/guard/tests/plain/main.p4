// SPDX-License-Identifier: Apache-2.0
// The guard without RedPlane.

#define PLAIN
#include "../../main.p4"
