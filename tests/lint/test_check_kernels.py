# SPDX-License-Identifier: Apache-2.0
"""scripts/embed-kernels and scripts/check-kernels: what a driver gets to read, and each planted fault found."""
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, 'tests'))
import tap

KERNEL = '''#include "kernels/compat.h"
K_KERNEL twice(K_GLOBAL k_f32 *out, k_u32 n K_ID)
{
    if (k_at(0) < n) out[k_at(0)] = BODY;
}
'''


def script(name, *arguments):
    done = subprocess.run([sys.executable, os.path.join(ROOT, 'scripts', name), *arguments], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def tree(folder, files):
    os.makedirs(os.path.join(folder, 'kernels'))
    shutil.copy(os.path.join(ROOT, 'kernels', 'compat.h'), os.path.join(folder, 'kernels'))
    for name, text in files.items():
        with open(os.path.join(folder, 'kernels', name), 'w', encoding='utf-8') as stream:
            stream.write(text)


def included_once_with_its_lines():
    with tempfile.TemporaryDirectory() as folder:
        tree(folder, {'augment.h': '#include "kernels/a.h"\n#include "kernels/b.h"\nend\n',
                      'a.h': 'one "\\n"\n', 'b.h': '#include "kernels/a.h"\ntwo\n'})
        status, text = script('embed-kernels', '--root', folder, 'kernels/augment.h')
        assert status == 0, text
        lines = text.splitlines()
        assert lines.count('one "\\n"') == 1 and lines.count('two') == 1, text
        # `two` is line 2 of its file: its first line was an include that had been taken already
        assert lines[lines.index('two') - 2] == '#line 1 "kernels/b.h"', text
        assert lines[lines.index('end') - 1] == '#line 3 "kernels/augment.h"', text
        made, read = os.path.join(folder, 'text.h'), os.path.join(folder, 'text.d')
        status, text = script('embed-kernels', '--root', folder, '--output', made, '--depfile', read, 'kernels/augment.h')
        assert status == 0, text
        with open(made, encoding='utf-8') as stream:
            assert '"one \\"\\\\n\\"\\n"' in stream.read()
        with open(read, encoding='utf-8') as stream:
            assert [os.path.basename(name) for name in stream.read().split()[1:]] == ['augment.h', 'a.h', 'b.h']


def verdict(body, definition='KERNEL(twice, 1)\n', compat=None):
    """What check-kernels says of a program with one kernel, as OpenCL C."""
    if not shutil.which('clang'):
        raise tap.Skip('no clang')
    with tempfile.TemporaryDirectory() as folder:
        tree(folder, {'augment.h': KERNEL.replace('BODY', body), 'kernels.def': definition})
        if compat:
            path = os.path.join(folder, 'kernels', 'compat.h')
            with open(path, encoding='utf-8') as stream:
                text = stream.read()
            with open(path, 'w', encoding='utf-8') as stream:
                stream.write(compat(text))
        return script('check-kernels', '--root', folder, '--nvcc', 'no-such-program', '--nvrtc', 'no-such-library')


def accepts(body):
    def test():
        status, text = verdict(body)
        assert status == 0 and 'OpenCL C 1.2: passed: 1 kernels' in text, text
        assert text.endswith('1 passed, 0 failed, 6 skipped\n') and 'sm_80: skipped: no nvcc' in text, text
    return test


def refuses(words, *arguments, **named):
    def test():
        status, text = verdict(*arguments, **named)
        assert status == 1 and words in text and 'OpenCL C 1.2: failed' in text, text
    return test


sys.exit(tap.run([
    ('each file once, with its own line numbers', included_once_with_its_lines),
    ('products and sums are fine', accepts('out[0] * out[1] + out[2]')),
    ('a fused multiply-add', refuses('does not round as the host does', 'fma(out[0], out[1], out[2])')),
    ('contraction that nobody switched off', refuses(
        'does not round', 'out[0] * out[1] + out[2]', compat=lambda text: text.replace('#pragma OPENCL FP_CONTRACT OFF', ''))),
    ('a double', refuses('does not round', '(k_f32)(out[0] * 0.1)')),
    ('what is no OpenCL C', refuses('error:', 'malloc(1)')),
    ('a kernel that is not there', refuses('no kernel thrice', 'out[0]', 'KERNEL(twice, 1)\nKERNEL(thrice, 1)\n')),
    ('a kernel that nobody named', refuses('twice not in kernels.def', 'out[0]', '')),
    ('another number of arguments', refuses('twice takes 2 arguments, kernels.def says 3', 'out[0]', 'KERNEL(twice, 2)\n')),
]))
