# The charm is a file: juju deploy brings it, and Terraform takes the application over.
# For a charm of Charmhub leave this file out and give the module a channel.
import {
  to = module.concourse_ci.juju_application.concourse
  id = "${var.model_uuid}:concourse-ci"
}
