/* result_json.c: the result in the form that docs/doctor.md describes. Members are only ever added. */
#include "doctor/doctor.h"

#include "base/error.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/secret.h"

#include <math.h>
#include <string.h>

static double seconds_for(const struct pst_doctor *d, double rate)
{
    return rate > 0 && d->epoch_samples > 0 ? d->epoch_samples / rate : NAN;
}

static double total_for(const struct pst_doctor *d, double rate)
{
    return d->options.epochs ? (double)d->options.epochs * seconds_for(d, rate) : NAN;
}

static void put_verdict(struct json *j, const struct pst_doctor *d)
{
    json_begin_object(j, "verdict");
    json_string(j, "class", d->class_name);
    json_number(j, "wait_share", d->wait_share);
    json_string(j, "bottleneck", d->bottleneck);
    json_string(j, "stage", d->verdict_stage);
    json_string(j, "cause", d->cause);
    json_shown(j, "sentence", d->sentence);
    json_number(j, "limit_step_ms", d->limit_step_ms);
    json_end_object(j);
}

static void put_now(struct json *j, const struct pst_doctor *d)
{
    json_begin_object(j, "now");
    json_number(j, "samples_per_s", d->now_rate);
    json_number(j, "low", d->now_low);
    json_number(j, "high", d->now_high);
    json_number(j, "epoch_seconds", seconds_for(d, d->now_rate));
    json_number(j, "total_seconds", total_for(d, d->now_rate));
    json_bool(j, "upper_bound", d->cold_unknown);
    json_number(j, "pipeline_samples_per_s", d->pipe_rate);
    json_number(j, "measured_samples_per_s", d->run.rate);
    json_number(j, "measured_seconds", d->run.seconds);
    json_number(j, "first_batch_seconds", d->run.first_batch);
    json_uint(j, "ram_bytes", d->run.ram_planned);
    json_number(j, "disk_bytes", d->data_bytes);
    json_uint(j, "workers", d->run.workers);
    json_uint(j, "prefetch", d->run.prefetch);
    json_number(j, "cpu_us_per_sample", d->costs.cpu_us);
    json_number(j, "wait_us_per_sample", d->costs.blocked_us);
    json_number(j, "serial_us_per_sample", d->costs.serial_us);
    if (d->options.epoch_hours > 0) {
        double seconds = seconds_for(d, d->now_rate);
        json_number(j, "observed_epoch_seconds", 3600 * d->options.epoch_hours);
        json_number(j, "explained_share", seconds / (3600 * d->options.epoch_hours));
    }
    json_end_object(j);
}

static void put_limits(struct json *j, const struct pst_doctor *d)
{
    const struct limits *l = &d->limits;
    json_begin_object(j, "limits");
    json_uint(j, "cores", l->cores);
    json_uint(j, "cores_online", l->cores_online);
    json_number(j, "quota_cores", l->quota > 0 ? l->quota : NAN);
    json_number(j, "steal_share", l->steal);
    json_number(j, "load_per_core", l->load);
    json_number(j, "others_share", d->run.delay);
    json_number(j, "scaling", l->scaling);
    json_uint(j, "memory_total_bytes", l->memory_total);
    json_uint(j, "memory_available_bytes", l->memory_available);
    json_number(j, "memory_bytes_per_s", l->memory_bandwidth);
    json_number(j, "handoff_us", l->handoff_us);
    json_number(j, "storage_sequential_warm_bytes_per_s", l->sequential_warm > 0 ? l->sequential_warm : NAN);
    json_number(j, "storage_sequential_cold_bytes_per_s", l->sequential_cold > 0 ? l->sequential_cold : NAN);
    json_number(j, "storage_random_warm_bytes_per_s", l->random_warm > 0 ? l->random_warm : NAN);
    json_number(j, "storage_random_cold_bytes_per_s", l->random_cold > 0 ? l->random_cold : NAN);
    json_number(j, "storage_random_cold_deep_bytes_per_s", l->random_cold_deep > 0 ? l->random_cold_deep : NAN);
    json_uint(j, "storage_queue_depth", l->deep);
    json_bool(j, "storage_cold_known", l->cold_known);
    json_number(j, "decode_megapixels_per_s", l->decode_mpixels > 0 ? l->decode_mpixels : NAN);
    json_number(j, "decode_entropy_share", l->entropy_share);
    json_number(j, "measured_at", l->measured_at);
    json_end_object(j);
}

