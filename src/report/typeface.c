/* SPDX-License-Identifier: Apache-2.0 */
#include "src/report/canvas.h"

#include <dlfcn.h>
#include <ft2build.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include FT_FREETYPE_H

#include "src/base/terminal.h"
#include "src/base/utf8.h"
#include <stoke/tools/report.h>

enum {
    BASELINE = 7, /* of the 8 rows of the bitmap font: the last one is for descenders */
    WIDE_ADVANCE = STK_GLYPH_HEIGHT + 1,
    /* The em of a usual font with letters of one width is 5/3 of that width: at 10 they are 6 wide, and their
     * capitals 7 high, both as in the bitmap font. */
    EVEN_EM = 10,
    MOST_FACES = 4
};

/* Where Debian, Fedora and Arch put fonts with Chinese, Japanese and Korean letters, then one with the other
 * alphabets. Not fontconfig: its first look at a system may take minutes. */
static const char *const usual_files[] = {
    "/usr/share/fonts/opentype/noto/NotoSansCJK-Regular.ttc",
    "/usr/share/fonts/google-noto-sans-cjk-fonts/NotoSansCJK-Regular.ttc",
    "/usr/share/fonts/noto-cjk/NotoSansCJK-Regular.ttc",
    "/usr/share/fonts/truetype/wqy/wqy-microhei.ttc",
    "/usr/share/fonts/truetype/wqy/wqy-zenhei.ttc",
    "/usr/share/fonts/truetype/droid/DroidSansFallbackFull.ttf",
    "/usr/share/fonts/truetype/arphic/uming.ttc",
    "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf",
    "/usr/share/fonts/dejavu-sans-fonts/DejaVuSans.ttf",
    "/usr/share/fonts/TTF/DejaVuSans.ttf",
};

/* Letters of one width, for ASCII. */
static const char *const even_files[] = {
    "/usr/share/fonts/truetype/dejavu/DejaVuSansMono.ttf",
    "/usr/share/fonts/dejavu-sans-mono-fonts/DejaVuSansMono.ttf",
    "/usr/share/fonts/TTF/DejaVuSansMono.ttf",
    "/usr/share/fonts/truetype/liberation/LiberationMono-Regular.ttf",
    "/usr/share/fonts/liberation-mono/LiberationMono-Regular.ttf",
    "/usr/share/fonts/truetype/noto/NotoSansMono-Regular.ttf",
};

/* Loaded once and kept: a few hundred kilobytes. FreeType wants one thread at a time. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* A child of fork must not meet a lock that nobody will let go of, or a font in the middle of a letter: a
 * letter is waited for. */
static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

static void expect_forks(void)
{
    pthread_atfork(before_fork, after_fork, after_fork);
}

static void lock_fonts(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, expect_forks);
    pthread_mutex_lock(&lock);
}
static struct {
    int tried, n_faces;
    int unwanted;                    /* STOKE_FONT=none: nobody expects more than ASCII */
    uint32_t missing;                /* the first letter that no face has; 0: none was asked for */
    FT_Face faces[MOST_FACES], even; /* even NULL: none */
    FT_UInt (*find)(FT_Face, FT_ULong);
    FT_Error (*set_size)(FT_Face, FT_UInt, FT_UInt);
    FT_Error (*load)(FT_Face, FT_UInt, FT_Int32);
} type;

