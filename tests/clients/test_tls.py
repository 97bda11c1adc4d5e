"""finsy over TLS against a running switch; tests/switch_tls.rs makes the certificates and starts the switch."""

import asyncio
import os
import unittest
from pathlib import Path

import finsy as fy

TARGET = os.environ["POINTSMAN_TARGET"]
FILES = Path(os.environ["POINTSMAN_CERTIFICATES"])
PATIENCE = 10  # seconds that any answer may take


def credentials(ca, identity=None):
    cert, key = (FILES / f"{identity}.pem", FILES / f"{identity}.key") if identity else (None, None)
    return fy.GRPCCredentialsTLS(cacert=FILES / ca, cert=cert, private_key=key)


class Case(unittest.IsolatedAsyncioTestCase):
    async def accepted(self, *which):
        options = fy.SwitchOptions(channel_credentials=credentials(*which))
        async with asyncio.timeout(PATIENCE), fy.Switch("s1", TARGET, options) as switch:
            self.assertTrue(switch.is_up and switch.is_primary)
            self.assertGreater(len(switch.p4info.tables), 0)
            entries = [e async for e in switch.read(fy.P4TableEntry())]
            self.assertGreater(len(entries), 0, "the const entries")

    async def refused(self, *which):
        client = fy.P4Client(TARGET, credentials(*which) if which else None, wait_for_ready=False)
        async with asyncio.timeout(PATIENCE), client:
            with self.assertRaises(fy.P4ClientError) as caught:
                await client.request(fy.proto.p4r.CapabilitiesRequest())
        self.assertEqual(caught.exception.code, fy.GRPCStatusCode.UNAVAILABLE)
        return str(caught.exception)


class Tls(Case):
    async def test_with_the_right_authority(self):
        await self.accepted("ca.pem")

    async def test_with_the_wrong_authority(self):
        self.assertIn("CERTIFICATE_VERIFY_FAILED", await self.refused("other-ca.pem"))

    async def test_in_the_clear(self):
        await self.refused()


class MutualTls(Case):
    async def test_with_a_certificate(self):
        await self.accepted("ca.pem", "client")

    async def test_without_a_certificate(self):
        await self.refused("ca.pem")

    async def test_with_anothers_certificate(self):
        await self.refused("ca.pem", "stranger")

    async def test_with_an_expired_certificate(self):
        await self.refused("ca.pem", "expired")


if __name__ == "__main__":
    unittest.main()