static void put_remote(struct json *j, const struct pst_doctor *d)
{
    const struct remote *r = &d->remote;
    double rate = d->options.wish_rate > 0 ? d->options.wish_rate : d->step.rate > 0 && isfinite(d->step.rate) ? d->step.rate : d->run.rate;
    unsigned needed = remote_connections(d, rate * d->costs.read_bytes);
    if (!r->known)
        return;
    json_begin_object(j, "remote");
    json_number(j, "latency_ms", 1e3 * r->latency);
    json_number(j, "connection_bytes_per_s", r->connection);
    json_uint(j, "connections", r->connections);
    json_number(j, "bytes_per_s", r->present);
    json_uint(j, "best_connections", r->best);
    json_number(j, "best_bytes_per_s", r->most);
    json_number(j, "requests_per_s", r->requests);
    json_number(j, "connections_needed", needed ? needed : NAN);
    json_number(j, "cache_bytes", d->data_bytes);
    json_number(j, "epoch_requests", remote_requests(d));
    json_number(j, "epoch_gb", d->data_bytes / 1e9);
    json_bool(j, "cached", r->cached);
    json_string(j, "later_epochs", remote_later(d));
    json_bool(j, "limits", r->binds);
    json_end_object(j);
}

/* Where epochs after the first find the data, as a sentence. */
static void put_cache(struct json *j, const struct pst_doctor *d)
{
    if (d->remote.known)
        json_format(j, "cache", "the data comes from a store: %s", remote_later_words(d));
    else if (!isfinite(d->data_bytes))
        json_string(j, "cache", "whether the data set fits into memory is not known, because its size is not");
    else if (d->cold_unknown)
        json_string(j, "cache", "the data set does not fit into memory, and the rate of its storage is not known: rates are those of data in memory");
    else if (d->cold)
        json_string(j, "cache", "the data set does not fit into memory: the first epochs on a sample read from the page cache, the real ones will not");
    else
        json_string(j, "cache", "the data set fits into memory: after the first epoch it is read from the page cache");
}

static void put_data(struct json *j, const struct pst_doctor *d)
{
    const struct survey *s = &d->survey;
    json_begin_object(j, "data");
    json_string(j, "source", d->facts.source);
    json_number(j, "samples", d->epoch_samples);
    json_number(j, "bytes", d->data_bytes);
    json_number(j, "bytes_per_sample", d->run.read_bytes);
    json_bool(j, "indexed", d->facts.indexed);
    json_bool(j, "file_per_sample", s->file_per_element);
    json_bool(j, "cold", d->cold);
    put_cache(j, d);
    if (s->images) {
        json_number(j, "image_width", s->width);
        json_number(j, "image_height", s->height);
        json_number(j, "image_bytes", s->image_bytes);
        json_number(j, "jpeg_share", s->jpeg_share);
    }
    json_uint(j, "sampled", s->count);
    json_end_object(j);
}

