/* test_calls.c: models from calls are those of their text: every kind of layer, the same mistakes, memory that runs out anywhere. */
#include "harness.h"
#include "base/fault.h"
#include "base/memory.h"
#include "lang/lang.h"
#include "model/graph.h"
#include "model/layer_list.h"
#include <penstock/model.h>

#include <stdio.h>
#include <string.h>

static const pst_shape image = {.rank = 3, .size = {32, 32, 3}};

/* Adds the chain of a tree, one call per layer. */
static pst_status call_chain(pst_layers *layers, const struct lang_chain *chain, pst_error *error)
{
    pst_status st = PST_OK;
    for (size_t i = 0; st == PST_OK && i < chain->count; i++) {
        const struct lang_node *n = chain->nodes[i];
        char *head = lang_head(n);
        pst_layers *branches[LAYER_MAX_INPUTS] = {NULL};
        char *args = head ? head + strlen(n->class.name) : NULL;
        if (!head)
            return pst_fail(error, PST_ENOMEM, "no memory for the test");
        if (*args)
            *args++ = '\0';
        for (size_t k = 0; st == PST_OK && k < n->child_count; k++) {
            st = pst_layers_create(&branches[k], error);
            st = st < 0 ? st : call_chain(branches[k], &n->children[k], error);
        }
        if (st == PST_OK && n->child_count)
            st = pst_layers_add_chains(layers, head, *args ? args : NULL, branches, n->child_count, error);
        else if (st == PST_OK)
            st = pst_layers_add(layers, head, args, error);
        for (size_t k = 0; k < n->child_count; k++)
            pst_layers_destroy(branches[k]);
        mem_free(head);
    }
    return st;
}

static pst_status from_calls(pst_model **ret, const char *text, pst_error *error)
{
    struct lang_tree tree = {0};
    pst_layers *layers = NULL;
    pst_status st = lang_parse(&tree, &model_language, text, error);
    st = st < 0 ? st : pst_layers_create(&layers, error);
    st = st < 0 ? st : call_chain(layers, &tree.top, error);
    st = st < 0 ? st : pst_model_create(ret, layers, &image, error);
    pst_layers_destroy(layers);
    lang_finish(&tree);
    return st;
}

static void check_same(const pst_model *a, const pst_model *b)
{
    pst_model_layer x = {.size = sizeof(x)}, y = {.size = sizeof(y)};
    pst_model_param p = {.size = sizeof(p)}, q = {.size = sizeof(q)};
    size_t i = 0, k = 0;
    CHECK_STR(pst_model_text(a), pst_model_text(b));
    for (; pst_model_layer_at(a, i, &x); i++) {
        REQUIRE(pst_model_layer_at(b, i, &y));
        CHECK_STR(x.name, y.name);
        CHECK_STR(x.kind, y.kind);
        CHECK(memcmp(&x.output, &y.output, sizeof(x.output)) == 0 && x.parameters == y.parameters && x.flops == y.flops);
    }
    for (; pst_model_param_at(a, k, &p); k++) {
        REQUIRE(pst_model_param_at(b, k, &q));
        CHECK_STR(p.name, q.name);
        CHECK(p.count == q.count && p.fixed == q.fixed);
    }
    CHECK(i > 0 && !pst_model_layer_at(b, i, &y) && !pst_model_param_at(b, k, &q));
}

static void check_model(const char *text)
{
    pst_error error = {0};
    pst_model *parsed = NULL, *called = NULL;
    REQUIRE_OK(pst_model_parse(&parsed, text, &image, &error), &error);
    test_check_status(from_calls(&called, text, &error), PST_OK, &error, __FILE__, __LINE__, text);
    if (called)
        check_same(called, parsed);
    pst_model_destroy(parsed);
    pst_model_destroy(called);
}

