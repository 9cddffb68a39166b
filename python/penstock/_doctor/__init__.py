"""Why is training slow? penstock.doctor for any loader; `python -m penstock.doctor` for any script. See docs/python.md."""