static void put_step(struct json *j, const struct pst_doctor *d)
{
    const struct step *s = &d->step;
    json_begin_object(j, "step");
    json_number(j, "ms", s->ms);
    json_number(j, "wait_ms", judge_wait_ms(d));
    json_number(j, "transfer_ms", s->origin ? 0 : NAN);
    json_number(j, "compute_ms", judge_compute_ms(d));
    json_string(j, "origin", s->origin);
    if (s->model) {
        json_number(j, "forward_ms", s->forward_ms);
        json_number(j, "backward_ms", s->backward_ms);
        json_number(j, "optimizer_ms", s->optimizer_ms);
        json_string(j, "model", s->model);
    }
    json_begin_array(j, "layers");
    for (size_t i = 0; i < s->layers; i++) {
        json_begin_object(j, NULL);
        json_string(j, "name", s->layer[i].name);
        json_number(j, "ms", s->layer[i].forward_ms + s->layer[i].backward_ms);
        json_number(j, "forward_ms", s->layer[i].forward_ms);
        json_number(j, "backward_ms", s->layer[i].backward_ms);
        json_end_object(j);
    }
    json_end_array(j);
    json_end_object(j);
}

/* The checksums of records are checked when they are first read: a part of the read stage then, and nothing later. */
static void put_checksum(struct json *j, const struct limits *l)
{
    if (!(l->checksum_us > 0))
        return;
    json_begin_object(j, NULL);
    json_string(j, "name", "checksum");
    json_number(j, "us_per_sample", l->checksum_us);
    json_number(j, "low", l->checksum_low);
    json_number(j, "high", l->checksum_high);
    json_null(j, "share");
    json_null(j, "cores");
    json_string(j, "kind", "checksum");
    json_end_object(j);
}

static void put_stages(struct json *j, const struct pst_doctor *d)
{
    json_begin_array(j, "stages");
    json_lines(j);
    for (size_t i = 0; i < d->stages; i++) {
        const struct stage_cost *s = &d->stage[i];
        json_begin_object(j, NULL);
        json_string(j, "name", s->name);
        json_number(j, "us_per_sample", s->us);
        json_number(j, "low", s->low);
        json_number(j, "high", s->high);
        json_number(j, "share", s->share);
        json_number(j, "cores", s->cores);
        json_string(j, "kind", s->kind);
        json_number(j, "alone_us", s->alone_us);
        json_number(j, "difference_us", s->difference_us);
        json_number(j, "bytes", s->bytes);
        json_end_object(j);
        if (i == 0)
            put_checksum(j, &d->limits);
    }
    if (d->facts.batch) {
        json_begin_object(j, NULL);
        json_string(j, "name", "hand-off");
        json_number(j, "us_per_sample", d->limits.handoff_us / (double)d->facts.batch);
        json_null(j, "low");
        json_null(j, "high");
        json_null(j, "share");
        json_number(j, "cores", d->limits.handoff_us / (double)d->facts.batch * d->run.rate * 1e-6);
        json_string(j, "kind", "hand-off");
        json_end_object(j);
    }
    json_end_array(j);
    json_begin_array(j, "cuts");
    for (size_t i = 0; i < d->cuts; i++) {
        json_begin_object(j, NULL);
        json_string(j, "after", d->cut[i].name);
        json_number(j, "us_per_sample", d->cut[i].us);
        json_number(j, "difference_us", d->cut[i].difference_us);
        json_end_object(j);
    }
    json_end_array(j);
}

