package rocm

import (
	"fmt"
	"slices"
	"strings"
)

// Release is one row of the table of releases: versions that AMD published
// together. Nothing is derived from a row by comparing versions: what is not a
// row is not known to work, and is not installed.
type Release struct {
	ROCm           string   // "6.3.2": the folder below /rocm/apt/, and the value of rocm-version
	Driver         string   // AMD's driver release, the folder below /amdgpu/: "6.3.2", since ROCm 7 "30.10.2"
	InstallPackage string   // AMD's package that sets a machine up by hand: amdgpu-install
	InstallVersion string   // its version: "6.3.60302-1"
	DKMSVersion    string   // of the driver, as /sys/module/amdgpu/version has it: "6.10.5"
	Build          string   // what follows it in the package's version: "60302-2109964"
	ToolkitVersion string   // of amd-container-toolkit
	Series         []string // Ubuntu's for which the driver's package was checked
	Kernels        []Kernels
	Default        bool
	Source, Reason string // what the row was checked against, and why it is here
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
	return "1:" + r.DKMSVersion + "." + r.Build + "." + number
}

// seriesNumbers end AMD's package versions.
var seriesNumbers = map[string]string{"jammy": "22.04", "noble": "24.04"}

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

// FindRelease is the row of a ROCm version, "" being the default row. With a
// series it has to be one that the row has. The error lists what there is.
func FindRelease(version, series string) (Release, error) {
	var known []string
	for _, r := range Releases() {
		if series == "" || slices.Contains(r.Series, series) {
			known = append(known, r.ROCm)
		}
		if r.ROCm != version && !(version == "" && r.Default) {
			continue
		}
		if series == "" || slices.Contains(r.Series, series) {
			return r, nil
		}
		return Release{}, fmt.Errorf("ROCm %s is not known to work on %s, only on %s%s", r.ROCm, series,
			strings.Join(r.Series, " and "), instead(series))
	}
	return Release{}, fmt.Errorf("ROCm %s is not in the table of releases: it has %s", version, strings.Join(known, ", "))
}

// instead names the versions that a series has.
func instead(series string) string {
	var versions []string
	for _, r := range Releases() {
		if slices.Contains(r.Series, series) {
			versions = append(versions, r.ROCm)
		}
	}
	if len(versions) == 0 {
		return "; no release is known to work on " + series
	}
	return "; on " + series + " it is " + strings.Join(versions, ", ")
}

// releaseOfDriver is the row whose driver package has this version.
func releaseOfDriver(pkg string) (Release, bool) {
	for _, r := range Releases() {
		for _, s := range r.Series {
			if r.Package(s) == pkg {
				return r, true
			}
		}
	}
	return Release{}, false
}
