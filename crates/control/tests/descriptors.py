"""Compares a serialized FileDescriptorSet with the definitions in the PyPI package `p4runtime`.

usage: descriptors.py FILE

Every message, enum and service of either side must be on the other one, and every field must have the same name,
number, type, label and oneof. Exit status 0: equal; 1: differences, one a line; 77: `p4runtime` is not installed.
"""

import os
import sys

# The package's generated code is older than current protobuf runtimes allow, except for the pure Python one.
os.environ["PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"] = "python"

try:
    from google.protobuf import descriptor_pb2
    from google.rpc import status_pb2
    from p4.config.v1 import p4info_pb2, p4types_pb2
    from p4.v1 import p4data_pb2, p4runtime_pb2
except ImportError as error:
    print(error)
    sys.exit(77)

THEIRS = [status_pb2, p4types_pb2, p4info_pb2, p4data_pb2, p4runtime_pb2]


def facts_of_message(prefix, message, facts):
    name = f"{prefix}.{message.name}"
    facts[name] = "message"
    oneofs = [o.name for o in message.oneof_decl]
    for field in message.field:
        facts[f"{name}.{field.name}"] = (
            "field",
            field.number,
            descriptor_pb2.FieldDescriptorProto.Type.Name(field.type),
            field.type_name,
            descriptor_pb2.FieldDescriptorProto.Label.Name(field.label),
            oneofs[field.oneof_index] if field.HasField("oneof_index") else None,
        )
    for nested in message.nested_type:
        facts_of_message(name, nested, facts)
    for enum in message.enum_type:
        facts_of_enum(name, enum, facts)


def facts_of_enum(prefix, enum, facts):
    name = f"{prefix}.{enum.name}"
    facts[name] = "enum"
    for value in enum.value:
        facts[f"{name}.{value.name}"] = ("value", value.number)


def facts_of_file(file, facts):
    prefix = f".{file.package}"
    for message in file.message_type:
        facts_of_message(prefix, message, facts)
    for enum in file.enum_type:
        facts_of_enum(prefix, enum, facts)
    for service in file.service:
        for method in service.method:
            facts[f"{prefix}.{service.name}.{method.name}"] = (
                "method",
                method.input_type,
                method.output_type,
                method.client_streaming,
                method.server_streaming,
            )


def main(path):
    with open(path, "rb") as file:
        ours_set = descriptor_pb2.FileDescriptorSet.FromString(file.read())
    ours, theirs = {}, {}
    for file in ours_set.file:
        if not file.package.startswith("google.protobuf"):
            facts_of_file(file, ours)
    for module in THEIRS:
        proto = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(proto)
        facts_of_file(proto, theirs)
    differences = 0
    for name in sorted(ours.keys() | theirs.keys()):
        if ours.get(name) != theirs.get(name):
            print(f"{name}: ours {ours.get(name)}, theirs {theirs.get(name)}")
            differences += 1
    if differences == 0:
        print(f"{len(ours)} facts agree")
    return 1 if differences else 0


sys.exit(main(sys.argv[1]))
