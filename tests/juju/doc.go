// Package juju runs the built charm as a unit agent of Juju 3.6.11 does, and
// holds the in-memory hook tools of internal/testutil/jujutest to Juju's own: its
// API client, hook context, runner and hook tools are real, the controller is
// the model in agent/, with the permission rules of Juju's facades. A unit's
// machine is internal/testutil/sandbox.
//
// It is its own module because it links Juju, which is AGPL-3.0 and large. Nothing of it is
// ever part of the charm: the charm is built from the module above, which does not know of
// this one. `make test-juju` runs it.
package juju
