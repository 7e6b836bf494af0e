package amd

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Release is one row of the table of releases: versions that AMD published
// together. A version that is not a row is not known to work, and is not installed.
// A row without kernels is recognised when its driver runs, and never installed.
type Release struct {
	ROCm           string   // "6.3.2": the folder below /rocm/apt/, and the value of rocm-version
	Driver         string   // AMD's driver release, the folder below /amdgpu/: "6.3.2", since ROCm 7 "30.10.2"
	InstallPackage string   // AMD's package that sets a machine up by hand: amdgpu-install
	InstallVersion string   // its version: "6.3.60302-1"; "" if not known
	DKMSVersion    string   // of the driver: "6.10.5"
	Build          string   // what follows it in the package's version: "60302-2109964"
	Numbered       bool     // the module's version ends in the first part of Build: "6.19.14.31400000"
	Series         []string // Ubuntu's for which the driver's package was checked
	Kernels        []Kernels
	Date           string // when AMD published it, "2026-07"; "" if not known
	Source, Reason string // what the row was checked against, and why it is here
	Unknown        string // what keeps the charm from installing it; "" for a row that is installed
}

// Kernels are the kernels that AMD names for a release on one Ubuntu series.
type Kernels struct {
	Series   string
	Versions []string // major.minor: "6.8"
}

// DriverRepo is the path below rocm-base-url of the apt repository with
// amdgpu-dkms.
func (r Release) DriverRepo() string { return "/amdgpu/" + r.Driver + "/ubuntu" }

// ROCmRepo is the path below rocm-base-url of the apt repository with the user
// space: rocm-smi-lib, rocm and the rest.
func (r Release) ROCmRepo() string { return "/rocm/apt/" + r.ROCm }

// Package is the whole version of amdgpu-dkms on a series, "" where the row
// does not have the series: "1:6.10.5.60302-2109964.24.04".
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

// KernelsOn are the kernels of the row on a series.
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

// ModuleVersion returns what /sys/module/amdgpu/version has of the row's driver.
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

// FindRelease returns the row of a ROCm version. An empty version is the newest row
// that knows the kernel on the series, or the newest row of the series if none knows
// the kernel. An empty series is any. The error lists the versions there are.
func FindRelease(version, series, kernel string) (Release, error) {
	if version == "" {
		return newestRelease(series, kernel)
	}
	for _, r := range Releases() {
		switch {
		case r.ROCm != version:
			continue
		case r.Unknown != "":
			return Release{}, fmt.Errorf("ROCm %s is recognised and not installed: %s%s", version, r.Unknown, instead(series))
		case !r.Installs(series):
			return Release{}, fmt.Errorf("ROCm %s is not known to work on %s, only on %s%s", version, series,
				strings.Join(r.Series, " and "), instead(series))
		}
		return r, nil
	}
	return Release{}, fmt.Errorf("ROCm %s is not in the table of releases: it has %s", version, strings.Join(installed(series), ", "))
}

func newestRelease(series, kernel string) (found Release, err error) {
	knows := false // a row that knows the kernel is found
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

// instead names the versions that a series has.
func instead(series string) string {
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
