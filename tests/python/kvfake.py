#!/usr/bin/python3
"""
A master in the wire protocol as kvproto.py reads it from the manual, without
nodes, that says of itself what it is told to.

usage: kvfake.py PORT [VERSION [AHEAD_MS]]    release, and its clock
       kvfake.py PORT refuse                  speaks other protocol versions
"""

import os
import socketserver
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from kvproto import Frame, More, build  # noqa: E402

VERSION_REFUSED = 12


class Master(socketserver.BaseRequestHandler):
    release, ahead_ms, boot = '0.1.0', 0, os.urandom(16)

    def answer(self, frame):
        if frame.kind.name == 'HELLO' and self.release == 'refuse':
            text = b'you speak protocol versions 1 to 1, this side 7 to 9'
            return build('HELLO_R', {'status': VERSION_REFUSED,
                                     'boot': self.boot,
                                     'text_len': len(text)}, text, frame.id)
        if frame.kind.name == 'HELLO':
            return build('HELLO_R', {'version': 1, 'boot': self.boot,
                                     'token': 1}, b'', frame.id)
        if frame.kind.name == 'NODES':
            return build('NODES_R', {}, b'', frame.id)
        text = (f'version {self.release}\n'
                f'clock_ms {int(time.time() * 1000) + self.ahead_ms}\n'
                'master_key_count 0\nmaster_active_clients 0\n')
        return build('STATS_R', {}, text.encode(), frame.id)

    def handle(self):
        got = b''
        while True:
            try:
                frame = Frame(got)
            except More:
                more = self.request.recv(65536)
                if not more:
                    return
                got += more
                continue
            got = got[frame.length:]
            self.request.sendall(self.answer(frame))


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


def main(argv):
    Master.release = argv[2] if len(argv) > 2 else Master.release
    Master.ahead_ms = int(argv[3]) if len(argv) > 3 else 0
    with Server(('127.0.0.1', int(argv[1])), Master) as server:
        print('fake ready port', flush=True)
        server.serve_forever()


if __name__ == '__main__':
    main(sys.argv)
