// Package wrapperfile declares the wrapper's config file for the programs that write or read
// it. The wrapper itself reads it with package oci, which needs fewer packages.
package wrapperfile

import (
	"github.com/fourdollars/concourse-ci-machine/internal/base/statefile"
	"github.com/fourdollars/concourse-ci-machine/internal/oci"
)

// File declares the config file of a unit. task-env may hold a secret, so only root can
// read it.
var File = At(oci.DefaultConfig)

// At declares a config file at another path.
func At(path string) statefile.File[oci.Config] {
	return statefile.File[oci.Config]{Path: path, Mode: 0o600, Version: oci.ConfigVersion}
}
