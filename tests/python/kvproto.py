#!/usr/bin/python3
"""
The wire protocol a second time, from man/kvproto.7 alone: tables of messages
and fields are read from that page, sums and checks are written after its text.
What this and lib/wire agree on is what the page says.

usage: kvproto.py dump FILE...       what each frame is, one line each
       kvproto.py fields FILE...     and what is in its body
       kvproto.py kinds              the types with their lengths
       kvproto.py layout             the fields of each struct, by the page
       kvproto.py headers FILE...    the same, by lib/wire/proto*.h
       kvproto.py statuses           the statuses
       kvproto.py seeds FOLDER       writes a frame of each type
       kvproto.py random SEED FOLDER writes frames that differ with the seed
"""

import os
import random
import re
import struct
import sys

M64 = (1 << 64) - 1
PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                    '../../man/kvproto.7')

# ---- XXH3-64 ----

SECRET = bytes.fromhex(
    'b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f'
    'cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c'
    '3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8'
    'a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364'
    'eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e'
    '2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e')
P32 = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
P64 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9,
       0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)


def r32(b, at):
    return int.from_bytes(b[at:at + 4], 'little')


def r64(b, at):
    return int.from_bytes(b[at:at + 8], 'little')


def fold(a, b):
    product = a * b
    return (product & M64) ^ (product >> 64)


def avalanche(h):
    h ^= h >> 37
    h = h * 0x165667919E3779F9 & M64
    return h ^ h >> 32


def avalanche64(h):
    h ^= h >> 33
    h = h * P64[1] & M64
    h ^= h >> 29
    h = h * P64[2] & M64
    return h ^ h >> 32


def rot(x, n):
    return (x << n | x >> (64 - n)) & M64


def xxh3_short(b, seed):
    n = len(b)
    if n == 0:
        return avalanche64(seed ^ r64(SECRET, 56) ^ r64(SECRET, 64))
    if n <= 3:
        combo = b[0] << 16 | b[n >> 1] << 24 | b[-1] | n << 8
        return avalanche64(
            combo ^ ((r32(SECRET, 0) ^ r32(SECRET, 4)) + seed & M64))
    if n <= 8:
        swapped = int.from_bytes((seed & 0xffffffff).to_bytes(4, 'big'),
                                 'little')
        seed ^= swapped << 32
        key = (r64(SECRET, 8) ^ r64(SECRET, 16)) - seed & M64
        h = (r32(b, n - 4) + (r32(b, 0) << 32)) ^ key
        h ^= rot(h, 49) ^ rot(h, 24)
        h = h * 0x9FB21C651E98DF25 & M64
        h ^= (h >> 35) + n
        h = h * 0x9FB21C651E98DF25 & M64
        return h ^ h >> 28
    lo = r64(b, 0) ^ ((r64(SECRET, 24) ^ r64(SECRET, 32)) + seed & M64)
    hi = r64(b, n - 8) ^ ((r64(SECRET, 40) ^ r64(SECRET, 48)) - seed & M64)
    swapped = int.from_bytes(lo.to_bytes(8, 'big'), 'little')
    return avalanche(n + swapped + hi + fold(lo, hi) & M64)


def mix16(b, at, secret_at, seed):
    return fold(r64(b, at) ^ (r64(SECRET, secret_at) + seed & M64),
                r64(b, at + 8) ^ (r64(SECRET, secret_at + 8) - seed & M64))


