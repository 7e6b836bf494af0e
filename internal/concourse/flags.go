package concourse

import (
	"context"
	"errors"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse/release"
)

// RefusedFlag describes a flag that concourse web of a release refuses.
type RefusedFlag struct {
	Flag string `json:"flag"` // --flag or --flag=value
	Why  string `json:"why"`  // the release's error, one line
}

// RefusedFlags returns the flags that the installed release refuses: unknown ones, and ones
// with a value of a wrong form. With --help as the last argument, concourse web parses all
// flags before it and then prints its help. It starts nothing.
func RefusedFlags(ctx context.Context, h host.Host, flags []string) (refused []RefusedFlag, err error) {
	for _, flag := range flags {
		_, err := h.Run(ctx, host.Command{Argv: []string{h.Path(release.BinDir + "/concourse"), "web", flag, "--help"},
			ReadOnly: true, Deadline: helpDeadline})
		if failed, is := errors.AsType[*host.CommandError](err); is && failed.Code == 1 {
			refused = append(refused, RefusedFlag{flag, oneLine(strings.TrimPrefix(failed.LastLine(), startError))})
		} else if err != nil {
			return nil, err
		}
	}
	return refused, nil
}
