"""penstock.doctor as a module: `python -m penstock.doctor train.py` watches a script. The module can be called like the function.

    python -m penstock.doctor [--json OUT] [--html OUT] [--seconds 60] [--whole] train.py arguments…
"""

import sys
import types


class _Callable(types.ModuleType):
    def __call__(self, *args, **given):
        from penstock._doctor.run import doctor

        return doctor(*args, **given)


if __name__ == "__main__":
    from penstock._doctor.main import main

    sys.exit(main())
sys.modules[__name__].__class__ = _Callable
