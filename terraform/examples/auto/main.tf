# One application that is everything: its leader is the web, the others are workers.

variable "model_uuid" {
  description = "UUID of the model."
  type        = string
}

module "concourse_ci" {
  source     = "../.."
  model_uuid = var.model_uuid
  units      = 3
  expose     = {}
}

resource "juju_application" "postgresql" {
  name       = "postgresql"
  model_uuid = var.model_uuid

  charm {
    name    = "postgresql"
    channel = "16/stable"
  }
}

resource "juju_integration" "database" {
  model_uuid = var.model_uuid

  application {
    name     = module.concourse_ci.app_name
    endpoint = module.concourse_ci.requires.postgresql
  }

  application {
    name     = juju_application.postgresql.name
    endpoint = "database"
  }
}
