"""p4runtime-shell against a running switch.

crates/pointsman/tests/clients.rs starts a switch without a program and runs this with

    POINTSMAN_TARGET  host:port of its P4Runtime server
    POINTSMAN_P4INFO  what `pointsman p4 info tests/programs/controlled.p4` printed
    POINTSMAN_CONFIG  the program's source, which is the device configuration

Every test begins with a fresh pipeline. What the shell offers is used through the shell; batches, cookies and roles, which
it does not offer, go through its gRPC stub.
"""

import os
import queue
import struct
import unittest

import grpc
from google.rpc import code_pb2, status_pb2
from p4.v1 import p4runtime_pb2 as p4
from p4.v1 import p4runtime_pb2_grpc
from p4runtime_sh import shell as sh
from p4runtime_sh.p4runtime import P4RuntimeException, P4RuntimeWriteException

TARGET = os.environ["POINTSMAN_TARGET"]
P4INFO = os.environ["POINTSMAN_P4INFO"]
CONFIG = os.environ["POINTSMAN_CONFIG"]
ELECTION = (0, 10)
MISSED = 0xFFFFFFFF
PATIENCE = 10  # seconds that any answer may take


def ipv4(text):
    return bytes(int(part) for part in text.split("."))


def packet(dst, src="10.9.9.9", protocol=17, length=100, ttl=64):
    """An IPv4 packet without content; the program believes its header."""
    ethernet = bytes.fromhex("020000000002 020000000001 0800")
    header = struct.pack("!BBHHHBBH", 0x45, 0, length, 0, 0, ttl, protocol, 0)
    return ethernet + header + ipv4(src) + ipv4(dst)


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        config = sh.FwdPipeConfig(P4INFO, CONFIG)
        sh.setup(device_id=1, grpc_addr=TARGET, election_id=ELECTION, config=config, verbose=False)

    @classmethod
    def tearDownClass(cls):
        sh.teardown()

    def setUp(self):
        sh.client.set_fwd_pipe_config(P4INFO, CONFIG)
        # Messages that the last test ignored.
        for messages in sh.client.stream_in_q.values():
            while not messages.empty():
                messages.get()

    def refused(self, code, part, function, *args):
        """One update, refused with this code and a message that holds `part`."""
        with self.assertRaises(P4RuntimeWriteException) as caught:
            function(*args)
        [(index, error)] = caught.exception.errors
        self.assertEqual((index, code_pb2.Code.Name(error.canonical_code)), (0, code), error.message)
        self.assertIn(part, error.message)

    def lookup(self, *args, **kwargs):
        """What host, route and acl said of a packet, as (host, route, acl); and the packet that came back."""
        sh.PacketOut(packet(*args, **kwargs), egress_port="0", kind="0").send()
        message = sh.client.get_stream_packet("packet", timeout=PATIENCE)
        self.assertIsNotNone(message, "no packet-in")
        values = {m.metadata_id: int.from_bytes(m.value, "big") for m in message.packet.metadata}
        info = sh.P4Objects(sh.P4Type.controller_packet_metadata)["packet_in"].metadata
        named = {m.name: values[m.id] for m in info if m.id in values}
        self.assertEqual(named["ingress_port"], 510)
        return (named["host"], named["route"], named["acl"]), message.packet.payload

    def host(self, dst, value):
        entry = sh.TableEntry("Lookup.hosts")(action="Lookup.host_is")
        entry.match["dst"] = dst
        entry.action["value"] = str(value)
        return entry


