"""What port-forward says over a WebSocket, byte by byte."""

from __future__ import annotations

import pytest
from cluster.process_kubelet import websocket as server
from hypothesis import given
from hypothesis import strategies as st

from lancegpu_sql.placement.kubernetes.frames import (
    BrokenFrames,
    FrameReader,
    data_frame,
    goodbye,
    is_accepted,
    request_headers,
)

GREETING = server.frame(server.BINARY, b"\x00\x1e\xb5") + server.frame(server.BINARY, b"\x01\x1e\xb5")


def sent(*messages: bytes) -> bytes:
    """What a kubelet sends: the port's number on both channels, then the messages."""
    return GREETING + b"".join(server.frame(server.BINARY, message) for message in messages)


@given(pieces=st.lists(st.binary(min_size=1, max_size=70_000), max_size=4), cuts=st.lists(st.integers(1, 9000)))
def test_bytes_arrive_however_they_are_cut(pieces: list[bytes], cuts: list[int]):
    reader, arrived = FrameReader(), bytearray()
    stream = sent(*(b"\x00" + piece for piece in pieces))
    for cut in [*cuts, len(stream)]:
        arrived += reader.feed(stream[:cut]).data
        stream = stream[cut:]
    assert arrived == b"".join(pieces)


@pytest.mark.parametrize("size", [0, 1, 124, 125, 126, 65_534, 65_535, 65_536, 1_000_000])
def test_a_server_reads_what_is_sent(size: int):
    data = bytes(range(256)) * (size // 256) + bytes(size % 256)
    assert list(server.FrameReader().feed(data_frame(data))) == [(server.BINARY, b"\x00" + data)]


def test_a_goodbye_is_read_as_one():
    assert list(server.FrameReader().feed(goodbye())) == [(server.CLOSE, b"\x03\xe8")]


def test_a_message_in_several_frames_is_put_together():
    begun = bytearray(server.frame(server.BINARY, b"\x00one "))
    begun[0] &= 0x7F  # not the last
    arrived = FrameReader().feed(GREETING + bytes(begun) + server.frame(server.CONTINUATION, b"two"))
    assert arrived.data == b"one two"


def test_a_kubelets_trouble_is_told():
    arrived = FrameReader().feed(sent(b"\x01error forwarding port 7861"))
    assert (arrived.trouble, arrived.data, arrived.ended) == ("error forwarding port 7861", b"", False)


def test_a_goodbye_ends_it_and_what_came_before_is_kept():
    arrived = FrameReader().feed(sent(b"\x00last words") + server.frame(server.CLOSE, b"\x03\xe8"))
    assert (arrived.data, arrived.ended) == (b"last words", True)


def test_a_ping_is_answered_with_its_own_words():
    arrived = FrameReader().feed(server.frame(server.PING, b"there?"))
    assert list(server.FrameReader().feed(arrived.answers)) == [(server.PONG, b"there?")]


@pytest.mark.parametrize(
    "stream",
    [
        server.frame(3, b""),
        server.frame(server.CONTINUATION, b"of nothing"),
        data_frame(b"masked"),
        b"\x82\x7f" + (1 << 40).to_bytes(8, "big"),
    ],
)
def test_what_is_no_such_frame_is_refused(stream: bytes):
    with pytest.raises(BrokenFrames):
        FrameReader().feed(stream)


def test_an_answer_must_be_one_to_this_request_and_for_this_protocol():
    asked = request_headers()
    answer = server.handshake(asked["Sec-WebSocket-Key"], asked["Sec-WebSocket-Protocol"])
    accept, protocol = answer["Sec-WebSocket-Accept"], answer["Sec-WebSocket-Protocol"]
    assert is_accepted(asked, accept, protocol)
    assert not is_accepted(request_headers(), accept, protocol)
    assert not is_accepted(asked, accept, None)
