/* SPDX-License-Identifier: Apache-2.0
 *
 * safetensors files: one that the Python package wrote, every way in which a header can lie, and our own
 * writer.
 */
#include "tests/unit/unit.h"

#include <errno.h>

#include "src/base/mem.h"
#include "src/net/files/safetensors.h"

/* What safetensors 0.8.0 made of seven tensors of torch: header and data, as they came. */
static const char PYTHON_HEADER[] =
    "{\"__metadata__\":{\"format\":\"pt\"},\"decode_head.batch_norm.num_batches_tracked\":{\"dtype\":\"I64\","
    "\"shape\":[],\"data_offsets\":[0,8]},\"segformer.encoder.patch_embeddings.0.proj.weight\":{\"dtype\":"
    "\"F64\","
    "\"shape\":[2,1,2,1],\"data_offsets\":[8,40]},\"decode_head.classifier.bias\":{\"dtype\":\"F32\","
    "\"shape\":[3],"
    "\"data_offsets\":[40,52]},\"none\":{\"dtype\":\"F32\",\"shape\":[0,5],\"data_offsets\":[52,52]},"
    "\"segformer.encoder.layer_norm.0.bias\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[52,58]},"
    "\"segformer.encoder.layer_norm.0.weight\":{\"dtype\":\"F16\",\"shape\":[4],\"data_offsets\":[58,66]},"
    "\"flags\":{\"dtype\":\"BOOL\",\"shape\":[3],\"data_offsets\":[66,69]}}  ";
static const char PYTHON_DATA[] =
    "\x4d\0\0\0\0\0\0\0"
    "\0\0\0\0\0\0\0\0\x55\x55\x55\x55\x55\x55\xd5\x3f\x55\x55\x55\x55\x55\x55\xe5\x3f"
    "\0\0\0\0\0\0\xf0\x3f"
    "\0\0\xc0\x3f\0\0\x10\xc0\x47\x44\x03\0"
    "\xcd\x3d\x62\xff\x01\0"
    "\x66\x2e\xff\x7b\x01\0\0\x80"
    "\x01\0\x01";

/* A file of this header, which may be padded to shift the data, and data. */
static const char *write_file(void **state, const char *header, size_t padding, const void *data, size_t size)
{
    const size_t n = strlen(header), length = n + padding;
    char *bytes = malloc(8 + length + size);
    memcpy(bytes, &(uint64_t){ length }, 8);
    memcpy(bytes + 8, header, n);
    memset(bytes + 8 + n, ' ', padding);
    if (size) memcpy(bytes + 8 + length, data, size);
    const char *path = unit_path(state, "x.safetensors");
    unit_write(path, bytes, 8 + length + size);
    free(bytes);
    return path;
}

static const stk_safetensors_tensor *find(const stk_safetensors *file, const char *name)
{
    for (size_t i = 0; i < file->count; i++)
        if (strcmp(file->list[i].name, name) == 0) return &file->list[i];
    fail_msg("no %s", name);
    return NULL;
}

static void expect_floats(const stk_safetensors *file, const char *name, const float *wanted, size_t count)
{
    const stk_safetensors_tensor *tensor = find(file, name);
    float values[8];
    stoke_error err = { 0 };
    assert_int_equal(tensor->count, count);
    if (stk_safetensors_floats(file, tensor, values, &err)) fail_msg("%s", err.message);
    assert_memory_equal(values, wanted, count * sizeof *values); /* bits: -0 and subnormals count */
}