static void put_remedy(struct json *j, const struct pst_doctor *d, const struct remedy *r)
{
    double after = remedy_after(d, r), low, high;
    remedy_range(d, r, &low, &high);
    json_begin_object(j, NULL);
    json_string(j, "id", r->id);
    json_shown(j, "title", r->title);
    json_bool(j, "available", r->available);
    json_string(j, "cause", r->flaw ? r->cause : NULL);
    json_shown(j, "command", r->command);
    json_shown(j, "pipeline", r->pipeline);
    json_shown(j, "diff", r->diff);
    if (isfinite(after)) {
        json_begin_object(j, "predicted");
        json_number(j, "samples_per_s", after);
        json_number(j, "gain", r->gain);
        json_number(j, "epoch_seconds", seconds_for(d, after));
        json_number(j, "total_seconds", total_for(d, after));
        json_number(j, "pipeline_samples_per_s", r->rate);
        json_number(j, "low", low);
        json_number(j, "high", high);
        json_bool(j, "upper_bound", r->upper);
        json_string(j, "basis", r->basis);
        json_end_object(j);
    } else {
        json_null(j, "predicted");
    }
    if (isfinite(r->measured)) {
        json_begin_object(j, "measured");
        json_number(j, "samples_per_s", r->measured);
        json_number(j, "low", r->measured_low);
        json_number(j, "high", r->measured_high);
        json_number(j, "now_samples_per_s", r->measured_now);
        json_number(j, "gain", r->measured / r->measured_now);
        json_number(j, "predicted_samples_per_s", r->rate_on_sample);
        json_number(j, "error", r->rate_on_sample / r->measured - 1);
        json_number(j, "epoch_seconds", seconds_for(d, judge_measured(d, r)));
        json_end_object(j);
    } else {
        json_null(j, "measured");
    }
    if (r->infer_now > 0) {
        json_begin_object(j, "inference");
        json_number(j, "now_samples_per_s", r->infer_now);
        json_number(j, "small_samples_per_s", r->infer_small > 0 ? r->infer_small : NAN);
        json_number(j, "int8_samples_per_s", r->infer_int8 > 0 ? r->infer_int8 : NAN);
        json_end_object(j);
    }
    if (r->ranks)
        json_uint(j, "machines", r->ranks);
    json_begin_object(j, "price");
    json_number(j, "disk_bytes", r->disk_bytes);
    json_number(j, "ram_bytes", r->ram_bytes);
    json_number(j, "seconds", r->seconds);
    json_number(j, "psnr", r->psnr > 0 ? r->psnr : NAN);
    json_string(j, "note", r->price[0] ? r->price : NULL);
    json_end_object(j);
    json_string(j, "risk", r->risk[0] ? r->risk : NULL);
    json_string(j, "effort", remedy_effort(r));
    json_end_object(j);
}

static void put_path(struct json *j, const struct pst_doctor *d)
{
    json_begin_array(j, "path");
    json_lines(j);
    for (size_t i = 0; i < d->path_steps; i++) {
        double rate = d->path[i].rate;
        json_begin_object(j, NULL);
        json_string(j, "id", d->path[i].remedy->id);
        json_shown(j, "title", d->path[i].remedy->title);
        json_begin_object(j, "predicted");
        json_number(j, "samples_per_s", rate);
        json_number(j, "gain", rate / d->now_rate);
        json_number(j, "epoch_seconds", seconds_for(d, rate));
        json_number(j, "total_seconds", total_for(d, rate));
        json_end_object(j);
        json_end_object(j);
    }
    json_end_array(j);
}

static void put_base64(struct json *j, const char *key, const uint8_t *data, size_t length)
{
    struct text t = {0}, *to = j->to;
    text_add_base64(&t, data, length);
    json_string(j, key, t.data);
    to->failed |= t.failed;
    text_finish(&t);
}

/* Samples before and after the remedies that change pixels. */
static void put_images(struct json *j, const struct pst_doctor *d)
{
    json_begin_array(j, "images");
    json_lines(j);
    for (size_t i = 0; i < d->remedies; i++)
        for (size_t k = 0; k < PICTURES; k++) {
            const struct picture *p = &d->remedy[i].picture[k];
            if (!p->before || !d->remedy[i].available)
                continue;
            json_begin_object(j, NULL);
            json_string(j, "remedy", d->remedy[i].id);
            json_format(j, "caption", "%s, sample %zu", d->remedy[i].id, k + 1);
            put_base64(j, "before", p->before, p->before_length);
            put_base64(j, "after", p->after, p->after_length);
            json_end_object(j);
        }
    json_end_array(j);
}

