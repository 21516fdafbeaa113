# SPDX-License-Identifier: Apache-2.0
"""scripts/lint: this tree is clean, and each planted violation is found at its line."""
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, 'tests'))
import tap

SPDX = '/* SPDX-License-Identifier: Apache-2.0 */\n'
UNFINISHED = 'TO' + 'DO'  # spelled so that this file is not found itself


def check(root):
    result = subprocess.run([sys.executable, os.path.join(ROOT, 'scripts', 'lint'), '--root', root],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return result.returncode, result.stdout


def planted(path, text):
    """The checker's verdict on a tree that holds one file."""
    with tempfile.TemporaryDirectory() as root:
        os.makedirs(os.path.join(root, os.path.dirname(path)))
        with open(os.path.join(root, path), 'w') as stream:
            stream.write(text)
        return check(root)


def refuses(path, text, line, words):
    def test():
        status, output = planted(path, text)
        assert status == 1, f'exit status {status}, output {output!r}'
        assert output.startswith(f'{path}:{line}: ') and words in output, output
        assert output.count('\n') == 1, f'more than the one fault:\n{output}'
    return test


def accepts(path, text):
    def test():
        status, output = planted(path, text)
        assert status == 0 and output == '', output
    return test


def this_tree_is_clean():
    status, output = check(ROOT)
    assert status == 0, output


def guarded(name, body=''):
    return f'{SPDX}#ifndef {name}\n#define {name}\n{body}#endif\n'


def include(text):
    return f'{SPDX}#include {text}\n'


def second_definition():
    with tempfile.TemporaryDirectory() as root:
        for path in ('src/net/net_a.h', 'src/pix/pix_a.h'):
            os.makedirs(os.path.dirname(os.path.join(root, path)))
            name = 'STOKE_' + path.replace('/', '_').replace('.', '_').upper()
            with open(os.path.join(root, path), 'w') as stream:
                stream.write(guarded(name, 'typedef struct stk_net_pix_a {\n    int x;\n} stk_net_pix_a;\n'))
        status, output = check(root)
        assert status == 1 and 'src/pix/pix_a.h:4: stk_net_pix_a is defined in src/net/net_a.h too' in output, output


LONG_FUNCTION = SPDX + 'void f(void)\n{\n' + '    g();\n' * 121 + '}\n'

sys.exit(tap.run([
    ('this tree is clean', this_tree_is_clean),
    ('base may not use codec', refuses('src/base/a.c', include('"src/codec/jpeg.h"'), 2, 'base may not use codec')),
    ('codec may not use pix', refuses('src/codec/a.c', include('"src/pix/pix.h"'), 2, 'codec may not use pix')),
    ('source may not use loader', refuses('src/source/a.c', include('<stoke/loader.h>'), 2, 'may not use loader')),
    ('report sees codec only by <stoke/image.h>',
     refuses('src/report/grid.c', include('"src/codec/png.h"'), 2, 'report may not use codec')),
    ('report may use <stoke/image.h>', accepts('src/report/grid.c', include('<stoke/image.h>'))),
    ('loader may use all below it', accepts('src/loader/a.c', include('"src/augment/plan.h"\n#include "src/pix/pix.h"'))),
    ('a sub-folder belongs to its room', refuses('src/pix/x86/a.c', include('"src/codec/a.h"'), 2, 'pix may not use')),
    ('the inside of a room stays there', refuses('src/train/a.c', include('"src/loader/loader_internal.h"'), 2, 'for the files of loader alone')),
    ('a type is defined once', second_definition),
    ('or its section', accepts('src/pix/warp.h', guarded('STOKE_SRC_PIX_WARP_H', '/* ---- blocks ---- */\nstruct stk_block {\n};\n'))),
    ('a type says its room', refuses('src/pix/warp.h', guarded('STOKE_SRC_PIX_WARP_H', 'struct stk_block {\n};\n'), 4, 'does not say its room')),
    ('a type may say its header', accepts('src/pix/warp.h', guarded('STOKE_SRC_PIX_WARP_H', 'struct stk_warp_block {\n};\n'))),
    ('no papers that are not here', refuses('src/base/a.c', SPDX + '/* as the doc' + 'uments say */\n', 2, 'state the fact')),
    ('cli uses the public API only', refuses('cli/show.c', include('"src/base/mem.h"'), 2, 'public API only')),
    ('cli may use its own headers', accepts('cli/show.c', include('"cli/cli.h"\n#include <stoke/stoke.h>'))),
    ('a raw stat', refuses('src/pix/a.c', SPDX + 'int f(void)\n{\n    return stat("a", 0);\n}\n', 4, 'stoke_stat')),
    ('a raw open', refuses('cli/show.c', SPDX + 'int f(void)\n{\n    return open("a", 0);\n}\n', 4, 'stoke_open')),
    ('a raw access', refuses('src/pix/a.c', SPDX + 'int f(void)\n{\n    return access("a", F_OK);\n}\n', 4, 'stoke_stat')),
    ('a raw readdir', refuses('src/pix/a.c', SPDX + 'void *f(DIR *dir)\n{\n    return readdir(dir);\n}\n', 4, 'stoke_readdir')),
    ('a raw fstat', refuses('cli/show.c', SPDX + 'int f(int fd)\n{\n    return fstat(fd, 0);\n}\n', 4, 'stoke_stat')),
    ('open of a table', accepts('src/pix/a.c', SPDX + 'int f(const t *a)\n{\n    return a->open(a) + stoke_open("a", 0, 0);\n}\n')),
    ('raw calls in their room', accepts('src/base/a.c', SPDX + 'int f(void)\n{\n    return stat("a", 0);\n}\n')),
    ('cli prints no names raw', refuses('cli/show.c', SPDX + 'void f(const char *s)\n{\n    printf("%s", s);\n}\n', 4, 'cli_print')),
    ('cli says no names raw', refuses('cli/show.c', SPDX + 'void f(const char *s)\n{\n    fputs(s, stderr);\n}\n', 4, 'cli_print')),
    ('cli may print its own words', accepts('cli/show.c', SPDX + 'void f(void)\n{\n    puts("hello");\n}\n')),
    ('messages are handed on whole',
     refuses('src/base/a.c', SPDX + 'int f(void)\n{\n    return stk_fail(err, r, "%s", own.message);\n}\n', 4, 'stk_fail_again')),
    ('python uses the public API only', refuses('python/src/a.c', include('"src/base/mem.h"'), 2, 'public API only')),
    ('examples use the public API only', refuses('examples/a.c', include('"cli/cli.h"'), 2, 'public API only')),
    ('public headers need no other library',
     refuses('include/stoke/a.h', guarded('STOKE_A_H', '#include <jpeglib.h>\n'), 4, 'C standard library')),
    ('public headers are included in angles', refuses('src/base/a.c', include('"stoke/common.h"'), 2, '<stoke/...>')),
    ('the library does not use the umbrella', refuses('src/base/a.c', include('<stoke/stoke.h>'), 2, 'umbrella')),
    ('nor the one of tools', refuses('src/base/a.c', include('<stoke/tools/tools.h>'), 2, 'umbrella')),
    ('what is promised rests on nothing else',
     refuses('include/stoke/a.h', guarded('STOKE_A_H', '#include <stoke/tools/report.h>\n'), 4, 'which may change')),
    ('examples use what is promised', refuses('examples/a.c', include('<stoke/tools/report.h>'), 2, 'which may change')),
    ('a tool may rest on tools', accepts('include/stoke/tools/a.h', guarded('STOKE_TOOLS_A_H', '#include <stoke/tools/report.h>\n'))),
    ('faces count in tools too', refuses('src/source/a.c', include('<stoke/tools/loader.h>'), 2, 'may not use loader')),
    ('private includes are root-relative', refuses('src/base/a.c', include('"mem.h"'), 2, 'root-relative')),
    ('an unknown room is refused', refuses('src/attic/a.c', include('"src/attic/a.h"'), 2, 'table of rooms')),
    ('tests may include what they like', accepts('tests/unit/a.c', include('"src/base/mem.h"'))),
    ('a wrong guard', refuses('src/pix/a.h', guarded('A_H'), 2, 'must be STOKE_SRC_PIX_A_H')),
    ('a guard without its define', refuses('src/pix/a.h', SPDX + '#ifndef STOKE_SRC_PIX_A_H\n#endif\n', 2, 'guard')),
    ('no licence line', refuses('src/pix/a.c', 'int x;\n', 1, 'SPDX')),
    ('a script without licence line', refuses('scripts/a', '#!/bin/sh\ntrue\n', 1, 'SPDX')),
    ('unfinished work', refuses('src/pix/a.c', f'{SPDX}/* {UNFINISHED}: more */\n', 2, 'unfinished')),
    ('a file of 801 lines', refuses('src/pix/a.c', SPDX + '\n' * 800, 801, '801 lines')),
    ('a function of 121 lines', refuses('src/pix/a.c', LONG_FUNCTION, 3, 'function of 121 lines')),
]))