/* Padding 0 to 8: tensors at any byte of the file. */
static void reads_what_python_wrote(void **state)
{
    for (size_t padding = 0; padding < 9; padding++) {
        const char *path = write_file(state, PYTHON_HEADER, padding, PYTHON_DATA, sizeof PYTHON_DATA - 1);
        stk_safetensors file;
        stoke_error err = { 0 };
        if (stk_safetensors_open(&file, path, &err)) fail_msg("%s", err.message);
        assert_int_equal(file.count, 7);
        expect_floats(&file, "segformer.encoder.patch_embeddings.0.proj.weight",
                      (float[]){ 0, 0x1.555556p-2f, 0x1.555556p-1f, 1 }, 4);
        expect_floats(&file, "decode_head.classifier.bias", (float[]){ 1.5f, -2.25f, 0x1.a2238p-132f }, 3);
        expect_floats(&file, "segformer.encoder.layer_norm.0.bias",
                      (float[]){ 0x1.9ap-4f, -0x1.c4p+127f, 0x1p-133f }, 3);
        expect_floats(&file, "segformer.encoder.layer_norm.0.weight",
                      (float[]){ 0x1.998p-4f, 65504, 0x1p-24f, -0.0f }, 4);
        expect_floats(&file, "none", NULL, 0);
        const stk_safetensors_tensor *scalar = find(&file, "decode_head.batch_norm.num_batches_tracked");
        uint64_t batches = 0;
        assert_int_equal(scalar->dims, 0);
        assert_int_equal(stk_safetensors_integer(&file, scalar, &batches, &err), STOKE_OK);
        assert_int_equal(batches, 77);
        float refused[3];
        assert_int_equal(stk_safetensors_floats(&file, find(&file, "flags"), refused, &err),
                         STOKE_E_UNSUPPORTED);
        assert_non_null(strstr(err.message, "flags has dtype BOOL"));
        assert_int_equal(stk_safetensors_floats(&file, scalar, refused, &err), STOKE_E_UNSUPPORTED);
        assert_int_equal(stk_safetensors_integer(&file, find(&file, "flags"), &batches, &err),
                         STOKE_E_FORMAT);
        const stk_safetensors_tensor *weight =
            find(&file, "segformer.encoder.patch_embeddings.0.proj.weight");
        assert_int_equal(weight->dims, 4);
        assert_memory_equal(weight->shape, ((uint64_t[]){ 2, 1, 2, 1 }), 4 * sizeof *weight->shape);
        stk_safetensors_close(&file);
    }
}

/* More than one chunk of the converter, and a tail. */
static void long_tensors_come_whole(void **state)
{
    enum { COUNT = 65536 / 2 * 2 + 12345 };
    uint16_t *halves = malloc(COUNT * sizeof *halves);
    float *values = malloc(COUNT * sizeof *values);
    for (int i = 0; i < COUNT; i++) halves[i] = (uint16_t)(i % 0x7c00);
    char header[128];
    snprintf(header, sizeof header, "{\"a\":{\"dtype\":\"BF16\",\"shape\":[%d],\"data_offsets\":[0,%d]}}",
             COUNT, 2 * COUNT);
    stk_safetensors file;
    assert_int_equal(stk_safetensors_open(&file, write_file(state, header, 1, halves, 2 * COUNT), NULL),
                     STOKE_OK);
    assert_int_equal(stk_safetensors_floats(&file, file.list, values, NULL), STOKE_OK);
    for (int i = 0; i < COUNT; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], 4);
        assert_int_equal(bits, (uint32_t)halves[i] << 16);
    }
    stk_safetensors_close(&file);
    free(values);
    free(halves);
}

