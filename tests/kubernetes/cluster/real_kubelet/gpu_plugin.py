"""``python -m cluster.real_kubelet.gpu_plugin RESOURCE COUNT``: a device plugin whose GPUs are simulated.

It does what NVIDIA's does for a kubelet: lists devices, and answers an allocation with an environment variable that names
them. Of the protocol (k8s.io/kubelet, deviceplugin/v1beta1) it needs four small messages, which are coded here by hand.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc

FOLDER = Path("/var/lib/kubelet/device-plugins")
KUBELET = FOLDER / "kubelet.sock"
OWN = "simulated-gpus.sock"
VARIABLE = "NVIDIA_VISIBLE_DEVICES"
POLL_SECONDS = 0.02
_LENGTH_DELIMITED = 2


class SimulatedGpus:
    """The plugin's side of the protocol."""

    def __init__(self, count: int) -> None:
        self._ids = [f"simulated-gpu-{number}" for number in range(count)]

    def options(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        """Nothing that a kubelet needs to know, or do before a container starts."""
        return b""

    def list_and_watch(self, request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        """All devices, healthy; the stream stays open, as it says that the plugin lives."""
        yield b"".join(_field(1, _field(1, one) + _field(2, "Healthy")) for one in self._ids)
        ended = threading.Event()
        if context.add_callback(ended.set):
            ended.wait()

    def allocate(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        """The environment of each container, by the devices that it gets."""
        answer = b""
        for container in _fields(request, 1):
            ids = ",".join(one.decode() for one in _fields(container, 1))
            answer += _field(1, _field(1, _field(1, VARIABLE) + _field(2, ids)))
        return answer


def serve(resource: str, count: int) -> grpc.Server:
    """Listen, and make oneself known to the kubelet as soon as that listens."""
    plugin = SimulatedGpus(count)
    server = grpc.server(ThreadPoolExecutor(4))
    handlers = {
        "GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(plugin.options),
        "PreStartContainer": grpc.unary_unary_rpc_method_handler(plugin.options),
        "ListAndWatch": grpc.unary_stream_rpc_method_handler(plugin.list_and_watch),
        "Allocate": grpc.unary_unary_rpc_method_handler(plugin.allocate),
    }
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", handlers)])
    while not KUBELET.exists():  # it empties the folder when it starts
        time.sleep(POLL_SECONDS)
    server.add_insecure_port(f"unix://{FOLDER / OWN}")
    server.start()
    with grpc.insecure_channel(f"unix://{KUBELET}") as channel:
        register = channel.unary_unary("/v1beta1.Registration/Register")
        register(_field(1, "v1beta1") + _field(2, OWN) + _field(3, resource), wait_for_ready=True, timeout=10)
    return server


def _field(number: int, value: bytes | str) -> bytes:
    """One field of a message: its number, its length, and what it holds."""
    content = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | _LENGTH_DELIMITED) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    """Seven bits a byte, the last one without the eighth."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _fields(message: bytes, wanted: int) -> Iterator[bytes]:
    """The fields of one number in a message that has no others than such as `_field` makes."""
    at = 0
    while at < len(message):
        key, at = _read_varint(message, at)
        length, at = _read_varint(message, at)
        if key >> 3 == wanted:
            yield message[at : at + length]
        at += length


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2])).wait_for_termination()