static void put_machine(struct json *j, const struct pst_doctor *d)
{
    char cpu[200], system[160];
    machine_cpu(cpu, sizeof(cpu));
    machine_system(system, sizeof(system));
    json_begin_object(j, "machine");
    json_string(j, "cpu", cpu[0] ? cpu : NULL);
    json_uint(j, "cores", d->limits.cores);
    json_uint(j, "memory_bytes", d->limits.memory_total);
    json_string(j, "system", system[0] ? system : NULL);
    json_end_object(j);
}

static void put_sweep(struct json *j, const struct pst_doctor *d)
{
    static const char *const names[] = {"none", "batch", "workers", "prefetch"};
    json_begin_array(j, "sweeps");
    json_begin_object(j, NULL);
    json_string(j, "by", names[d->options.sweep]);
    json_begin_array(j, "points");
    for (size_t i = 0; i < d->sweeps; i++) {
        const struct sweep_point *p = &d->sweep[i];
        json_begin_object(j, NULL);
        json_uint(j, "value", p->value);
        json_number(j, "samples_per_s", p->rate);
        json_number(j, "low", p->low);
        json_number(j, "high", p->high);
        json_number(j, "epoch_seconds", p->epoch_seconds);
        json_uint(j, "ram_bytes", p->ram);
        json_number(j, "pipeline_samples_per_s", p->pipeline);
        json_end_object(j);
    }
    json_end_array(j);
    json_uint(j, "recommended", d->sweep_choice);
    json_string(j, "reason", d->sweep_reason);
    json_string(j, "basis", d->sweep_basis);
    json_bool(j, "measured", d->sweep_measured);
    json_end_object(j);
    json_end_array(j);
}

/* Batches over time: rates of the windows of the main run. */
static void put_timeline(struct json *j, const struct pst_doctor *d)
{
    json_begin_array(j, "timeline");
    for (size_t i = 0; i < d->run.windows; i++) {
        json_begin_object(j, NULL);
        json_number(j, "seconds", d->run.seconds * ((double)i + 0.5) / (double)d->run.windows);
        json_number(j, "samples_per_s", d->run.window[i]);
        json_end_object(j);
    }
    json_end_array(j);
}

static void put_settings(struct json *j, const struct pst_doctor *d)
{
    const pst_pipeline_options *o = &d->now.options;
    json_begin_object(j, "settings");
    json_uint(j, "batch", d->facts.batch);
    json_uint(j, "workers", o->workers);
    json_uint(j, "prefetch", o->prefetch);
    json_uint(j, "ram_bytes", d->facts.ram);
    json_uint(j, "epochs", d->options.epochs);
    json_bool(j, "quick", d->options.quick);
    json_string(j, "version", pst_version());
    json_end_object(j);
}

pst_status result_json(struct pst_doctor *d, pst_error *reterr)
{
    struct text t = {0};
    struct json j = {.put = text_put, .to = &t, .indent = 2};
    json_begin_object(&j, NULL);
    json_lines(&j);
    json_uint(&j, "schema", 1);
    json_shown(&j, "subject", d->subject);
    json_shown(&j, "pipeline", d->text);
    json_bool(&j, "pipeline_written", d->written);
    put_verdict(&j, d);
    put_now(&j, d);
    put_limits(&j, d);
    put_remote(&j, d);
    put_data(&j, d);
    put_step(&j, d);
    put_stages(&j, d);
    json_begin_array(&j, "remedies");
    json_lines(&j);
    for (size_t i = 0; i < d->remedies; i++)
        put_remedy(&j, d, &d->remedy[i]);
    json_end_array(&j);
    put_path(&j, d);
    if (d->sweeps)
        put_sweep(&j, d);
    put_timeline(&j, d);
    put_images(&j, d);
    put_machine(&j, d);
    put_settings(&j, d);
    json_number(&j, "doctor_seconds", d->seconds);
    json_end_object(&j);
    text_add(&t, "\n");
    if (t.failed) {
        text_finish(&t);
        return fail_memory(reterr, "writing the result");
    }
    mem_free(d->json);
    d->json = t.data;
    return PST_OK;
}