class Tables(Case):
    def test_exact_entries_live_and_die(self):
        entry = self.host("10.0.0.1", 7)
        entry.insert()
        self.assertEqual(self.lookup("10.0.0.1")[0], (7, MISSED, MISSED))
        self.assertEqual(self.lookup("10.0.0.2")[0][0], MISSED)
        entry.action["value"] = "8"
        entry.modify()
        self.assertEqual(self.lookup("10.0.0.1")[0][0], 8)
        [read] = entry.read()
        self.assertEqual(read.action.msg().params[0].value, b"\x08")
        self.assertEqual(read.match._mk["dst"].exact.value, ipv4("10.0.0.1"))
        self.refused("ALREADY_EXISTS", "Lookup.hosts", entry.insert)
        entry.delete()
        self.assertEqual(self.lookup("10.0.0.1")[0][0], MISSED)
        self.refused("NOT_FOUND", "Lookup.hosts", entry.delete)
        self.refused("NOT_FOUND", "Lookup.hosts", entry.modify)

    def test_a_full_table_says_so_and_keeps_what_it_has(self):
        for n in range(4):
            self.host(f"10.0.0.{n}", n).insert()
        self.refused("RESOURCE_EXHAUSTED", "Lookup.hosts", self.host("10.0.0.4", 4).insert)
        everything = list(sh.TableEntry("Lookup.hosts").read())
        self.assertEqual(len(everything), 4)
        self.assertEqual(self.lookup("10.0.0.3")[0][0], 3)
        everything[0].delete()
        self.host("10.0.0.4", 4).insert()

    def test_the_longest_prefix_wins(self):
        for prefix, value in [("10.0.0.0/8", 1), ("10.1.0.0/16", 2), ("10.1.1.1/32", 3)]:
            entry = sh.TableEntry("Lookup.routes")(action="Lookup.route_is")
            entry.match["dst"] = prefix
            entry.action.set(value=str(value), mac=f"02:00:00:00:00:{value:02x}")
            entry.insert()
        for dst, value in [("10.200.0.1", 1), ("10.1.2.3", 2), ("10.1.1.1", 3)]:
            (_, route, _), payload = self.lookup(dst)
            self.assertEqual(route, value)
            self.assertEqual(payload[:6], bytes([2, 0, 0, 0, 0, value]), "the action rewrote the packet")
        self.assertEqual(self.lookup("11.0.0.1")[0][1], MISSED)
        # Direct counters come with the entries, and one by one.
        entry = sh.TableEntry("Lookup.routes")
        entry.counter_data  # ask for them
        counts = {e.match._mk["dst"].lpm.prefix_len: e.counter_data.packet_count for e in entry.read()}
        self.assertEqual(counts, {8: 1, 16: 1, 32: 1})
        counter = sh.DirectCounterEntry("Lookup.routed")
        counter.table_entry.match["dst"] = "10.1.0.0/16"
        [read] = counter.read()
        self.assertEqual(read.packet_count, 1)
        counter.packet_count = 41
        counter.modify()
        self.lookup("10.1.2.3")
        [read] = counter.read()
        self.assertEqual(read.packet_count, 42)

    def acl(self, priority, value, **match):
        entry = sh.TableEntry("Lookup.acl")(action="Lookup.acl_is")
        entry.priority = priority
        entry.match.set(**match)
        entry.action["value"] = str(value)
        return entry

    def test_the_highest_priority_wins(self):
        self.acl(1, 1, src="10.0.0.0&&&255.0.0.0").insert()
        self.acl(9, 2, src="10.1.0.0&&&255.255.0.0", protocol="6").insert()
        self.acl(5, 3, src="10.0.0.0&&&255.0.0.0", length="1000..1500").insert()

        def said(**kwargs):
            return self.lookup("1.1.1.1", **kwargs)[0][2]

        self.assertEqual(said(src="11.0.0.1"), MISSED)
        self.assertEqual(said(src="10.1.0.1", protocol=17), 1)
        self.assertEqual(said(src="10.1.0.1", protocol=6), 2)
        self.assertEqual(said(src="10.1.0.1", protocol=6, length=1000), 2)
        self.assertEqual(said(src="10.2.0.1", protocol=6, length=1000), 3)
        self.assertEqual(said(src="10.2.0.1", length=1500), 3)
        self.assertEqual(said(src="10.2.0.1", length=999), 1)
        self.assertEqual(said(src="10.2.0.1", length=1501), 1)
        # The same match with another priority is another entry; with none it is a mistake.
        self.acl(2, 4, src="10.0.0.0&&&255.0.0.0").insert()
        self.refused("ALREADY_EXISTS", "Lookup.acl", self.acl(2, 5, src="10.0.0.0&&&255.0.0.0").insert)
        self.refused("INVALID_ARGUMENT", "priority", self.acl(0, 5, src="10.0.0.0&&&255.0.0.0").insert)
        self.assertEqual(sorted(e.priority for e in sh.TableEntry("Lookup.acl").read()), [1, 2, 5, 9])
        # A counter read for all entries of the table at once.
        counts = {c.table_entry.priority: c.packet_count for c in sh.DirectCounterEntry("Lookup.judged").read()}
        self.assertEqual(counts, {1: 3, 2: 0, 5: 2, 9: 2})

    def test_default_actions(self):
        entry = sh.TableEntry("Lookup.hosts")(action="Lookup.host_is", is_default=True)
        entry.action["value"] = "77"
        entry.modify()
        self.assertEqual(self.lookup("10.0.0.1")[0][0], 77)
        [read] = sh.TableEntry("Lookup.hosts")(is_default=True).read()
        self.assertEqual(read.action.msg().params[0].value, b"\x4d")
        self.refused("INVALID_ARGUMENT", "MODIFY", entry.insert)
        self.refused("INVALID_ARGUMENT", "MODIFY", entry.delete)
        # Without an action: back to the program's own.
        sh.TableEntry("Lookup.hosts")(is_default=True).modify()
        self.assertEqual(self.lookup("10.0.0.1")[0][0], MISSED)
        entry = sh.TableEntry("Lookup.acl")(action="NoAction", is_default=True)
        self.refused("PERMISSION_DENIED", "const", entry.modify)
        entry = sh.TableEntry("Lookup.routes")(action="Lookup.route_missed")
        entry.match["dst"] = "10.0.0.0/8"
        self.refused("PERMISSION_DENIED", "Lookup.route_missed is @defaultonly", entry.insert)

    def test_const_entries(self):
        self.assertEqual(self.lookup("1.1.1.1", ttl=1)[0][0], 1001)
        entries = list(sh.TableEntry("Lookup.fixed").read())
        self.assertEqual(len(entries), 2)
        self.refused("PERMISSION_DENIED", "const", entries[0].delete)
        entry = sh.TableEntry("Lookup.fixed")(action="Lookup.host_is")
        entry.match["ttl"] = "5"
        entry.action["value"] = "5"
        self.refused("PERMISSION_DENIED", "const", entry.insert)

    def test_profiles(self):
        def member(n):
            m = sh.ActionProfileMember("Lookup.members")(member_id=n, action="Lookup.member_is")
            m.action["value"] = str(n)
            return m

        for n in (1, 2, 3):
            member(n).insert()
        self.refused("ALREADY_EXISTS", "", member(1).insert)
        group = sh.ActionProfileGroup("Lookup.members")(group_id=1)
        group.add(1).add(2, weight=3)
        group.insert()
        entry = sh.TableEntry("Lookup.spread")(group_id=1)
        entry.match["protocol"] = "17"
        entry.insert()
        [read] = sh.TableEntry("Lookup.spread").read()
        self.assertEqual(read.group_id, 1)
        [read] = sh.ActionProfileGroup("Lookup.members").read()
        self.assertEqual(sorted((m.member_id, m.weight) for m in read.members), [(1, 1), (2, 3)])
        self.assertEqual(len(list(sh.ActionProfileMember("Lookup.members").read())), 3)
        self.refused("FAILED_PRECONDITION", "", group.delete)
        self.refused("FAILED_PRECONDITION", "", member(2).delete)
        self.refused("NOT_FOUND", "", member(9).modify)
        entry.delete()
        group.delete()
        member(2).delete()
        entry = sh.TableEntry("Lookup.spread")
        entry.match["protocol"] = "6"
        action = sh.Action("Lookup.member_is")
        action["value"] = "5"
        entry.oneshot.add(action, weight=2)
        self.refused("INVALID_ARGUMENT", "not with both", entry.insert)
        member(1).delete()
        member(3).delete()
        entry.insert()
        [read] = sh.TableEntry("Lookup.spread").read()
        found = [(a.weight, a.action["value"].value) for a in read.oneshot.actions]
        self.assertEqual(found, [(2, b"\x05")])
        self.assertEqual(list(sh.ActionProfileMember("Lookup.members").read()), [])
        entry.delete()


