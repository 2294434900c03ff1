#!/usr/bin/python3
"""
A requester in the wire protocol as kvproto.py reads it from the manual.

usage: kvraw.py ADDR put KEY VALUE     a small value, in the message
       kvraw.py ADDR get KEY           prints it
       kvraw.py ADDR tcp KEY SIZE      puts and gets over a data connection
       kvraw.py ADDR shm KEY SIZE      puts and gets through the mapping
       kvraw.py ADDR hold KEY          pins KEY, reserves space, says
                                       "holding" and sleeps
       kvraw.py ADDR wait KEY          reserves space and waits for the answer
       kvraw.py ADDR stat NAME...      prints counters

ADDR is HOST:PORT or the path of a socket.
"""

import array
import mmap
import os
import socket
import struct
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from kvproto import HEADER, Frame, More, build, pack, unpack  # noqa: E402

STATUS_OK = 0
SHM, DATA = 1, 2
INLINE, EXTENTS = 1, 2


class Failed(Exception):
    pass


class Conn:
    """A connection after its HELLO."""

    def __init__(self, addr, boot, role=1, token=0):
        if addr.startswith('/'):
            self.sock = socket.socket(socket.AF_UNIX)
            self.sock.connect(addr)
        else:
            host, port = addr.rsplit(':', 1)
            self.sock = socket.create_connection((host or '127.0.0.1', port))
        self.sock.settimeout(20)
        self.bytes, self.fds, self.next = b'', array.array('i'), 1
        hello = self.ask('HELLO', {'version_min': 1, 'version_max': 1,
                                   'role': role, 'boot': boot,
                                   'token': token, 'pid': os.getpid()})
        self.token = hello['token']

    def send(self, name, body, tail=b'', payload=b''):
        self.next += 1
        self.sock.sendall(build(name, body, tail, self.next,
                                payload=len(payload)) + payload)

    def more(self):
        got, fds, _, _ = socket.recv_fds(self.sock, 1 << 20, 4)
        if not got:
            raise Failed('the connection was closed')
        self.fds.extend(fds)
        self.bytes += got

    def read(self, n):
        while len(self.bytes) < n:
            self.more()
        got, self.bytes = self.bytes[:n], self.bytes[n:]
        return got

    def frame(self):
        while True:
            try:
                frame = Frame(self.bytes)
                break
            except More:
                self.more()
        self.bytes = self.bytes[frame.length:]
        frame.fields = dict(unpack(frame.kind.body, frame.body))
        frame.bytes = self.read(frame.payload)
        return frame

    def answer(self, name):
        frame = self.frame()
        if frame.kind.name != name:
            raise Failed(f'{frame.kind.name} instead of {name}')
        return frame

    def ask(self, name, body, tail=b''):
        self.send(name, body, tail)
        fields = self.answer(name + '_R').fields
        if fields['status'] != STATUS_OK:
            raise Failed(f'{name}: status {fields["status"]}')
        return fields


class Node:
    def __init__(self, addr):
        self.addr, self.boot = addr, os.urandom(16)
        self.conn = Conn(addr, self.boot)
        self.data, self.map = None, None

    def use_data(self):
        self.data = Conn(self.addr, self.boot, 2, self.conn.token)

    def use_map(self):
        attached = self.conn.ask('ATTACH', {'flags': 1})
        self.map = mmap.mmap(self.conn.fds[0], attached['pool_bytes'])

    def put_begin(self, key, size, value=None):
        entry = {'size': size, 'key_len': len(key)}
        if value is not None:
            entry['flags'] = 1
        self.conn.send('PUT', {
            'put_id': {'random': int.from_bytes(os.urandom(8), 'little')},
            'count': 1, 'budget_ms': 10000, 'mode': SHM if self.map else DATA,
            'data_token': self.data.token if self.data else 0},
            pack('put_ent', entry) + key + (value or b''))

    def grant(self):
        tail = self.conn.answer('GRANT_R').tail
        grant = dict(unpack('grant_ent', tail[:16]))
        extents = [struct.unpack_from('<QQ', tail, 16 + 16 * i)
                   for i in range(grant['extents'])]
        return grant['grant'], extents

    def put_end(self):
        status = self.conn.answer('PUT_R').tail
        if status != bytes([STATUS_OK]):
            raise Failed(f'PUT: status {status[0]}')

    def get(self, key, zero_copy=False):
        """The entry of the answer, and what follows it."""
        self.conn.send('GET', {
            'count': 1, 'budget_ms': 10000, 'inline_max': 65536,
            'mode': SHM if self.map else DATA, 'flags': int(zero_copy),
            'data_token': self.data.token if self.data else 0},
            pack('get_ent', {'len': 1 << 40, 'key_len': len(key)}) + key)
        tail = self.conn.answer('GET_R').tail
        size = len(pack('get_ent_r', {}))
        entry = dict(unpack('get_ent_r', tail[:size]))
        if entry['status'] != STATUS_OK:
            raise Failed(f'GET: status {entry["status"]}')
        return entry, tail[size:]

    def mapped(self, tail, entry):
        extents = [struct.unpack_from('<QQ', tail, 16 * i)
                   for i in range(entry['extents'])]
        return b''.join(self.map[off:off + n] for off, n in extents)


def put(node, key, value):
    node.put_begin(key, len(value), value)
    node.put_end()


def get(node, key):
    _, value = node.get(key)
    sys.stdout.buffer.write(value + b'\n')


def over_tcp(node, key, size):
    value = os.urandom(int(size))
    node.use_data()
    node.put_begin(key, len(value))
    grant, _ = node.grant()
    half = len(value) // 2
    for off, part in (0, value[:half]), (half, value[half:]):
        node.data.send('DATA', {'ref': grant, 'off': off}, b'', part)
    node.put_end()
    node.get(key)
    got = b''
    while len(got) < len(value):
        frame = node.data.answer('DATA')
        if frame.fields['off'] != len(got):
            raise Failed('a gap')
        got += frame.bytes
    if got != value:
        raise Failed('other bytes')


def in_place(node, key, size):
    value = os.urandom(int(size))
    node.use_map()
    node.put_begin(key, len(value))
    grant, extents = node.grant()
    at = 0
    for off, n in extents:
        part = value[at:at + n]
        node.map[off:off + len(part)] = part
        at += n
    node.conn.send('FILLED', {'count': 1}, struct.pack('<Q', grant))
    node.put_end()
    entry, tail = node.get(key, True)
    if node.mapped(tail, entry) != value:
        raise Failed('other bytes')
    node.conn.send('RELEASE', {'count': 1}, struct.pack('<Q', entry['pin']))


def hold(node, key):
    node.use_map()
    node.get(key, True)
    node.put_begin(b'held', 100000)
    node.grant()
    print('holding', flush=True)
    time.sleep(1000)


def wait(node, key):
    node.use_map()
    node.put_begin(key, 100000)
    node.grant()
    print('waiting', flush=True)
    node.put_end()


def stat(node, *names):
    node.conn.send('STATS', {})
    tail = node.conn.answer('STATS_R').tail
    lines = dict(line.split() for line in tail.decode().splitlines())
    print(*(lines[n.decode()] for n in names))


COMMANDS = {'put': put, 'get': get, 'tcp': over_tcp, 'shm': in_place,
            'hold': hold, 'wait': wait, 'stat': stat}


def main(argv):
    try:
        COMMANDS[argv[2]](Node(argv[1]), *map(os.fsencode, argv[3:]))
    except (Failed, OSError) as e:
        sys.exit(f'kvraw: {e}')


if __name__ == '__main__':
    assert HEADER == 32
    main(sys.argv)
