resource "juju_application" "concourse" {
  name       = var.app_name
  model_uuid = var.model_uuid

  charm {
    name     = "concourse-ci-machine"
    channel  = var.channel
    revision = var.revision
    base     = var.base
  }

  config      = var.config
  constraints = var.constraints
  resources   = var.resources

  # The provider takes one of the two.
  units    = var.machines == null ? var.units : null
  machines = var.machines

  dynamic "expose" {
    for_each = var.expose[*]
    content {
      cidrs     = expose.value.cidrs
      endpoints = expose.value.endpoints
      spaces    = expose.value.spaces
    }
  }

  # juju refresh changes the charm. Without this the provider would look for a revision on
  # Charmhub at each change of the application, and replace it where its base is another.
  lifecycle {
    ignore_changes = [charm]
  }
}