def xxh3_middle(b, seed):
    n = len(b)
    acc = n * P64[0] & M64
    if n <= 128:
        for i in reversed(range((n - 1) // 32 + 1)):
            acc += mix16(b, 16 * i, 32 * i, seed)
            acc += mix16(b, n - 16 * (i + 1), 32 * i + 16, seed)
        return avalanche(acc & M64)
    for i in range(8):
        acc += mix16(b, 16 * i, 16 * i, seed)
    acc = avalanche(acc & M64)
    for i in range(8, n // 16):
        acc += mix16(b, 16 * i, 16 * (i - 8) + 3, seed)
    acc += mix16(b, n - 16, 136 - 17, seed)
    return avalanche(acc & M64)


def xxh3_long(b, seed):
    secret = b''.join(
        struct.pack('<QQ', r64(SECRET, at) + seed & M64,
                    r64(SECRET, at + 8) - seed & M64)
        for at in range(0, 192, 16))
    acc = [P32[2], P64[0], P64[1], P64[2], P64[3], P32[1], P64[4], P32[0]]

    def stripe(at, secret_at):
        for i in range(8):
            data = r64(b, at + 8 * i)
            key = data ^ r64(secret, secret_at + 8 * i)
            acc[i ^ 1] = acc[i ^ 1] + data & M64
            acc[i] = acc[i] + (key & 0xffffffff) * (key >> 32) & M64

    per_block = (192 - 64) // 8
    blocks = (len(b) - 1) // (64 * per_block)
    for block in range(blocks):
        for i in range(per_block):
            stripe((block * per_block + i) * 64, 8 * i)
        for i in range(8):
            a = acc[i] ^ acc[i] >> 47 ^ r64(secret, 192 - 64 + 8 * i)
            acc[i] = a * P32[0] & M64
    start = blocks * per_block * 64
    for i in range((len(b) - 1 - start) // 64):
        stripe(start + 64 * i, 8 * i)
    stripe(len(b) - 64, 192 - 64 - 7)
    h = len(b) * P64[0]
    for i in range(4):
        h += fold(acc[2 * i] ^ r64(secret, 11 + 16 * i),
                  acc[2 * i + 1] ^ r64(secret, 11 + 16 * i + 8))
    return avalanche(h & M64)


def xxh3(b, seed=0):
    if len(b) <= 16:
        return xxh3_short(b, seed)
    return xxh3_middle(b, seed) if len(b) <= 240 else xxh3_long(b, seed)


# ---- the page ----

SIZES = {'u8': 1, 'le16': 2, 'le32': 4, 'le64': 8, 'id': 16}


class Kind:
    def __init__(self, number, name):
        self.number, self.name = number, name
        self.body = self.bytes = self.least = self.most = None
        self.payload = False


def read_page(path=PAGE):
    """Kinds by number and by name, struct name -> [(type, count, field)]."""
    by_number, by_name, structs, statuses = {}, {}, {}, []
    section = sub = None
    with open(path, encoding='ascii') as page:
        for line in page:
            if line.startswith('.Sh '):
                section, sub = line[4:].strip(), None
            elif line.startswith('.Ss '):
                sub = line[4:].strip()
                structs[sub] = []
            if not line.startswith('.It ') or ' Ta' not in line:
                continue
            cells = [c.strip() for c in re.split(r' Ta ?', line[4:].strip())]
            if section == 'MESSAGES' and cells[0].isdigit():
                kind = Kind(int(cells[0]), cells[1])
                by_number[kind.number] = by_name[kind.name] = kind
            elif section == 'MESSAGES' and cells[0] in by_name:
                kind = by_name[cells[0]]
                kind.body = cells[1]
                kind.bytes, kind.least, kind.most = map(int, cells[2:5])
                kind.payload = cells[5] == 'yes'
            elif section == 'STATUSES':
                statuses.append((int(cells[1]), cells[0], cells[2]))
            elif section == 'FRAMES' or sub:
                m = re.fullmatch(r'(\w+)(?:\[(\d+)\])?', cells[0])
                structs.setdefault(sub or 'header', []).append(
                    (m.group(1), int(m.group(2) or 1), cells[1]))
    return by_number, by_name, structs, statuses


NUMBERS, KINDS, STRUCTS, STATUSES = read_page()


def read_header(path):
    """The same of one of lib/wire/proto*.h."""
    types = {'uint8_t': 'u8', 'struct kv_le16': 'le16',
             'struct kv_le32': 'le32', 'struct kv_le64': 'le64',
             'struct kv_id': 'id', 'struct kv_put_id': 'put_id',
             'struct kv_generation_le': 'generation'}
    structs = {}
    with open(path, encoding='ascii') as header:
        text = re.sub(r'/\*.*?\*/', '', header.read(), flags=re.S)
    for name, body in re.findall(r'^struct kv_(\w+) \{(.*?)^\};', text,
                                 re.M | re.S):
        structs[name.removesuffix('_le')] = [
            (types[m[0]], int(m[2] or 1), m[1])
            for m in re.findall(r'^\t(uint8_t|struct \w+) (\w+)(?:\[(\d+)\])?;',
                                body, re.M)]
    return structs


def size_of(name):
    if name in SIZES:
        return SIZES[name]
    return sum(size_of(t) * count for t, count, _ in STRUCTS[name])


def pack(name, values):
    """The bytes of a struct; fields that are not in values are zero."""
    known = {field for _, _, field in STRUCTS[name]}
    assert set(values) <= known, (name, values)
    out = b''
    for t, count, field in STRUCTS[name]:
        value = values.get(field, {} if t in STRUCTS else 0)
        for v in value if count > 1 and value else [value] * count:
            if t in STRUCTS:
                out += pack(t, v)
            elif isinstance(v, bytes):
                assert len(v) == SIZES[t]
                out += v
            else:
                out += v.to_bytes(SIZES[t], 'little')
    return out


def unpack(name, b):
    """(field, value) of each; ids as hexadecimal digits."""
    out, at = [], 0
    for t, count, field in STRUCTS[name]:
        for i in range(count):
            part = b[at:at + size_of(t)]
            label = f'{field}[{i}]' if count > 1 else field
            if t in STRUCTS:
                out += [(f'{label}.{f}', v) for f, v in unpack(t, part)]
            elif t == 'id':
                out.append((label, part.hex()))
            else:
                out.append((label, int.from_bytes(part, 'little')))
            at += len(part)
    return out


# ---- frames ----

HEADER = 32
MAGIC = 0x3150564b
VERSION = 1
MORE = 1
PAYLOAD_MAX = 1 << 30


class Refused(Exception):
    pass


class More(Exception):
    pass


def build(name, body, tail=b'', ident=0, flags=0, payload=0):
    """A frame; body is a dict of its fields, or bytes."""
    kind = KINDS[name]
    if not isinstance(body, bytes):
        body = pack(kind.body, body)
    rest = body + tail
    head = struct.pack('<IBBHIIQ', MAGIC, VERSION, flags, kind.number,
                       len(rest), payload, ident)
    head += struct.pack('<I', xxh3(rest, ident ^ kind.number << 48)
                        & 0xffffffff)
    return head + struct.pack('<I', xxh3(head) & 0xffffffff) + rest


class Frame:
    """The frame at the start of some bytes. Raises Refused or More."""

    def __init__(self, b):
        if len(b) < HEADER:
            raise More(HEADER)
        (magic, version, self.flags, number, length, self.payload, self.id,
         body_sum, head_sum) = struct.unpack('<IBBHIIQII', b[:HEADER])
        if magic != MAGIC:
            raise Refused('protocol')
        if version != VERSION:
            raise Refused('version')
        if head_sum != xxh3(b[:HEADER - 4]) & 0xffffffff:
            raise Refused('protocol')
        self.kind = NUMBERS.get(number)
        if not self.is_allowed(number, length):
            raise Refused('protocol')
        self.length = HEADER + length
        if len(b) < self.length:
            raise More(self.length)
        rest = b[HEADER:self.length]
        if body_sum != xxh3(rest, self.id ^ number << 48) & 0xffffffff:
            raise Refused('protocol')
        self.body = rest[:self.kind.bytes]
        self.tail = rest[self.kind.bytes:]

    def is_allowed(self, number, length):
        kind = self.kind
        if not kind or not kind.least <= length - kind.bytes <= kind.most:
            return False
        if self.flags != 0 and (self.flags != MORE or number < 128):
            return False
        return self.payload == 0 or (kind.payload and
                                     self.payload <= PAYLOAD_MAX)


def describe(b):
    try:
        f = Frame(b)
    except Refused as e:
        return f'refused {e}'
    except More as e:
        return f'more {e}'
    return (f'{f.length} {f.kind.name} id={f.id:x} flags={f.flags}'
            f' payload={f.payload} body={f.body.hex()} tail={f.tail.hex()}')


# ---- frames to try with ----

def hash_of(i):
    return bytes((i * 16 + k) & 0xff for k in range(16))


def seeds():
    """(name, body, tail, other arguments of build) of each type."""
    put_id = {'random': 0x1122334455667788, 'version': 2}
    boot, host, key = hash_of(1), hash_of(2), b'model@tp0@0123456789abcdef'
    record = pack('node_rec', {
        'boot': boot, 'host': host, 'state': 2, 'addr_len': 15, 'name_len': 2,
        'masters': 2, 'sessions': 1, 'heard_ms': 700, 'pool_bytes': 1 << 34, 'ready_bytes': 1 << 33,
        'free_bytes': 1 << 30, 'pinned_bytes': 4096, 'keys': 12345,
        'victim_age_ms': 98765}) + b'10.0.0.1:50052n1'
    le64 = struct.Struct('<Q').pack
    generation = {'number': 3, 'random': 0x99aabbccddeeff00}
    news = pack('generation_ent', {'generation': generation,
                                   'tenant_len': 4}) + b'acme'
    pair = pack('extent', {'off': 4096, 'len': 65536}) + pack(
        'extent', {'off': 1 << 30, 'len': 1000})

    yield 'HELLO', {
        'http': list(b'  / HTTP/1.0\r\n\r\n'), 'version_min': 1, 'version_max': 1, 'role': 1, 'tenant_len': 4,
        'name_len': 6, 'boot': boot, 'want': hash_of(3), 'host': host,
        'pid': 4711, 'generation': generation}, b'acmeengine'
    yield 'HELLO_R', {'version': 1, 'text_len': 14, 'boot': hash_of(3),
                      'token': 99, 'generation': generation}, (
        b'10.0.0.1:50051')
    yield 'PING', {'stamp': 1}
    yield 'PING_R', {'stamp': 1}
    yield 'ERROR_R', {'status': 11, 'text_len': 9}, b'bad entry'
    yield 'ATTACH', {'flags': 1}
    yield 'ATTACH_R', {'flags': 1, 'pool_bytes': 1 << 34,
                       'ready_bytes': 1 << 33}
    yield 'PUT', {'put_id': put_id, 'count': 2, 'budget_ms': 5000, 'mode': 1,
                  'flags': 1, 'generation': generation}, (
        pack('put_ent', {'size': 66536, 'key_len': len(key)}) +
        pack('put_ent', {'size': 5, 'key_len': 1, 'flags': 1}) +
        key + b'k' + b'value')
    yield 'PUT_R', {'count': 3, 'generation': generation}, bytes([0, 2, 3])
    yield 'GRANT_R', {'count': 1, 'ready_bytes': 1 << 33}, pack(
        'grant_ent', {'grant': 77, 'index': 0, 'extents': 2}) + pair, {
            'flags': MORE}
    yield 'FILLED', {'count': 2}, le64(77) + le64(78)
    yield 'DATA', {'ref': 77, 'off': 65536, 'index': 0}, b'', {
        'payload': 1 << 20}
    yield 'GET', {'count': 2, 'budget_ms': 5000, 'inline_max': 16384,
                  'mode': 2, 'data_token': 99}, (
        pack('get_ent', {'len': 1 << 21, 'key_len': len(key)}) +
        pack('get_ent', {'off': 100, 'len': 50, 'key_len': 1, 'flags': 2}) +
        key + b'k')
    yield 'GET_R', {'count': 3}, (
        pack('get_ent_r', {'how': 2, 'extents': 2, 'size': 66536, 'pin': 5}) +
        pack('get_ent_r', {'how': 1, 'inline_len': 5, 'size': 5}) +
        pack('get_ent_r', {'status': 1}) + pair + b'value')
    yield 'RELEASE', {'count': 1, 'closed': 99}, le64(5)
    yield 'LOOKUP', {'count': 2, 'flags': 1}, hash_of(8) + hash_of(9)
    yield 'LOOKUP_R', {'count': 2, 'nodes': 1, 'flags': 5}, (
        bytes([1, 0]) + b'\0\0' + record)
    yield 'NODES', {}
    yield 'NODES_R', {'flags': 2, 'count': 2, 'master_keys': 24690,
                      'lacking': 1}, record * 2
    yield 'REPORT', {'boot': boot, 'status': 9}
    yield 'JOIN', {'host': host, 'pool': hash_of(3), 'pool_bytes': 1 << 34,
                   'addr_len': 6, 'name_len': 2, 'masters': 2,
                   'generations': 1}, b':50052n1' + news
    yield 'JOIN_R', {'heartbeat_ms': 1000, 'ttl_ms': 10000, 'stamp': 123456,
                     'missed': 1, 'generations': 2}, news * 2
    yield 'HEARTBEAT', {
        'pool_bytes': 1 << 34, 'ready_bytes': 1 << 33, 'free_bytes': 1 << 30,
        'pinned_bytes': 4096, 'keys': 12345, 'victim_age_ms': 98765,
        'evicted_keys': 3, 'evicted_bytes': 300000, 'put_fails': 1,
        'soft_pinned': 2, 'echo': 123456, 'sessions': 3, 'others': 2}, (
        pack('heartbeat_ent', {
            'boot': hash_of(3), 'stamp': 654321, 'digest': 0xabcdef,
            'nodes': 2, 'listed': 2}) + boot[:8] + hash_of(4)[:8] +
        pack('heartbeat_ent', {
            'boot': hash_of(5), 'stamp': 777, 'digest': 0xfedcba,
            'nodes': 2}))
    yield 'HEARTBEAT_R', {
        'flags': 1, 'nodes': 1, 'digest': 0x123, 'stamp': 123457,
        'listed': 1}, boot[:8]
    entry = {'hash': hash_of(8), 'put_id': put_id}
    yield 'PUBLISH', {'added': 1, 'gone': 1, 'flags': 3}, pack(
        'publish_ent', entry) * 2
    yield 'PUBLISH_R', {'count': 2}, bytes([1, 3])
    yield 'DECIDE', {'count': 1}, pack('decide_ent', dict(entry, verdict=2))
    yield 'CHECK', {'count': 1}, pack('check_ent', dict(
        entry, rival={'random': 5, 'version': 2}, flags=1))
    yield 'CHECK_R', {'count': 2}, bytes([1, 0])
    yield 'WANT', {'count': 1}, hash_of(8)
    yield 'REMOVE', {'op': 1, 'tenant_len': 4, 'count': 2}, (
        b'acme' + struct.pack('<HH', 1, len(key)) + b'k' + key)
    yield 'REMOVE_R', {'count': 2, 'removed': 1, 'away': 1, 'kept': 1,
                       'undecided': 3, 'generation': generation}, (
        bytes([0, 1]) + boot)
    yield 'KEYS', {'node': boot, 'cursor': 64, 'limit': 1000,
                   'pattern_len': 7, 'tenant_len': 4}, b'acme^model@'
    yield 'KEYS_R', {'node': boot, 'next': boot, 'cursor': 128, 'count': 1,
                     'undecided': 2}, (
        pack('keys_ent', {'size': 66536, 'key_len': len(key), 'flags': 5,
                          'putter': 4711}) + key)
    yield 'QUERY', {'key_len': len(key), 'flags': 1}, key
    yield 'QUERY_R', {'count': 1, 'away': 1}, pack('query_rec', {
        'boot': boot, 'size': 66536, 'put_id': put_id, 'pins': 1,
        'idle_ms': 50, 'sum': 0x0123456789abcdef, 'off': 4096, 'extents': 2,
        'flags': 1, 'addr_len': 14, 'name_len': 2}) + b'10.0.0.1:50052n1'
    yield 'STATS', {}
    yield 'STATS_R', {}, b'puts 12\ngets 3456\n'
    yield 'LEAVE', {}
    yield 'GENERATION', {'count': 2}, news * 2
    yield 'REGIONS', {}
    yield 'REGIONS_R', {
        'ports': 2, 'count': 1, 'epoch': 4, 'token_addr': 0x7f0012345000,
        'token': [0x1111111111111111, 0x2222222222222222]}, (
            pack('region_rec', {'addr': 0x7f0000000000, 'len': 1 << 30,
                                'handle': 6, 'flags': 3}) +
            struct.pack('<II', 0x1234, 0x5678))
    piece = pack('xfer_piece', {'handle': 6, 'off': 4096, 'len': 500})
    yield 'XFER', {'op': 1, 'count': 2}, piece * 2, {'payload': 1000}
    yield 'XFER_R', {}, b'', {'payload': 1000}
    yield 'NOTE', {'name_len': 3, 'text_len': 5}, b'reqready'
    yield 'NOTE_R', {}
    yield 'MEMORY', {'handle': 6}
    yield 'MEMORY_R', {'bytes': 1 << 30}
    yield 'RAILS', {'count': 1}, pack('rail_rec', {
        'ip': bytes(10) + bytes([255, 255, 10, 0, 0, 1]), 'port': 18515,
        'bits': 120, 'number': 0, 'mbit_per_s': 400000, 'layer': 2,
        'mtu': 5})
    yield 'QPFENCE', {'qps': 2, 'xfers': 1}, (
        struct.pack('<II', 3, 4) +
        pack('qpfence_xfer', {'number': 17, 'round': 1}))
    yield 'QPFENCE_R', {'qps': 2, 'xfers': 1}, struct.pack('<III', 3, 4, 17)
    end = {'qp': 3, 'qpn': 0x1234, 'psn': 0x654321, 'near': 0, 'far': 1,
           'gid': bytes([254, 128]) + bytes(13) + b'\1', 'layer': 2, 'mtu': 5,
           'initiates': 16, 'responds': 16}
    yield 'QPJOIN', end
    yield 'QPJOIN_R', end
    yield 'QPSTATE', {'qp': 3}


def write(folder, name, frame):
    with open(os.path.join(folder, name), 'wb') as out:
        out.write(frame)


def write_seeds(folder):
    for number, (name, body, *rest) in enumerate(seeds()):
        tail = rest[0] if rest else b''
        more = rest[1] if len(rest) > 1 else {}
        write(folder, name.lower(),
              build(name, body, tail, ident=0x100 + number, **more))


def write_random(seed, folder):
    """Good frames of any length, and damaged ones."""
    rng = random.Random(seed)
    for i in range(300):
        kind = rng.choice(list(KINDS.values()))
        length = rng.choice([0, 1, 8, 100, 240 - kind.bytes, 300, 5000])
        length = max(kind.least, min(kind.most, length))
        frame = build(
            kind.name, rng.randbytes(kind.bytes), rng.randbytes(length),
            ident=rng.getrandbits(64),
            flags=rng.choice([0, MORE]) if kind.number >= 128 else 0,
            payload=rng.getrandbits(30) if kind.payload else 0)
        damage = rng.randrange(4)
        if damage == 1:
            at = rng.randrange(len(frame))
            bit = 1 << rng.randrange(8)
            frame = frame[:at] + bytes([frame[at] ^ bit]) + frame[at + 1:]
        elif damage == 2:
            frame = frame[:rng.randrange(len(frame))]
        write(folder, f'{i:03d}-{kind.name.lower()}', frame)


def show_layout(structs):
    for name in sorted(structs):
        for t, count, field in structs[name]:
            print(name, t, count, field)


def main(argv):
    what, args = (argv + [''])[0], argv[1:]
    if what in ('dump', 'fields'):
        for path in args:
            with open(path, 'rb') as f:
                b = f.read()
            print(os.path.basename(path), describe(b))
            if what == 'fields':
                frame = Frame(b)
                for field, value in unpack(frame.kind.body, frame.body):
                    print(f'  {field} = {value}')
    elif what == 'kinds':
        for n in sorted(NUMBERS):
            k = NUMBERS[n]
            assert k.bytes == size_of(k.body), k.name
            print(n, k.name, k.bytes, k.most, int(k.payload))
    elif what == 'layout':
        show_layout(STRUCTS)
    elif what == 'headers':
        show_layout({k: v for f in args for k, v in read_header(f).items()})
    elif what == 'statuses':
        for number, name, text in STATUSES:
            print(number, name, text)
    elif what == 'seeds' and len(args) == 1:
        write_seeds(args[0])
    elif what == 'random' and len(args) == 2:
        write_random(int(args[0]), args[1])
    else:
        sys.stderr.write(__doc__)
        return 64
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
