package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"concourse-ci-machine/internal/oci"
)

// variant is one program called in one way, and what was measured of it.
type variant struct {
	name    string
	program string
	gpus    int // which config
	args    []string
	floor   string // the name of the floor's variant for the same call

	wall, cpu []time.Duration
	rss       string // KiB
}

func (b *bench) variants() []*variant {
	globals := []string{"--root", b.path("root"), "--log", b.path("log.json"), "--log-format", "json"}
	call := func(words ...string) []string { return append(slices.Clone(globals), words...) }
	create := call("create", "--bundle", b.path("bundle"), "--pid-file", b.path("pid"), "--no-new-keyring", "c1")
	state := call("state", "c1")
	marked := call("exec", "--process", b.path("process"), "--detach", "--pid-file", b.path("pid"), "marked")
	return []*variant{
		{name: "bare", program: "true", gpus: 2, args: create},
		{name: "floor", program: "floor", gpus: 2, args: create, floor: "floor"},
		{name: "create, 2 GPUs", program: "runc-amd-wrapper", gpus: 2, args: create, floor: "floor"},
		{name: "create, 8 GPUs", program: "runc-amd-wrapper", gpus: 8, args: create, floor: "floor"},
		{name: "state", program: "runc-amd-wrapper", gpus: 8, args: state, floor: "floor"},
		{name: "exec, marked", program: "runc-amd-wrapper", gpus: 8, args: marked, floor: "floor"},
	}
}

func (b *bench) round(variants []*variant) error {
	order := rand.Perm(len(variants))
	for _, i := range order {
		if err := os.WriteFile(b.path("bundle/config.json"), b.spec, 0o644); err != nil {
			return err
		}
		if err := b.measure(variants[i]); err != nil {
			return fmt.Errorf("%s: %w", variants[i].name, err)
		}
	}
	return nil
}

func (b *bench) env(v *variant) []string {
	return []string{
		"PATH=/usr/bin:/bin", oci.EnvRuntime + "=" + b.path("true"),
		fmt.Sprintf("%s=%s", oci.EnvConfig, b.path(fmt.Sprintf("wrapper%d.json", v.gpus))),
	}
}

func (b *bench) measure(v *variant) error {
	program := b.path(v.program)
	attr := &os.ProcAttr{Env: b.env(v), Files: []*os.File{nil, nil, os.Stderr}}
	start := time.Now()
	p, err := os.StartProcess(program, append([]string{program}, v.args...), attr)
	if err != nil {
		return err
	}
	state, err := p.Wait()
	if err != nil {
		return err
	}
	v.wall = append(v.wall, time.Since(start))
	if !state.Success() {
		return fmt.Errorf("%s", state)
	}
	v.cpu = append(v.cpu, state.UserTime()+state.SystemTime())
	return nil
}

// memory runs the variant once below busybox's time: the kernel counts the
// pages of the program that forked, too, and this one's are many.
func (b *bench) memory(v *variant) error {
	v.rss = "-"
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return nil
	}
	if err := os.WriteFile(b.path("bundle/config.json"), b.spec, 0o644); err != nil {
		return err
	}
	c := exec.Command(busybox, append([]string{"time", "-f", "%M", "-o", b.path("rss"), b.path(v.program)}, v.args...)...)
	c.Env = b.env(v)
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	data, err := os.ReadFile(b.path("rss"))
	if err != nil {
		return err
	}
	// busybox takes the kernel's KiB for pages and multiplies once more.
	kib, err := strconv.Atoi(strings.TrimSpace(string(data)))
	v.rss = strconv.Itoa(kib * 1024 / os.Getpagesize())
	return err
}

func median(values []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(values))
	if len(sorted) == 0 {
		return 0
	}
	return sorted[len(sorted)/2]
}

func report(w io.Writer, variants []*variant) {
	find := func(name string) *variant {
		return variants[slices.IndexFunc(variants, func(v *variant) bool { return v.name == name })]
	}
	bare := median(find("bare").wall)
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "variant\tms\tadded ms\tadded / floor's\tCPU ms\tpeak RSS KiB\t")
	for _, v := range variants {
		wall := median(v.wall)
		ratio := "-"
		if v.floor != "" {
			ratio = fmt.Sprintf("%.2f", float64(wall-bare)/float64(median(find(v.floor).wall)-bare))
		}
		fmt.Fprintf(t, "%s\t%.2f\t%.2f\t%s\t%.2f\t%s\t\n", v.name, ms(wall), ms(wall-bare), ratio, ms(median(v.cpu)), v.rss)
	}
	t.Flush()
	two, eight := median(find("create, 2 GPUs").wall)-bare, median(find("create, 8 GPUs").wall)-bare
	fmt.Fprintf(w, "create, 8 GPUs / 2 GPUs: %.2f\n", float64(eight)/float64(two))
}
