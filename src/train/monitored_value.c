/* monitored_value.c: see monitored_value.h. */
#include "train/monitored_value.h"

bool monitors_training(pst_monitor m, bool validates)
{
    return m == PST_MONITOR_LOSS || m == PST_MONITOR_ACCURACY || (m == PST_MONITOR_AUTO && !validates);
}

bool more_is_better(pst_monitor m)
{
    return m == PST_MONITOR_ACCURACY || m == PST_MONITOR_VAL_ACCURACY || m == PST_MONITOR_VAL_AUC || m == PST_MONITOR_VAL_F1 ||
           m == PST_MONITOR_VAL_R2;
}

double monitored_value(pst_monitor m, const pst_run_progress *p, bool validates)
{
    switch (m) {
    case PST_MONITOR_LOSS:
        return p->loss;
    case PST_MONITOR_ACCURACY:
        return -p->accuracy;
    case PST_MONITOR_VAL_ACCURACY:
        return -p->val_accuracy;
    case PST_MONITOR_VAL_AUC:
        return -p->val_auc;
    case PST_MONITOR_VAL_F1:
        return -p->val_f1;
    case PST_MONITOR_VAL_MAE:
        return p->val_mae;
    case PST_MONITOR_VAL_R2:
        return -p->val_r2;
    default:
        return validates ? p->val_loss : p->loss;
    }
}
