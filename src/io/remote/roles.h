/* roles.h: keys that this machine gets from elsewhere: files, and the services of a container or a machine. */
#ifndef IO_REMOTE_ROLES_H
#define IO_REMOTE_ROLES_H

#include <penstock/base.h>
#include <time.h>

struct role_keys {
    char *access_key, *secret_key, *session_token, *region, *endpoint, *ca_file; /* NULL: not given */
    time_t expires;                                                              /* 0: never */
};

/* The file with the certificates of authorities that the environment names; NULL: none. */
const char *role_ca_file(void);
/* Each fills members that are NULL. A missing source is not an error; a broken one is. */
pst_status role_from_variables(struct role_keys *k, pst_error *reterr);
pst_status role_from_files(struct role_keys *k, pst_error *reterr);
pst_status role_from_services(struct role_keys *k, pst_error *reterr);
/* False: out of memory; `to` has nothing then. */
bool role_keys_copy(struct role_keys *to, const struct role_keys *from);
void role_keys_finish(struct role_keys *k);

/* The facts of a profile in a file besides its keys. */
struct role_profile {
    bool found;
    const char *other; /* where its keys come from, if that is not supported: "role_arn", …; NULL: from the file */
};
/* Reads one profile of a file of ~/.aws. `prefix` stands before its name in the section's ("profile "). */
pst_status role_read_profile(struct role_keys *k, struct role_profile *facts, const char *text, const char *prefix, const char *profile, pst_error *reterr);
/* Reads the answer of a service: AccessKeyId, SecretAccessKey, Token, Expiration. */
pst_status role_read_answer(struct role_keys *k, const char *text, size_t length, pst_error *reterr);

#endif
