package demo

import (
	"context"
	"errors"
	"syscall"
)

// scene is a part of the demo, with a line in its summary.
type scene struct {
	name string
	run  func() (string, error)
}

type outcome struct {
	mark mark
	text string
}

// missing reports what this machine lacks for a scene.
type missing struct{ why string }

func (e missing) Error() string { return e.why }

// story holds the scenes of a demo and their outcomes.
type story struct {
	ctx      context.Context // ends with a signal, or when the output is closed
	screen   *screen
	scenes   []scene
	outcomes map[string]outcome // of scenes, by name
}

// play runs the scenes in order until one fails.
func (s *story) play(scenes []scene) error {
	s.scenes, s.outcomes = scenes, map[string]outcome{}
	for _, one := range scenes {
		if err := context.Cause(s.ctx); err != nil {
			return err
		}
		text, err := one.run()
		var lacks missing
		switch {
		case errors.As(err, &lacks):
			s.outcomes[one.name] = outcome{leftOut, lacks.why}
		case err != nil:
			if context.Cause(s.ctx) == nil {
				s.screen.mark(failed, "%v", err)
				s.outcomes[one.name] = outcome{failed, "see above"}
			}
			return err
		default:
			s.outcomes[one.name] = outcome{passed, text}
		}
	}
	return context.Cause(s.ctx)
}

// summary prints a line for each scene, unless a signal or a closed pipe ended the demo.
func (s *story) summary(err error) {
	var cause interrupted
	switch {
	case errors.As(err, &cause), errors.Is(err, syscall.EPIPE):
		return
	case err == nil:
		s.screen.title("Shown")
	default:
		s.screen.title("Stopped")
	}
	for _, one := range s.scenes {
		m, text := notRun, ""
		if o, ended := s.outcomes[one.name]; ended {
			m, text = o.mark, ": "+o.text
		}
		s.screen.mark(m, "%s%s", one.name, text)
	}
}
