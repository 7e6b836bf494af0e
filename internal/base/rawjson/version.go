package rawjson

import "fmt"

// VersionKey names the member with the version of a file's format. A file without it has
// version 1. The key is not "version", because some files have the version of a release.
const VersionKey = "format_version"

// NewerError reports a file that a later version of the program wrote. Such a file is
// neither read nor replaced.
type NewerError struct {
	File            string // "" if the caller names it
	Version, Newest int    // of the file; the newest one that this program reads
}

func (e *NewerError) Error() string {
	text := fmt.Sprintf("it has format %d of a later version, and this one reads format %d: install the later version "+
		"again, or move the file away", e.Version, e.Newest)
	if e.File != "" {
		return "cannot use " + e.File + ": " + text
	}
	return text
}

// maxVersion bounds the version of a format.
const maxVersion = 1 << 20

// VersionOf returns the version of the format of an object.
func VersionOf(v Value) (int, error) {
	n, err := v.NumberOf(VersionKey, maxVersion)
	return max(int(n), 1), err
}

// Version describes the member with the version of the format. Decode fails with a NewerError if
// the file has a later one than newest, and Encode writes newest.
func (c *Codec) Version(newest int) {
	n := uint64(newest)
	c.Number(VersionKey, &n, maxVersion)
	if c.reading && int(n) > newest {
		c.Fail(&NewerError{Version: int(n), Newest: newest})
	}
}
