/* train_profile.c: the times of a training step as a table. */
#include "cli/json.h"
#include "cli/say.h"
#include "cli/train_report.h"
#include <stdio.h>

static void put_row(const char *name, const char *pass, double seconds, double flops, double bytes, const char *why)
{
    char size[AMOUNT_SIZE];

    printf("%-24.24s %-8s %9.3f", name, pass, 1e3 * seconds);
    if (flops > 0 && seconds > 0)
        printf(" %8.1f", flops / seconds / 1e9);
    else
        printf(" %8s", "");
    printf(" %10s  %s\n", bytes > 0 ? amount_bytes(size, (uint64_t)bytes) : "", why);
}

static void put_table(const pst_trainer *t, const pst_train_stats *all)
{
    pst_layer_stats l = {.size = sizeof(l)};
    double layers = 0, flops = 0;

    printf("\n%llu steps of %.0f samples, means per step\n", (unsigned long long)all->steps, all->samples);
    printf("%-24s %-8s %9s %8s %10s  %s\n", "layer", "pass", "ms", "GFLOP/s", "bytes", "computed by");
    for (size_t i = 0; pst_trainer_stats_at(t, i, &l); i++) {
        char name[64];

        snprintf(name, sizeof(name), l.layers > 1 ? "%.20s +%zu" : "%.24s", l.layer, l.layers - 1);
        put_row(name, "forward", l.forward, (double)l.forward_flops, (double)l.forward_bytes, l.implementation);
        put_row("", "backward", l.backward, (double)l.backward_flops, (double)l.backward_bytes, "");
        layers += l.forward + l.backward;
        flops += (double)l.forward_flops + (double)l.backward_flops;
    }
    put_row("all layers", "", layers, flops, 0, "");
    put_row("loss and metrics", "", all->loss, 0, 0, "");
    put_row("optimiser", "", all->update, 0, 0, "");
    put_row("step", "", all->forward + all->loss + all->backward + all->update, 0, 0, "");
}

static void put_json(const pst_trainer *t, const pst_train_stats *all)
{
    struct json j = json_to(stdout);
    pst_layer_stats l = {.size = sizeof(l)};

    json_begin_object(&j, NULL);
    json_string(&j, "command", "profile");
    json_uint(&j, "steps", all->steps);
    json_number(&j, "samples", all->samples);
    json_number(&j, "forward_s", all->forward);
    json_number(&j, "loss_s", all->loss);
    json_number(&j, "backward_s", all->backward);
    json_number(&j, "update_s", all->update);
    json_begin_array(&j, "layers");
    for (size_t i = 0; pst_trainer_stats_at(t, i, &l); i++) {
        json_begin_object(&j, NULL);
        json_string(&j, "layer", l.layer);
        json_uint(&j, "layers", l.layers);
        json_string(&j, "implementation", l.implementation);
        json_string(&j, "why", l.why);
        json_number(&j, "forward_s", l.forward);
        json_number(&j, "backward_s", l.backward);
        json_uint(&j, "forward_flops", l.forward_flops);
        json_uint(&j, "backward_flops", l.backward_flops);
        json_uint(&j, "forward_bytes", l.forward_bytes);
        json_uint(&j, "backward_bytes", l.backward_bytes);
        json_end_object(&j);
    }
    json_end_array(&j);
    json_end_object(&j);
    putchar('\n');
}

bool train_profile(const pst_trainer *t, bool json)
{
    pst_train_stats all = {.size = sizeof(all)};

    if (!pst_trainer_stats(t, &all))
        return false;
    if (json)
        put_json(t, &all);
    else
        put_table(t, &all);
    return true;
}