/* Every kind by its example, which uses it; and texts with every shape of children, arguments after them, names, quotes. */
static void test_every_layer(void)
{
    static const char *const more[] = {
        "conv 8 3 pad=same name=first | repeat 2 ( residual relu ( conv 8 3 pad=same bias=false | batchnorm ) ) | flatten | dense 3 softmax",
        "concat( )( conv 2 3 pad=1 groups=1 name='a.b' )( maxpool 3 stride=1 pad=same ) | residual( conv 8 1 stride=2 )( conv 8 1 stride=2 ) name=sum",
        "add ( relu )( )( repeat 3 ( concat( )( conv 1 1 ) | conv 3 1 ) ) | globalavgpool",
    };
    for (size_t i = 0; layer_at(i); i++) {
        char name[64];
        snprintf(name, sizeof(name), "%s", layer_at(i)->name);
        CHECK_MSG(strstr(layer_at(i)->example, name) != NULL, "the example of %s does not use it", name);
        check_model(layer_at(i)->example);
    }
    for (size_t i = 0; i < sizeof(more) / sizeof(more[0]); i++)
        check_model(more[i]);
}

/* A mistake in one call is that in the text of this layer, with the same place; the chain stays. */
static void test_mistakes(void)
{
    static const char *const layers[][2] = {
        {"conv", "8"}, {"conv", "8 3 pad=maybe size=3"}, {"conv", "8 x"}, {"cov", "8 3"}, {"dense", "10 relo"}, {"dropout", "2"}, {"relu", "3"},
        {"conv", "8 3 grups=2"}, {"repeat", "0 ( relu )"}, {"residual", NULL}, {"batchnorm", "eps=-1"}, {"dense", "0"}, {"conv", "8 3 'open"},
    };
    for (size_t i = 0; i < sizeof(layers) / sizeof(layers[0]); i++) {
        pst_error called = {0}, parsed = {0};
        pst_layers *l = NULL;
        pst_model *m = NULL;
        char text[128];
        snprintf(text, sizeof(text), "%s%s%s", layers[i][0], layers[i][1] ? " " : "", layers[i][1] ? layers[i][1] : "");
        REQUIRE_OK(pst_layers_create(&l, &called), &called);
        REQUIRE_OK(pst_layers_add(l, "conv", "4 1", &called), &called);
        pst_status st = pst_layers_add(l, layers[i][0], layers[i][1], &called), want = pst_model_parse(&m, text, &image, &parsed);
        CHECK_MSG(st < 0 && st == want && strcmp(called.message, parsed.message) == 0 && called.offset == parsed.offset, "%s:\n%s\nbut as text\n%s",
                  text, called.message, parsed.message);
        CHECK_STR(pst_layers_text(l), "conv 4 1");
        pst_layers_destroy(l);
    }
}

/* Shapes that do not fit are found when the model is built, with the place in the whole text. */
static void test_shapes(void)
{
    pst_error called = {0}, parsed = {0};
    pst_layers *l = NULL, *branch = NULL;
    pst_model *m = NULL;
    pst_shape other = {.rank = 3, .size = {9, 7, 2}};
    REQUIRE_OK(pst_layers_create(&l, &called), &called);
    REQUIRE_OK(pst_layers_create(&branch, &called), &called);
    CHECK_STATUS(pst_model_create(&m, l, &image, &called), PST_EINVAL, &called);
    CHECK(strstr(called.message, "no layer") != NULL);
    REQUIRE_OK(pst_layers_add(branch, "conv", "8 8 # a comment", &called), &called);
    REQUIRE_OK(pst_layers_add(l, "maxpool", "2", &called), &called);
    REQUIRE_OK(pst_layers_add_chains(l, "repeat", "2 # another", &branch, 1, &called), &called);
    CHECK_STR(pst_layers_text(l), "maxpool 2 | repeat 2 ( conv 8 8 )");
    REQUIRE_OK(pst_model_create(&m, l, &image, &called), &called);
    CHECK_STR(pst_model_text(m), pst_layers_text(l));
    m = pst_model_destroy(m);
    CHECK_STATUS(pst_model_create(&m, l, &other, &called), PST_EINVAL, &called);
    CHECK_STATUS(pst_model_parse(&m, pst_layers_text(l), &other, &parsed), PST_EINVAL, &parsed);
    CHECK_STR(called.message, parsed.message);
    CHECK(called.offset == parsed.offset && called.offset == 23);
    pst_layers_destroy(branch);
    pst_layers_destroy(l);
}

static void check_chains(const char *kind, const char *args, pst_layers *const *chains, size_t count, const char *want)
{
    pst_error error = {0};
    pst_layers *l = NULL;
    REQUIRE_OK(pst_layers_create(&l, &error), &error);
    pst_status st = pst_layers_add_chains(l, kind, args, chains, count, &error);
    CHECK_MSG(st == PST_EINVAL && strstr(error.message, want), "%s with %zu chains: %s", kind, count, error.message);
    CHECK_STR(pst_layers_text(l), "");
    pst_layers_destroy(l);
}

