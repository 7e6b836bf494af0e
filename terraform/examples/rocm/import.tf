# The charm is a file: juju deploy brings it, and Terraform takes the applications over.
# For a charm of Charmhub leave this file out and give the modules a channel.
import {
  to = module.web.juju_application.concourse
  id = "${var.model_uuid}:web"
}

import {
  to = module.rocm_worker.juju_application.concourse
  id = "${var.model_uuid}:rocm-worker"
}