#define ENTRY(dtype, shape, offsets)                                                                         \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static void refuses_headers_that_lie(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        uint64_t data;
        int code;
        const char *told;
    } cases[] = {
        { "", 0, STOKE_E_FORMAT, "does not start with {" },
        { " {}", 0, STOKE_E_FORMAT, "does not start with {" },
        { "[]", 0, STOKE_E_FORMAT, "does not start with {" },
        { "{", 0, STOKE_E_FORMAT, "byte 1" },
        { "{}", 1, STOKE_E_FORMAT, "bytes behind the last tensor" },
        { "{\"a\":1}", 0, STOKE_E_FORMAT, "a: not {" },
        { "{\"a\":{}}", 0, STOKE_E_FORMAT, "a: not {" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[]}}", 4, STOKE_E_FORMAT, "a: not {" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"offsets\":[0,4]}}", 4, STOKE_E_FORMAT, "data_offsets" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4],\"x\":1}}", 4, STOKE_E_FORMAT,
          "a: not {" },
        { "{\"a\":{\"dtype\":4,\"shape\":[],\"data_offsets\":[0,4]}}", 4, STOKE_E_FORMAT, "a: not {" },
        { "{\"a\":" ENTRY("F12", "[1]", "[0,4]") "}", 4, STOKE_E_UNSUPPORTED, "no dtype \"F12\"" },
        { "{\"a\":" ENTRY("F32", "1", "[0,4]") "}", 4, STOKE_E_FORMAT, "\"shape\" is not an array" },
        { "{\"a\":" ENTRY("F32", "[-1]", "[0,4]") "}", 4, STOKE_E_FORMAT, "no size" },
        { "{\"a\":" ENTRY("F32", "[1.0]", "[0,4]") "}", 4, STOKE_E_FORMAT, "no size" },
        { "{\"a\":" ENTRY("F32", "[[1]]", "[0,4]") "}", 4, STOKE_E_FORMAT, "no size" },
        { "{\"a\":" ENTRY("F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]") "}", 4, STOKE_E_UNSUPPORTED, "dimensions" },
        { "{\"a\":" ENTRY("F32", "[4294967296,4294967296]", "[0,0]") "}", 0, STOKE_E_FORMAT, "64 bits" },
        { "{\"a\":" ENTRY("F32", "[4611686018427387904]", "[0,0]") "}", 0, STOKE_E_FORMAT, "do not take" },
        { "{\"a\":" ENTRY("F32", "[2]", "[0,4]") "}", 4, STOKE_E_FORMAT, "2 elements of F32 do not take 4" },
        { "{\"a\":" ENTRY("F32", "[1]", "[4,0]") "}", 4, STOKE_E_FORMAT, "data_offsets" },
        { "{\"a\":" ENTRY("F32", "[1]", "[0,4,8]") "}", 4, STOKE_E_FORMAT, "data_offsets" },
        { "{\"a\":" ENTRY("F32", "[1]", "[0]") "}", 4, STOKE_E_FORMAT, "data_offsets" },
        { "{\"a\":" ENTRY("F32", "[1]", "{\"x\":0,\"y\":4}") "}", 4, STOKE_E_FORMAT, "data_offsets" },
        { "{\"a\":" ENTRY("F32", "[1]", "[18446744073709551612,18446744073709551616]") "}", 4, STOKE_E_FORMAT,
          "data_offsets" },
        { "{\"a\":" ENTRY("F32", "[1]", "[18446744073709551608,18446744073709551612]") "}", 4, STOKE_E_FORMAT,
          "starts at byte" },
        { "{\"a\":" ENTRY("F32", "[1]", "[4,8]") "}", 8, STOKE_E_FORMAT,
          "starts at byte 4 of the data, but 0" },
        { "{\"a\":" ENTRY("F32", "[1]", "[0,4]") "}", 3, STOKE_E_FORMAT, "cut off" },
        { "{\"a\":" ENTRY("F32", "[1]", "[0,4]") "}", 5, STOKE_E_FORMAT, "bytes behind the last tensor" },
        { "{\"a\":" ENTRY("F32", "[1]", "[0,4]") ",\"b\":" ENTRY("F32", "[1]", "[0,4]") "}", 4,
          STOKE_E_FORMAT, "starts at byte 0 of the data, but 4" },
        { "{\"a\":" ENTRY("F32", "[2]", "[0,8]") ",\"b\":" ENTRY("F32", "[1]", "[4,8]") "}", 8,
          STOKE_E_FORMAT, "b: starts" },
        { "{\"a\":" ENTRY("F32", "[1]", "[0,4]") ",\"b\":" ENTRY("F32", "[1]", "[8,12]") "}", 12,
          STOKE_E_FORMAT, "b: starts" },
        { "{\"a\":" ENTRY("F32", "[0]", "[0,0]") ",\"a\":" ENTRY("F32", "[0]", "[0,0]") "}", 0,
          STOKE_E_FORMAT, "\"a\" stands twice" },
        { "{\"a\\u001b[2Jb\":" ENTRY("F32", "[1]", "[0,4]") "}", 4, STOKE_E_FORMAT,
          "a\\x1b[2Jb: the name of a tensor holds control characters" },
        { "{\"a\":" ENTRY("F\\n2", "[1]", "[0,4]") "}", 4, STOKE_E_UNSUPPORTED, "no dtype \"F\\n2\"" },
        { "{\"__metadata__\":{\"format\":1}}", 0, STOKE_E_FORMAT, "__metadata__" },
        { "{\"__metadata__\":\"pt\"}", 0, STOKE_E_FORMAT, "__metadata__" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        stk_safetensors file;
        stoke_error err = { 0 };
        const size_t n = strlen(cases[i].header);
        char *copy = malloc(n + !n);
        memcpy(copy, cases[i].header, n);
        const int status = stk_safetensors_parse(&file, copy, n, cases[i].data, &err);
        free(copy);
        if (status != cases[i].code || !strstr(err.message, cases[i].told))
            fail_msg("%s: %d %s", cases[i].header, status, err.message);
        assert_null(file.list);
    }
}

