package web

import (
	"bytes"
	"context"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/fourdollars/concourse-ci-machine/internal/base/host"
	"github.com/fourdollars/concourse-ci-machine/internal/base/plan"
	"github.com/fourdollars/concourse-ci-machine/internal/base/resource"
	"github.com/fourdollars/concourse-ci-machine/internal/base/status"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/model"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/predecessor"
	"github.com/fourdollars/concourse-ci-machine/internal/charm/role"
	"github.com/fourdollars/concourse-ci-machine/internal/concourse"
)

// A worker still drains when this web sees it leave, because Juju ends a relation on both
// sides at once. Until then it needs its key. The web removes the key in the first hook
// after the worker retired, or after the announced time. The web's list of workers shows
// whether it retired. A hook runs at least every five minutes (update-status), so no timer
// is needed. The action prune-worker removes the key at once.

// draining returns the workers that left and still have their key.
func (o Observed) draining() []model.DepartedWorker {
	return slices.DeleteFunc(slices.Clone(o.Facts.Web.Departed), func(l model.DepartedWorker) bool {
		return !l.MayDrain(o.Now) || slices.Contains(o.Retired, l.Name)
	})
}

// listTimeout bounds how long a hook waits for the list of workers.
const listTimeout = 20 * time.Second

// retired returns the names of workers that left and have retired: the web does not list
// them, and they have no connection. A worker learns through its connection that it has
// retired, up to half a minute later, so the connection must stay until then. If the web
// does not answer, the workers keep their keys for their time.
func retired(ctx context.Context, h host.Host, o Observed) (names []string) {
	var leavers []model.DepartedWorker
	for _, l := range o.draining() {
		if l.Name != "" {
			leavers = append(leavers, l)
		}
	}
	if len(leavers) == 0 || !o.Units[concourse.WebUnit].Running() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	workers, err := apiOf(o).Workers(ctx)
	if err != nil {
		return nil
	}
	for _, l := range leavers {
		if slices.ContainsFunc(workers, func(w concourse.WorkerInfo) bool { return w.Name == l.Name }) {
			continue
		}
		if net.ParseIP(l.Address) != nil {
			if connected, err := concourse.Connected(ctx, h, l.Address); connected || err != nil {
				continue
			}
		}
		names = append(names, l.Name)
	}
	return names
}

// cutOff ends the connections of workers after they left and lost their key. The web
// checks a key only when a worker connects (D19). Workers that did not retire in their time
// are removed from the web's list, which ends their builds. cutOff also returns the keys of
// workers that are then done.
func cutOff(o Observed) (rs []plan.Resource, keys []string) {
	kept, api := o.draining(), apiOf(o)
	for _, l := range o.Facts.Web.Departed {
		if slices.ContainsFunc(kept, func(k model.DepartedWorker) bool { return k.Key == l.Key }) {
			continue
		}
		why := l.Unit + " is not related any more"
		if l.Replaced {
			why = l.Unit + " has another key"
		}
		listed := l.Name != "" && !slices.Contains(o.Retired, l.Name) && !o.Facts.Web.Has(l.Name)
		if listed && !o.Units[concourse.WebUnit].Running() {
			continue // a later hook removes it from the list
		}
		if net.ParseIP(l.Address) != nil { // without an address the connection cannot be found
			rs = append(rs, concourse.Disconnect{Addr: l.Address, Why: why})
		}
		if listed {
			rs = append(rs, concourse.Expel{API: api, Name: l.Name, Why: why})
		}
		keys = append(keys, l.Key)
	}
	return rs, keys
}

// reloadKeys makes the running web read the files of keys again after a change.
func reloadKeys(state resource.UnitState, files []resource.File) resource.Trigger {
	t := resource.Trigger{Name: ReloadWeb, Unit: concourse.WebUnit, State: state, Op: ReloadWebOp,
		Adopt: role.Starts(state), Tolerate: true,
		Then: []host.Command{resource.Systemctl("reload", concourse.WebUnit)}}
	for _, f := range files {
		t.Inputs, t.Files = append(t.Inputs, f.Data), append(t.Files, f.Path)
	}
	return t
}

// drainingCauses warns about the workers that left and still have their key.
func drainingCauses(o Observed) (causes []status.Cause) {
	for _, l := range o.draining() {
		c := status.Warn("%s has left and drains until %s", l.Unit, l.Until.UTC().Format("2006-01-02 15:04 UTC"))
		if l.Name != "" {
			c = c.Fix("to end it now, run: " + o.Facts.Commands().RunAction("prune-worker worker="+l.Name))
		}
		causes = append(causes, c)
	}
	return causes
}

// Ending returns the changes of a web with invalid options. Workers that left lose their
// key and their connections. Without a relation to a database the web stops. All other
// changes wait for valid options, so only the lines of these workers are removed from the
// file of keys.
func Ending(ctx context.Context, h host.Host, u role.Observed) (d Desired, err error) {
	o := Observed{Observed: u}
	state := o.Units[concourse.WebUnit]
	if o.Facts.Web.Database == nil {
		d.Resources = append(d.Resources, resource.Service{Unit: concourse.WebUnit, State: state,
			Why: "it has no database"})
	}
	o.Retired = retired(ctx, h, o)
	cut, keys := cutOff(o)
	if len(keys) == 0 || !state.Running() {
		return d, nil // a stopped web accepts no worker, and its keys are written before the next start
	}
	file := predecessor.WebFiles(h.Root, concourse.WebFiles(o.Shared())).Authorized(nil, nil)
	now, err := role.ReadOptional(h.Root, file.Path)
	if err != nil {
		return d, err
	}
	file.Data = removeKeys([]byte(now), keys)
	d.Cut = keys
	d.Resources = slices.Concat(d.Resources, []plan.Resource{file, reloadKeys(state, []resource.File{file})}, cut)
	return d, nil
}

// removeKeys returns the file of keys without the lines of keys.
func removeKeys(file []byte, keys []string) []byte {
	var left bytes.Buffer
	for line := range bytes.Lines(file) {
		if !slices.Contains(keys, strings.TrimSpace(string(line))) {
			left.Write(line)
		}
	}
	return left.Bytes()
}
