package config

import (
	"testing"

	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"
)

func TestRegistryOptionsAreDefaultsOfRegistryImage(t *testing.T) {
	ca, _ := certificate(t)
	for name, tc := range map[string]struct {
		raw  map[string]any
		want map[string]any
	}{
		"neither":        {map[string]any{}, nil},
		"a mirror":       {map[string]any{"registry-mirror": "mirror.example:5000"}, map[string]any{"registry_mirror": map[string]any{"host": "mirror.example:5000"}}},
		"an IPv6 mirror": {map[string]any{"registry-mirror": "[fd00::1]:5000"}, map[string]any{"registry_mirror": map[string]any{"host": "[fd00::1]:5000"}}},
		"with a login, whose password has a colon": {map[string]any{"registry-mirror": "ci:a:b@mirror"},
			map[string]any{"registry_mirror": map[string]any{"host": "mirror", "username": "ci", "password": "a:b"}}},
		"an authority":        {map[string]any{"registry-ca-cert": ca}, map[string]any{"ca_certs": []any{ca}}},
		"a mirror, authority": {map[string]any{"registry-mirror": "mirror", "registry-ca-cert": ca}, map[string]any{"registry_mirror": map[string]any{"host": "mirror"}, "ca_certs": []any{ca}}},
	} {
		t.Run(name, func(t *testing.T) {
			c, problems := Parse(tc.raw, nil)
			require.Empty(t, problems)
			if tc.want == nil {
				require.Empty(t, c.Web.Files)
				return
			}
			var got map[string]any
			require.NoError(t, yaml.Unmarshal([]byte(c.Web.Files[ResourceDefaults]), &got))
			require.Equal(t, map[string]any{"registry-image": tc.want}, got)
		})
	}
}

func TestMirrorWithTheFlagIsRefused(t *testing.T) {
	_, problems := Parse(map[string]any{"registry-mirror": "mirror", "extra-web-flags": "--base-resource-type-defaults=/etc/defaults.yml"}, nil)
	require.Equal(t, []Problem{{"registry-mirror", "extra-web-flags has --base-resource-type-defaults, which wins; put the mirror there"}}, problems)
}
