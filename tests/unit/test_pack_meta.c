/* test_pack_meta.c: the files that describe the shards, to the byte: other programs read them. */
#include "pack_sources.h"

#define CLASS "tensorflow_datasets.core.features."

/* Packs and compares one file of OUT with `want`. */
static void check_file(const char *source, const pst_pack_options *o, const char *file, const char *want)
{
    char out[512], path[600];
    pst_error e;
    size_t length;
    snprintf(out, sizeof(out), "%s-meta", folder);
    remove_folder(out);
    REQUIRE_OK(pack_one(in_folder(source), out, o, NULL, &e), &e);
    snprintf(path, sizeof(path), "%s/%s", out, file);
    if (!CHECK_MSG(access(path, F_OK) == 0, "%s is missing", file))
        return;
    uint8_t *data = test_read_file(path, &length);
    CHECK_MSG(strcmp((const char *)data, want) == 0, "%s of %s is\n%s\nexpected\n%s", file, source, (const char *)data, want);
    free(data);
}

#define OPEN                                                                                                                   \
    "{\n    \"pythonClassName\": \"" CLASS "features_dict.FeaturesDict\",\n    \"featuresDict\": {\n        \"features\": {\n"
#define CLOSE "\n        }\n    }\n}\n"
#define TENSOR(name, dtype, encoding, shape)                                                                                   \
    "            \"" name "\": {\"pythonClassName\": \"" CLASS "tensor_feature.Tensor\", \"tensor\": {\"dtype\": \"" dtype     \
    "\", \"encoding\": \"" encoding "\", \"shape\": {" shape "}}}"
#define TEXT(name) "            \"" name "\": {\"pythonClassName\": \"" CLASS "text_feature.Text\", \"text\": {}}"
#define IMAGE(format, shape)                                                                                                   \
    "            \"image\": {\"pythonClassName\": \"" CLASS "image_feature.Image\", \"image\": {\"dtype\": \"uint8\", " format \
    "\"shape\": {\"dimensions\": [" shape "]}}}"
#define LABEL(n)                                                                                                               \
    "            \"label\": {\"pythonClassName\": \"" CLASS                                                                    \
    "class_label_feature.ClassLabel\", \"classLabel\": {\"numClasses\": \"" n "\"}}"
#define REST                                                                                                                   \
    ",\n" LABEL("2") ",\n" TEXT("key") ",\n" TENSOR("width", "int64", "none", "") ",\n" TENSOR("height", "int64", "none", "")

static void features_of_images(void)
{
    pst_pack_options o = fast();
    make_classes(in_folder("classes"), 2, 6);
    o.shards = 3;
    check_file("classes", &o, "features.json", OPEN IMAGE("", "\"-1\", \"-1\", \"3\"") REST CLOSE);
    o.resize = "20x16";
    check_file("classes", &o, "features.json", OPEN IMAGE("", "\"16\", \"20\", \"3\"") REST CLOSE);
    o.format = PST_IMAGE_JPEG;
    o.resize = "16";
    check_file("classes", &o, "features.json",
               OPEN IMAGE("\"encodingFormat\": \"jpeg\", ", "\"-1\", \"-1\", \"3\"") REST CLOSE);
    o.format = PST_IMAGE_PNG;
    o.resize = "9x7";
    o.channels = 1;
    check_file("classes", &o, "features.json", OPEN IMAGE("\"encodingFormat\": \"png\", ", "\"7\", \"9\", \"1\"") REST CLOSE);
    o.format = PST_IMAGE_RAW;
    check_file("classes", &o, "features.json",
               OPEN TENSOR("image", "uint8", "bytes", "\"dimensions\": [\"7\", \"9\", \"1\"]") REST
               ",\n" TENSOR("channels", "int64", "none", "") CLOSE);
    o.resize = NULL;
    check_file("classes", &o, "features.json",
               OPEN TENSOR("image", "string", "none", "") REST ",\n" TENSOR("channels", "int64", "none", "") CLOSE);
    o.format = PST_IMAGE_YUV420;
    check_file("classes", &o, "features.json", OPEN TENSOR("image", "string", "none", "") REST CLOSE);
}

