package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// shown are the series in the table.
var shown = []struct{ name, unit, meaning string }{
	{"rocm_gpu_health_score", "", "100 is the best"},
	{"rocm_gpu_temperature", "degC", ""},
	{"rocm_power_usage", "W", ""},
	{"rocm_gpu_utilization", "%", "of the time the GPU computed"},
	{"rocm_memory_used", "GiB", "how full it is"},
	{"rocm_memory_total", "GiB", ""},
	{"rocm_memory_utilization", "%", "of the time it was read or written"},
}

// metrics prints a table from the exporter's /metrics.
func (d *demo) metrics() (string, error) {
	d.screen.title("the real Pebble runs the real exporter on the fixture")
	if d.pebble == nil {
		return "", errors.New("the charm did not start Pebble")
	}
	if d.pebble.err != nil {
		return "", fmt.Errorf("cannot start Pebble: %w", d.pebble.err)
	}
	text, err := d.scrape()
	if err != nil {
		log, rerr := os.ReadFile(filepath.Join(d.world.Dir, "pebble.log"))
		return "", errors.Join(fmt.Errorf("cannot scrape the exporter: %w\n%s", err, log), rerr)
	}
	cmd := exec.Command(d.world.Root.Path("/opt/concourse-ci-machine/bin/pebble"), "services")
	cmd.Env = []string{"PEBBLE=" + d.world.Root.Path(pebbleDir)}
	services, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("cannot ask Pebble: %w: %s", err, services)
	}
	d.screen.item("$", "pebble services")
	for line := range strings.Lines(string(services)) {
		d.screen.line(strings.Repeat(" ", leftWidth) + strings.TrimSpace(line))
	}
	d.screen.item("$", "curl http://%s/metrics", d.pebble.addr)
	values, info, series := readings(text)
	if len(values) != len(shown) {
		return "", fmt.Errorf("the exporter has %d of %d series that are wanted:\n%s", len(values), len(shown), text)
	}
	d.screen.item("gpu 0", "%s, %s, %s", info["name"], info["gfx"], info["pci_bus_id"])
	for _, s := range shown {
		d.screen.line(strings.TrimRight(fmt.Sprintf("%*s%-24s %-8s %s", leftWidth, "", s.name,
			withUnit(values[s.name], s.unit), s.meaning), " "))
	}
	d.screen.mark(passed, "%d series in all", series)
	r, err := d.world.Hook("update-status")
	if err != nil || r.Code != 0 {
		return "", fmt.Errorf("cannot run update-status: %v %s", err, r.Output)
	}
	d.screen.item("status", "%s: %s", r.Status().Status, r.Status().Message)
	return fmt.Sprintf("%d series, health %g of 100", series, values["rocm_gpu_health_score"]), context.Cause(d.ctx)
}

// readings returns the values of the table, the description of the GPU, and the number of
// series.
func readings(text string) (values map[string]float64, info map[string]string, series int) {
	values, info = map[string]float64{}, map[string]string{}
	for sc := bufio.NewScanner(strings.NewReader(text)); sc.Scan(); {
		if strings.HasPrefix(sc.Text(), "#") {
			continue
		}
		series++
		name, rest, _ := strings.Cut(sc.Text(), "{")
		labels, value, _ := strings.Cut(rest, "} ")
		if name == "rocm_gpu_info" {
			for l := range strings.SplitSeq(labels, ",") {
				k, v, _ := strings.Cut(l, "=")
				info[k] = strings.Trim(v, `"`)
			}
		}
		for _, s := range shown {
			if v, err := strconv.ParseFloat(value, 64); name == s.name && err == nil {
				values[name] = v
			}
		}
	}
	return values, info, series
}

// withUnit formats a value for people.
func withUnit(v float64, unit string) string {
	if unit == "GiB" {
		return fmt.Sprintf("%.1f GiB", v/(1<<30))
	}
	return strings.TrimSpace(fmt.Sprintf("%g %s", v, unit))
}

// scrape waits at most 10 s for the exporter's answer.
func (d *demo) scrape() (string, error) {
	ctx, cancel := context.WithTimeout(d.ctx, 10*time.Second)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, "GET", "http://"+d.pebble.addr+"/metrics", nil)
		if err != nil {
			return "", err
		}
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			body, rerr := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
			resp.Body.Close()
			return string(body), rerr
		}
		select {
		case <-ctx.Done():
			return "", err
		case <-time.After(50 * time.Millisecond):
		}
	}
}
