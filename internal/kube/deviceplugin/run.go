package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// every is how often the machine, the leases and the kubelet are looked at.
const every = time.Second

// Run is the program. It serves until ctx is done and returns its exit status: 0 when it
// was ended or had only to tell something, 1 where it can't go on, 2 for a wrong command line.
func Run(ctx context.Context, version string, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stdout, stderr)
	switch {
	case errors.Is(err, errHelp):
		return 0
	case err != nil:
		return 2
	case o.version:
		fmt.Fprintln(stdout, "gpu-device-plugin", version)
		return 0
	}
	p := newPlugin(o, stderr)
	if err := p.serve(ctx); err != nil {
		fmt.Fprintf(stderr, "gpu-device-plugin: %v\n", err)
		return 1
	}
	return 0
}

// serve looks each second, and takes away what it made in the end.
func (p *plugin) serve(ctx context.Context) error {
	defer p.close()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if err := p.turn(ctx); err != nil {
			return err
		}
		tell(p.trouble())
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// tell has systemd know, where it started this program, that it is alive and whether pods
// can get GPUs: StatusErrno is 0 then.
func tell(trouble string) {
	state := "READY=1\nWATCHDOG=1\nERRNO=0\nSTATUS=the kubelet knows the GPUs"
	if trouble != "" {
		state = "READY=1\nWATCHDOG=1\nERRNO=107\nSTATUS=" + strings.ReplaceAll(trouble, "\n", "; ") // ENOTCONN
	}
	if _, err := daemon.SdNotify(false, state); err != nil {
		fmt.Fprintf(os.Stderr, "cannot tell systemd: %v\n", err)
	}
}
