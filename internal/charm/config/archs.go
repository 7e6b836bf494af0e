package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/lazyregexp"
)

// IsArch reports whether s is the instruction set of an AMD GPU as the kernel reports it:
// gfx and 3 to 8 hex digits, such as gfx90a and gfx1100.
func IsArch(s string) bool {
	digits, ok := strings.CutPrefix(s, "gfx")
	return ok && len(digits) >= 3 && len(digits) <= 8 && strings.Trim(digits, "0123456789abcdef") == ""
}

// archs reads the option required-archs: each architecture once, in order.
func archs(s string) ([]string, error) {
	all, err := list(s, func(part string) error {
		if !IsArch(part) {
			return fmt.Errorf("%q is not an architecture such as gfx90a or gfx1100; want them with commas between them",
				part)
		}
		return nil
	})
	return distinct(all), err
}

// hipArches reads HIP_ARCHES of task-env: values of clang's --offload-arch (LLVM's AMDGPU
// usage guide, "Target ID"), each once, in order. Features are sorted, so that two
// spellings of one target are equal.
func hipArches(s string) ([]string, error) {
	parts, err := list(s, func(part string) error { _, err := targetID(part); return err })
	if err != nil {
		return nil, err
	}
	for i, part := range parts {
		parts[i], _ = targetID(part) // valid, see above
	}
	return distinct(parts), sameFeatures(parts)
}

// genericArch matches an instruction set that several architectures share.
var genericArch = lazyregexp.New(`^gfx[0-9]+(-[0-9]+)*-generic$`)

// targetID returns an architecture with its features, sorted.
func targetID(s string) (string, error) {
	words := strings.Split(s, ":")
	arch, features := words[0], words[1:]
	if !IsArch(arch) && !genericArch().MatchString(arch) {
		return "", fmt.Errorf("%q is not an architecture such as gfx1100 or gfx90a:xnack-; separate them with commas",
			s)
	}
	slices.Sort(features)
	for i, f := range features {
		if !slices.Contains([]string{"sramecc+", "sramecc-", "xnack+", "xnack-"}, f) {
			return "", fmt.Errorf("%q: a feature is one of sramecc+, sramecc-, xnack+, xnack-", s)
		}
		if i > 0 && featureName(features[i-1]) == featureName(f) {
			return "", fmt.Errorf("%q: %s is given twice", s, featureName(f))
		}
	}
	return strings.Join(append([]string{arch}, features...), ":"), nil
}

func featureName(f string) string { return strings.TrimRight(f, "+-") }

// sameFeatures refuses an architecture that has a feature in one target and not in another.
// clang refuses it, and both targets would be the same build.
func sameFeatures(targets []string) error {
	names := map[string]string{}
	for _, t := range targets {
		words := strings.Split(t, ":")
		for i, f := range words[1:] {
			words[i+1] = featureName(f)
		}
		now := strings.Join(words[1:], ":")
		if before, seen := names[words[0]]; seen && before != now {
			return fmt.Errorf("entries of %s have different features; give them the same ones, with + or -", words[0])
		}
		names[words[0]] = now
	}
	return nil
}

// distinct returns each string once, in order.
func distinct(all []string) (once []string) {
	for _, s := range all {
		if !slices.Contains(once, s) {
			once = append(once, s)
		}
	}
	return once
}

// coverageOptions returns the options of a web about the GPUs of its workers.
func coverageOptions() []Option {
	return []Option{
		text("required-archs", "", func(c *Config, s string) (err error) {
			c.Web.RequiredArchs, err = archs(s)
			return err
		}),
	}
}
