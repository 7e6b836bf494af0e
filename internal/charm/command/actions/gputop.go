package actions

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/top"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/gpuhealth"
	"github.com/fourdollars/concourse-ci-machine/internal/exporter/api"
)

// Top sets how GPUTop shows the GPUs. The zero value is for files and pipes.
type Top struct {
	Columns int       // of the terminal
	Live    *top.Live // repeats on the terminal; nil shows the GPUs once
}

// GPUTop shows the users of each GPU, as the exporter reads them now. Without the exporter it
// shows their last record. On a terminal the table has its width.
func (c *Actions) GPUTop(ctx context.Context, w io.Writer, f term.Format, how Top) error {
	fetch := func(ctx context.Context) (api.Report, error) { return gpuhealth.Fetch(ctx, c.Host, c.ExporterURL) }
	r, why := fetch(ctx)
	if ctx.Err() != nil {
		return nil
	}
	once := ""
	if why != nil {
		var err error
		if r, once, err = c.report(ctx); err != nil {
			return fmt.Errorf("cannot show who uses the GPUs: %w; %w", why, err)
		}
	}
	switch {
	case f.JSON:
		r.GPUs = withoutPage(r.GPUs)
		return term.JSON(w, r)
	case why == nil && how.Live != nil:
		return how.Live.Run(ctx, r, fetch)
	}
	lines := new(top.View).Lines(f, top.Frame{Report: r, Width: how.Columns})
	if why != nil {
		lines = append(lines, fmt.Sprintf("not live: %s", why))
	}
	if once != "" && os.Geteuid() != 0 {
		lines = append(lines, "processes of other users are not shown: run it with sudo")
	}
	_, err := io.WriteString(w, strings.Join(lines, "\n")+"\n")
	return err
}
