/* penstock.h: everything. */
#ifndef PENSTOCK_H
#define PENSTOCK_H

#include <penstock/base.h>
#include <penstock/compress.h>
#include <penstock/doctor.h>
#include <penstock/example.h>
#include <penstock/export.h>
#include <penstock/image.h>
#include <penstock/inspect.h>
#include <penstock/model.h>
#include <penstock/monitor.h>
#include <penstock/network.h>
#include <penstock/op.h>
#include <penstock/pack.h>
#include <penstock/pipeline.h>
#include <penstock/plugin.h>
#include <penstock/predict.h>
#include <penstock/ranks.h>
#include <penstock/record.h>
#include <penstock/report.h>
#include <penstock/store.h>
#include <penstock/train.h>

#endif