class Others(Case):
    def test_counters(self):
        for _ in range(3):
            self.lookup("1.1.1.1")
        cell = sh.CounterEntry("Lookup.arrived")(index=510)
        [read] = cell.read()
        self.assertEqual((read.packet_count, read.byte_count), (3, 3 * (len(packet("1.1.1.1")) + 2)))
        cells = list(sh.CounterEntry("Lookup.arrived").read())
        self.assertEqual(len(cells), 512)
        self.assertEqual(sum(c.packet_count for c in cells), 3)
        cell.packet_count = 10
        cell.byte_count = 1000
        cell.modify()
        [read] = cell.read()
        self.assertEqual((read.packet_count, read.byte_count), (10, 1000))
        outside = sh.CounterEntry("Lookup.arrived")(index=512)
        outside.packet_count = 1
        self.refused("OUT_OF_RANGE", "512", outside.modify)

    def test_meters(self):
        cell = sh.MeterEntry("Lookup.pace")(index=1)
        [read] = cell.read()
        self.assertFalse(read.msg().HasField("config"), "not configured")
        cell.cir, cell.cburst, cell.pir, cell.pburst = 10, 20, 30, 40
        cell.modify()
        [read] = cell.read()
        self.assertEqual((read.cir, read.cburst, read.pir, read.pburst), (10, 20, 30, 40))
        cell.cir = 31
        self.refused("INVALID_ARGUMENT", "", cell.modify)
        cell.clear_config()
        cell.modify()
        [read] = cell.read()
        self.assertFalse(read.msg().HasField("config"))

    def register_id(self, name):
        registers = sh.client.get_p4info().registers
        return next(r.preamble.id for r in registers if r.preamble.name == name)

    def register(self, name):
        request = p4.ReadRequest(device_id=1)
        entry = request.entities.add().register_entry
        entry.register_id = self.register_id(name)
        answers = [e.register_entry for r in sh.client.stub.Read(request) for e in r.entities]
        return {e.index.index: e.data.bitstring for e in answers}

    def test_registers(self):
        self.lookup("1.1.1.1", src="1.2.3.4", protocol=6, length=300)
        self.lookup("1.1.1.1", src="1.2.3.4", protocol=6, length=300)
        sizes = self.register("Lookup.sizes")
        self.assertEqual(len(sizes), 16)
        self.assertEqual(int.from_bytes(sizes[6], "big"), 600)
        self.assertEqual(sizes[7], b"\0")
        self.assertEqual(self.register("Lookup.wide")[0], ipv4("1.2.3.4") + bytes.fromhex("020000000001"))
        update = p4.Update(type=p4.Update.MODIFY)
        entry = update.entity.register_entry
        entry.register_id = self.register_id("Lookup.sizes")
        entry.index.index = 6
        entry.data.bitstring = b"\x10\x00"
        sh.client.write_update(update)
        self.lookup("1.1.1.1", protocol=6, length=1)
        self.assertEqual(int.from_bytes(self.register("Lookup.sizes")[6], "big"), 0x1001)
        entry.data.bitstring = b"\x01\x00\x00\x00\x00"
        self.refused("INVALID_ARGUMENT", "33 bits", sh.client.write_update, update)
        entry.data.bitstring = b"\x01"
        entry.index.index = 16
        self.refused("OUT_OF_RANGE", "16", sh.client.write_update, update)

    def test_replication(self):
        group = sh.MulticastGroupEntry(5).add(510, 1).add(510, 2)
        group.insert()
        [read] = sh.MulticastGroupEntry(0).read()
        self.assertEqual((read.group_id, [(r.egress_port, r.instance) for r in read.replicas]), (5, [(510, 1), (510, 2)]))
        self.refused("ALREADY_EXISTS", "", group.insert)
        group.delete()
        session = sh.CloneSessionEntry(9).add(510, 1)
        session.packet_length_bytes = 64
        session.insert()
        [read] = sh.CloneSessionEntry(0).read()
        self.assertEqual((read.session_id, read.packet_length_bytes), (9, 64))
        session.delete()
        self.refused("NOT_FOUND", "", session.delete)

    def test_digests(self):
        entry = sh.DigestEntry("learned_t")
        entry.max_list_size = 1
        entry.insert()
        sh.PacketOut(packet("1.1.1.1"), egress_port="0", kind="1").send()
        message = sh.client.get_stream_packet("digest", timeout=PATIENCE)
        [data] = message.digest.data
        self.assertEqual([m.bitstring for m in data.struct.members], [bytes.fromhex("020000000001"), b"\x01\xfe"])
        [read] = sh.DigestEntry("learned_t").read()
        self.assertEqual(read.max_list_size, 1)
        self.assertIsNotNone(sh.client.get_stream_packet("packet", timeout=PATIENCE))
        entry.delete()

    def test_idle_entries(self):
        entry = self.host("10.0.0.1", 7)
        entry.idle_timeout_ns = 50_000_000
        entry.metadata = b"remember me"
        entry.insert()
        message = sh.client.get_stream_packet("idle_timeout_notification", timeout=PATIENCE)
        [idle] = message.idle_timeout_notification.table_entry
        self.assertEqual(idle.match[0].exact.value, ipv4("10.0.0.1"))
        self.assertEqual((idle.metadata, idle.idle_timeout_ns), (b"remember me", 50_000_000))
        entry = sh.TableEntry("Lookup.routes")(action="Lookup.route_is", idle_timeout_ns=1)
        entry.match["dst"] = "10.0.0.0/8"
        entry.action.set(value="1", mac="1")
        self.refused("INVALID_ARGUMENT", "idle", entry.insert)

    def test_packets_that_are_refused(self):
        def error(out):
            sh.client.stream_out_q.put(p4.StreamMessageRequest(packet=out))
            message = sh.client.get_stream_packet("unknown", timeout=PATIENCE)
            self.assertEqual(message.WhichOneof("update"), "error")
            self.assertEqual(message.error.packet_out.packet_out, out)
            return code_pb2.Code.Name(message.error.canonical_code), message.error.message

        out = p4.PacketOut(payload=b"x")
        code, text = error(out)
        self.assertEqual(code, "INVALID_ARGUMENT")
        self.assertIn("egress_port", text)
        out.metadata.add(metadata_id=1, value=b"\x02\x00")
        out.metadata.add(metadata_id=2, value=b"\x00")
        code, text = error(out)
        self.assertEqual(code, "INVALID_ARGUMENT", text)
        self.assertIn("egress_port", text)
        out.metadata[0].value = b"\x01"
        out.metadata.add(metadata_id=9, value=b"\x01")
        self.assertIn("9", error(out)[1])


