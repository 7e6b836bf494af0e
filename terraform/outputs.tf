output "app_name" {
  description = "Name of the application."
  value       = juju_application.concourse.name
}

output "provides" {
  description = "Endpoints that the charm provides."
  value = {
    cos_agent  = "cos-agent"
    monitoring = "monitoring"
    tsa        = "tsa"
  }
}

output "requires" {
  description = "Endpoints that the charm requires."
  value = {
    catalogue        = "catalogue"
    certificates     = "certificates"
    fleet_route      = "fleet-route"
    flight           = "flight"
    haproxy_route    = "haproxy-route"
    ldap             = "ldap"
    postgresql       = "postgresql"
    receive_ca_certs = "receive-ca-certs"
    tracing          = "tracing"
    vault_kv         = "vault-kv"
  }
}
