// The command run measures what gpukit run adds to a command: it starts /bin/true alone, from a
// shell that moves itself to a control group, gpukit without a run, and /bin/true with a leased
// GPU, once in each round and in random order. The lease service is the real one, with the GPUs
// of a fixture host and real control groups. It prints a table of medians and asserts nothing.
// It needs root.
//
// The first move to another group in some milliseconds waits for the kernel's readers (an RCU
// grace period), unless the mount has the option favordynmods. So each start is after a pause.
package main

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/pool/gpurun"
	"github.com/fourdollars/concourse-ci-machine/internal/pool/rungroup"
	"github.com/fourdollars/concourse-ci-machine/internal/testutil/hosttest"
)

func main() {
	rounds := flag.Int("rounds", 100, "rounds of all variants")
	flag.Parse()
	if os.Geteuid() != 0 {
		fmt.Println("not measured: gpukit run needs root for control groups")
		return
	}
	if err := run(*rounds, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "cannot measure gpukit run:", err)
		os.Exit(1)
	}
}

// warmUp is rounds that are not counted.
const warmUp = 10

// pause lets the kernel forget the last move to a group.
const pause = 50 * time.Millisecond

// variant is one command and what was measured of it.
type variant struct {
	name string
	argv []string
	took []time.Duration
}

func run(rounds int, w io.Writer) error {
	dir, err := os.MkdirTemp("/dev/shm", "run-bench-") // leases are in memory on a machine, too
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	gpukit, root := filepath.Join(dir, "gpukit"), filepath.Join(dir, "root")
	build := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-ldflags", "-s -w", "-o", gpukit, "./src/gpukit")
	build.Dir, build.Env, build.Stderr = hosttest.Source(), append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
	if err := build.Run(); err != nil {
		return err
	}
	if err := os.CopyFS(root, os.DirFS(filepath.Join(hosttest.HostsDir(), "mi210x4"))); err != nil {
		return err
	}
	env := append(os.Environ(), "CHARM_ROOT="+root)
	end, err := serve(gpukit, root, env)
	if err != nil {
		return err
	}
	defer end()
	groups, err := rungroup.Find()
	if err != nil {
		return err
	}
	group, err := rungroup.Make(groups.Mount, "run-000000000000")
	if err != nil {
		return err
	}
	defer func() { _ = rungroup.Remove(group) }() // its processes have ended
	variants := []*variant{
		{name: "true", argv: []string{"/bin/true"}},
		{name: "sh, true", argv: []string{"sh", "-c", "exec /bin/true"}},
		{name: "sh, group, true", argv: []string{"sh", "-c", `echo $$ >"$0/cgroup.procs" && exec /bin/true`, group}},
		{name: "gpukit version", argv: []string{gpukit, "version"}},
		{name: "gpukit run -- true", argv: []string{gpukit, "run", "--", "/bin/true"}},
	}
	for i := range warmUp + rounds {
		for _, at := range rand.Perm(len(variants)) {
			v := variants[at]
			c := exec.Command(v.argv[0], v.argv[1:]...)
			c.Env = env
			time.Sleep(pause)
			start := time.Now()
			if out, err := c.CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w: %s", v.name, err, out)
			}
			if i >= warmUp {
				v.took = append(v.took, time.Since(start))
			}
		}
	}
	fmt.Fprintf(w, "a command with one of four GPUs, medians of %d rounds in random order\n", rounds)
	return report(w, variants)
}

// serve starts the lease service on its socket, as systemd does.
func serve(gpukit, root string, env []string) (end func(), err error) {
	path := filepath.Join(root, gpurun.Socket)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	defer l.Close()
	l.SetUnlinkOnClose(false)
	socket, err := l.File()
	if err != nil {
		return nil, err
	}
	defer socket.Close()
	c := exec.Command("sh", "-c", `LISTEN_FDS=1 LISTEN_PID=$$ exec "$0" serve-runs`, gpukit)
	c.ExtraFiles, c.Env = []*os.File{socket}, env
	if err := c.Start(); err != nil {
		return nil, err
	}
	return func() {
		_ = c.Process.Signal(os.Interrupt)
		_ = c.Wait()
	}, nil
}

func median(values []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

func report(w io.Writer, variants []*variant) error {
	floor := median(variants[0].took)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "variant\tms\tabove true\t/ true\t")
	for _, v := range variants {
		m := median(v.took)
		ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
		fmt.Fprintf(t, "%s\t%.2f\t%.2f\t%.2f\t\n", v.name, ms(m), ms(m-floor), float64(m)/float64(floor))
	}
	return t.Flush()
}