class Batches(Case):
    def update(self, entry, type_=p4.Update.INSERT):
        update = p4.Update(type=type_)
        update.entity.table_entry.CopyFrom(entry.msg())
        return update

    def write(self, updates, **fields):
        """The codes of all updates, their messages, and the status."""
        request = p4.WriteRequest(device_id=1, updates=updates, **fields)
        request.election_id.low = ELECTION[1]
        try:
            sh.client.stub.Write(request)
        except grpc.RpcError as e:
            metadata = dict(e.trailing_metadata())
            self.assertEqual(e.code(), grpc.StatusCode.UNKNOWN, e.details())
            status = status_pb2.Status.FromString(metadata["grpc-status-details-bin"])
            self.assertEqual(status.code, code_pb2.UNKNOWN)
            errors = []
            for detail in status.details:
                error = p4.Error()
                self.assertTrue(detail.Unpack(error), detail.type_url)
                errors.append(error)
            return [code_pb2.Code.Name(e.canonical_code) for e in errors], [e.message for e in errors]
        return [], []

    def bad(self):
        """Updates that fail, each with its code and a part of its message."""
        wide = self.update(self.host("10.0.0.9", 9))
        wide.entity.table_entry.match[0].exact.value = b"\x01\x02\x03\x04\x05"
        unknown = self.update(self.host("10.0.0.9", 9))
        unknown.entity.table_entry.table_id = 0x02123456
        keyless = self.update(self.host("10.0.0.9", 9))
        del keyless.entity.table_entry.match[:]
        action = self.update(self.host("10.0.0.9", 9))
        action.entity.table_entry.action.action.action_id = 0x01123456
        parameter = self.update(self.host("10.0.0.9", 9))
        parameter.entity.table_entry.action.action.params[0].value = b"\x01\x00\x00\x00\x00"
        typeless = self.update(self.host("10.0.0.9", 9), p4.Update.UNSPECIFIED)
        return [
            (wide, "INVALID_ARGUMENT", "dst: value: the value needs 33 bits, the field has 32"),
            (unknown, "INVALID_ARGUMENT", "02123456"),
            (keyless, "INVALID_ARGUMENT", "dst"),
            (action, "INVALID_ARGUMENT", "01123456"),
            (parameter, "INVALID_ARGUMENT", "parameter value: the value needs 33 bits"),
            (typeless, "INVALID_ARGUMENT", "type"),
            (p4.Update(type=p4.Update.INSERT), "INVALID_ARGUMENT", "no entity"),
        ]

    def test_one_error_for_each_update(self):
        bad = self.bad()
        good = [self.update(self.host("10.0.0.1", 1)), self.update(self.host("10.0.0.2", 2))]
        codes, messages = self.write([good[0]] + [b[0] for b in bad] + [good[1], good[1]])
        self.assertEqual(codes, ["OK"] + [b[1] for b in bad] + ["OK", "ALREADY_EXISTS"], messages)
        for (_, _, part), message in zip(bad, messages[1:]):
            self.assertIn(part, message)
        # The valid updates were carried out.
        self.assertEqual(len(list(sh.TableEntry("Lookup.hosts").read())), 2)

    def test_all_or_nothing(self):
        for atomicity in (p4.WriteRequest.ROLLBACK_ON_ERROR, p4.WriteRequest.DATAPLANE_ATOMIC):
            good = self.update(self.host("10.0.0.1", 1))
            codes, _ = self.write([good, self.bad()[0][0], good], atomicity=atomicity)
            self.assertEqual(codes, ["ABORTED", "INVALID_ARGUMENT", "ABORTED"])
            self.assertEqual(list(sh.TableEntry("Lookup.hosts").read()), [])

    def test_large_batches(self):
        def routes(count):
            for n in range(count):
                entry = sh.TableEntry("Lookup.routes")(action="Lookup.route_is")
                entry.match["dst"] = f"10.{n // 250}.{n % 250}.0/24"
                entry.action.set(value=str(n), mac="1")
                yield self.update(entry)

        self.assertEqual(self.write(list(routes(64))), ([], []))
        self.assertEqual(len(list(sh.TableEntry("Lookup.routes").read())), 64)
        codes, messages = self.write(list(routes(64)))
        self.assertEqual(codes, ["ALREADY_EXISTS"] * 64)
        self.assertEqual({message[:12] for message in messages}, {"table Lookup"}, "shortened, but there")
        # Of more updates the codes arrive, with the 8 KiB of headers that a client accepts by default.
        for count in (100, 200):
            codes, _ = self.write(list(routes(count)))
            # The table has room for 64 entries.
            self.assertEqual(codes, ["ALREADY_EXISTS"] * 64 + ["RESOURCE_EXHAUSTED"] * (count - 64))
        # The details of very many do not fit what gRPC clients accept; that it failed must be clear all the same.
        for count in (500, 2000):
            updates = [self.bad()[0][0]] * count
            request = p4.WriteRequest(device_id=1, updates=updates)
            request.election_id.low = ELECTION[1]
            with self.assertRaises(grpc.RpcError) as caught:
                sh.client.stub.Write(request)
            self.assertEqual(caught.exception.code(), grpc.StatusCode.UNKNOWN)
            self.assertIn(f"{count} of {count} updates failed", caught.exception.details())
            self.assertIn("smaller batches", caught.exception.details())