static void test_chains(void)
{
    pst_error error = {0};
    pst_layers *empty = NULL, *one = NULL, *deep = NULL;
    REQUIRE_OK(pst_layers_create(&empty, &error), &error);
    REQUIRE_OK(pst_layers_create(&one, &error), &error);
    REQUIRE_OK(pst_layers_create(&deep, &error), &error);
    REQUIRE_OK(pst_layers_add_text(one, "relu | tanh", &error), &error);
    check_chains("conv", "8 3", &one, 1, "conv takes no chains");
    check_chains("repeat", "2", (pst_layers *[]){one, one}, 2, "repeat takes 1 chain in ( )");
    check_chains("repeat", NULL, &one, 1, "times is missing");
    check_chains("residual", NULL, NULL, 0, "residual takes 1 to 2 chains");
    check_chains("residual", NULL, &empty, 1, "missing between these");
    check_chains("concat", NULL, (pst_layers *[]){empty, empty}, 2, "missing between these");
    check_chains("concat", "( relu )( relu )", (pst_layers *[]){empty, empty}, 2, "missing between these");
    check_chains("cat", NULL, &one, 1, "there is no layer cat");
    REQUIRE_OK(pst_layers_add_chains(deep, "concat", "( gelu )", (pst_layers *[]){empty, one}, 2, &error), &error);
    CHECK_STR(pst_layers_text(deep), "concat( gelu )( )( relu | tanh )");
    REQUIRE_OK(pst_layers_add_chains(deep, "residual", "relu", &deep, 1, &error), &error); /* a copy of itself */
    CHECK_STR(pst_layers_text(deep), "concat( gelu )( )( relu | tanh ) | residual activation=relu ( concat( gelu )( )( relu | tanh ) )");
    pst_status st = PST_OK;
    size_t levels = 0;
    for (; st == PST_OK && levels < 100; levels++)
        st = pst_layers_add_chains(one, "repeat", "1", &one, 1, &error);
    CHECK_STATUS(st, PST_ELIMIT, &error);
    pst_layers_destroy(empty);
    pst_layers_destroy(one);
    pst_layers_destroy(deep);
}

static void test_texts(void)
{
    pst_error error = {0};
    pst_layers *l = NULL;
    pst_model *called = NULL, *parsed = NULL;
    REQUIRE_OK(pst_layers_create(&l, &error), &error);
    REQUIRE_OK(pst_layers_add_text(l, "resnet20:7", &error), &error);
    CHECK_STATUS(pst_layers_add_text(l, "resnet20:x", &error), PST_EINVAL, &error);
    CHECK_STATUS(pst_layers_add_text(l, "conv 3 |", &error), PST_EINVAL, &error);
    REQUIRE_OK(pst_model_parse(&parsed, "resnet20:7", &image, &error), &error);
    REQUIRE_OK(pst_model_create(&called, l, &image, &error), &error);
    check_same(called, parsed);
    pst_model_destroy(called);
    pst_model_destroy(parsed);
    pst_layers_destroy(l);
}

static void test_no_memory(void)
{
    uint64_t live = mem_live();
    bool done = false;
    for (uint64_t n = 0; !done; n++) {
        pst_error error = {0};
        pst_model *m = NULL;
        test_fault_arm(FAULT_MEMORY, n, n % 2);
        pst_status st = from_calls(&m, "conv 4 3 relu | residual( conv 4 3 pad=same | batchnorm ) | concat( )( relu ) | flatten | dense 2", &error);
        done = test_fault_calls() <= n;
        test_fault_clear();
        CHECK_MSG(done ? st == PST_OK : st == PST_ENOMEM, "allocation %llu: %d", (unsigned long long)n, st);
        pst_model_destroy(m);
        CHECK_INT(mem_live(), live);
    }
}

static const struct test tests[] = {
    {"every layer", test_every_layer}, {"mistakes", test_mistakes}, {"shapes", test_shapes}, {"chains", test_chains},
    {"texts", test_texts},             {"no memory", test_no_memory},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    return test_main(argc, argv, tests);
}
