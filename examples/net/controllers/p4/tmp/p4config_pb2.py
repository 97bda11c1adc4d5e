"""The message P4DeviceConfig, in which controllers of p4lang/tutorials send a program to a switch. PI has it; no package on PyPI does."""

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

NAME = "p4.tmp.P4DeviceConfig"


def message_class():
    """The class of the message, whichever version of protobuf is installed."""
    file = descriptor_pb2.FileDescriptorProto(name="p4/tmp/p4config.proto", package="p4.tmp", syntax="proto3")
    message = file.message_type.add(name="P4DeviceConfig")
    field = descriptor_pb2.FieldDescriptorProto
    for name, number, kind in [("reassign", 1, field.TYPE_BOOL), ("device_data", 3, field.TYPE_BYTES)]:
        message.field.add(name=name, number=number, type=kind, label=field.LABEL_OPTIONAL)
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    descriptor = pool.FindMessageTypeByName(NAME)
    if hasattr(message_factory, "GetMessageClass"):
        return message_factory.GetMessageClass(descriptor)
    return message_factory.MessageFactory(pool).GetPrototype(descriptor)


P4DeviceConfig = message_class()
