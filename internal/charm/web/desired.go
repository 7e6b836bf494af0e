package web

import (
	"concourse-ci-machine/internal/charm/juju"
	"concourse-ci-machine/internal/charm/relation"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/concourse"
	"concourse-ci-machine/internal/concourse/postgres"
)

// Desired is what a unit that is a web should be.
type Desired struct {
	role.Desired
	Web
}

// Web is what of it no worker has.
type Web struct {
	Up       bool     // it should be running after applying
	Cut      []string // keys of the workers that left and are cut off by applying
	URL      string   // where people find it
	LocalURL string   // where this machine does
	Ports    []juju.Port

	Route relation.Route // what the application asks a reverse proxy for

	Secret  map[string]string // what the application's secret should hold, nil where this unit has no say
	Request string            // for a certificate, PEM

	// Of one that is up: its database as Concourse takes it, the same for the
	// charm's own connections, and its environment.
	Database    concourse.WebDatabase
	Repair      postgres.Config
	Environment map[string]string

	Jobs bool // concourse-exporter should be running after applying, and Concourse's own metrics
}
