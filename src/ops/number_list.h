/* number_list.h: lists of numbers in one word: "16,32,64". */
#ifndef OPS_NUMBER_LIST_H
#define OPS_NUMBER_LIST_H

#include <penstock/base.h>

/* Reads up to `most` whole numbers that commas separate; "" is an empty list. `name` is the parameter, for errors. */
pst_status number_list_read(const char *name, const char *text, uint64_t *ret, size_t most, size_t *ret_count,
                            pst_error *reterr);

#endif
