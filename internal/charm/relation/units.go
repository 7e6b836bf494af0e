package relation

import (
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
)

// unitsInOrder sorts app/2 before app/10, so that a choice among units is the
// same in each hook.
func unitsInOrder[V any](bags map[string]V) []string {
	return slices.SortedFunc(maps.Keys(bags), func(a, b string) int {
		x, m, _ := strings.Cut(a, "/")
		y, n, _ := strings.Cut(b, "/")
		i, _ := strconv.Atoi(m)
		j, _ := strconv.Atoi(n)
		if c := strings.Compare(x, y); c != 0 {
			return c
		}
		return i - j
	})
}

// joinHostPort takes hosts with brackets, too.
func joinHostPort(host, port string) string { return net.JoinHostPort(strings.Trim(host, "[]"), port) }
