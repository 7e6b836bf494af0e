package amd

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOverrideSuitsAllGPUs(t *testing.T) {
	for name, c := range map[string]struct {
		gfx  []string
		want string
		err  string
	}{
		"no GPU":                     {},
		"supported by itself":        {gfx: []string{"gfx1100", "gfx1100"}},
		"the APU of the V12 report":  {gfx: []string{"gfx1103"}, want: "11.0.0"},
		"two of one generation":      {gfx: []string{"gfx1031", "gfx1036"}, want: "10.3.0"},
		"one that needs none beside": {gfx: []string{"gfx1100", "gfx1103"}, err: "gfx1100 and gfx1103"},
		"two generations":            {gfx: []string{"gfx1036", "gfx1103", "gfx1036"}, err: "gfx1036 and gfx1103"},
		"unknown":                    {gfx: []string{""}},
	} {
		got, err := OverrideGFX(c.gfx)
		require.Equal(t, c.want, got, name)
		if c.err == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, c.err, name)
			require.ErrorContains(t, err, "HSA_OVERRIDE_GFX_VERSION=auto", name)
		}
	}
}

// A row maps within one generation: gfx<major>xx to <major>.y.z.
func TestOverrideTableIsConsistent(t *testing.T) {
	seen := map[string]bool{}
	for _, o := range overrides() {
		require.False(t, seen[o.gfx], o.gfx)
		seen[o.gfx] = true
		require.NotEmpty(t, o.why)
		require.Regexp(t, regexp.MustCompile(`^[0-9]+\.[0-9]+\.0$`), o.version)
		major, minor, _ := strings.Cut(strings.TrimSuffix(o.version, ".0"), ".")
		require.True(t, strings.HasPrefix(o.gfx, "gfx"+major+minor), "%s is not of generation %s", o.gfx, o.version)
	}
}

func TestBuildTargetsComeFromTheKernel(t *testing.T) {
	for name, c := range map[string]struct {
		gfx  []string
		want string
		err  string
	}{
		"the kernel tells": {gfx: []string{"gfx942", "gfx90a", "gfx942"}, want: "gfx942,gfx90a"},
		"nobody says":      {gfx: []string{""}, err: "no architecture for 1 of 1 GPUs"},
		"one is not told":  {gfx: []string{"gfx942", ""}, err: "no architecture for 1 of 2 GPUs"},
		"no GPU":           {},
	} {
		got, err := HIPArches(c.gfx)
		require.Equal(t, c.want, strings.Join(got, ","), name)
		if c.err == "" {
			require.NoError(t, err, name)
			continue
		}
		require.ErrorContains(t, err, c.err, name)
		require.ErrorContains(t, err, "HIP_ARCHES=", name)
	}
}

func TestArchsAreDistinctAndInOrder(t *testing.T) {
	require.Equal(t, []string{"gfx942", "gfx90a"}, Archs([]string{"gfx942", "gfx90a", "", "gfx942"}))
	require.Empty(t, Archs(nil))
}
