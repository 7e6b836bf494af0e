package release

import (
	"context"
	"strings"
	"time"

	"concourse-ci-machine/internal/base/host"
)

// ToolVersion asks a program of the release for its version, "" where it can't.
func ToolVersion(ctx context.Context, h host.Host, name string) string {
	out, err := h.Run(ctx, host.Command{Argv: []string{h.Path(BinDir + "/" + name), "--version"}, ReadOnly: true, Deadline: 10 * time.Second})
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return line
}