static void refuses_files_that_are_none(void **state)
{
    stk_safetensors file;
    stoke_error err;
    const char *path = unit_path(state, "y");
    unit_write(path, "1234567", 7);
    assert_int_equal(stk_safetensors_open(&file, path, &err), STOKE_E_FORMAT);
    assert_non_null(strstr(err.message, "/y: not a safetensors file: under 8 bytes"));
    unit_write(path, "\x50\x4b\x03\x04\x14\0\0\x08 a zip file", 20);
    assert_int_equal(stk_safetensors_open(&file, path, &err), STOKE_E_FORMAT);
    assert_non_null(strstr(err.message, "first 8 bytes"));
    unit_write(path, "\x03\0\0\0\0\0\0\0{}", 10);
    assert_int_equal(stk_safetensors_open(&file, path, &err), STOKE_E_FORMAT);
    assert_non_null(strstr(err.message, "cut off: a header of 3 bytes in a file of 10"));
    unit_write(path, "\0\0\0\0\0\0\0\0", 8);
    assert_int_equal(stk_safetensors_open(&file, path, &err), STOKE_E_FORMAT);
    unit_write(path, "\x02\0\0\0\0\0\0\0{}", 10);
    assert_int_equal(stk_safetensors_open(&file, path, &err), STOKE_OK);
    assert_int_equal(file.count, 0);
    stk_safetensors_close(&file);
    assert_int_equal(stk_safetensors_open(&file, unit_path(state, "nothing"), &err), STOKE_E_NOTFOUND);
    assert_int_equal(stk_safetensors_open(&file, unit_folder(state), &err), STOKE_E_IO);
    assert_int_equal(mkfifo(unit_path(state, "fifo"), 0600), 0);
    assert_int_equal(stk_safetensors_open(&file, unit_path(state, "fifo"), &err), STOKE_E_IO);
    /* an entry of every header that was cut somewhere is refused, none is read past its end */
    const size_t whole = sizeof PYTHON_HEADER - 1;
    for (size_t n = 0; n + 2 < whole; n += 7) {
        char cut[sizeof PYTHON_HEADER];
        memcpy(cut, PYTHON_HEADER, n);
        cut[n] = 0;
        assert_true(stk_safetensors_open(&file, write_file(state, cut, 0, PYTHON_DATA, 69), &err) < 0);
    }
}

/* The file shrinks after it was opened. */
static void shrinking_file_is_an_error(void **state)
{
    const char *path = write_file(state, "{\"a\":" ENTRY("F32", "[2]", "[0,8]") "}", 0, "12345678", 8);
    stk_safetensors file;
    stoke_error err;
    float values[2];
    assert_int_equal(stk_safetensors_open(&file, path, &err), STOKE_OK);
    assert_int_equal(truncate(path, 60), 0);
    assert_int_equal(stk_safetensors_floats(&file, file.list, values, &err), STOKE_E_IO);
    assert_non_null(strstr(err.message, "x.safetensors: became shorter"));
    stk_safetensors_close(&file);
}

static void writes_as_python_does(void **state)
{
    const float a[6] = { 1, 2, 3, 4, 5, 6 }, b[2] = { -1, 0.5f };
    const int64_t c = 9;
    const uint32_t shape[] = { 3, 2 };
    stk_safetensors_source list[] = { { "z", STK_TENSOR_F32, 2, shape, a },
                                      { "b", STK_TENSOR_F32, 1, shape + 1, b },
                                      { "n", STK_TENSOR_I64, 0, NULL, &c } };
    const stk_safetensors_note note = { "format", "pt" };
    const char *path = unit_path(state, "w.safetensors");
    FILE *stream = fopen(path, "wb");
    assert_true(stk_safetensors_write(stream, list, 3, &note, 1));
    assert_int_equal(fclose(stream), 0);
    /* The wide type first, then by name; padded to 8. */
    static const char header[] =
        "{\"__metadata__\":{\"format\":\"pt\"},\"n\":{\"dtype\":\"I64\",\"shape\":[],"
        "\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]},"
        "\"z\":{\"dtype\":\"F32\",\"shape\":[3,2],\"data_offsets\":[16,40]}}";
    char bytes[512] = "";
    stream = fopen(path, "rb");
    const size_t size = fread(bytes, 1, sizeof bytes, stream);
    fclose(stream);
    const size_t padded = (sizeof header - 1 + 7) / 8 * 8;
    assert_int_equal(size, 8 + padded + 40);
    assert_int_equal(bytes[0] & 0xff, padded);
    assert_memory_equal(bytes + 8, header, sizeof header - 1);
    for (size_t i = sizeof header - 1; i < padded; i++) assert_int_equal(bytes[8 + i], ' ');
    stk_safetensors file;
    assert_int_equal(stk_safetensors_open(&file, path, NULL), STOKE_OK);
    expect_floats(&file, "z", a, 6);
    expect_floats(&file, "b", b, 2);
    stk_safetensors_close(&file);
    stream = fopen("/dev/full", "wb");
    if (!stream) return;
    setvbuf(stream, NULL, _IONBF, 0);
    assert_false(stk_safetensors_write(stream, list, 3, &note, 1));
    assert_int_equal(errno, ENOSPC);
    fclose(stream);
}

