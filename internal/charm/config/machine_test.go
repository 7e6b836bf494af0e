package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestASecretOfJujuIsRefusedWithoutJuju(t *testing.T) {
	_, err := Secrets(nil).read("secret:d0000000000000000000", "ldap-bind-pw")
	require.EqualError(t, err, "the value starts with secret:, and secrets of Juju need Juju; write the text itself")
}
