package amd

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

// The table is consistent: a row that contradicts itself or another one is a
// mistake made while adding it.
func TestReleaseTableIsConsistent(t *testing.T) {
	three, seen, packages := regexp.MustCompile(`^\d+\.\d+\.\d+$`), map[string]bool{}, map[string]string{}
	last := ""
	for _, r := range Releases() {
		require.Regexp(t, three, r.ROCm)
		require.Regexp(t, three, r.DKMSVersion)
		require.False(t, seen[r.ROCm], "%s twice", r.ROCm)
		seen[r.ROCm] = true
		require.False(t, newerDriver(last, r.DKMSVersion), "%s: the oldest row is the first", r.ROCm)
		last = r.DKMSVersion
		require.NotEmpty(t, r.Source, r.ROCm)
		require.NotEmpty(t, r.Reason, r.ROCm)
		require.Len(t, r.Kernels, len(r.Series), r.ROCm)
		require.Equal(t, r.Unknown == "", len(r.Kernels) > 0, "%s: a row without kernels can't be installed", r.ROCm)
		if r.Date != "" {
			require.Regexp(t, `^20\d\d-[01]\d$`, r.Date, r.ROCm)
		}

		// AMD's builds begin with the driver's release: 30.20.1 is 30200100,
		// 31.40 is 31400000, 6.3.2 is 60302.
		parts := append(strings.Split(r.Driver, "."), "0")
		want := parts[0] + pad(parts[1]) + pad(parts[2])
		if r.Driver != r.ROCm {
			want += "00"
		}
		number, build, ok := strings.Cut(r.Build, "-")
		require.True(t, ok, r.Build)
		require.Regexp(t, `^\d{7}$`, build)
		require.Equal(t, want, number, r.ROCm)
		require.Equal(t, r.Numbered, strings.HasSuffix(r.ModuleVersion(), "."+number), r.ROCm)
		if r.Unknown == "" {
			rocm := strings.Split(r.ROCm, ".")
			require.Contains(t, r.InstallVersion, "."+rocm[0]+pad(rocm[1])+pad(rocm[2])+"-", "amdgpu-install is of the ROCm release")
		}
		for series, number := range seriesNumbers {
			p := r.packageFor(number)
			require.Empty(t, packages[p], "%s is in two rows", p)
			packages[p] = r.ROCm
			found, ok := releaseOfDriver(p, "")
			require.Equal(t, r.Unknown != "" || r.Installs(series), ok, p)
			if ok {
				require.Equal(t, r.ROCm, found.ROCm)
			}
		}
		for _, s := range r.Series {
			require.NotEmpty(t, r.KernelsOn(s), "%s on %s", r.ROCm, s)
			for _, k := range r.KernelsOn(s) {
				require.True(t, r.Builds(s, k+".0-31-generic"))
			}
		}
	}
}

// An empty rocm-version follows the kernel, so that no machine is refused that some
// row knows.
func TestEmptyVersionIsTheNewestRowForTheMachine(t *testing.T) {
	for _, c := range []struct{ series, kernel, want string }{
		{"jammy", "5.15.0-131-generic", "7.2.3"},
		{"noble", "6.8.0-52-generic", "7.2.4"},
		{"noble", "6.11.0-29-generic", "6.4.3"},
		{"noble", "6.14.0-24-generic", "7.1.1"},
		{"noble", "6.17.0-1028-oem", "7.2.4"},
		{"noble", "7.0.0-28-generic", "7.2.4"}, // none knows it
		{"noble", "", "7.2.4"},
		{"", "", "7.2.4"},
	} {
		r, err := FindRelease("", c.series, c.kernel)
		require.NoError(t, err)
		require.Equal(t, c.want, r.ROCm, "%s %s", c.series, c.kernel)
	}
	_, err := FindRelease("", "resolute", "7.0.0-31-generic")
	require.ErrorContains(t, err, "no release is known to work on resolute")
}

func TestNewerDriver(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"6.19.14.31400000", "6.16.13", true},
		{"7.1.3.31500000", "6.19.14", true},
		{"6.16.13", "6.16.6", true},
		{"6.16.13", "6.16.13", false},
		{"6.16.13.30300400-2341068.24.04", "6.16.13", false},
		{"6.7.0", "6.10.5", false},
		{"", "6.10.5", false},
		{"new", "6.10.5", false},
	} {
		require.Equal(t, c.want, newerDriver(c.a, c.b), "%s and %s", c.a, c.b)
	}
}

func pad(number string) string {
	if len(number) == 1 {
		return "0" + number
	}
	return number
}

func TestPackageVersionsAreAMDs(t *testing.T) {
	r, err := FindRelease("6.3.2", "", "")
	require.NoError(t, err)
	require.Equal(t, "1:6.10.5.60302-2109964.24.04", r.Package("noble"))
	require.Equal(t, "1:6.10.5.60302-2109964.22.04", r.Package("jammy"))
	require.Empty(t, r.Package("focal"))
	require.Equal(t, "/amdgpu/6.3.2/ubuntu", r.DriverRepo())
	require.Equal(t, "/rocm/apt/6.3.2", r.ROCmRepo())
	r, err = FindRelease("7.1.1", "noble", "")
	require.NoError(t, err)
	require.Equal(t, "1:6.16.6.30200100-2255209.24.04", r.Package("noble"))
	require.Empty(t, r.Package("jammy"), "not checked there")
	require.Equal(t, "/amdgpu/30.20.1/ubuntu", r.DriverRepo())
	require.Equal(t, "/rocm/apt/7.1.1", r.ROCmRepo())
}

// Nothing is compared: a version beside the rows is unknown, however near.
func TestSimilarVersionsAreDistinguished(t *testing.T) {
	for _, v := range []string{"6.3", "6.3.20", "6.3.1", "6.3.4", "7.2.30", "99.0.0", "6.3.2 "} {
		_, err := FindRelease(v, "noble", "")
		require.ErrorContains(t, err, "is not in the table of releases: it has 6.3.2, ", v)
	}
	_, err := FindRelease("9.9.9", "jammy", "")
	require.ErrorContains(t, err, "it has 6.3.2, 6.4.3, 7.2.3")
	r, _ := FindRelease("6.3.2", "", "")
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
		for _, part := range []string{r.ROCm, r.Driver, r.InstallVersion, r.ModuleVersion(), r.Reason, r.Source} {
			require.Contains(t, b.String(), part)
		}
	}
}
