package release

// checksum is one row of the table of releases whose SHA-256 is known.
type checksum struct {
	Version string // x.y.z
	Arch    string // amd64, arm64
	SHA256  string // of concourse-<version>-linux-<arch>.tgz, lower-case hex
	Source  string // where the sum was published or who computed it from what
}

// checksums returns the table. A row needs the SHA-256 of the tarball itself:
// Concourse publishes SHA-1 sums only, which are not accepted, and the sums in
// Linux distributions are of the unpacked tree. No row is backed yet: the sum
// comes from release-sha256, a <tarball>.sha256 or GitHub's own record.
func checksums() []checksum { return nil }

func knownSum(table []checksum, version, arch string) (checksum, bool) {
	for _, c := range table {
		if c.Version == version && c.Arch == arch {
			return c, true
		}
	}
	return checksum{}, false
}
