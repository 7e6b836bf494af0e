package nvidia

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"tags.cncf.io/container-device-interface/pkg/parser"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/gpu"
)

const (
	// Path is the path of the description, which the wrapper reads.
	Path = gpu.NVIDIASpec
	// Kind is the vendor and class of every device in it.
	Kind = gpu.NVIDIAKind
	// mark is the annotation with the inputs of a description that the charm generated. It
	// is part of the file, so it cannot be lost or outlive it.
	mark = "concourse-ci-machine/from"
	// markVersion is the first CDI version with annotations (SPEC.md, releases).
	markVersion = "0.6.0"

	// generateTime bounds nvidia-ctk, which queries the driver; a hanging one is abandoned.
	generateTime = 90 * time.Second
	specLimit    = 4 << 20 // bytes; a machine with 16 GPUs has some 100 KB
)

var errForeign = errors.New("it is not the charm's")

// specError explains why there is no description.
type specError struct{ Reason string }

func (e *specError) Error() string { return e.Reason }

func isSpecError(err error) bool {
	var e *specError
	return errors.As(err, &e)
}

// readSpec returns the inputs of the description, "" if it is missing, errForeign if the
// charm did not generate it. A damaged description is foreign.
func readSpec(r host.Root) (from string, err error) {
	st, err := r.Lstat(Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("cannot read %s: %w", Path, err)
	case !st.Mode().IsRegular() || st.Size() > specLimit:
		return "", errForeign
	}
	data, err := r.ReadFile(Path)
	if err != nil {
		return "", fmt.Errorf("cannot read %s: %w", Path, err)
	}
	var spec struct{ Annotations map[string]string }
	if json.Unmarshal(data, &spec) != nil || spec.Annotations[mark] == "" {
		return "", errForeign
	}
	return spec.Annotations[mark], nil
}

// specified is the description of the GPUs by NVIDIA's own tool, generated again when From
// changes.
type specified struct {
	From      string
	Container string // name of this LXD container on its host, otherwise ""
}

// Diff implements plan.Resource.
func (s specified) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	from, err := readSpec(h.Root)
	why := "missing"
	switch {
	case errors.Is(err, errForeign) || err == nil && from == s.From:
		return nil, nil
	case err != nil:
		return nil, err
	case from != "":
		why = "the driver or the GPUs are others than those it was made from"
	}
	return plan.Plan{{Op: "write " + Path, Why: why, Do: func(ctx context.Context) error {
		out, err := h.Run(ctx, host.Command{Argv: []string{"nvidia-ctk", "cdi", "generate", "--format=json"},
			Deadline: generateTime})
		if err != nil {
			return s.explain(err)
		}
		data, err := marked(out, s.From)
		if err != nil {
			return err
		}
		if _, err := readSpec(h.Root); err != nil { // written since by a package's script or a person
			return fmt.Errorf("cannot write %s: %w", Path, err)
		}
		return h.WriteFile(Path, data, 0o644)
	}}}, nil
}

// explain adds the fix to nvidia-ctk's most frequent errors.
func (s specified) explain(err error) error {
	var c *host.CommandError
	if !errors.As(err, &c) {
		return err
	}
	switch {
	case c.Timeout > 0:
		return &specError{fmt.Sprintf("nvidia-ctk gave up after %s: the driver does not answer", c.Timeout)}
	case c.Code == -1:
		return &specError{"nvidia-ctk can't be started: " + c.Err.Error()}
	case strings.Contains(c.Stderr, "ERROR_LIBRARY_NOT_FOUND") && s.Container != "":
		return &specError{fmt.Sprintf("nvidia-ctk finds no libnvidia-ml.so.1 — restart the container after, on "+
			"the LXD host: lxc config set %s nvidia.runtime=true", s.Container)}
	case strings.Contains(c.Stderr, "ERROR_LIBRARY_NOT_FOUND"):
		return &specError{"nvidia-ctk finds no libnvidia-ml.so.1: install the driver's libnvidia-compute"}
	case c.LastLine() == "":
		return &specError{fmt.Sprintf("nvidia-ctk ended with %d and no word", c.Code)}
	}
	return &specError{"nvidia-ctk: " + c.LastLine()}
}

// marked checks a description and adds the charm's mark. All other members stay as they
// are.
func marked(data []byte, from string) ([]byte, error) {
	bad := func(format string, a ...any) ([]byte, error) {
		return nil, &specError{"nvidia-ctk wrote no description of GPUs: " + fmt.Sprintf(format, a...)}
	}
	var spec specs.Spec
	if err := json.Unmarshal(data, &spec); err != nil {
		return bad("%v", err)
	}
	if spec.Kind != Kind {
		return bad("its kind is %q, want %s", spec.Kind, Kind)
	}
	var major, minor int
	if n, _ := fmt.Sscanf(spec.Version, "%d.%d.", &major, &minor); n != 2 || major < 0 || major > 1 || minor < 0 {
		return bad("its cdiVersion is %q, want 0.x or 1.x", spec.Version)
	}
	if len(spec.Devices) == 0 {
		return bad("it has no devices")
	}
	for _, d := range spec.Devices {
		if err := parser.ValidateDeviceName(d.Name); err != nil {
			return bad("%v", err)
		}
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(data, &members); err != nil {
		return bad("%v", err)
	}
	if spec.Annotations == nil {
		spec.Annotations = map[string]string{}
	}
	spec.Annotations[mark] = from
	var err error
	if members["annotations"], err = json.Marshal(spec.Annotations); err != nil {
		return nil, err
	}
	if major == 0 && minor < 6 {
		members["cdiVersion"] = json.RawMessage(`"` + markVersion + `"`)
	}
	if data, err = json.Marshal(members); err != nil {
		return nil, err
	}
	return append(data, '\n'), nil
}

// unspecified removes the charm's description; a foreign one stays.
type unspecified struct{ Why string }

// Diff implements plan.Resource.
func (u unspecified) Diff(_ context.Context, h host.Host) (plan.Plan, error) {
	from, err := readSpec(h.Root)
	if errors.Is(err, errForeign) || err == nil && from == "" {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return plan.Plan{{Op: "remove " + Path, Why: u.Why, Do: func(context.Context) error { return h.Remove(Path) }}}, nil
}
