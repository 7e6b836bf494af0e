// Package agent runs hooks and actions of a built charm the way the unit agent
// of Juju 3.6.11 does: with Juju's own API client, hook context, runner, jujuc
// server and hook tools. Only the controller behind the API is a model in
// memory (Model), which answers the calls of Juju's facades Uniter,
// SecretsManager and ResourcesHookContext with their permission rules, and
// decides from the same versions and revisions as Juju's watchers which hooks
// are due (Unit.Settle). Where a rule is kept, the comment names the function
// in Juju's source that has it.
//
// It links Juju, which is AGPL-3.0, and is for tests: nothing of it is ever
// part of the charm. Its module path begins with Juju's, so that Go lets it
// import Juju's internal packages.
//
// Not modelled: storage, payloads, metrics, subordinates, other models, secret
// rotation, expiry and secret backends outside the controller.
package agent
