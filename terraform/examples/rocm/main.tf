# A web with its database, and workers whose tasks use AMD GPUs.

variable "model_uuid" {
  description = "UUID of the model."
  type        = string
}

module "web" {
  source     = "../.."
  app_name   = "web"
  model_uuid = var.model_uuid
  config     = { mode = "web" }
  expose     = {}
}

module "rocm_worker" {
  source     = "../.."
  app_name   = "rocm-worker"
  model_uuid = var.model_uuid
  units      = 2
  config     = { mode = "worker", compute-runtime = "rocm" }
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
    name     = module.web.app_name
    endpoint = module.web.requires.postgresql
  }

  application {
    name     = juju_application.postgresql.name
    endpoint = "database"
  }
}

resource "juju_integration" "workers" {
  model_uuid = var.model_uuid

  application {
    name     = module.rocm_worker.app_name
    endpoint = module.rocm_worker.requires.flight
  }

  application {
    name     = module.web.app_name
    endpoint = module.web.provides.tsa
  }
}
