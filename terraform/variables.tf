variable "app_name" {
  description = "Name of the application."
  type        = string
  default     = "concourse-ci"
  nullable    = false
}

variable "base" {
  description = "Base of an application that is made: ubuntu@24.04, ubuntu@26.04 or ubuntu@22.04."
  type        = string
  default     = "ubuntu@24.04"
  nullable    = false

  validation {
    condition     = contains(["ubuntu@24.04", "ubuntu@26.04", "ubuntu@22.04"], var.base)
    error_message = "The charm is made for three bases: set base to ubuntu@24.04, ubuntu@26.04 or ubuntu@22.04."
  }
}

variable "channel" {
  description = "Channel on Charmhub of an application that is made."
  type        = string
  default     = null
}

variable "config" {
  description = "Options of the charm, by name. An option that holds a secret takes the URI of a Juju secret."
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition     = contains(["auto", "all", "web", "worker"], lookup(var.config, "mode", "auto"))
    error_message = "Set mode in config to auto (the leader is the web, the other units are workers), all (the leader is a worker, too), web or worker, or leave it out for auto."
  }
}

variable "constraints" {
  description = "Constraints of the machines, such as cores=8 mem=32G. Another value replaces the application."
  type        = string
  default     = null
}

variable "expose" {
  description = "Lets people in through a cloud's firewall: {} from everywhere, or with cidrs, endpoints or spaces, each with commas between. null does not."
  type = object({
    cidrs     = optional(string)
    endpoints = optional(string)
    spaces    = optional(string)
  })
  default = null
}

variable "machines" {
  description = "Ids of the machines for the units, one each, in place of units."
  type        = set(string)
  default     = null
}

variable "model_uuid" {
  description = "UUID of the model."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", var.model_uuid))
    error_message = "Set model_uuid to the model's UUID, not its name: juju show-model prints it as model-uuid."
  }
}

variable "resources" {
  description = "Revision on Charmhub of the resource concourse-release. juju attach-resource has files."
  type        = map(string)
  default     = null

  validation {
    condition     = alltrue([for name, revision in coalesce(var.resources, {}) : name == "concourse-release" && can(regex("^[0-9]+$", revision))])
    error_message = "Set resources to { concourse-release = \"<revision>\" } with a number of Charmhub's. A file goes to the units by juju attach-resource."
  }
}

variable "revision" {
  description = "Revision on Charmhub of an application that is made."
  type        = number
  default     = null
}

variable "units" {
  description = "Number of units."
  type        = number
  default     = 1
  nullable    = false
}
