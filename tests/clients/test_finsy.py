"""finsy against a running switch; see test_shell.py for the environment."""

import asyncio
import os
import struct
import unittest
from pathlib import Path

import finsy as fy

TARGET = os.environ["POINTSMAN_TARGET"]
OPTIONS = fy.SwitchOptions(
    p4info=Path(os.environ["POINTSMAN_P4INFO"]),
    p4blob=Path(os.environ["POINTSMAN_CONFIG"]),
)
MISSED = 0xFFFFFFFF
PATIENCE = 10  # seconds that any answer may take


def packet(dst, src="10.9.9.9", protocol=17, length=100):
    """An IPv4 packet without content; the program believes its header."""
    ethernet = bytes.fromhex("020000000002 020000000001 0800")
    header = struct.pack("!BBHHHBBH", 0x45, 0, length, 0, 0, 64, protocol, 0)
    addresses = [bytes(int(part) for part in text.split(".")) for text in (src, dst)]
    return ethernet + header + b"".join(addresses)


def host(dst, value, **more):
    return fy.P4TableEntry("hosts", match=fy.Match(dst=dst), action=fy.Action("host_is", value=value), **more)


def route(dst, value):
    return fy.P4TableEntry("routes", match=fy.Match(dst=dst), action=fy.Action("route_is", value=value, mac=value))


async def gather(iterator):
    return [item async for item in iterator]


class Case(unittest.IsolatedAsyncioTestCase):
    def switch(self, name="s1", **options):
        return fy.Switch(name, TARGET, OPTIONS(**options))

    async def fresh(self):
        """A switch whose pipeline was just loaded; it is closed at the end of the test."""
        return await self.enterAsyncContext(self.switch(p4force=True))

    async def lookup(self, switch, dst, **header):
        packets = switch.read_packets()
        async with asyncio.timeout(PATIENCE):
            waiting = asyncio.ensure_future(anext(packets))
            await asyncio.sleep(0)  # so that the queue is open
            await switch.write([fy.P4PacketOut(packet(dst, **header), egress_port=0, kind=0)])
            answer = await waiting
        await packets.aclose()
        return answer

    async def refused(self, part, operation, *codes):
        """A batch that fails: the codes of the updates that do, by their numbers."""
        with self.assertRaises(fy.P4ClientError) as caught:
            await operation
        self.assertEqual(caught.exception.code, fy.GRPCStatusCode.UNKNOWN)
        found = {n: error.canonical_code.name for n, error in caught.exception.details.items()}
        self.assertEqual(found, dict(codes))
        self.assertIn(part, str(caught.exception))


class Connections(Case):
    async def test_the_sequence_to_ready(self):
        switch = self.switch()
        events = []
        for event in (fy.SwitchEvent.CHANNEL_UP, fy.SwitchEvent.CHANNEL_READY, fy.SwitchEvent.CHANNEL_DOWN):
            switch.ee.add_listener(event, lambda *_, event=event: events.append(event.name))
        async with asyncio.timeout(PATIENCE), switch:
            self.assertEqual(events, ["CHANNEL_UP", "CHANNEL_READY"])
            self.assertTrue(switch.is_up and switch.is_primary)
            self.assertEqual((switch.election_id, switch.primary_id), (10, 10))
            self.assertGreaterEqual(switch.p4runtime_version, fy.P4RuntimeVersion.parse("1.4.0"))
            self.assertIsNotNone(switch.gnmi_client)
            self.assertEqual(len(switch.ports), 0)
            self.assertEqual({t.alias for t in switch.p4info.tables}, {"hosts", "routes", "acl", "spread", "fixed"})
        self.assertEqual(events[2:], ["CHANNEL_DOWN"])

    async def test_the_cookie_saves_loading_the_program_again(self):
        async with self.switch(p4force=True) as switch:
            await switch.insert([host("10.0.0.1", 1)])
        # The second finds its cookie and leaves everything as it is; the third has to load.
        async with self.switch() as switch:
            self.assertEqual(len(await gather(switch.read(fy.P4TableEntry("hosts")))), 1)
        async with self.switch(p4force=True) as switch:
            self.assertEqual(await gather(switch.read(fy.P4TableEntry("hosts"))), [])

    async def test_a_controller_without_a_program_takes_what_there_is(self):
        await self.fresh()
        async with fy.Switch("s2", TARGET, fy.SwitchOptions()) as switch:
            self.assertFalse(switch.is_primary)
            self.assertIn("routes", {t.alias for t in switch.p4info.tables})

    async def test_an_election_id_in_use_makes_a_backup_that_takes_over(self):
        async with asyncio.timeout(PATIENCE):
            first = self.switch("first", p4force=True)
            await first.__aenter__()
            async with self.switch("second") as second:
                self.assertTrue(first.is_primary)
                self.assertEqual((second.is_primary, second.election_id, second.primary_id), (False, 9, 10))
                with self.assertRaises(fy.P4ClientError) as caught:
                    await second.insert([host("10.0.0.1", 1)])
                self.assertEqual(caught.exception.code, fy.GRPCStatusCode.PERMISSION_DENIED)
                await first.insert([host("10.0.0.1", 1)])
                self.assertEqual(len(await gather(second.read(fy.P4TableEntry("hosts")))), 1)
                became = second.ee.event_future(fy.SwitchEvent.BECOME_PRIMARY)
                await first.__aexit__(None, None, None)
                await became
                await second.insert([host("10.0.0.2", 2)])

    async def test_another_device(self):
        with self.assertRaises(fy.P4ClientError) as caught:
            async with asyncio.timeout(PATIENCE), self.switch(device_id=7):
                pass
        self.assertEqual(caught.exception.code, fy.GRPCStatusCode.NOT_FOUND)


