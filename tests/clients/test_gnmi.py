"""finsy's gNMI client against a running switch with one interface, eth0 on port 1, whose cable is pulled out and plugged in
again and again; tests/switch_wire.rs does that."""

import asyncio
import os
import unittest

import finsy as fy
from finsy.gnmiclient import GNMIClient, GNMIClientError, GNMIPath

TARGET = os.environ["POINTSMAN_TARGET"]
PATIENCE = 10  # seconds that any answer may take


class Gnmi(unittest.IsolatedAsyncioTestCase):
    async def test_what_is_there(self):
        async with asyncio.timeout(PATIENCE), GNMIClient(TARGET) as client:
            answer = await client.capabilities()
            self.assertEqual(answer.gNMI_version, "0.10.0")
            self.assertIn("openconfig-interfaces", [m.name for m in answer.supported_models])
            [port] = await client.get(GNMIPath("interfaces/interface[name=*]/state/id"))
            self.assertEqual((port.path["name"], port.value), ("eth0", 1))
            counters = await client.get(GNMIPath("interfaces/interface[name=eth0]/state/counters"))
            self.assertEqual(
                sorted(c.path.last for c in counters),
                ["in-discards", "in-octets", "in-pkts", "out-discards", "out-octets", "out-pkts"],
            )
            self.assertTrue(all(isinstance(c.value, int) for c in counters))
            self.assertEqual(await client.get(GNMIPath("interfaces/interface[name=absent]/state")), [])

    async def test_what_is_not(self):
        async with asyncio.timeout(PATIENCE), GNMIClient(TARGET) as client:
            for operation, code in [
                (client.get(GNMIPath("components/component")), "NOT_FOUND"),
                (client.set(update=[(GNMIPath("interfaces/interface[name=eth0]/config/mtu"), 1)]), "UNIMPLEMENTED"),
            ]:
                with self.assertRaises(GNMIClientError) as caught:
                    await operation
                self.assertEqual(caught.exception.code.name, code)

    async def test_subscriptions(self):
        status = GNMIPath("interfaces/interface[name=eth0]/state/oper-status")
        octets = GNMIPath("interfaces/interface[name=eth0]/state/counters/in-octets")
        async with asyncio.timeout(PATIENCE), GNMIClient(TARGET) as client:
            once = client.subscribe()
            once.once(status)
            self.assertEqual([u.path.last async for u in once.synchronize()], ["oper-status"])
            sampled = client.subscribe()
            sampled.sample(octets, sample_interval=100_000_000)
            seen = 0
            async for update in sampled.updates():
                self.assertEqual(update.path.last, "in-octets")
                seen += 1
                if seen == 3:
                    break
            sampled.cancel()

    async def test_ports_of_a_switch(self):
        seen = set()
        async with asyncio.timeout(PATIENCE), fy.Switch("s1", TARGET) as switch:
            [port] = list(switch.ports)
            self.assertEqual((port.id, port.name), (1, "eth0"))
            # (finsy 0.30 keeps the state of its ports up to date, but has no events of it.)
            while seen != {True, False}:
                seen.add(port.up)
                await asyncio.sleep(0.05)



if __name__ == "__main__":
    unittest.main()
