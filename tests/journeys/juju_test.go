//go:build e2e

package journeys

// juju replaces Juju's client on a machine with the whole CI. Options of applications and
// actions of units are the machine's. Other commands of Juju need a cloud.
const juju = `#!/bin/bash
set -eu
verb=$1
shift 2 # and the application or the unit
case $verb in
config)
	if [ "$1" = --reset ]; then exec sudo concourse-ci-machine reset ${2//,/ }; fi
	for pair; do
		case $pair in
		*=@*) pair=${pair%%=@*}=$(cat "${pair#*=@}") ;;
		esac
		set -- "$@" "$pair"
		shift
	done
	exec sudo concourse-ci-machine set "$@" ;;
run)
	if [ "$1" = why ]; then set -- why ${2+"${2#task=}"}; fi # a parameter of the action, and a word of the command
	exec sudo concourse-ci-machine "$@" ;;
ssh) exec bash -c "$*" ;;
esac
echo "juju $verb needs a cloud" >&2
exit 1
`
