package demo

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
)

// gpu describes one of the fixture's GPUs.
type gpu struct{ node, address string }

// gpus are the GPUs of the machine in the order of their numbers.
var gpus = []gpu{{"renderD128", "0000:23:00.0"}, {"renderD129", "0000:43:00.0"}}

// errors returns the file in which the driver counts errors of the GPU's memory.
func (g gpu) errors(root host.Root) string {
	found, err := root.Glob("/sys/devices/*/*/" + g.address + "/ras")
	if err != nil || len(found) != 1 {
		return "/no-such-gpu/" + g.address // its use names it
	}
	return found[0] + "/umc_err_count"
}

// sickGPU makes a GPU sick under a build, and shows that the next build gets the other one.
func (c *ci) sickGPU() (string, error) {
	c.screen.title("A GPU falls sick")
	report, test := c.running["report"], c.running["test"]
	// Free GPUs are leased in turn: without the quarantine the next build would get the GPU of
	// test, because that of report was leased later.
	number := 1
	if strings.Contains(test.line(opened), gpus[0].node) {
		number = 0
	}
	sick, healthy, quarantined := gpus[number], gpus[1-number], fmt.Sprintf("quarantined: GPU %d ", number)
	c.screen.item("staged", "the driver of GPU %d (%s, %s) counts an uncorrectable memory error, while %s uses it",
		number, sick.node, sick.address, test.job)
	if err := countError(c.guest.Fake(), sick); err != nil {
		return "", err
	}
	if err := c.awaitQuarantined(quarantined); err != nil {
		return "", err
	}
	line, err := c.wait(test, "its build shows it", sickens)
	if err != nil {
		return "", err
	}
	c.quote(test, line)
	if err := c.screen.work(report.job+" and "+test.job+" end", func(func(string)) error {
		return errors.Join(c.finish(report), c.finish(test))
	}); err != nil {
		return "", err
	}
	out, err := c.shows(gpuStatus)
	if err != nil {
		return "", err
	}
	if !strings.Contains(out, quarantined) {
		return "", errors.New("cannot see that the sick GPU stays quarantined")
	}
	next, err := c.start("train")
	if err != nil {
		return "", err
	}
	line, err = c.wait(next, "train gets a GPU", opened)
	if err != nil {
		return "", err
	}
	c.quote(next, line)
	if !strings.Contains(line, healthy.node) {
		return "", fmt.Errorf("cannot see that the sick GPU is avoided: %s", line)
	}
	if err := c.finish(next); err != nil {
		return "", err
	}
	return "the next build got " + healthy.node, nil
}

// noticeTime bounds the time until a fault is noticed. The machine looks each second.
const noticeTime = 2 * time.Minute

// awaitQuarantined waits until gpuStatus has the line of the sick GPU.
func (c *ci) awaitQuarantined(line string) error {
	const what = "the machine quarantines the GPU"
	end := time.Now().Add(noticeTime)
	return c.screen.work(what, func(report func(string)) error {
		return c.until(what, func() (bool, error) {
			out, err := c.guest.Run(gpuStatus)
			report(out)
			is := strings.Contains(out, line)
			if !is && err == nil && time.Now().After(end) {
				err = fmt.Errorf("cannot see that %s: %s", what, out)
			}
			return is, err
		})
	})
}

// countError lets the driver of a GPU count an error. The file stays the same one, because
// the machine sees it through an overlay.
func countError(root host.Root, g gpu) error {
	f, err := os.OpenFile(root.Path(g.errors(root)), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(f, "ue: 1\nce: 0\n"); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