/* What safetensors 0.8.0 makes of this text, as Python's save(..., metadata={"note": text}) wrote it. */
static void notes_come_back(void **state)
{
    static const char text[] = "a\"b\\c/d\b\f\n\r\t\x01\x1f\x7f \xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
                      python[] =
                          "{\"__metadata__\":{\"note\":\"a\\\"b\\\\c/d\\b\\f\\n\\r\\t\\u0001\\u001f\x7f "
                          "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"},\"x\":{\"dtype\":\"F32\",\"shape\":[1],"
                          "\"data_offsets\":[0,4]}}";
    const float x = 1;
    stk_safetensors_source list[] = { { "x", STK_TENSOR_F32, 1, (const uint32_t[]){ 1 }, &x } };
    const stk_safetensors_note notes[] = { { "note", text }, { "other", "" } };
    const char *path = unit_path(state, "n.safetensors");
    for (size_t count = 1; count <= 2; count++) {
        FILE *stream = fopen(path, "w+b");
        assert_true(stk_safetensors_write(stream, list, 1, notes, count));
        char bytes[512] = "";
        rewind(stream);
        assert_true(fread(bytes, 1, sizeof bytes - 1, stream) > 0);
        fclose(stream);
        if (count == 1) assert_memory_equal(bytes + 8, python, sizeof python - 1);
        stk_safetensors file;
        assert_int_equal(stk_safetensors_open(&file, path, NULL), STOKE_OK);
        assert_string_equal(stk_safetensors_metadata(&file, "note"), text);
        assert_null(stk_safetensors_metadata(&file, "x"));
        if (count == 2) assert_string_equal(stk_safetensors_metadata(&file, "other"), "");
        uint8_t end[2];
        assert_int_equal(stk_safetensors_bytes(&file, file.list, 2, end, 2, NULL), STOKE_OK);
        assert_memory_equal(end, (const uint8_t *)&x + 2, 2);
        stk_safetensors_close(&file);
    }
    stk_safetensors none;
    assert_int_equal(stk_safetensors_parse(&none, "{}", 2, 0, NULL), STOKE_OK);
    assert_null(stk_safetensors_metadata(&none, "note"));
    stk_safetensors_close(&none);
}

static void survives_without_memory(void **state)
{
    const char *path = write_file(state, PYTHON_HEADER, 0, PYTHON_DATA, sizeof PYTHON_DATA - 1);
    int status = STOKE_E_NOMEM;
    for (int after = 0; status; after++) {
        stk_safetensors file;
        stk_mem_fail_after(after);
        status = stk_safetensors_open(&file, path, NULL);
        stk_mem_fail_after(-1);
        assert_true(status == STOKE_OK || (status == STOKE_E_NOMEM && after < 50));
        stk_safetensors_close(&file);
    }
}

UNIT_GROUP(safetensors)
{
    const struct CMUnitTest tests[] = {
        unit_test_with_folder(reads_what_python_wrote),    unit_test_with_folder(long_tensors_come_whole),
        cmocka_unit_test(refuses_headers_that_lie),        unit_test_with_folder(refuses_files_that_are_none),
        unit_test_with_folder(shrinking_file_is_an_error), unit_test_with_folder(writes_as_python_does),
        unit_test_with_folder(survives_without_memory),    unit_test_with_folder(notes_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
