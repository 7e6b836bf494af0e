// Package lazyregexp makes regular expressions that are compiled at their first use. A program
// starts for each hook and each command, and uses few of its expressions.
package lazyregexp

import (
	"regexp"
	"sync"
)

// New returns the function of an expression. The function panics if the expression is invalid.
func New(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
