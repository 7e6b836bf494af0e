package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/fourdollars/concourse-ci-machine/internal/base/commandline"
	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/version"
	"github.com/fourdollars/concourse-ci-machine/internal/base/wellknown"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/report"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/command/term"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/preflight"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu/kernellog"
)

// reportFiles names the hidden command that writes one part of the tree of a report.
const reportFiles = "report-files"

// reportTime bounds the reading of one GPU's files, of which a healthy GPU has some hundred.
const reportTime = 30 * time.Second

const issuesURL = wellknown.Repository + "/issues/new/choose"

// aboutReport describes a report to its reader.
const aboutReport = `A report by %s %s about the GPUs of a machine.

It has no passwords, tokens, host name or configuration. It has unique ids of GPUs, and
names of containers, jobs and processes with GPUs. Read the text files before you send it.

*.txt, *.json  what the commands of these names print
kernel.txt     the kernel's last lines about each GPU
tree           files that the programs read: CHARM_ROOT=tree %[1]s gpu list
unread-*       files that could not be read
`

func (p *caller) reportCommand() command {
	output := ""
	return command{words: "report", text: "write a file about the GPUs for an issue of this project",
		long: "Writes the answers of the commands for GPUs, the kernel's lines about them, and the files of sysfs " +
			"that these programs read. It changes nothing, but wakes sleeping GPUs. Secrets are left out. Attach " +
			"the file to an issue: about a problem, or about a first run on a kind of GPU.",
		example: "sudo " + p.name() + " report",
		flags: func(fs *pflag.FlagSet) {
			fs.StringVarP(&output, "output", "o", "", "`file` to write, which must not exist (default: "+
				p.name()+"-report-TIME.tar.gz here)")
		},
		run: func([]string) error { return p.report(output) }}
}

func (p *caller) report(output string) (failed error) {
	now := p.charm.Host.Now()
	if output == "" {
		output = p.name() + "-report-" + now.UTC().Format("20060102-150405") + ".tar.gz"
	}
	file, err := os.OpenFile(output, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return &commandline.UsageError{
			Text: fmt.Sprintf("cannot write %s: it exists; name another file with --output", output)}
	}
	if err != nil {
		return fmt.Errorf("cannot write the report: %w; name another file with --output", err)
	}
	defer func() {
		if failed = errors.Join(failed, file.Close()); failed != nil {
			failed = errors.Join(failed, os.Remove(output))
		}
	}()
	files, problems, err := report.Write(p.ctx, p.reportSource(now), now, file)
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", output, err)
	}
	if err := p.giveToUser(file); err != nil {
		return err
	}
	for _, problem := range problems {
		fmt.Fprintln(p.stderr, problem)
	}
	if os.Geteuid() != 0 {
		fmt.Fprintf(p.stderr, "without root the report lacks files; all: sudo %s report\n", p.name())
	}
	_, err = fmt.Fprintf(p.stdout, "wrote %s with %d files; read it, and attach it to %s\n", output, files, issuesURL)
	return err
}

// giveToUser makes the user of sudo the owner of the report, who has to attach it.
func (p *caller) giveToUser(file *os.File) error {
	uid, noUser := strconv.Atoi(p.env("SUDO_UID"))
	gid, noGroup := strconv.Atoi(p.env("SUDO_GID"))
	if os.Geteuid() != 0 || noUser != nil || noGroup != nil {
		return nil
	}
	return file.Chown(uid, gid)
}

func (p *caller) reportSource(now time.Time) report.Source {
	c := p.charm
	parts, unlisted := report.Parts(c.Host.Root)
	text, list := term.Format{Commands: c.Commands()}, term.Format{Commands: c.Commands(), JSON: true}
	s := report.Source{
		Parts:    parts,
		Unlisted: unlisted,
		About:    fmt.Sprintf(aboutReport, p.name(), version.Version()),
		Answers: []report.Answer{
			{Name: "gpu-list.txt", Write: func(w io.Writer) error { return c.ListGPUs(p.ctx, w, text) }},
			{Name: "gpu-list.json", Write: func(w io.Writer) error { return c.ListGPUs(p.ctx, w, list) }},
			{Name: "gpu-health.txt", Write: func(w io.Writer) error { return c.GPUHealth(p.ctx, w, text) }},
			{Name: "gpu-status.txt", Write: func(w io.Writer) error { return c.GPUs().Status(w, text) }},
			{Name: "gpu-evidence.txt", Write: func(w io.Writer) error { return c.GPUs().Evidence(w, text) }},
			{Name: "kernel.txt", Write: func(w io.Writer) error { return writeKernelLines(parts[1:], now, w) }},
		},
		ReadTree: func(_ context.Context, parts []string) ([]byte, error) {
			var b bytes.Buffer
			err := report.WriteTree(c.Host.Root, parts, &b)
			return b.Bytes(), err
		},
	}
	if !p.onWorkstation() {
		s.Answers = append(s.Answers, report.Answer{Name: "preflight.txt", Write: func(w io.Writer) error {
			return preflight.Show(p.ctx, c.Host, c.Program, w, "none", text)
		}})
	}
	if exe, err := os.Executable(); err == nil && wellknown.ServesCommands(exe) {
		s.ReadTree = func(ctx context.Context, parts []string) ([]byte, error) {
			return c.Host.Run(ctx, host.Command{Argv: append([]string{exe, "gpu", reportFiles}, parts...),
				ReadOnly: true, Deadline: reportTime})
		}
	}
	return s
}

// writeKernelLines writes the kernel's lines about each GPU since the boot.
func writeKernelLines(gpus []string, now time.Time, w io.Writer) error {
	for _, gpu := range gpus {
		lines, err := kernellog.Lines(time.Time{}, now, []string{gpu})
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "%s: %d lines\n", gpu, len(lines))
		for _, l := range lines {
			fmt.Fprintln(w, l)
		}
	}
	return nil
}