class Sessions(Case):
    """Several controllers at once."""

    def stream(self, election, device=1, role=None):
        """Another controller: its stub and its stream."""
        request = p4.StreamMessageRequest()
        request.arbitration.device_id = device
        if election is not None:
            request.arbitration.election_id.low = election
        if role is not None:
            request.arbitration.role.name = role
        channel = grpc.insecure_channel(TARGET)
        self.addCleanup(channel.close)
        stub = p4runtime_pb2_grpc.P4RuntimeStub(channel)
        out = queue.Queue()
        out.put(request)
        call = stub.StreamChannel(iter(out.get, None), timeout=PATIENCE)
        self.addCleanup(out.put, None)
        return stub, call

    def status(self, call):
        message = next(call)
        self.assertEqual(message.WhichOneof("update"), "arbitration")
        return code_pb2.Code.Name(message.arbitration.status.code), message.arbitration.election_id.low

    def fails(self, code, part, function, *args):
        with self.assertRaises(grpc.RpcError) as caught:
            function(*args)
        self.assertEqual(caught.exception.code().name, code, caught.exception.details())
        self.assertIn(part, caught.exception.details())

    def write(self, stub, election, device=1, **fields):
        request = p4.WriteRequest(device_id=device, **fields)
        if election is not None:
            request.election_id.low = election
        update = request.updates.add(type=p4.Update.INSERT)
        update.entity.table_entry.CopyFrom(self.host("10.0.0.1", 1).msg())
        stub.Write(request)

    def test_a_backup_reads_and_does_not_write(self):
        stub, call = self.stream(5)
        self.assertEqual(self.status(call), ("ALREADY_EXISTS", 10))
        self.fails("PERMISSION_DENIED", "not the primary", self.write, stub, 5)
        self.fails("PERMISSION_DENIED", "no election id", self.write, stub, None)
        request = p4.ReadRequest(device_id=1)
        request.entities.add().table_entry.table_id = 0
        entities = [e for r in stub.Read(request) for e in r.entities]
        self.assertEqual(len(entities), 2, "a wildcard read of all tables: the const entries")
        config = p4.SetForwardingPipelineConfigRequest(device_id=1)
        config.action = config.VERIFY_AND_COMMIT
        config.election_id.low = 5
        self.fails("PERMISSION_DENIED", "not the primary", stub.SetForwardingPipelineConfig, config)
        # The primary is as it was.
        self.host("10.0.0.2", 2).insert()

    def test_an_election_id_in_use(self):
        _, call = self.stream(10)
        self.fails("INVALID_ARGUMENT", "Election id 10 is already used", next, call)

    def test_without_an_election_id(self):
        _, call = self.stream(None)
        self.assertEqual(self.status(call), ("ALREADY_EXISTS", 10))

    def test_another_device(self):
        stub, call = self.stream(11, device=7)
        self.fails("NOT_FOUND", "this is device 1, not 7", next, call)
        self.fails("NOT_FOUND", "this is device 1, not 7", self.write, stub, 10, 7)
        read = stub.Read(p4.ReadRequest(device_id=7))
        self.fails("NOT_FOUND", "this is device 1, not 7", list, read)
        get = p4.GetForwardingPipelineConfigRequest(device_id=7)
        self.fails("NOT_FOUND", "this is device 1, not 7", stub.GetForwardingPipelineConfig, get)

    def test_roles_have_primaries_of_their_own(self):
        stub, call = self.stream(3, role="routing")
        self.assertEqual(self.status(call), ("OK", 3))
        self.write(stub, 3, role="routing")
        self.fails("NOT_FOUND", "stranger", lambda: self.write(stub, 3, role="stranger"))

    def test_the_pipeline_can_be_asked_for(self):
        get = p4.GetForwardingPipelineConfigRequest(device_id=1)
        get.response_type = get.COOKIE_ONLY
        config = sh.client.stub.GetForwardingPipelineConfig(get).config
        self.assertFalse(config.HasField("p4info"))
        self.assertEqual(len(config.p4_device_config), 0)
        get.response_type = get.ALL
        config = sh.client.stub.GetForwardingPipelineConfig(get).config
        with open(CONFIG, "rb") as f:
            self.assertEqual(config.p4_device_config, f.read())
        self.assertEqual(len(config.p4info.tables), 5)
        self.assertRegex(sh.APIVersion(), r"^1\.\d+\.\d+$")

    def test_pipelines_that_are_refused(self):
        self.host("10.0.0.1", 1).insert()
        with open(CONFIG, "rb") as f:
            source = f.read()
        broken = source.replace(b"hosts.apply();", b"hosts.aply();")
        another = source.replace(b"host_is(bit<32> value)", b"host_is(bit<16> value)")
        another = another.replace(b"meta.host = value;", b"meta.host = (bit<32>)value;")
        for name, config, part in [
            ("garbage", b"\x00\xff\x7fELF", "P4 source"),
            ("empty", b"", "empty"),
            ("broken", broken, "p4_device_config:"),
            ("another", another, "action Lookup.host_is is [1 value (32 bits)] in p4info, [1 value (16 bits)] in the program"),
        ]:
            path = f"{CONFIG}.{name}"
            with open(path, "wb") as f:
                f.write(config)
            with self.subTest(name), self.assertRaises(P4RuntimeException) as caught:
                sh.client.set_fwd_pipe_config(P4INFO, path)
            self.assertEqual(caught.exception.grpc_error.code(), grpc.StatusCode.INVALID_ARGUMENT)
            self.assertIn(part, caught.exception.grpc_error.details())
        # The old one runs on, with its entries.
        self.assertEqual(self.lookup("10.0.0.1")[0][0], 1)


class Takeover(Case):
    def test_a_higher_election_id_takes_over(self):
        helper = Sessions("test_a_backup_reads_and_does_not_write")
        self.addCleanup(helper.doCleanups)
        stub, call = helper.stream(20)
        self.assertEqual(helper.status(call), ("OK", 20))
        # The old primary hears of it and may not write any more.
        message = sh.client.get_stream_packet("arbitration", timeout=PATIENCE)
        self.assertEqual(code_pb2.Code.Name(message.arbitration.status.code), "ALREADY_EXISTS")
        self.assertEqual(message.arbitration.election_id.low, 20)
        with self.assertRaises(grpc.RpcError) as caught:
            self.host("10.0.0.1", 1).insert()
        self.assertEqual(caught.exception.code(), grpc.StatusCode.PERMISSION_DENIED)
        helper.write(stub, 20)
        # When the new one goes without a word, the old one hears that too.
        call.cancel()
        message = sh.client.get_stream_packet("arbitration", timeout=PATIENCE)
        self.assertEqual(code_pb2.Code.Name(message.arbitration.status.code), "NOT_FOUND")


if __name__ == "__main__":
    unittest.main()
