package rocm

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"concourse-ci-machine/internal/host/hosttest"
)

// The table is consistent: a row that contradicts itself or another one is a
// mistake made while adding it.
func TestReleaseTableIsConsistent(t *testing.T) {
	three := regexp.MustCompile(`^\d+\.\d+\.\d+$`)
	defaults, seen, packages := 0, map[string]bool{}, map[string]string{}
	for _, r := range Releases() {
		require.Regexp(t, three, r.ROCm)
		require.Regexp(t, three, r.Driver)
		require.Regexp(t, three, r.DKMSVersion)
		require.Equal(t, toolkitVersion, r.ToolkitVersion, r.ROCm)
		require.False(t, seen[r.ROCm], "%s twice", r.ROCm)
		seen[r.ROCm] = true
		if r.Default {
			defaults++
			require.Equal(t, toolkitSeries, r.Series, "the default has to serve every series that has a toolkit")
		}
		require.NotEmpty(t, r.Source, r.ROCm)
		require.NotEmpty(t, r.Reason, r.ROCm)
		require.NotEmpty(t, r.Series, r.ROCm)
		require.Len(t, r.Kernels, len(r.Series), r.ROCm)

		// AMD's builds begin with the driver's release: 30.20.1 is 30200100,
		// 6.3.2 is 60302.
		var a, b, c string
		parts := strings.Split(r.Driver, ".")
		a, b, c = parts[0], pad(parts[1]), pad(parts[2])
		number, build, ok := strings.Cut(r.Build, "-")
		require.True(t, ok, r.Build)
		require.Regexp(t, `^\d{7}$`, build)
		if r.Driver == r.ROCm {
			require.Equal(t, a+b+c, number)
		} else {
			require.Equal(t, a+b+c+"00", number)
		}
		rocm := strings.Split(r.ROCm, ".")
		require.Contains(t, r.InstallVersion, "."+rocm[0]+pad(rocm[1])+pad(rocm[2])+"-", "amdgpu-install is of the ROCm release")
		for _, s := range r.Series {
			require.Contains(t, seriesNumbers, s)
			require.NotEmpty(t, r.KernelsOn(s), "%s on %s", r.ROCm, s)
			for _, k := range r.KernelsOn(s) {
				require.True(t, r.Builds(s, k+".0-31-generic"))
			}
			p := r.Package(s)
			require.Empty(t, packages[p], "%s is in two rows", p)
			packages[p] = r.ROCm
			found, ok := releaseOfDriver(p)
			require.True(t, ok)
			require.Equal(t, r.ROCm, found.ROCm)
		}
	}
	require.Equal(t, 1, defaults)
}

func pad(number string) string {
	if len(number) == 1 {
		return "0" + number
	}
	return number
}

func TestPackageVersionsAreAMDs(t *testing.T) {
	r, err := FindRelease("", "")
	require.NoError(t, err)
	require.Equal(t, "6.3.2", r.ROCm)
	require.Equal(t, "1:6.10.5.60302-2109964.24.04", r.Package("noble"))
	require.Equal(t, "1:6.10.5.60302-2109964.22.04", r.Package("jammy"))
	require.Empty(t, r.Package("focal"))
	require.Equal(t, "/amdgpu/6.3.2/ubuntu", r.DriverRepo())
	require.Equal(t, "/rocm/apt/6.3.2", r.ROCmRepo())
	r, err = FindRelease("7.1.1", "noble")
	require.NoError(t, err)
	require.Equal(t, "1:6.16.6.30200100-2255209.24.04", r.Package("noble"))
	require.Empty(t, r.Package("jammy"), "not checked there")
	require.Equal(t, "/amdgpu/30.20.1/ubuntu", r.DriverRepo())
	require.Equal(t, "/rocm/apt/7.1.1", r.ROCmRepo())
}

// Nothing is compared: a version beside the rows is unknown, however near.
func TestNoVersionIsTakenForANearOne(t *testing.T) {
	for _, v := range []string{"6.3", "6.3.20", "6.3.1", "6.3.4", "7.2.30", "99.0.0", "6.3.2 "} {
		_, err := FindRelease(v, "noble")
		require.ErrorContains(t, err, "is not in the table of releases: it has 6.3.2, ", v)
	}
	_, err := FindRelease("9.9.9", "jammy")
	require.ErrorContains(t, err, "it has 6.3.2, 6.4.3, 7.2.3")
	r, _ := FindRelease("6.3.2", "")
	for _, kernel := range []string{"6.9.0-1-generic", "6.81.0-1", "7.8.0", "6", "", "16.8.0"} {
		require.False(t, r.Builds("noble", kernel), kernel)
	}
	require.True(t, r.Builds("noble", "6.8.0-1021-aws"))
	require.False(t, r.Builds("noble", "5.15.0-131-generic"), "jammy's")
}

func TestMatrixIsTheTable(t *testing.T) {
	var b strings.Builder
	require.NoError(t, WriteMatrix(&b))
	hosttest.Golden(t, filepath.Join("testdata", "matrix.golden"), b.String())
	for _, r := range Releases() {
		for _, part := range []string{r.name(), r.Driver, r.InstallVersion, r.DKMSVersion, r.Reason, r.Source} {
			require.Contains(t, b.String(), part)
		}
	}
}