class Takeover(Case):
    async def test_a_higher_election_id_takes_over(self):
        async with asyncio.timeout(PATIENCE):
            first = await self.fresh()
            lost = first.ee.event_future(fy.SwitchEvent.BECOME_BACKUP)
            async with self.switch("second", initial_election_id=20) as second:
                await lost
                self.assertTrue(second.is_primary and not first.is_primary)
                self.assertEqual(first.primary_id, 20)


class Entities(Case):
    async def test_tables(self):
        switch = await self.fresh()
        acl = fy.P4TableEntry(
            "acl",
            match=fy.Match(src="10.0.0.0/&255.0.0.0", protocol=6, length="100...200"),
            action=fy.Action("acl_is", value=3),
            priority=5,
            metadata=b"why",
        )
        entries = [host("10.0.0.1", 1), route("10.0.0.0/8", 2), route("10.0.0.0/24", 4), acl]
        await switch.write([+entry for entry in entries])
        answer = await self.lookup(switch, "10.0.0.1", src="10.1.1.1", protocol=6, length=150)
        self.assertEqual((answer["host"], answer["route"], answer["acl"]), (1, 4, 3))
        answer = await self.lookup(switch, "10.0.1.1", src="10.1.1.1", protocol=6, length=201)
        self.assertEqual((answer["host"], answer["route"], answer["acl"]), (MISSED, 2, MISSED))
        # Written entries are read back, of one table and of all.
        for entry in entries:
            [read] = await gather(switch.read(entry))
            message = read.encode(switch.p4info).table_entry
            self.assertEqual(message, entry.encode(switch.p4info).table_entry)
        [read] = await gather(switch.read(fy.P4TableEntry("acl")))
        self.assertEqual((read.priority, read.metadata), (5, b"why"))
        everything = await gather(switch.read(fy.P4TableEntry()))
        self.assertEqual(sorted(e.table_id for e in everything), ["acl", "fixed", "fixed", "hosts", "routes", "routes"])
        await switch.write([~host("10.0.0.1", 7), -route("10.0.0.0/24", 4)])
        answer = await self.lookup(switch, "10.0.0.1")
        self.assertEqual((answer["host"], answer["route"]), (7, 2))

    async def test_one_error_for_each_update(self):
        switch = await self.fresh()
        entries = [host(f"10.0.0.{n}", n) for n in range(5)]
        await self.refused("Lookup.hosts", switch.insert(entries), (4, "RESOURCE_EXHAUSTED"))
        errors = [(n, "ALREADY_EXISTS") for n in range(4)] + [(4, "RESOURCE_EXHAUSTED")]
        await self.refused("Lookup.hosts", switch.insert(entries), *errors)
        await self.refused("Lookup.hosts", switch.delete(entries), (4, "NOT_FOUND"))
        await self.refused("Lookup.hosts", switch.modify(entries[:1]), (0, "NOT_FOUND"))
        await switch.delete(entries, strict=False)
        # As many as finsy makes room for.
        many = [route(f"10.{n}.0.0/16", n) for n in range(200)]
        await self.refused("Lookup.routes", switch.insert(many), *[(n, "RESOURCE_EXHAUSTED") for n in range(64, 200)])

    async def test_delete_all(self):
        switch = await self.fresh()
        await switch.insert([
            host("10.0.0.1", 1),
            route("10.0.0.0/8", 2),
            fy.P4MulticastGroupEntry(1, replicas=[(510, 1), (510, 2)]),
            fy.P4CloneSessionEntry(2, replicas=[510]),
            fy.P4ActionProfileMember("members", member_id=1, action=fy.Action("member_is", value=1)),
            fy.P4ActionProfileGroup("members", group_id=1, members=[fy.P4Member(1, weight=2)]),
            fy.P4TableEntry("spread", match=fy.Match(protocol=6), action=fy.P4IndirectAction(group_id=1)),
            fy.P4DigestEntry("learned_t", max_list_size=1),
        ])
        await switch.modify([fy.P4TableEntry("hosts", is_default_action=True, action=fy.Action("host_is", value=9))])
        answer = await self.lookup(switch, "1.1.1.1")
        self.assertEqual(answer["host"], 9)
        kinds = [
            fy.P4MulticastGroupEntry(),
            fy.P4CloneSessionEntry(),
            fy.P4ActionProfileMember(),
            fy.P4ActionProfileGroup(),
            fy.P4DigestEntry("learned_t"),
        ]
        for kind in kinds:
            self.assertEqual(len(await gather(switch.read(kind))), 1, kind)
        await switch.delete_all()
        # Where a program has a const table, as ours does, finsy 0.30 deletes nothing but table entries and digests.
        for kind in (kinds[0], kinds[1], kinds[3], kinds[2]):
            await switch.delete(await gather(switch.read(kind)))
        for kind in kinds:
            self.assertEqual(await gather(switch.read(kind)), [], kind)
        self.assertEqual({e.table_id for e in await gather(switch.read(fy.P4TableEntry()))}, {"fixed"})
        answer = await self.lookup(switch, "1.1.1.1")
        self.assertEqual(answer["host"], MISSED, "the default action is the program's again")

    async def test_groups_and_their_members(self):
        switch = await self.fresh()
        members = [
            fy.P4ActionProfileMember("members", member_id=n, action=fy.Action("member_is", value=n)) for n in (1, 2)
        ]
        group = fy.P4ActionProfileGroup("members", group_id=1, members=[fy.P4Member(1, weight=2)])
        entry = fy.P4TableEntry("spread", match=fy.Match(protocol=6), action=fy.P4IndirectAction(group_id=1))
        await switch.insert([*members, group, entry])
        # Weights, and a port to watch.
        group.members = [fy.P4Member(1, weight=3), fy.P4Member(2, weight=(1, 510))]
        await switch.modify([group])
        [read] = await gather(switch.read(fy.P4ActionProfileGroup("members")))
        self.assertEqual(sorted(m.weight for m in read.members if isinstance(m.weight, int)), [3])
        self.assertEqual(read.encode(switch.p4info), group.encode(switch.p4info))
        [read] = await gather(switch.read(members[1]))
        self.assertEqual(read.encode(switch.p4info), members[1].encode(switch.p4info))
        await self.refused("", switch.delete([group]), (0, "FAILED_PRECONDITION"))
        # From a group to one member, and away.
        entry.action = fy.P4IndirectAction(member_id=2)
        await switch.modify([entry])
        await switch.delete([entry, group, *members])
        self.assertEqual(await gather(switch.read(fy.P4ActionProfileMember())), [])

    async def test_one_shot(self):
        switch = await self.fresh()

        def actions(*weights):
            return fy.P4IndirectAction([w * fy.Action("member_is", value=n) for n, w in enumerate(weights)])

        entry = fy.P4TableEntry("spread", match=fy.Match(protocol=6), action=actions(2, 1))
        await switch.insert([entry])
        [read] = await gather(switch.read(fy.P4TableEntry("spread")))
        self.assertEqual(read.encode(switch.p4info).table_entry, entry.encode(switch.p4info).table_entry)
        entry.action = actions(1, 1, 1)
        await switch.modify([entry])
        [read] = await gather(switch.read(fy.P4TableEntry("spread")))
        self.assertEqual(read.encode(switch.p4info).table_entry, entry.encode(switch.p4info).table_entry)
        # Members of one-shot sets are not visible.
        self.assertEqual(await gather(switch.read(fy.P4ActionProfileMember())), [])
        await switch.delete([entry])
        self.assertEqual(await gather(switch.read(fy.P4TableEntry("spread"))), [])

    async def test_multicast_and_clone_sessions(self):
        switch = await self.fresh()
        group = fy.P4MulticastGroupEntry(7, replicas=[(510, 1), (510, 2)])
        session = fy.P4CloneSessionEntry(100, class_of_service=2, packet_length_bytes=64, replicas=[510])
        await switch.insert([group, session])
        for entity in (group, session):
            [read] = await gather(switch.read(entity))
            self.assertEqual(read.encode(switch.p4info), entity.encode(switch.p4info))
        group.replicas = [(510, 3)]
        await switch.modify([group])
        [read] = await gather(switch.read(fy.P4MulticastGroupEntry()))
        self.assertEqual(read.encode(switch.p4info), group.encode(switch.p4info))
        await self.refused("", switch.insert([group, session]), (0, "ALREADY_EXISTS"), (1, "ALREADY_EXISTS"))
        await switch.delete([group, session])
        await self.refused("", switch.delete([group, session], strict=True), (0, "NOT_FOUND"), (1, "NOT_FOUND"))

    async def test_counters_meters_and_registers(self):
        switch = await self.fresh()
        await switch.insert([route("10.0.0.0/8", 1)])
        for _ in range(2):
            await self.lookup(switch, "10.0.0.1", protocol=6, length=70)
        [counter] = await gather(switch.read(fy.P4CounterEntry("arrived", index=510)))
        self.assertEqual((counter.packet_count, counter.byte_count), (2, 2 * (len(packet("1.1.1.1")) + 2)))
        self.assertEqual(len(await gather(switch.read(fy.P4CounterEntry("arrived")))), 512)
        [direct] = await gather(switch.read(fy.P4DirectCounterEntry("routed", table_entry=route("10.0.0.0/8", 1))))
        self.assertEqual(direct.packet_count, 2)
        await switch.modify([fy.P4CounterEntry("arrived", index=3, data=fy.P4CounterData(byte_count=5, packet_count=6))])
        [counter] = await gather(switch.read(fy.P4CounterEntry("arrived", index=3)))
        self.assertEqual((counter.packet_count, counter.byte_count), (6, 5))
        [cell] = await gather(switch.read(fy.P4RegisterEntry("sizes", index=6)))
        self.assertEqual(cell.data, 140)
        await switch.modify([fy.P4RegisterEntry("wide", index=1, data=1 << 79)])
        cells = await gather(switch.read(fy.P4RegisterEntry("wide")))
        self.assertEqual([c.data for c in cells][1:], [1 << 79, 0, 0])
        await switch.modify([fy.P4RegisterEntry("sizes", data=5)])
        self.assertEqual({c.data for c in await gather(switch.read(fy.P4RegisterEntry("sizes")))}, {5})
        config = fy.P4MeterConfig(cir=1, cburst=2, pir=3, pburst=4)
        await switch.modify([fy.P4MeterEntry("pace", index=1, config=config)])
        [meter] = await gather(switch.read(fy.P4MeterEntry("pace", index=1)))
        self.assertEqual(meter.config, config)

    async def test_digests_and_idle_entries(self):
        switch = await self.fresh()
        await switch.insert([
            fy.P4DigestEntry("learned_t", max_list_size=2, max_timeout_ns=0, ack_timeout_ns=1_000_000_000),
            host("10.0.0.1", 1, idle_timeout_ns=50_000_000),
        ])
        digests, timeouts = switch.read_digests("learned_t"), switch.read_idle_timeouts()
        async with asyncio.timeout(PATIENCE):
            waiting = [asyncio.ensure_future(anext(digests)), asyncio.ensure_future(anext(timeouts))]
            await asyncio.sleep(0)
            await switch.write([fy.P4PacketOut(packet("1.1.1.1"), egress_port=0, kind=1)])
            digest, idle = await asyncio.gather(*waiting)
        self.assertEqual([d for d in digest.data], [{"mac": 0x020000000001, "port": 510}])
        await switch.write([digest.ack()])
        self.assertEqual([e.match for e in idle.table_entry], [{"dst": 0x0A000001}])
        await digests.aclose()
        await timeouts.aclose()


if __name__ == "__main__":
    unittest.main()