static int find_function(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

static void load_faces(void)
{
    FT_Error (*init)(FT_Library *);
    FT_Error (*new_face)(FT_Library, const char *, FT_Long, FT_Face *);
    FT_Library freetype;
    const char *named = getenv("STOKE_FONT");
    type.unwanted = named && !strcmp(named, "none");
    if (type.unwanted) return;
    void *library = dlopen("libfreetype.so.6", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) return;
    const int whole = find_function(library, "FT_Init_FreeType", &init) &&
                      find_function(library, "FT_New_Face", &new_face) &&
                      find_function(library, "FT_Get_Char_Index", &type.find) &&
                      find_function(library, "FT_Set_Pixel_Sizes", &type.set_size) &&
                      find_function(library, "FT_Load_Glyph", &type.load);
    dlclose(library); /* RTLD_NODELETE: it stays */
    if (!whole || init(&freetype)) return;
    for (size_t i = 0; i < sizeof even_files / sizeof *even_files && !type.even; i++)
        if (new_face(freetype, even_files[i], 0, &type.even)) type.even = NULL;
    if (named && *named) {
        type.n_faces = !new_face(freetype, named, 0, &type.faces[0]);
        return;
    }
    for (size_t i = 0; i < sizeof usual_files / sizeof *usual_files && type.n_faces < MOST_FACES; i++)
        type.n_faces += !new_face(freetype, usual_files[i], 0, &type.faces[type.n_faces]);
}

/* With the lock held: the first face that has the letter, and the letter's number in it. */
static FT_Face face_with(uint32_t code, FT_UInt *glyph)
{
    if (!type.tried) load_faces();
    type.tried = 1;
    if (code < 0x80) return type.even && (*glyph = type.find(type.even, code)) ? type.even : NULL;
    for (int i = 0; i < type.n_faces; i++)
        if ((*glyph = type.find(type.faces[i], code))) return type.faces[i];
    return NULL;
}

unsigned stk_typeface_advance(uint32_t code)
{
    FT_UInt glyph;
    if (stk_terminal_obeys(code)) return 0;
    lock_fonts();
    const int there = face_with(code, &glyph) != NULL;
    if (!there && !type.missing && !type.unwanted) type.missing = code;
    pthread_mutex_unlock(&lock);
    return !there ? 0 : stk_utf8_is_wide(code) ? WIDE_ADVANCE : STK_GLYPH_ADVANCE;
}

uint32_t stoke_font_missing(void)
{
    lock_fonts();
    const uint32_t code = type.missing;
    pthread_mutex_unlock(&lock);
    return code;
}

/* Lays the coverage of a glyph on the bitmap font's baseline: in the middle of its box, or where the font
 * wants it when box is 0. */
static void lay(stk_canvas *canvas, uint32_t x, uint32_t y, const FT_GlyphSlot slot, uint32_t box,
                unsigned scale, stk_canvas_color color)
{
    const FT_Bitmap *map = &slot->bitmap;
    const int64_t left = x + (box ? ((int64_t)box - map->width) / 2 : slot->bitmap_left);
    const int64_t top = y + (int64_t)BASELINE * scale - slot->bitmap_top;
    if (map->pixel_mode != FT_PIXEL_MODE_GRAY || map->pitch < 0) return;
    for (unsigned row = 0; row < map->rows; row++)
        for (unsigned column = 0; column < map->width; column++) {
            const int64_t at_x = left + column, at_y = top + row;
            const unsigned alpha = map->buffer[(size_t)row * (unsigned)map->pitch + column];
            if (!alpha || at_x < 0 || at_y < 0 || at_x > UINT32_MAX || at_y > UINT32_MAX) continue;
            stk_canvas_blend(canvas, (uint32_t)at_x, (uint32_t)at_y, color, alpha + (alpha >> 7));
        }
}

int stk_typeface_draw(stk_canvas *canvas, uint32_t x, uint32_t y, uint32_t code, unsigned scale,
                      stk_canvas_color color)
{
    FT_UInt glyph;
    const uint32_t box = (stk_utf8_is_wide(code) ? WIDE_ADVANCE : STK_GLYPH_ADVANCE) * scale - scale;
    lock_fonts();
    const FT_Face face = face_with(code, &glyph);
    const int even = face && face == type.even;
    const int drawn = face && !type.set_size(face, 0, (even ? EVEN_EM : STK_GLYPH_HEIGHT) * scale) &&
                      !type.load(face, glyph, FT_LOAD_RENDER);
    if (drawn) lay(canvas, x, y, face->glyph, even ? 0 : box, scale, color);
    pthread_mutex_unlock(&lock);
    return drawn;
}
