# SPDX-License-Identifier: Apache-2.0
"""Writes tests/unit/fixture_events.h: an event file as TensorBoard's own record writer and its protocol buffers make it, for
test_events.c. `python make_events_record.py > ../unit/events_record.h`, with the tensorboard package."""
import io
import struct
import sys
import zlib

import tensorboard
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

TIME = 1700000000.25


def png():
    """Red, 3 pixels wide and 2 high."""
    def chunk(kind, data):
        return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
    rows = b''.join(b'\0' + b'\xff\0\0' * 3 for _ in range(2))
    return (b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 3, 2, 8, 2, 0, 0, 0)) +
            chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b''))


def scalars(step, **values):
    return Event(wall_time=TIME, step=step, summary=Summary(
        value=[Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]))


class Kept(io.BytesIO):
    def close(self):
        pass


def record():
    out = Kept()
    writer = RecordWriter(out)
    image = Summary.Image(height=2, width=3, colorspace=3, encoded_image_string=png())
    for event in (
            Event(wall_time=TIME, file_version='brain.Event:2'),
            Event(wall_time=TIME, step=91, session_log=SessionLog(status=SessionLog.START)),
            scalars(0, **{'train/loss': 2.3125, 'train/lr': 6e-5, 'train/gradient_norm': float('nan')}),
            scalars(1000000007, **{'val/iou/étang': 0.0}),
            Event(wall_time=TIME, step=300, summary=Summary(value=[Summary.Value(tag='val/predictions', image=image)]))):
        writer.write(event.SerializeToString())
    return out.getvalue()


def array(name, data):
    print(f'static const uint8_t {name}[] = {{')
    for i in range(0, len(data), 16):
        print('    ' + ' '.join(f'0x{byte:02x},' for byte in data[i:i + 16]))
    print('};')


print(f'''/* SPDX-License-Identifier: Apache-2.0
 *
 * Written by tests/parity/make_events_record.py with tensorboard {tensorboard.__version__}: what five events are in its files.
 */
#ifndef STOKE_TESTS_UNIT_FIXTURE_EVENTS_H
#define STOKE_TESTS_UNIT_FIXTURE_EVENTS_H

#include <stdint.h>

/* clang-format off */''')
array('events_png', png())
array('events_record', record())
print('''/* clang-format on */

#endif''')
sys.exit(0)
