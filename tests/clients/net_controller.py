"""A controller as those of p4lang/tutorials, for the switch s1 of examples/net/pair.json: the arguments are P4Info and device config."""

import queue
import sys

import grpc
from google.protobuf import text_format
from p4.config.v1 import p4info_pb2
from p4.tmp import p4config_pb2
from p4.v1 import p4runtime_pb2 as p4rt
from p4.v1 import p4runtime_pb2_grpc

SERVER = "127.0.0.1:50051"
DEVICE = 0
MACS = {1: "02:00:00:00:00:01", 2: "02:00:00:00:00:02"}


def wrapped(program: bytes) -> bytes:
    """The program as the tutorials' library wraps it."""
    config = p4config_pb2.P4DeviceConfig()
    config.reassign = True
    config.device_data = program
    encoded = config.SerializeToString()
    # Field 1 is a number, field 3 has a length.
    assert encoded.startswith(b"\x08\x01\x1a") and encoded.endswith(program)
    return encoded


def main(p4info_path: str, config_path: str) -> None:
    with open(p4info_path) as file:
        info = text_format.Parse(file.read(), p4info_pb2.P4Info())
    with open(config_path, "rb") as file:
        config = wrapped(file.read())
    channel = grpc.insecure_channel(SERVER)
    # The switch may still be starting.
    grpc.channel_ready_future(channel).result(timeout=10)
    stub = p4runtime_pb2_grpc.P4RuntimeStub(channel)
    outgoing = queue.Queue()
    answers = stub.StreamChannel(iter(outgoing.get, None))
    hello = p4rt.StreamMessageRequest()
    hello.arbitration.device_id = DEVICE
    hello.arbitration.election_id.low = 1
    outgoing.put(hello)
    assert next(answers).arbitration.status.code == 0

    request = p4rt.SetForwardingPipelineConfigRequest(device_id=DEVICE)
    request.election_id.low = 1
    request.action = p4rt.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT
    request.config.p4info.CopyFrom(info)
    request.config.p4_device_config = config
    stub.SetForwardingPipelineConfig(request)

    table = next(t for t in info.tables if t.preamble.alias == "forward")
    send = next(a for a in info.actions if a.preamble.alias == "send")
    for port, mac in MACS.items():
        request = p4rt.WriteRequest(device_id=DEVICE)
        request.election_id.low = 1
        update = request.updates.add(type=p4rt.Update.INSERT)
        entry = update.entity.table_entry
        entry.table_id = table.preamble.id
        entry.match.add(field_id=1).exact.value = bytes.fromhex(mac.replace(":", ""))
        entry.action.action.action_id = send.preamble.id
        # As p4runtime_lib encodes values: with leading zeros.
        entry.action.action.params.add(param_id=1, value=port.to_bytes(2, "big"))
        stub.Write(request)
    request = p4rt.WriteRequest(device_id=DEVICE)
    request.election_id.low = 1
    group = request.updates.add(type=p4rt.Update.INSERT).entity.packet_replication_engine_entry.multicast_group_entry
    group.multicast_group_id = 1
    for port in MACS:
        group.replicas.add(egress_port=port, instance=1)
    stub.Write(request)
    outgoing.put(None)


if __name__ == "__main__":
    main(*sys.argv[1:])
