package demo

import (
	"errors"
	"fmt"
	"strings"
)

// lease shows that no GPU has two builds, and that a build without a free GPU waits.
func (c *ci) lease() (string, error) {
	c.screen.title("Two GPUs, three builds: one waits for its lease")
	first := c.running["train"]
	second, err := c.start("test")
	if err != nil {
		return "", err
	}
	line, err := c.wait(second, "test gets a GPU", opened)
	if err != nil {
		return "", err
	}
	c.quote(second, line)
	if line == first.line(opened) {
		return "", fmt.Errorf("cannot see a lease: train and test use the same GPU: %s", line)
	}
	third, err := c.start("report")
	if err != nil {
		return "", err
	}
	line, err = c.wait(third, "report looks for a GPU", waits, opened)
	if err != nil {
		return "", err
	}
	c.quote(third, line)
	if !strings.Contains(line, waits) {
		return "", errors.New("cannot see that report waits: it runs beside train and test")
	}
	if err := c.finish(first); err != nil {
		return "", err
	}
	c.quote(first, "has ended, and its GPU is free")
	line, err = c.wait(third, "report gets the GPU of train", opened)
	if err != nil {
		return "", err
	}
	c.quote(third, line)
	if line != first.line(opened) {
		return "", fmt.Errorf("cannot see that report waited for train: it got another GPU: %s", line)
	}
	return "report waited until train ended", nil
}
