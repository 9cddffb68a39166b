/* harness_probe.c: a table of tests that pass and fail on purpose, for test_harness.py. */
#include "harness.h"

static void test_pass(void)
{
    CHECK(test_folder()[0] == '/');
}

static void test_fail(void)
{
    CHECK_INT(1 + 1, 3);
}

static void test_leave(void)
{
    REQUIRE(1 > 2);
    CHECK_MSG(false, "not reached");
}

static const struct test tests[] = {
    {"one that passes", test_pass},
    {"one that fails", test_fail},
    {"one that leaves", test_leave},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    test_folder(); /* removed whatever the arguments are */
    return test_main(argc, argv, tests);
}
