package web

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"concourse-ci-machine/internal/base/host"
	"concourse-ci-machine/internal/base/plan"
	"concourse-ci-machine/internal/base/resource"
	"concourse-ci-machine/internal/charm/model"
	"concourse-ci-machine/internal/charm/predecessor"
	"concourse-ci-machine/internal/charm/role"
	"concourse-ci-machine/internal/charm/status"
	"concourse-ci-machine/internal/concourse"
)

// A worker still drains when this web sees it leave, because Juju ends a relation on both
// sides at once. It needs its key for that. The web takes the key back in the first hook
// after the worker retired, or after the announced time. The list of the web shows whether
// it retired. A hook runs at least every five minutes (update-status), so no timer is needed.
// The action prune-worker does it at once.

// draining returns the workers that left and keep their key for now.
func (o Observed) draining() []model.Leaver {
	return slices.DeleteFunc(slices.Clone(o.Facts.Web.Gone), func(l model.Leaver) bool {
		return !l.Keeps(o.Now) || slices.Contains(o.Ended, l.Name)
	})
}

// askPatience bounds how long a hook waits for the list of workers.
const askPatience = 20 * time.Second

// ended asks the web which of the workers that left have retired, by name: it lists them
// no more, and they have no connection any more. A worker hears by its connection that it
// has retired, up to half a minute later, so it keeps that. If the web does not answer, the
// workers keep their keys for their time.
func ended(ctx context.Context, h host.Host, o Observed) (names []string) {
	var leavers []model.Leaver
	for _, l := range o.draining() {
		if l.Name != "" {
			leavers = append(leavers, l)
		}
	}
	if len(leavers) == 0 || !o.Units[concourse.WebUnit].Running() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, askPatience)
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
			if there, err := concourse.Connected(ctx, h, l.Address); there || err != nil {
				continue
			}
		}
		names = append(names, l.Name)
	}
	return names
}

// cutOff ends the connections of the workers that left, once their key was taken back:
// the web checks keys when a worker connects, and at no other time (D19). It returns
// their keys, too.
func cutOff(o Observed) (rs []plan.Resource, keys []string) {
	kept := o.draining()
	for _, l := range o.Facts.Web.Gone {
		if slices.ContainsFunc(kept, func(k model.Leaver) bool { return k.Key == l.Key }) {
			continue
		}
		keys = append(keys, l.Key)
		if net.ParseIP(l.Address) != nil { // else it published none, so there is nothing to find it by
			rs = append(rs, concourse.Disconnect{Addr: l.Address, Why: l.Unit + " is not related any more"})
		}
	}
	return rs, keys
}

// reloadKeys has the running web read the files of keys again when they change.
func reloadKeys(state resource.UnitState, files []resource.File) resource.Trigger {
	t := resource.Trigger{Name: ReloadWeb, Unit: concourse.WebUnit, State: state, Op: ReloadWebOp, Adopt: role.Starts(state), Tolerate: true,
		Then: []host.Command{resource.Systemctl("reload", concourse.WebUnit)}}
	for _, f := range files {
		t.Inputs, t.Files = append(t.Inputs, f.Data), append(t.Files, f.Path)
	}
	return t
}

// drainingCauses name the workers that left and keep their key.
func drainingCauses(o Observed) []status.Cause {
	var texts []string
	for _, l := range o.draining() {
		end := ""
		if l.Name != "" {
			end = "; to end it now, run prune-worker worker=" + l.Name
		}
		texts = append(texts, fmt.Sprintf("%s has left and drains until %s%s", l.Unit, l.Until.UTC().Format("2006-01-02 15:04 UTC"), end))
	}
	return firstRemarks(texts, "%d more workers drain")
}

// Ending returns what ends on a web with wrong options. Workers that left lose their key and
// their connections, and without a relation to a database the web stops. Everything else
// waits for right options. Only the lines of these workers leave the file of keys.
func Ending(ctx context.Context, h host.Host, u role.Observed) (d Desired, err error) {
	o := Observed{Observed: u}
	state := o.Units[concourse.WebUnit]
	if o.Facts.Web.Database == nil {
		d.Resources = append(d.Resources, resource.Service{Unit: concourse.WebUnit, State: state, Why: "it has no database"})
	}
	o.Ended = ended(ctx, h, o)
	cut, gone := cutOff(o)
	if len(gone) == 0 || !state.Running() {
		return d, nil // the web that is not running lets nobody in, and the next one has its keys written first
	}
	file := predecessor.WebFiles(h.Root, concourse.WebFiles(o.Shared())).Authorized(nil, nil)
	now, err := role.ReadOptional(h.Root, file.Path)
	if err != nil {
		return d, err
	}
	file.Data = without([]byte(now), gone)
	d.Cut = gone
	d.Resources = append(append(d.Resources, file, reloadKeys(state, []resource.File{file})), cut...)
	return d, nil
}

// without returns the file of keys without the given keys.
func without(file []byte, keys []string) []byte {
	var left bytes.Buffer
	for line := range bytes.Lines(file) {
		if !slices.Contains(keys, strings.TrimSpace(string(line))) {
			left.Write(line)
		}
	}
	return left.Bytes()
}
