package actions

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"concourse-ci-machine/internal/gpu"
	"concourse-ci-machine/internal/model"
	"concourse-ci-machine/internal/preflight"
	"concourse-ci-machine/internal/rocm"
	"concourse-ci-machine/internal/role"
	"concourse-ci-machine/internal/term"
)

// DetectGPUs writes one line for each vendor whose GPUs this unit has, in the
// fixed words that other programs look for.
func (c *Actions) DetectGPUs(w io.Writer) error {
	inv, err := gpu.Discover(c.Host.Root)
	if err != nil {
		return err
	}
	text := ""
	for _, v := range []gpu.Vendor{gpu.AMD, gpu.NVIDIA} {
		if len(inv.Of(v)) > 0 {
			text += v.Label() + " GPU detected\n"
		}
	}
	if text == "" {
		text = "No GPU detected\n"
	}
	_, err = io.WriteString(w, text)
	return err
}

// answer is an action whose result is the text that a person gets on the unit.
type answer struct {
	key   string // of the result
	write func(ctx context.Context, w io.Writer, params map[string]any, f term.Format) error
}

func (c *Actions) answers() map[string]answer {
	return map[string]answer{
		"list-gpus": {"gpus", func(_ context.Context, w io.Writer, _ map[string]any, f term.Format) error {
			return c.ListGPUs(w, f.JSON)
		}},
		"detect-gpus": {"detected", func(_ context.Context, w io.Writer, _ map[string]any, _ term.Format) error {
			return c.DetectGPUs(w)
		}},
		"verify-gpu": {"verified", func(ctx context.Context, w io.Writer, _ map[string]any, f term.Format) error {
			return c.VerifyGPUs(ctx, w, f)
		}},
		"gpu-health": {"health", func(ctx context.Context, w io.Writer, _ map[string]any, f term.Format) error {
			return c.GPUHealth(ctx, w, f)
		}},
		"gpu-status": {"leases", func(_ context.Context, w io.Writer, _ map[string]any, f term.Format) error {
			return c.GPUStatus(w, f)
		}},
		"gpu-release": {"released", func(_ context.Context, w io.Writer, params map[string]any, _ term.Format) error {
			which, ok := params["gpu"]
			if !ok {
				return errors.New("cannot release a GPU without its number or name: give gpu=<gpu>, as gpu-status shows it")
			}
			force, _ := params["force"].(bool)
			return c.GPURelease(w, fmt.Sprint(which), force)
		}},
		"list-errors": {"errors", func(_ context.Context, w io.Writer, _ map[string]any, f term.Format) error {
			return c.ListErrors(w, f)
		}},
		"explain-error": {"explanation", func(_ context.Context, w io.Writer, params map[string]any, f term.Format) error {
			code := ""
			if v, ok := params["code"]; ok {
				code = fmt.Sprint(v)
			}
			return c.ExplainError(w, code, f)
		}},
		"preflight": {"checks", func(ctx context.Context, w io.Writer, params map[string]any, f term.Format) error {
			hosts, _ := params["hosts"].(string)
			return preflight.Show(ctx, c.Host, w, hosts, f)
		}},
		"rocm-matrix": {"releases", func(_ context.Context, w io.Writer, _ map[string]any, _ term.Format) error {
			return rocm.WriteMatrix(w)
		}},
	}
}

// answer runs an action of that kind. One that finds something broken has its
// result all the same, beside the error.
func (c *Actions) answer(ctx context.Context, a answer) (map[string]any, error) {
	params, err := c.params(ctx)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	err = a.write(ctx, &b, params, term.Format{JSON: params["format"] == "json"})
	text := strings.TrimSpace(b.String())
	if text == "" {
		return nil, err
	}
	return map[string]any{a.key: text}, err
}

// acceptGPUs has the next hook take the GPUs that there are for all that there
// should be.
func (c *Actions) acceptGPUs(_ context.Context, u unitNow, _ map[string]any) (map[string]any, error) {
	if err := u.usable("accept the GPUs", model.WorkerRole); err != nil {
		return nil, err
	}
	if err := c.Host.Remove(role.GPUsFile); err != nil {
		return nil, err
	}
	return map[string]any{"gpus": fmt.Sprintf("%d, from the next hook on", u.Want.GPUs.Count)}, nil
}
