package fleet

import (
	"bufio"
	"errors"
	"io"
	"math"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// waitingMetric counts the steps that wait for a worker, on each web (atc/metric).
const waitingMetric = "concourse_steps_waiting"

// Bounds on Concourse's own metrics.
const (
	maxMetrics = 32 << 20 // bytes
	maxLine    = 64 << 10
	maxGroups  = 1000 // of waiting steps
)

// group identifies steps that wait for the same workers.
type group struct {
	Team, Platform, Type string
	Tags                 string // joined with "_" by Concourse
}

// decodeWaiting reads the waiting steps from Concourse's metrics. All other metrics are
// skipped unread.
func decodeWaiting(r io.Reader) (map[group]int, error) {
	var lines strings.Builder
	limited := &io.LimitedReader{R: r, N: maxMetrics + 1}
	s := bufio.NewScanner(limited)
	s.Buffer(make([]byte, 0, 4<<10), maxLine)
	for n := 0; s.Scan(); {
		if line := s.Text(); strings.HasPrefix(line, waitingMetric+"{") {
			if n++; n > maxGroups {
				return nil, errors.New("its metrics have too many groups of waiting steps")
			}
			lines.WriteString(line + "\n")
		}
	}
	switch {
	case s.Err() != nil:
		return nil, errors.New("its metrics cannot be read")
	case limited.N == 0:
		return nil, errors.New("its metrics are too long")
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(lines.String()))
	if err != nil {
		return nil, errors.New("its metrics are not in Prometheus' format")
	}
	out := map[group]int{}
	for _, m := range families[waitingMetric].GetMetric() {
		n := m.GetUntyped().GetValue()
		if !(n > 0) || n > math.MaxInt32 {
			continue
		}
		out[groupOf(m.GetLabel())] += int(n)
	}
	return out, nil
}

func groupOf(labels []*dto.LabelPair) (g group) {
	for _, l := range labels {
		switch l.GetName() {
		case "teamName":
			g.Team = name(l.GetValue())
		case "platform":
			g.Platform = name(l.GetValue())
		case "type":
			g.Type = name(l.GetValue())
		case "workerTags":
			g.Tags = name(l.GetValue())
		}
	}
	return g
}
