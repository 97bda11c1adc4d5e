// SPDX-License-Identifier: Apache-2.0
// A router whose packets wait in servers, with RoCEv2 over IPv6.

#define ROCE_IPV6
#include "../../main.p4"
