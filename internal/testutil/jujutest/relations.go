package jujutest

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"sort"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/fourdollars/concourse-ci-machine/internal/charm/juju"
)

var (
	unitName = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]*[a-z][a-z0-9]*)*/(0|[1-9][0-9]*)$`)
	appName  = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]*[a-z][a-z0-9]*)*$`)

	errPermission = errors.New("permission denied")
)

func (c *Context) broken(r *Relation) bool {
	return strings.HasSuffix(c.Event.Name, "-relation-broken") && c.Event.Relation != nil &&
		c.Event.Relation.ID == r.Name()
}

func relationIDs(i *invocation) error {
	name := i.arg(0)
	if len(i.args) == 0 {
		if i.Event.Relation == nil {
			return usagef("no endpoint name specified")
		}
		name = i.Event.Relation.Endpoint
	}
	if err := i.noMore(1); err != nil {
		return err
	}
	out := []string{}
	for _, r := range i.book.Relations {
		if r.Endpoint == name && !i.broken(r) {
			out = append(out, r.Name())
		}
	}
	sort.Strings(out)
	return i.print(out)
}

// relation returns the relation of the call.
func (i *invocation) relation() (*Relation, error) {
	if i.rel == -1 {
		return nil, usagef("no relation id specified")
	}
	r := i.book.relation(i.rel)
	if r == nil {
		return nil, errors.New("relation not found")
	}
	return r, nil
}

func relationList(i *invocation) error {
	r, err := i.relation()
	if err != nil {
		return err
	}
	if err := i.noMore(0); err != nil {
		return err
	}
	if i.isSet("app") {
		return i.print(r.RemoteApp)
	}
	units := slices.Sorted(maps.Keys(r.Units))
	if units == nil {
		units = []string{}
	}
	return i.print(units)
}

func relationGet(i *invocation) error {
	r, err := i.relation()
	if err != nil {
		return err
	}
	key := i.arg(0)
	if key == "-" {
		key = ""
	}
	who, app := "", i.isSet("app")
	switch {
	case len(i.args) > 1 && app:
		if who = i.args[1]; unitName.MatchString(who) {
			who = juju.AppOf(who)
		}
	case len(i.args) > 1:
		if who = i.args[1]; appName.MatchString(who) {
			return usagef("expected unit name, got application name %q", who)
		} else if !unitName.MatchString(who) {
			return usagef("invalid unit name %q", who)
		}
	case app:
		who = i.Event.RemoteApp
	case i.Event.RemoteUnit != "":
		who = i.Event.RemoteUnit
	default:
		who, app = i.Event.RemoteApp, true
	}
	if who == "" {
		return usagef("no unit or application specified")
	}
	if err := i.noMore(2); err != nil {
		return err
	}
	databag, err := i.databag(r, who, app)
	if err != nil {
		return err
	}
	if key == "" {
		return i.print(databag)
	}
	if v, ok := databag[key]; ok {
		return i.print(v)
	}
	return i.print(nil)
}

func (i *invocation) databag(r *Relation, who string, app bool) (map[string]string, error) {
	own := i.model.App()
	peer := r.RemoteApp == own
	switch {
	case r.Forced:
		return nil, errPermission
	case app && who == own && (i.model.Leader || peer):
		return r.LocalApp, nil
	case app && who == r.RemoteApp:
		return r.AppData, nil
	case app:
		return nil, errPermission
	case who == i.model.Unit:
		return r.Local, nil
	}
	if databag, ok := r.Units[who]; ok {
		return databag, nil
	}
	if app := juju.AppOf(who); app == r.RemoteApp || app == own {
		// Juju's key has the requirer first, but this model has no roles.
		return nil, fmt.Errorf("cannot read settings for unit %q in relation \"%s:%s %s:%s\": unit %q: settings "+
			"not found",
			who, own, r.Endpoint, r.RemoteApp, r.Endpoint, who)
	}
	return nil, errPermission
}

func relationSet(i *invocation) error {
	r, err := i.relation()
	if err != nil {
		return err
	}
	kv, err := pairs(i.args)
	if err != nil {
		return err
	}
	i.deprecatedFormat()
	if kv, err = i.withFile(kv); err != nil {
		return err
	}
	databag := r.Local
	if i.isSet("app") {
		if !i.model.Leader {
			return errors.New("cannot write relation settings")
		}
		databag = r.LocalApp
	}
	if r.Forced {
		return fmt.Errorf("cannot read relation %ssettings: %w", map[bool]string{true: "application "}[i.isSet("app")],
			errPermission)
	}
	for k, v := range kv {
		if v == "" {
			delete(databag, k)
		} else {
			databag[k] = v
		}
	}
	return nil
}

// withFile adds the settings of --file. Settings in arguments override them.
func (i *invocation) withFile(kv map[string]string) (map[string]string, error) {
	path := i.flags["file"]
	if path == "" {
		return kv, nil
	}
	data := i.stdin
	if path != "-" {
		var err error
		if data, err = readFile(path); err != nil {
			return nil, err
		}
	}
	out := map[string]string{}
	if err := yaml.Unmarshal(data, &out); err != nil {
		return nil, err
	}
	maps.Copy(out, kv)
	return out, nil
}

const maxFile = 16 << 20

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("file %s is too large", path)
	}
	return data, err
}

func networkGet(i *invocation) error {
	if len(i.args) == 0 {
		return usagef("no arguments specified")
	}
	binding := i.args[0]
	if binding == "" {
		return usagef("no binding name specified")
	}
	if err := i.noMore(1); err != nil {
		return err
	}
	n, ok := i.model.Networks[binding]
	if a := i.model.Address; !ok && a != "" {
		n = juju.Network{
			BindAddresses: []juju.BindAddress{{
				MAC: "00:16:3e:00:00:01", Interface: "eth0",
				Addresses: []juju.InterfaceAddress{{Address: a, CIDR: a + "/24"}},
			}},
			EgressSubnets: []string{a + "/32"}, IngressAddresses: []string{a},
		}
	}
	if len(n.BindAddresses) == 0 {
		return fmt.Errorf("no network config found for binding %q", binding)
	}
	values := map[string]any{}
	if i.isSet("bind-address") {
		values["bind-address"] = n.Bind()
	}
	if i.isSet("ingress-address") {
		values["ingress-address"] = n.Ingress()
	}
	if i.isSet("egress-subnets") {
		values["egress-subnets"] = n.EgressSubnets
	}
	switch {
	case i.isSet("primary-address") && len(values) > 0:
		return errors.New("--primary-address must be the only flag specified")
	case i.isSet("primary-address"):
		return i.print(n.Bind())
	case len(values) == 0:
		return i.print(n)
	case len(values) == 1:
		for _, v := range values {
			return i.print(v)
		}
	}
	return i.print(values)
}
