package jujutest

import (
	"fmt"
	"slices"
	"strings"
)

func secretGet(i *invocation) error {
	label, args, id := i.flags["label"], i.args, ""
	if len(args) > 0 {
		var err error
		if id, err = secretID(args[0]); err != nil {
			return usagef("secret URI %q not valid", args[0])
		}
		args = args[1:]
	}
	switch {
	case id == "" && label == "":
		return usagef("require either a secret URI or label")
	case i.isSet("peek") && i.isSet("refresh"):
		return usagef("specify one of --peek or --refresh but not both")
	case len(args) > 1:
		return usagef("unrecognized args: %q", args[1:])
	}
	s := i.book.secret(id)
	if s == nil && id != "" {
		name := i.args[0]
		if !strings.HasPrefix(name, "secret://") {
			name = "secret:" + id
		}
		return fmt.Errorf("secret %q not found", name)
	}
	if s == nil {
		k := slices.IndexFunc(i.book.Secrets, func(s *Secret) bool { return s.Label == label })
		if k < 0 {
			return fmt.Errorf("consumer label %q not found", label)
		}
		s = i.book.Secrets[k]
	} else if label != "" {
		s.Label = label
	}
	if s.Owner != i.model.Unit && s.Owner != i.model.App() && !s.Granted {
		return errPermission
	}
	content := i.revision(s)
	if content == nil {
		return fmt.Errorf("secret %q revision not found", s.ID)
	}
	if len(args) == 0 {
		return i.print(content)
	}
	key, encode := strings.CutSuffix(args[0], "#base64")
	v, ok := content[key]
	if !ok {
		return fmt.Errorf("secret key value %q not found", key)
	}
	if encode {
		v = base64Of(v)
	}
	return i.print(v)
}

func (i *invocation) revision(s *Secret) map[string]string {
	latest, fresh := len(s.Revisions), i.isSet("peek") || i.isSet("refresh")
	if i.created[s.ID] {
		return s.Revisions[latest-1]
	}
	n := s.Tracked
	switch {
	case fresh:
		n = latest
	case n == 0:
		n = i.committed(s)
	}
	if !i.isSet("peek") {
		s.Tracked = n
	}
	return s.Revisions[n-1]
}

func secretIDs(i *invocation) error {
	if err := i.noMore(0); err != nil {
		return err
	}
	var out []string // Juju prints null for none
	for _, s := range i.book.Secrets {
		if i.owned(s) {
			out = append(out, s.ID)
		}
	}
	return i.print(out)
}

func secretInfoGet(i *invocation) error {
	label := i.flags["label"]
	var s *Secret
	var want string
	switch {
	case len(i.args) > 0:
		id, err := secretID(i.args[0])
		if err != nil {
			return usagef("secret URI %q not valid", i.args[0])
		}
		if label != "" {
			return usagef("specify either a secret URI or label but not both")
		}
		want, s = id, i.book.secret(id)
	case label == "":
		return usagef("require either a secret URI or label")
	default:
		want, s = label, i.ownedByLabel(label)
	}
	if err := i.noMore(1); err != nil {
		return err
	}
	if s == nil || !i.owned(s) {
		return fmt.Errorf("secret %q not found", want)
	}
	type info struct {
		Revision    int    `json:"revision" yaml:"revision"`
		Label       string `json:"label" yaml:"label"`
		Owner       string `json:"owner" yaml:"owner"`
		Description string `json:"description,omitempty" yaml:"description,omitempty"`
		Rotation    string `json:"rotation,omitempty" yaml:"rotation,omitempty"`
	}
	out := info{len(s.Revisions), s.Label, "application", s.Description, s.Rotate}
	if n := i.committed(s); n > 0 {
		out.Revision = n // of the controller, until the hook ends
		if out.Rotation == "" {
			out.Rotation = "never" // as the controller reports a stored secret
		}
	}
	if s.Owner == i.model.Unit {
		out.Owner = "unit"
	}
	return i.print(map[string]info{s.ID: out})
}
