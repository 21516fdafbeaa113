# SPDX-License-Identifier: Apache-2.0
"""Promise (a) for every preset and for mixed rows: the same bytes for any number of workers, any prefetch, any world,
any point of resumption and any CPU table."""
import os
import sys

from cli import equal, make_set, stoke_json, tap

SET = make_set('set', count=22, size='56x72', classes=9)
LISTS = ['none', 'light', 'crop', 'standard', 'strong', 'face', 'medical', 'standard,mixup(p=0.6)', 'strong,cutmix(p=0.6)']
# The output smaller than the source, of its size (plans may then cut without resizing), and larger.
SIZES = ['40x48', '56x72', '80x64']


def digests(answer):
    return {b['index']: b['digest'] for b in answer['batches'] if not b.get('padding')}


def same_bytes(augment, size):
    def test():
        base = [SET, '--batch', 3, '--size', size, '--augment', augment, '--seed', 11, '--classes', 9, '--quiet']
        reference = stoke_json('hash', *base, '--workers', 0, '--prefetch', 1)
        equal(len(set(digests(reference).values())), 8, 'different digests')
        for options in (['--workers', 1, '--prefetch', 4], ['--workers', 3, '--prefetch', 2],
                        ['--workers', 2, '--world', 2, '--ranks-all'],
                        ['--workers', 1, '--world', 3, '--ranks-all'],
                        ['--workers', 2, '--resume-at', 3, '--resume-workers', 0],
                        ['--workers', 0, '--world', 2, '--ranks-all', '--resume-at', 2, '--resume-world', 3]):
            answer = stoke_json('hash', *base, *options)
            equal(digests(answer), digests(reference), f'digests with {options}')
        answer = stoke_json('hash', *base, '--workers', 2, env={**os.environ, 'STOKE_CPU': 'c'})
        equal(digests(answer), digests(reference), 'digests with STOKE_CPU=c')
    return test


def fast_decoding(augment):
    """JPEG shrunk while decoding gives other bytes, but the same ones for any number of workers and any CPU table."""
    def test():
        base = [SET, '--batch', 3, '--size', '20x24', '--augment', augment, '--decode', 'fast', '--quiet']
        reference = stoke_json('hash', *base, '--workers', 0)
        equal(stoke_json('hash', *base, '--workers', 3)['all'], reference['all'])
        equal(stoke_json('hash', *base, env={**os.environ, 'STOKE_CPU': 'c'})['all'], reference['all'], 'STOKE_CPU=c')
        exact = stoke_json('hash', *[x if x != 'fast' else 'exact' for x in base])
        assert exact['all'] != reference['all'], 'fast decoding was not used'
    return test


sys.exit(tap.run([(f'{augment}, {size}', same_bytes(augment, size)) for augment in LISTS for size in SIZES]
                 + [(f'{augment}, decode fast', fast_decoding(augment)) for augment in ('none', 'standard')]))
