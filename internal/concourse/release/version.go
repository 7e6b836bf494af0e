package release

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// isVersion accepts x.y.z of numbers without leading zeros, six digits at
// most. It is no regexp: compiling that costs every hook a part of a
// millisecond.
func isVersion(s string) bool {
	if len(s) > len("123456.123456.123456") {
		return false
	}
	parts := strings.Split(s, ".")
	for _, p := range parts {
		if p == "" || len(p) > 6 || len(p) > 1 && p[0] == '0' || strings.Trim(p, "0123456789") != "" {
			return false
		}
	}
	return len(parts) == 3
}

// CheckVersion says in an error what is wrong with a version and what to
// write instead. Versions are part of file names and URLs, so nothing but
// x.y.z passes. The error has the value's beginning only, as others may have
// written it.
func CheckVersion(s string) error {
	bare := strings.TrimPrefix(s, "v")
	switch {
	case isVersion(s):
		return nil
	case isVersion(bare):
		return fmt.Errorf("%.40q has a leading v; write %s", s, bare)
	case strings.EqualFold(s, "latest"):
		return fmt.Errorf("%.40q is not a version; name one, such as %s", s, TestedVersion)
	}
	return fmt.Errorf("%.40q is not a version; want x.y.z, such as %s", s, TestedVersion)
}

// compareVersions orders two versions that checkVersion accepts: negative when
// a is older than b, 0 when they are the same, positive when a is newer.
func compareVersions(a, b string) int {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(x), len(y)) {
		m, _ := strconv.Atoi(x[i])
		n, _ := strconv.Atoi(y[i])
		if c := cmp.Compare(m, n); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(x), len(y))
}
