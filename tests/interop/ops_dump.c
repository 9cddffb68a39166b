/* ops_dump.c: image operations as pipelines run them, for tests in other languages.
 *
 *   ops_dump [--fuse] CHAIN < FILE         the file's bytes as field `image` through CHAIN: "TYPE DIMENSION…", a line break,
 * the values; sample 0 of epoch 0 ops_dump --draws COUNT WIDTH HEIGHT OP lines of "x y width height": what OP cuts out of an
 * image of that size, sample by sample
 *
 * An error goes to standard error as STATUS and its text; the exit status is then 1. */
#include "unit/image_rig.h"

static uint8_t *read_input(size_t *ret_length)
{
    size_t length = 0, capacity = 1 << 16, got;
    uint8_t *data = malloc(capacity);
    while (data && (got = fread(data + length, 1, capacity - length, stdin)) > 0) {
        length += got;
        if (length == capacity)
            data = realloc(data, capacity *= 2);
    }
    if (!data)
        abort();
    *ret_length = length;
    return data;
}

static int fail(pst_status st, const pst_error *error)
{
    char text[512];
    fprintf(stderr, "%s %s\n", pst_status_name(st), pst_error_text(error, text, sizeof(text)));
    return 1;
}

static int run(const char *chain, bool fuse)
{
    const pst_spec spec = rig_spec("image:bytes");
    struct image_rig rig;
    pst_error error;
    pst_bytes bytes;
    size_t length;
    uint8_t *data = read_input(&length);
    pst_tensor in = {.dtype = PST_DTYPE_BYTES, .data = &bytes};
    bytes = (pst_bytes){data, length};
    pst_status st = image_rig_init(&rig, chain, &spec, fuse, &error);
    struct rig_result result = {.status = st, .error = error};
    if (st == PST_OK)
        result = image_rig_run(&rig, &in, 0, 0);
    if (result.status == PST_OK) {
        printf("%s", pst_dtype_name(result.tensor.dtype));
        for (uint32_t d = 0; d < result.tensor.rank; d++)
            printf(" %llu", (unsigned long long)result.tensor.shape[d]);
        printf("\n");
        fwrite(result.tensor.data, 1, rig_bytes(&result.tensor), stdout);
    }
    int code = result.status < 0 ? fail(result.status, &result.error) : 0;
    image_rig_finish(&rig);
    free(data);
    return code;
}

static int draw(uint64_t count, uint32_t width, uint32_t height, const char *text)
{
    struct chain chain = {0};
    pst_ctx ctx = {.seed = 11};
    struct geometry g;
    pst_error error;
    pst_status st = chain_parse(&chain, text, &error);
    for (uint64_t i = 0; st == PST_OK && i < count; i++) {
        ctx.sample = i;
        ctx_enter(&ctx, 1);
        st = image_op_geometry(op_decl_of(chain.nodes[0].op), chain.nodes[0].config, &ctx, width, height, &g, &error);
        if (st == PST_OK)
            printf("%lld %lld %u %u\n", (long long)g.x, (long long)g.y, g.cut_width, g.cut_height);
    }
    chain_finish(&chain);
    return st < 0 ? fail(st, &error) : 0;
}

int main(int argc, char **argv)
{
    if (argc == 6 && strcmp(argv[1], "--draws") == 0)
        return draw(strtoull(argv[2], NULL, 10), (uint32_t)atoi(argv[3]), (uint32_t)atoi(argv[4]), argv[5]);
    if (argc == 2 || (argc == 3 && strcmp(argv[1], "--fuse") == 0))
        return run(argv[argc - 1], argc == 3);
    fprintf(stderr, "ops_dump: see the top of ops_dump.c\n");
    return 2;
}
