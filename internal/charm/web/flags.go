package web

import (
	"context"
	"slices"
	"strings"

	jujuerrors "github.com/juju/errors"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/statefile"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
)

// FlagsFile caches which flags of extra-web-flags a release refuses, because running the
// release takes longer than the rest of a hook.
const FlagsFile = wellknown.StateDir + "/web-flags.json"

// checkedFlags holds the result of a check.
type checkedFlags struct {
	Release string                  `json:"release"` // its id; "" if none is installed
	Flags   []string                `json:"flags"`
	Refused []concourse.RefusedFlag `json:"refused,omitempty"`
}

var flagsState = statefile.File[checkedFlags]{Path: FlagsFile, Mode: 0o600, Disposable: true}

// observeFlags has the installed release check extra-web-flags. A check that fails is
// repeated in the next hook, and the flags are used as they are.
func (o *Observed) observeFlags(ctx context.Context, h host.Host) error {
	flags := o.Config.Web.ExtraWebFlags
	if len(flags) == 0 || o.InstalledID == "" {
		return nil
	}
	last, err := flagsState.Read(h.Root)
	if err != nil {
		return jujuerrors.Annotate(err, "cannot observe which flags the release takes")
	}
	o.Flags = last
	if last.Release == o.InstalledID && slices.Equal(last.Flags, flags) {
		return nil
	}
	o.Flags = checkedFlags{}
	if refused, err := concourse.RefusedFlags(ctx, h, flags); err == nil {
		o.Flags = checkedFlags{o.InstalledID, flags, refused}
	}
	return nil
}

// webFlags returns the flags for the web, without refused ones, and their causes. One wrong
// flag would keep the web from starting.
func webFlags(o Observed) (flags []string, causes []status.Cause) {
	flags = o.Config.Web.ExtraWebFlags
	for _, r := range o.Flags.Refused {
		flags = slices.DeleteFunc(slices.Clone(flags), func(f string) bool { return f == r.Flag })
		name, _, _ := strings.Cut(r.Flag, "=")
		causes = append(causes, status.Block("extra-web-flags: Concourse %s refuses %s", o.Installed, name).
			Explain("%s; the web runs without it", r.Why))
	}
	return flags, causes
}

// desireFlags returns the cache of the check.
func desireFlags(o Observed) plan.Resource {
	data, err := flagsState.Encode(o.Flags)
	if err != nil || o.Flags.Release == "" {
		return resource.Absent{Path: FlagsFile, Why: "no flags are checked"}
	}
	return resource.File{Path: FlagsFile, Data: data, Mode: 0o600}
}
