package config

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
)

func TestASecretOfJujuIsRefusedWithoutJuju(t *testing.T) {
	wellknown.Command = wellknown.MachineProgram
	t.Cleanup(func() { wellknown.Command = wellknown.Dispatch })
	_, err := Secrets{}.read("secret:d0000000000000000000", "ldap-bind-pw")
	require.EqualError(t, err, "the value starts with secret:, and secrets of Juju need Juju; write the text itself")
}
