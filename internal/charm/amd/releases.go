package amd

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Release is one row of the table of releases: versions that AMD published together.
// Versions outside the table are not installed, because they are not known to work. A row
// with Unknown only recognises a running driver.
type Release struct {
	ROCm           string   // "6.3.2": the folder below /rocm/apt/, and the value of rocm-version
	Driver         string   // AMD's driver release, the folder below /amdgpu/: "6.3.2", since ROCm 7 "30.10.2"
	InstallPackage string   // AMD's package that sets a machine up by hand: amdgpu-install
	InstallVersion string   // its version: "6.3.60302-1"; "" if not known
	DKMSVersion    string   // of the driver: "6.10.5"
	Build          string   // suffix of the package's version: "60302-2109964"
	Numbered       bool     // the module's version ends in the first part of Build: "6.19.14.31400000"
	Series         []string // Ubuntu series with a checked driver package
	Kernels        []Kernels
	Date           string // when AMD published it, "2026-07"; "" if not known
	Source, Reason string // evidence of the row, and why it is in the table
	Unknown        string // why the charm does not install it; "" for an installed row
}

// Kernels lists the kernels that AMD names for a release on one Ubuntu series.
type Kernels struct {
	Series   string
	Versions []string // major.minor: "6.8"
}

// DriverRepo is the path below rocm-base-url of the apt repository with
// amdgpu-dkms.
func (r Release) DriverRepo() string { return "/amdgpu/" + r.Driver + "/ubuntu" }

// ROCmRepo is the path below rocm-base-url of the apt repository with the user space, such
// as rocm-smi-lib and rocm.
func (r Release) ROCmRepo() string { return "/rocm/apt/" + r.ROCm }

// Package returns the whole version of amdgpu-dkms on a series, "" if the row lacks the
// series: "1:6.10.5.60302-2109964.24.04".
func (r Release) Package(series string) string {
	number, known := seriesNumbers[series]
	if !known || !slices.Contains(r.Series, series) {
		return ""
	}
	return r.packageFor(number)
}

func (r Release) packageFor(number string) string {
	return "1:" + r.DKMSVersion + "." + r.Build + "." + number
}

// seriesNumbers end AMD's package versions.
var seriesNumbers = map[string]string{"jammy": "22.04", "noble": "24.04", "resolute": "26.04"}

// KernelsOn returns the kernels of the row on a series.
func (r Release) KernelsOn(series string) []string {
	for _, k := range r.Kernels {
		if k.Series == series {
			return k.Versions
		}
	}
	return nil
}

// Builds reports whether AMD names the kernel for the release on the series:
// "6.8.0-31-generic" is a 6.8.
func (r Release) Builds(series, kernel string) bool {
	return slices.Contains(r.KernelsOn(series), majorMinor(kernel))
}

func majorMinor(kernel string) string {
	major, rest, _ := strings.Cut(kernel, ".")
	minor, _, _ := strings.Cut(rest, ".")
	return major + "." + minor
}

// ModuleVersion returns the content of /sys/module/amdgpu/version with the row's driver.
func (r Release) ModuleVersion() string {
	if !r.Numbered {
		return r.DKMSVersion
	}
	number, _, _ := strings.Cut(r.Build, "-")
	return r.DKMSVersion + "." + number
}

// Installs reports whether the charm installs the row on a series; "" is any series.
func (r Release) Installs(series string) bool {
	return r.Unknown == "" && (series == "" || slices.Contains(r.Series, series))
}

// FindRelease returns the row of a ROCm version. An empty version selects the newest row of
// the series that supports the kernel, otherwise the newest row of the series. An empty
// series means any series. The error lists the available versions.
func FindRelease(version, series, kernel string) (Release, error) {
	if version == "" {
		return newestRelease(series, kernel)
	}
	for _, r := range Releases() {
		switch {
		case r.ROCm != version:
			continue
		case r.Unknown != "":
			return Release{}, fmt.Errorf("ROCm %s is recognised and not installed: %s%s", version, r.Unknown,
				alternatives(series))
		case !r.Installs(series):
			return Release{}, fmt.Errorf("ROCm %s is not known to work on %s, only on %s%s", version, series,
				strings.Join(r.Series, " and "), alternatives(series))
		}
		return r, nil
	}
	return Release{}, fmt.Errorf("ROCm %s is not in the table of releases: it has %s", version,
		strings.Join(installed(series), ", "))
}

func newestRelease(series, kernel string) (found Release, err error) {
	knows := false // a row that supports the kernel was found
	for _, r := range Releases() {
		if builds := r.Builds(series, kernel); r.Installs(series) && (builds || !knows) {
			found, knows = r, knows || builds
		}
	}
	if found.ROCm == "" {
		return Release{}, fmt.Errorf("no release is known to work on %s", series)
	}
	return found, nil
}

// installed returns the versions that the charm installs on a series.
func installed(series string) (versions []string) {
	for _, r := range Releases() {
		if r.Installs(series) {
			versions = append(versions, r.ROCm)
		}
	}
	return versions
}

// alternatives lists the versions of a series.
func alternatives(series string) string {
	versions := installed(series)
	switch {
	case len(versions) == 0:
		return "; no release is known to work on " + series
	case series == "":
		return "; the table has " + strings.Join(versions, ", ")
	}
	return "; on " + series + " it is " + strings.Join(versions, ", ")
}

// releaseOfDriver returns the row with this version of the driver's package, or the
// only row with this version of the running module.
func releaseOfDriver(pkg, module string) (found Release, ok bool) {
	rows := 0
	for _, r := range Releases() {
		for series, number := range seriesNumbers {
			if pkg == r.packageFor(number) && (r.Unknown != "" || slices.Contains(r.Series, series)) {
				return r, true
			}
		}
		if module != "" && r.ModuleVersion() == module {
			found, rows = r, rows+1
		}
	}
	return found, rows == 1
}

// newerDriver reports whether version a of the driver is newer than b, by their first
// three numbers.
func newerDriver(a, b string) bool {
	x, y := strings.SplitN(a, ".", 4), strings.SplitN(b, ".", 4)
	for i := range min(len(x), len(y), 3) {
		m, merr := strconv.Atoi(x[i])
		n, nerr := strconv.Atoi(y[i])
		if merr != nil || nerr != nil {
			return false
		}
		if m != n {
			return m > n
		}
	}
	return false
}

// notKnown replaces a value without a source.
const notKnown = "not known"

// WriteMatrix writes the table of releases for a terminal.
func WriteMatrix(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ROCm\tdate\tdriver\tpackages\tmodule\tUbuntu and kernels")
	for _, r := range Releases() {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", r.ROCm, cmp.Or(r.Date, notKnown), r.Driver, r.InstallPackage+" "+
			cmp.Or(r.InstallVersion, notKnown), r.ModuleVersion(), r.kernels())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, r := range Releases() {
		if _, err := fmt.Fprintf(w, "\n%s: %s.\n  checked against: %s\n", r.ROCm, r.Reason, r.Source); err != nil {
			return err
		}
	}
	return nil
}

func (r Release) kernels() string {
	if r.Unknown != "" {
		return "recognised, not installed"
	}
	var on []string
	for _, s := range r.Series {
		on = append(on, s+" "+strings.Join(r.KernelsOn(s), ", "))
	}
	return strings.Join(on, "; ")
}
