#!/usr/bin/env python3
# A stand-in: the names by which it is known.
METRICS = ["concourse_job_last_build_status", "concourse_exporter_info"]
