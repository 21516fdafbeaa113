# SPDX-License-Identifier: Apache-2.0
"""What is in the folder of a run, and whether two runs came to the same: for test_resume.py and scripts/kill-resume.

Files are read by hand, with nothing but Python: what is checked here must not depend on the reader it checks.
"""
import csv
import json
import math
import os
import re
import struct

# Measured, or of the session: these differ between two runs that are equal.
MEASURED = {'t', 'seconds', 'data_seconds', 'eval_seconds', 'save_seconds', 'time', 'cpu'}
TEMPORARY = re.compile(r'.\.tmp-[0-9a-f]{6}$')


def read_tensors(path):
    """The metadata, and name -> (dtype, shape, bytes) of a safetensors file; ValueError when it is not whole."""
    with open(path, 'rb') as stream:
        data = stream.read()
    if len(data) < 8 or len(data) - 8 < struct.unpack('<Q', data[:8])[0]:
        raise ValueError(f'{path}: cut off in its header')
    length = struct.unpack('<Q', data[:8])[0]
    header = json.loads(data[8:8 + length])
    metadata, data, end = header.pop('__metadata__', {}), data[8 + length:], 0
    tensors = {}
    for name, entry in sorted(header.items(), key=lambda item: item[1]['data_offsets']):
        begin, stop = entry['data_offsets']
        size = {'F32': 4, 'I64': 8}[entry['dtype']] * math.prod(entry['shape'])
        if begin != end or stop - begin != size:
            raise ValueError(f'{path}: {name} lies at {begin} to {stop}')
        tensors[name] = (entry['dtype'], entry['shape'], data[begin:stop])
        end = stop
    if end != len(data):
        raise ValueError(f'{path}: {len(data)} bytes of data, not {end}')
    return metadata, tensors


def read_state(folder):
    """Counters and tensors of a run's state."""
    metadata, tensors = read_tensors(os.path.join(folder, 'state.safetensors'))
    return json.loads(metadata['stoke_state']), tensors


def read_log(folder):
    """The lines of log.jsonl; one that is cut short, as a killed process may leave it, is not among them."""
    try:
        with open(os.path.join(folder, 'log.jsonl')) as stream:
            return [json.loads(line) for line in stream if line.endswith('\n')]
    except FileNotFoundError:
        return []


def saved_step(folder):
    """The step of the last checkpoint; 0 without one."""
    return read_state(folder)[0]['step'] if os.path.exists(os.path.join(folder, 'state.safetensors')) else 0


def temporaries(folder):
    return sorted(os.path.join(where, name) for where, _, names in os.walk(folder) for name in names
                  if TEMPORARY.search(name))


def not_measured(line):
    return {key: value for key, value in line.items() if key not in MEASURED}


def differences(one, other):
    """What differs between two runs that should have come to the same; an empty list: nothing."""
    found = []
    for name in ('last', 'best'):
        files = [os.path.join(folder, name, 'model.safetensors') for folder in (one, other)]
        if os.path.exists(files[0]) != os.path.exists(files[1]):
            found.append(f'only one has {name}/')
        elif os.path.exists(files[0]) and open(files[0], 'rb').read() != open(files[1], 'rb').read():
            found.append(f'{name}/model.safetensors')
    (counters, tensors), (other_counters, other_tensors) = read_state(one), read_state(other)
    if list(tensors) != list(other_tensors):
        found.append('the names of the tensors in the state')
    found += [name for name in tensors if tensors[name] != other_tensors.get(name)]
    found += [f'{key}: {counters[key]!r} and {other_counters.get(key)!r}' for key in counters
              if key not in MEASURED and counters[key] != other_counters.get(key)]
    return found + log_differences(one, other)


def log_differences(one, other):
    """Steps and evaluations in log.jsonl and metrics.csv: each once, in order, the same."""
    found = []
    for kind in ('step', 'eval'):
        lines = [[not_measured(line) for line in read_log(folder) if line['kind'] == kind] for folder in (one, other)]
        steps = [line['step'] for line in lines[1]]
        if steps != sorted(set(steps)):
            found.append(f'log.jsonl: lines of kind {kind} are not in order, or twice: {steps}')
        if lines[0] != lines[1]:
            found.append(f'log.jsonl: lines of kind {kind}: steps {[line["step"] for line in lines[0]]} and {steps}')
    tables = []
    for folder in (one, other):
        with open(os.path.join(folder, 'metrics.csv'), newline='') as stream:
            tables.append([not_measured(row) for row in csv.DictReader(stream)])
    if tables[0] != tables[1]:
        found.append(f'metrics.csv: steps {[row["step"] for row in tables[0]]} and {[row["step"] for row in tables[1]]}')
    return found