static void features_of_tables(void)
{
    pst_pack_options o = fast();
    write_text(in_folder("t.csv"), "id,x,gap,name\n1,2.5,1,a\n2,3,,b\n");
    check_file("t.csv", &o, "features.json",
               OPEN TENSOR("id", "int64", "none", "") ",\n" TENSOR("x", "float32", "none", "") ",\n" TENSOR(
                   "gap", "int64", "none", "\"dimensions\": [\"-1\"]") ",\n" TEXT("name") CLOSE);
    o.compression = PST_COMPRESSION_GZIP;
    o.features = "id=,x=,gap=,name=\"n\"";
    check_file("t.csv", &o, "features.json", OPEN TEXT("\\\"n\\\"") CLOSE);
}

static void features_of_records(void)
{
    pst_writer *w;
    pst_builder *b;
    pst_writer_options options = {.size = sizeof(options), .no_sync = true, .overwrite = true};
    pst_error e;
    make_folder(in_folder("theirs"));
    REQUIRE_OK(pst_writer_open(&w, in_folder("theirs/a.tfrecord"), &options, &e), &e);
    REQUIRE_OK(pst_builder_create(&b, &e), &e);
    for (size_t i = 0; i < 3; i++) {
        pst_bytes out, tags[3] = {{(const uint8_t *)"x", 1}, {(const uint8_t *)"y", 1}, {(const uint8_t *)"z", 1}};
        float point[2] = {1, 2};
        pst_builder_reset(b);
        pst_builder_add_int64s(b, "n", &(int64_t){(int64_t)i}, 1, &e);
        pst_builder_add_floats(b, "point", point, 2, &e);
        pst_builder_add_bytes(b, "tags", tags, i, &e);
        REQUIRE_OK(pst_builder_finish(b, &out, &e), &e);
        REQUIRE_OK(pst_writer_write(w, out.data, out.length, &e), &e);
    }
    REQUIRE_OK(pst_writer_commit(w, &e), &e);
    pst_writer_close(w);
    pst_builder_destroy(b);
    pst_pack_options o = fast();
    check_file(
        "theirs", &o, "features.json",
        OPEN TENSOR("n", "int64", "none", "") ",\n" TENSOR("point", "float32", "none", "\"dimensions\": [\"2\"]") ",\n" TENSOR(
            "tags", "string", "none", "\"dimensions\": [\"-1\"]") CLOSE);
}

static void splits_and_labels(void)
{
    pst_pack_options o = fast();
    o.name = "photos";
    o.version = "2.1.0";
    o.split = "train=0.75,val=0.25";
    o.shards = 2;
    write_text(in_folder("lines.txt"), "one\ntwo\nthree\nfour\nfive\n");
    check_file(
        "lines.txt", &o, "dataset_info.json",
        "{\n    \"fileFormat\": \"tfrecord\",\n    \"name\": \"photos\",\n    \"version\": \"2.1.0\",\n    \"splits\": [\n"
        "        {\n            \"filepathTemplate\": \"{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}\",\n            "
        "\"name\": "
        "\"train\",\n            \"numBytes\": \"78\",\n            \"shardLengths\": [\"2\", \"2\"]\n        },\n"
        "        {\n            \"filepathTemplate\": \"{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}\",\n            "
        "\"name\": "
        "\"val\",\n            \"numBytes\": \"21\",\n            \"shardLengths\": [\"1\"]\n        }\n    ]\n}\n");
    make_classes(in_folder("classes"), 2, 6);
    make_folder(in_folder("classes/Zoo"));
    o = fast();
    check_file("classes", &o, "labels.txt", "Zoo\nape\nbee\n");
    check_file("classes", &o, "label.labels.txt", "Zoo\nape\nbee\n");
}

int main(int argc, char **argv)
{
    snprintf(folder, sizeof(folder), "%s", test_path("meta"));
    make_folder(folder);
    return test_main(argc, argv,
                     (const struct test[]){
                         {"features of images", features_of_images},
                         {"features of tables", features_of_tables},
                         {"features of records", features_of_records},
                         {"splits and labels", splits_and_labels},
                         {NULL, NULL},
                     });
}
